"""What a kernel's variables hold: ``Scalar``, ``Tile`` and ``Array`` handles.

A scalar or array handle stands for one value for ever. A tile handle stands for storage: writing to it rebinds it to
a new value, which its views and the helpers that it was given to see. A name of a kernel has a handle of its own (see
``Tile.bound``), so that two names never share storage. The same classes serve tracing (data is an SSA value) and eager
execution (data is a NumPy array).
"""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np

from tilekit.errors import KernelIndexError, KernelNameError, KernelTypeError, Location, UninitializedError
from tilekit.ir.attributes import Attributes, no_numpy_array
from tilekit.ir.context import Builder, Concrete, Datum, active, agreed, fail, together
from tilekit.ir.operators import OPERATORS as OPERATORS, Arithmetic
from tilekit.ir.types import ArrayType, ScalarType, TileType, Type
from tilekit.ir.views import ViewMap

_NO_BOOL = (
    "is not a compile-time bool: Python would have to decide while the kernel is compiled; use if, while, and, or, "
    "not, tk.where, min or max of the kernel itself"
)
_NO_NUMBER = (
    "is not a compile-time constant; an index of a tuple, a repetition, a shape and a function of the host need one"
)
_NO_TEXT = "has no text while the kernel is compiled; print(...) takes run-time values as arguments"


class Scalar(Arithmetic, Attributes):
    """A number inside a kernel."""

    __slots__ = ("datum",)

    def __init__(self, datum: Datum) -> None:
        self.datum = datum

    @property
    def type(self) -> ScalarType:
        assert isinstance(self.datum.type, ScalarType)
        return self.datum.type

    @property
    def dtype(self) -> Any:
        return self.type.dtype

    def _known(self, wanted: str) -> Any:
        if isinstance(self.datum, Concrete):
            return self.datum.data
        error = KernelTypeError(f"a run-time {self.dtype.name} {wanted}")
        error.undecided = True
        raise fail(error)

    def __bool__(self) -> bool:
        return bool(self._known(_NO_BOOL))

    def __int__(self) -> int:
        return int(self._known(_NO_NUMBER))

    def __float__(self) -> float:
        return float(self._known(_NO_NUMBER))

    def __index__(self) -> int:
        if self.type.dtype.is_integer:
            return int(self._known(_NO_NUMBER))
        raise fail(KernelTypeError(f"a {self.dtype.name} cannot be used as an index; use int(...)"))

    def __repr__(self) -> str:
        return str(self.datum.data) if isinstance(self.datum, Concrete) else f"<scalar {self.type}>"

    def __str__(self) -> str:
        return str(self._known(_NO_TEXT))

    def __format__(self, spec: str) -> str:
        return format(self._known(_NO_TEXT), spec)


class Array(Attributes):
    """An array inside a kernel: a parameter, or ``a[i]`` of one with more dimensions."""

    __slots__ = ("datum", "name")
    offered = "shape, dtype and ndim"
    __hash__ = object.__hash__

    def __init__(self, datum: Datum, name: str = "") -> None:
        self.datum = datum
        self.name = name

    @property
    def type(self) -> ArrayType:
        assert isinstance(self.datum.type, ArrayType)
        return self.datum.type

    @property
    def dtype(self) -> Any:
        return self.type.dtype

    @property
    def ndim(self) -> int:
        return self.type.ndim

    @property
    def shape(self) -> tuple[Scalar, ...]:
        return tuple(OPERATORS["shape"](self, axis) for axis in range(self.ndim))

    def __getitem__(self, index: Any) -> Any:
        return OPERATORS["array[]"](self, index)

    def __setitem__(self, index: Any, value: Any) -> None:
        OPERATORS["array[]="](self, index, value)

    def __len__(self) -> int:
        return OPERATORS["len"](self)  # type: ignore[no-any-return]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        raise no_numpy_array(self)

    def __bool__(self) -> bool:
        return True

    def __repr__(self) -> str:
        return f"<{self.type} {self.name}>" if self.name else f"<{self.type}>"


class Dead(Concrete):
    """What a tile holds after the region that made it; ``data`` describes the region."""

    __slots__ = ()


