"""Writes C++ for a function. Knows blocks, names, tiles and lines; what an op does is written by its ``emit`` rule."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import cached_property
from typing import Any

from tilekit.codegen.loops import Loops
from tilekit.codegen.refs import ElementIndex, Site, TileRef, exchanges, in_place
from tilekit.codegen.storage import Buffer, Storage
from tilekit.codegen.target import Target
from tilekit.codegen.text import const_literal, cpp_type, string
from tilekit.errors import Location
from tilekit.ir.core import Block, Const, Function, Op, Value, leaves, map_operand, walk
from tilekit.ir.types import ArrayType, DType, ScalarType, TileType
from tilekit.ir.views import ViewMap

COORDINATES = ("c0", "c1", "c2", "c3")
"""What the coordinates of a block or point are called."""
_DEEPEST = 16
"""Levels that lines are indented by at most: text of a thousand nested branches would be mostly blanks."""


class Emitter(Loops):
    """Emission of one function. ``scalars`` maps values to C++ expressions."""

    def __init__(self, fn: Function, storage: Storage, target: Target) -> None:
        self.fn = fn
        self.storage = storage
        self.target = target
        self.lines: list[str] = []
        self.depth = 1
        self.scalars: dict[Value, str] = {}
        self.tiles: dict[Value, TileRef] = {}
        self.op: Op | None = None
        self.operands: dict[str, Any] = {}
        """Of the current op, as its emit rule takes them."""
        self.sites: list[Site] = []
        self.lane_name = "0"
        """The lane that runs the current line, as an expression."""
        self._passed: list[tuple[str, int, str]] = []
        """Index checks that came before on every way to the current line: array, axis and index."""
        self._braced = self.depth
        """The depth of the lines in the innermost braces."""
        self._count = 0
        self._line: Location | None = None

    @cached_property
    def _kept_signalling(self) -> set[Value]:
        """The values of which something would keep a signalling NaN: all that does not only compute with them."""
        ops = [op for op in walk(self.fn.body) if not op.builtin.quiets]
        yielded = (result for op in walk(self.fn.body) for block in op.blocks for result in leaves(block.results))
        return {*(value for op in ops for value in op.inputs()), *yielded}

    def is_quieted(self, value: Value) -> bool:
        """Whether all that reads a number makes a quiet NaN of a signalling one."""
        return value not in self._kept_signalling

    # Text.

    def line(self, text: str) -> None:
        self.lines.append("    " * min(self.depth, _DEEPEST) + text)

    @contextmanager
    def braces(self, head: str = "") -> Iterator[None]:
        self.line(f"{head} {{" if head else "{")
        self.depth += 1
        outer, self._braced, passed = self._braced, self.depth, len(self._passed)
        yield
        self._braced = outer
        del self._passed[passed:]
        self.depth -= 1
        self.line("}")

    def fresh(self, stem: str = "v") -> str:
        self._count += 1
        return f"{stem}{self._count}"

    @contextmanager
    def in_lane(self, name: str) -> Iterator[None]:
        """What is emitted inside runs in the lane of that number."""
        outer, self.lane_name = self.lane_name, name
        yield
        self.lane_name = outer

    def coordinate(self, axis: int) -> str:
        """Coordinate ``axis`` of the block or point, as int32."""
        return COORDINATES[axis]

    def mark_line(self, location: Location | None) -> None:
        """A ``#line`` so that compilers, debuggers and sanitizers name the Python line."""
        here = self._line
        if location is None or not self.target.line_directives:
            return
        if here is not None and (here.file, here.line) == (location.file, location.line):
            return
        self.lines.append(f"#line {location.line} {string(location.file)}")
        self._line = location

    def site(self, text: str, render: Any = None, extents: tuple[tuple[int, int], ...] = ()) -> int:
        """Number a place that can report."""
        location = self.op.location if self.op is not None else None
        self.sites.append(Site(text, location, render, extents))
        return len(self.sites) - 1

    # Values.

    def scalar(self, type: ScalarType) -> str:
        return cpp_type(type.dtype)

    def name(self, operand: Any) -> Any:
        """An operand as an emit rule takes it: an expression, a ``TileRef``, an array's name, or a tuple of them."""
        return map_operand(operand, self._name)

    def _name(self, item: Value | Const) -> Any:
        if isinstance(item, Const):
            return const_literal(item)
        return self.tile(item) if isinstance(item.type, TileType) else self.scalars[item]

    def tile(self, value: Value) -> TileRef:
        """The place of a tile."""
        found = self.tiles.get(value)
        if found is None:
            assert isinstance(value.type, TileType)
            buffer = self.storage.buffers[value]
            pointer = self.buffer_name(buffer)
            found = TileRef(pointer, value.type, ViewMap.identity(value.type.shape), buffer)
            self.tiles[value] = found
        return found

    def buffer_name(self, buffer: Buffer) -> str:
        """What the code calls the memory of a tile."""
        return f"t{buffer.offset}_{buffer.type.dtype.short}"

    def declare_buffers(self) -> None:
        """Name the memory of every tile in the arena."""
        for buffer in sorted(set(self.storage.buffers.values()), key=lambda b: (b.offset, b.type.dtype.short)):
            if buffer.offset < 0:
                continue
            element = cpp_type(buffer.type.dtype)
            text = f"{element}* const {self.buffer_name(buffer)} = ({element}*)(arena + {buffer.offset});"
            if "    " + text not in self.lines:
                self.line(text)

    def define(self, value: Value, expression: str | None = None) -> str:
        """Name a scalar or array value; with an expression, declare a constant of that name."""
        if value not in self.scalars:
            self.scalars[value] = self.fresh("a" if isinstance(value.type, ArrayType) else "v")
        name = self.scalars[value]
        if expression is not None:
            self.line(f"const {self.cpp(value.type)} {name} = {expression};")
        return name

    def cpp(self, type: Any) -> str:
        if isinstance(type, ArrayType):
            return f"tk::Array<{cpp_type(type.dtype)}, {type.ndim}>"
        return cpp_type(type.dtype)

    def hold(self, dtype: str, expression: str, constant: bool = True) -> str:
        """A variable with the value of an expression, unless that is a literal already."""
        if constant and expression.lstrip("-").replace("ll", "").isdigit():
            return expression
        name = self.fresh()
        self.line(f"{'const ' if constant else ''}{dtype} {name} = {expression};")
        return name

    # Ops.

    def block(self, block: Block, targets: Sequence[Value | str]) -> None:
        """The ops of a block, then its yields assigned to ``targets``."""
        for op in block.ops:
            self.emit(op)
        self.assign(targets, block.results)

    def emit(self, op: Op) -> None:
        self.mark_line(op.location)
        outer, self.op = self.op, op
        operands = {name: self.name(operand) for name, operand in op.operands.items()}
        self.operands = operands
        self.emit_op(op, operands)
        self.op = outer

    def emit_op(self, op: Op, operands: dict[str, Any]) -> None:
        """Write an op, and name its result if that is an expression."""
        found = self.written(op, operands)
        if isinstance(found, str):
            self.define(op.results[0], found)

    def written(self, op: Op, operands: dict[str, Any]) -> Any:
        """Let the op's ``emit`` rule write its lines; the expression of its result, if it gives one."""
        given = {"cx": self, "results": op.results, "blocks": op.blocks, "types": op.types()}
        return op.builtin.apply("emit", operands, op.attrs, **given)

    def element(self, array: str, index: Sequence[str], dtype: DType) -> str:
        """A pointer to an element of an array.

        It is spelled out: compilers need a tenth of the time that as many calls of a template take.
        """
        terms = [f"(tk::u64)(tk::i64)({i}) * (tk::u64){array}.stride[{axis}]" for axis, i in enumerate(index)]
        return f"({cpp_type(dtype)}*)({' + '.join([f'(tk::u64){array}.data', *terms])})"

    def write(self, pointer: str, value: str, dtype: DType) -> None:
        """Write an element of an array."""
        self.line(f"*{pointer} = {value};")

    def native_call(self) -> str:
        """The call of the native function that is named like the op."""
        assert self.op is not None
        return f"tk::{self.op.builtin.name}({', '.join(self.operands.values())})"

    def record(self, kind: str, site: int, index: str = "0", extent: str = "0", axis: int = 0) -> None:
        """Report an error at a site and leave the block."""
        line = self.op.location.line if self.op is not None and self.op.location is not None else 0
        where = f"{line}, block, {index}, {extent}, {axis}, {site}, {self.lane_name}"
        self.line(f"tk::record(error, tk::{kind}, {where});")
        self.line("return false;")

    def check_indices(self, array: str, index: Sequence[str], text: str) -> None:
        """Leave the block with an error, of which ``text`` is the message, where an index is outside an array.

        What was checked before is not checked again: names stand for one value while they can be seen.
        """
        site = None
        for axis, i in enumerate(index):
            if (array, axis, i) not in self._passed:
                site = self.site(text) if site is None else site
                self.check_index(array, axis, i, site)
                if self.depth == self._braced:  # and not in a loop without braces
                    self._passed.append((array, axis, i))

    def check_index(self, array: str, axis: int, index: str, site: int) -> None:
        """Leave the block with an error where an index is outside an array's axis."""
        extent = f"{array}.shape[{axis}]"
        with self.braces(f"if ({self.outside(array, axis, index)})"):
            self.record("kIndexError", site, f"(tk::i64)({index})", extent, axis)

    def outside(self, array: str, axis: int, index: str) -> str:
        """The condition that an index is outside an array's axis."""
        return f"(tk::u64)(tk::i64)({index}) >= (tk::u64){array}.shape[{axis}]"

    def unless(self, ok: str, about: str = "") -> AbstractContextManager[None]:
        """What is emitted inside is done where a condition does not hold; ``about`` is the one array that it names."""
        return self.braces(f"if (!({ok}))")

    def alias(self, value: Value, base: TileRef, map: ViewMap, offset: str | None) -> None:
        """Let a value name other elements of a base's storage."""
        self.tiles[value] = self.viewed(base, map, offset)

    def viewed(self, base: TileRef, map: ViewMap, offset: str | None) -> TileRef:
        """The part of a dense base that a map names; its pointer includes the offset."""
        assert base.dense
        terms = [str(map.offset)] if map.offset else []
        terms += [offset] if offset is not None else []
        pointer = f"({base.pointer} + {' + '.join(terms)})" if terms else base.pointer
        type = TileType(base.type.dtype, map.shape)
        return TileRef(pointer, type, ViewMap(map.shape, map.strides), base.buffer)

    # Carried state.

    def declare_results(self, results: Sequence[Value]) -> None:
        """Variables for the numbers and arrays that the blocks of a region assign."""
        for value in results:
            if not isinstance(value.type, TileType):
                self.line(f"{self.cpp(value.type)} {self.define(value)}{{}};")

    def carry(self, results: Sequence[Value], params: Sequence[Value], init: Sequence[Any]) -> None:
        """Declare a loop's variables with their first values; results are read from the same variables."""
        for result, param, first in zip(results, params, init, strict=True):
            if isinstance(param.type, TileType):
                assert in_place(self.tile(param), first), "a tile is carried where it does not lie"
            else:
                name = self.define(param)
                self.line(f"{self.cpp(param.type)} {name} = {first};")
                self.scalars[result] = name

    def assign(self, targets: Sequence[Value | str], values: Sequence[Value | Const]) -> None:
        """``targets = values`` as if at once: no assignment sees the effect of another."""
        scalars: list[tuple[str, str, str]] = []
        for target, value in zip(targets, values, strict=True):
            source = self.name(value)
            if isinstance(source, TileRef):
                assert isinstance(target, Value)
                assert in_place(self.tile(target), source), "a tile is yielded where it does not lie"
            else:
                name = target if isinstance(target, str) else self.scalars[target]
                scalars.append((name, source, self.cpp(value.type)))
        written = {name for name, _, _ in scalars}
        moves = []
        for name, source, type in scalars:
            if name == source:
                continue
            if source in written:
                saved = self.fresh()
                self.line(f"const {type} {saved} = {source};")
                source = saved
            moves.append((name, source))
        for name, source in moves:
            self.line(f"{name} = {source};")

    def copy_tiles(self, moves: Sequence[tuple[TileRef, TileRef]]) -> None:
        """Copy tiles one after the other, or where they change places, element by element."""
        needed = [(to, source) for to, source in moves if not in_place(to, source)]
        if exchanges(needed):
            return self.exchange_elements(needed)
        for to, source in needed:
            self.copy(to, source)

    def exchange_elements(self, moves: Sequence[tuple[TileRef, TileRef]]) -> None:
        """Copies that change places element by element, which needs no memory."""
        with self.each_element(*(to for to, _ in moves), *(source for _, source in moves)) as index:
            saved = [self.fresh() for _ in moves]
            for name, (_, source) in zip(saved, moves, strict=True):
                self.line(f"const {source.element} {name} = {source.at(index)};")
            for name, (to, _) in zip(saved, moves, strict=True):
                self.line(f"{to.at(index)} = {name};")

    def copy(self, to: TileRef, source: TileRef) -> None:
        with self.each_element(to, source) as index:
            self.line(f"{to.at(index)} = {source.at(index)};")

    # What a block's threads share.

    @contextmanager
    def leader(self) -> Iterator[None]:
        """What is emitted inside is done once, by one of the threads that run the op."""
        with self.braces():
            yield

    def shared(self, dtype: str, name: str, count: str) -> None:
        """Declare an array that the threads of the block share."""
        self.line(f"{dtype} {name}[{count}];")

    def update(self, element: str, value: str, atomic: str) -> None:
        """Give an element of a tile, which other lanes may update too, a new value; ``atomic`` does it at once."""
        self.line(f"{element} = {value};")

    def report(self, site: int, pointers: Sequence[str], extents: Sequence[tuple[int, int]]) -> None:
        """Hand values to Python: of each a pointer, where its bytes begin from there, and how many they are."""
        self.line(f"const void* const shown[] = {{{', '.join(pointers) or '0'}}};")
        self.line(f"launch.report({site}, block, shown);")

    @contextmanager
    def each_element(self, out: TileRef, *others: TileRef) -> Iterator[ElementIndex]:
        """A cooperative loop over the elements of tiles of one shape; yields the index expressions."""
        index = ElementIndex(self.fresh("i") for _ in out.shape)
        for name, extent in zip(index, out.shape, strict=True):
            self.line(f"for (int {name} = 0; {name} < {extent}; ++{name}) {{")
            self.depth += 1
        yield index
        for _ in out.shape:
            self.depth -= 1
            self.line("}")

    def over_elements(self, body: Block, out: TileRef, shared: Collection[Value], loop: Callable[[bool], None]) -> None:
        """Write a ``loop`` that runs a block for each element of ``out``, and stores the results if it is told to.

        All elements have the parameters ``shared`` in common.
        """
        loop(True)

    def repeats(self, of: TileType, lanes: int = 1, everyone: bool = False) -> Iterator[ElementIndex]:
        """A cooperative loop over the repeats of an instruction: for each, the index in a tile of that type.

        An operand has ``lanes`` elements a repeat; with ``everyone``, every thread runs them all.
        """
        with self.each_element(_unplaced(of)) as index:
            yield index


def _unplaced(type: TileType) -> TileRef:
    """A tile that lies nowhere, for loops over indices."""
    return TileRef("", type, ViewMap.identity(type.shape), Buffer(type, -1))