class Tile(Arithmetic, Attributes):
    """A tile inside a kernel: storage of its own (a base), or a view of another tile."""

    __slots__ = (
        "__weakref__", "_datum", "_map", "_offset", "_repeats", "base", "made_at", "named", "written",
    )  # fmt: skip
    offered = "shape, dtype, ndim, size and T"
    prefix = "tile_"

    def __init__(self, datum: Datum, written: bool = True) -> None:
        self._datum: Datum = datum
        self.base: Tile = self
        self.named = False
        """Whether a name, a list or a tuple of a kernel holds this handle."""
        self._map: ViewMap | None = None
        self._offset: Any = None
        self._repeats: tuple[TileType, Location | None] | None = None
        """The view that repeats elements, this one or one that it is a part of, and where it was made."""
        self.written = written
        """False for a ``tile_empty`` until the first write, where calls run at once; for kernels that are traced the
        pass ``check_initialized`` finds such reads on every path."""
        context = active()
        self.made_at = context.location() if context is not None else None
        if isinstance(context, Builder):
            context.live.append(weakref.ref(self))

    @classmethod
    def view(cls, of: Tile, shape_map: ViewMap, offset: Any = None) -> Tile:
        """A view of ``of``: ``shape_map`` numbers elements of ``of``, ``offset`` (run time) is added to the number."""
        composed = shape_map if of._map is None else shape_map.after(of._map)
        if composed is None:
            raise fail(
                KernelTypeError(
                    "this view has no strides, as its tile is not contiguous; copy it with tk.tile_astype(t, t.dtype)"
                )
            )
        tile = of.sibling()
        tile.base, tile.named = of.base, False
        tile._map = composed
        tile._offset = of._offset if offset is None else offset if of._offset is None else of._offset + offset
        tile.made_at = of.made_at
        tile._repeats = of._repeats
        if of._repeats is None and composed.overlaps_itself():
            context = active()
            tile._repeats = tile.type, context.location() if context is not None else None
        return tile

    @property
    def view_map(self) -> ViewMap:
        """How the elements of this tile are numbered in its base."""
        return self._map if self._map is not None else ViewMap.identity(self.base.shape)

    def sibling(self) -> Tile:
        """An empty handle for a view of the same storage."""
        return Tile.__new__(Tile)

    def places(self) -> Any:
        """The numbers in the base of the elements, before a run-time offset is added."""
        return self.view_map.numbers()

    @property
    def is_view(self) -> bool:
        return self._map is not None

    @property
    def view_offset(self) -> Any:
        return self._offset

    @property
    def type(self) -> TileType:
        base = self.base._datum.type
        assert isinstance(base, TileType)
        return base if self._map is None else TileType(base.dtype, self._map.shape)

    @property
    def shape(self) -> tuple[int, ...]:
        return self.type.shape

    @property
    def dtype(self) -> Any:
        return self.type.dtype

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return self.type.size

    @property
    def T(self) -> Tile:
        return OPERATORS["transpose"](self)  # type: ignore[no-any-return]

    def kill(self, where: str) -> None:
        """Forget the value at the end of the region in which the tile was made."""
        self._datum = Dead(self.base._datum.type, where)

    def read(self, unread: bool = False) -> Datum:
        """The value that the tile holds now; ``unread`` where it is passed on without being looked at."""
        if isinstance(self.base._datum, Dead):
            raise fail(
                KernelNameError(
                    f"this {self.type} was made inside {self.base._datum.data}, which is over; "
                    "make it before, so that it exists on every path"
                )
            )
        if not self.base.written and not unread and isinstance(self.base._datum, Concrete):
            raise fail(UninitializedError(unwritten(self.type, self.made_at)))
        if self._map is None:
            return self._datum
        found: Tile = OPERATORS["view"](self.base, self._offset, self._map)
        return found._datum

    def assign(self, datum: Datum) -> None:
        """Rebind the storage to a new value; through a view, the base gets a value with these elements replaced."""
        if datum.type != self.type:
            raise fail(KernelTypeError(f"cannot write a {datum.type} into a {self.type}"))
        self._check_writable()
        together(lambda: self._assign(datum), "an assignment to a tile")

    def _assign(self, datum: Datum) -> None:
        if self._map is None:
            return self._set(datum)
        updated: Tile = OPERATORS["view="](self.base, wrap(datum), self._offset, self._map)
        self._set(updated._datum)

    def fill(self, value: Any) -> None:
        """Rebind the storage to a value with these elements replaced by one number."""
        self._check_writable()
        if self.shape:
            together(lambda: self._fill(value, "view=number"), "an assignment to a tile")
        else:
            self._fill(value, "element=")

    def _fill(self, value: Any, operator: str) -> None:
        updated: Tile = OPERATORS[operator](self.base, value, self._offset, self.view_map)
        self._set(updated._datum)

    def update(self, symbol: str, value: Any) -> None:
        """Rebind the storage to a value with this one element updated, as ``+=`` does."""
        self._check_writable()
        updated: Tile = OPERATORS["element op="](self.base, value, self._offset, self.view_map, symbol)
        self._set(updated._datum)

    def _set(self, datum: Datum) -> None:
        context = active()
        if isinstance(context, Builder) and context.element:
            raise fail(
                KernelTypeError(f"{context.element}(): op is run for single elements and cannot write to a tile")
            )
        self.base._datum = datum
        self.base.written = True

    def _check_writable(self) -> None:
        if self._repeats is None:
            return
        whole, place = self._repeats
        where = f" at line {place.line}" if place is not None else ""
        raise fail(
            KernelTypeError(
                f"cannot write through a broadcast view: the {whole} that tile_broadcast made{where} repeats elements, "
                "so that writing one would change others; write to the tile before it is broadcast, or to a copy, "
                "tk.tile_astype(t, t.dtype)"
            )
        )

    def bound(self) -> Tile:
        """What a name is bound to: this handle if it has no name yet, else a tile of its own with the value of now."""
        if self.named or not self.is_view:
            return self._agreed(self._named)
        self.named = True
        return self

    def _named(self) -> Tile:
        tile = self._copy() if self.named else self
        tile.named = True
        return tile

    def value(self, unnamed: bool = False) -> Tile:
        """A tile of its own with the value of now, without a name; with ``unnamed``, itself where it has none."""
        if unnamed and self.is_view and not self.named:
            return self
        return self._agreed(lambda: self if unnamed and not self.named else self._copy())

    def _copy(self) -> Tile:
        if isinstance(self.base._datum, Dead):
            return self  # whoever reads it hears of that
        tile = Tile(self.read(unread=True), self.base.written)
        tile.made_at = self.made_at
        return tile

    def _agreed(self, run: Any) -> Tile:
        return agreed(run, (id(self.base), repr(self._offset)))  # type: ignore[no-any-return]

    def rebind(self, datum: Datum) -> None:
        """Set the base's value without recording anything: for the frontend's regions."""
        self._datum = datum

    def __getitem__(self, index: Any) -> Any:
        return OPERATORS["tile[]"](self, index)

    def __setitem__(self, index: Any, value: Any) -> None:
        OPERATORS["tile[]="](self, index, value)

    def __len__(self) -> int:
        if not self.shape:
            raise fail(KernelIndexError("a tile without axes has no len()"))
        return self.shape[0]

    def __bool__(self) -> bool:
        instead = "read an element, as in t[0], or choose elements with tk.where"
        raise fail(KernelTypeError(f"a {self.type} has no truth value; {instead}"))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        data = self.read()
        if isinstance(data, Concrete):
            return np.array(data.data, dtype)
        raise no_numpy_array(self)

    def __repr__(self) -> str:
        if isinstance(self.base._datum, Concrete):
            data = self.read()
            assert isinstance(data, Concrete)
            return f"{self.type}\n{data.data}"
        return f"<{self.type}>"


def unwritten(type: Type, made_at: Location | None, index: tuple[int, ...] | None = None) -> str:
    """The message where a tile, or one element of it, is read to which nothing was written."""
    where = f" at line {made_at.line}" if made_at is not None else ""
    what = "a" if index is None else f"element [{', '.join(map(str, index))}] of a"
    return (
        f"this reads {what} {type} that tile_empty made{where}, but nothing was written to it; "
        "write to it first, or make it with tk.tile_zeros"
    )


def in_place(symbol: str) -> Any:
    """What ``t += u`` and its kin call."""

    def call(self: Tile, other: Any) -> Tile:
        result = OPERATORS[symbol](self, other)
        if result.shape != self.shape:
            raise fail(KernelTypeError(f"{self.type} {symbol}= gives {result.type}, which does not fit in its place"))
        if result.dtype != self.dtype:
            raise fail(KernelTypeError(f"{self.type} {symbol}= gives {result.type}; cast the right side"))
        self.assign(result.read())
        return self

    return call


for _symbol, _method in {
    "+": "add", "-": "sub", "*": "mul", "/": "truediv", "//": "floordiv", "%": "mod", "**": "pow", "@": "matmul",
    "&": "and", "|": "or", "^": "xor", "<<": "lshift", ">>": "rshift",
}.items():  # fmt: skip
    setattr(Tile, f"__i{_method}__", in_place(_symbol))


def wrap(datum: Datum) -> Any:
    """The handle of a fresh value."""
    if isinstance(datum.type, TileType):
        return Tile(datum)
    return Scalar(datum) if isinstance(datum.type, ScalarType) else Array(datum)
