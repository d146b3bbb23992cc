"""What views of tiles are made of: reading and writing those elements of a base that a map names."""

from __future__ import annotations

from typing import Any

from tilekit.builtins.updates import UPDATES
from tilekit.codegen.checks import require
from tilekit.codegen.text import signed
from tilekit.errors import KernelIndexError, KernelTypeError, KernelValueError
from tilekit.ir.builtin import REGISTRY, builtin
from tilekit.ir.core import Const
from tilekit.ir.gradients import no_gradient
from tilekit.ir.handles import Scalar, Tile
from tilekit.ir.operands import common_dtype
from tilekit.ir.types import ScalarType, TileType, int32
from tilekit.ir.views import ViewMap


def numbers(map: ViewMap, offset: Any) -> Any:
    """The element numbers that a view names."""
    return map.numbers(0 if offset is None else int(offset))


def _check_reach(base: TileType, map: ViewMap, name: str, start: int = 0) -> None:
    if map.size:
        low, high = (bound + start for bound in map.bounds())
        if low < 0 or high >= base.size:
            raise KernelValueError(f"{name}: a view {map} reaches outside a {base}")


@builtin(operator="view", view=True, moves=("base",))
def view_of(base: Tile, offset: Scalar | None, map: ViewMap) -> Tile:
    """The elements of a tile that a map names, under another shape."""


@view_of.result
def _view_result(base: TileType, offset: ScalarType | None, map: ViewMap) -> TileType:
    if offset is None:
        _check_reach(base, map, "view")
    return TileType(base.dtype, map.shape)


@view_of.verify
def _verify_reach(offset: Any, map: ViewMap, types: Any) -> None:
    """Also of an offset that has become a constant."""
    if isinstance(offset, Const):
        _check_reach(types["base"], map, "view", int(offset.value))


@view_of.reference
def _view_reference(base: Any, offset: Any, map: ViewMap) -> Any:
    return base.reshape(-1)[numbers(map, offset)]


@view_of.emit
def _view_emit(cx: Any, results: Any, base: Any, offset: str | None, map: ViewMap) -> None:
    cx.alias(results[0], base, map, offset)


@view_of.ignores
def _view_ignores() -> tuple[str, ...]:
    return ("base",)  # a view of an unwritten tile is unwritten too


@view_of.adjoint
def _view_adjoint(cx: Any, grad: Any, value: Any, map: ViewMap) -> dict[str, Any]:
    kept = [i for i, (extent, step) in enumerate(zip(map.shape, map.strides, strict=True)) if step or extent == 1]
    apart = ViewMap(tuple(map.shape[i] for i in kept), tuple(map.strides[i] for i in kept), map.offset)

    def base() -> Any:
        if apart.overlaps_itself():
            return no_gradient("several elements of the view are one element of the tile")
        total = grad
        for axis in reversed(range(len(map.shape))):
            if axis not in kept:  # the elements of a repeated axis are one element, so their gradients add up
                total = REGISTRY["tile_sum"](total, axis=axis)
        if total.shape != apart.shape:
            total = Tile.view(total, ViewMap.identity(apart.shape))
        return view_replace(cx.zeros("base"), total, value("offset"), apart)

    return {"base": base}


@builtin(operator="view=", reuses=("base",), in_place="base", moves=("base", "value"), cooperative=True)
def view_replace(base: Tile, value: Tile, offset: Scalar | None, map: ViewMap) -> Tile:
    """A tile with the elements that a map names replaced by those of another tile."""


@view_replace.result
def _replace_result(base: TileType, value: TileType, offset: ScalarType | None, map: ViewMap) -> TileType:
    if value.shape != map.shape or value.dtype != base.dtype:
        raise KernelTypeError(f"cannot write a {value} into a view of shape {map.shape} of a {base}")
    _check_writable(base, map, offset is None)
    return base


def _check_writable(base: TileType, map: ViewMap, known: bool) -> None:
    if map.overlaps_itself():
        raise KernelTypeError(
            "cannot write through a broadcast view: several of its elements are the same element of the tile"
        )
    if known:
        _check_reach(base, map, "view")


view_replace.verify(_verify_reach)


@view_replace.reference
def _replace_reference(base: Any, value: Any, offset: Any, map: ViewMap) -> Any:
    result = base.copy().reshape(-1)
    result[numbers(map, offset)] = value
    return result.reshape(base.shape)


@view_replace.emit
def _replace_emit(cx: Any, base: Any, value: Any, offset: str | None, map: ViewMap) -> None:
    part = cx.viewed(base, map, offset)
    with cx.each_element(part) as index:
        cx.line(f"{part.at(index)} = {value.at(index)};")


@view_replace.adjoint
def _replace_adjoint(cx: Any, grad: Any, value: Any, map: ViewMap) -> dict[str, Any]:
    return {
        "base": lambda: view_replace(grad, cx.zeros("value"), value("offset"), map),
        "value": lambda: view_of(grad, value("offset"), map),
    }


@builtin(operator="view=number", reuses=("base",), in_place="base", moves=("base", "value"), cooperative=True)
def view_fill(base: Tile, value: Scalar, offset: Scalar | None, map: ViewMap) -> Tile:
    """A tile with the elements that a map names replaced by one number."""


@view_fill.coerce
def _fill_coerce(base: TileType, value: ScalarType) -> dict[str, ScalarType]:
    if base.dtype.kind == "b" and value.dtype.kind == "b":
        return {}
    return {"value": common_dtype({"the tile": base, "the value": value}, "writing an element")}


@view_fill.result
def _fill_result(base: TileType, offset: ScalarType | None, map: ViewMap) -> TileType:
    _check_writable(base, map, offset is None)
    return base


view_fill.verify(_verify_reach)


@view_fill.reference
def _fill_reference(base: Any, value: Any, offset: Any, map: ViewMap) -> Any:
    result = base.copy().reshape(-1)
    result[numbers(map, offset)] = value
    return result.reshape(base.shape)


@view_fill.emit
def _fill_emit(cx: Any, base: Any, value: str, offset: str | None, map: ViewMap) -> None:
    part = cx.viewed(base, map, offset)
    with cx.each_element(part) as index:
        cx.line(f"{part.at(index)} = {value};")


@view_fill.adjoint
def _fill_adjoint(cx: Any, grad: Any, value: Any, map: ViewMap) -> dict[str, Any]:
    def number() -> Any:
        return cx.sum(view_of(grad, value("offset"), map))

    return {"base": lambda: view_fill(grad, 0.0, value("offset"), map), "value": number}


@builtin()
def element(t: Tile) -> Scalar:
    """The one element of a tile without axes."""


@element.result
def _element_result(t: TileType) -> ScalarType:
    return ScalarType(t.dtype)


@element.reference
def _element_reference(t: Any) -> Any:
    return t[()]


@element.emit
def _element_emit(cx: Any, t: Any) -> str:
    return t.at(())  # type: ignore[no-any-return]


@element.adjoint
def _element_adjoint(cx: Any, grad: Any) -> dict[str, Any]:
    def add(tile: Tile, number: Any, offset: Any, map: ViewMap | None) -> Tile:
        return element_update(tile, number, offset, map or ViewMap.identity(()), "+")  # type: ignore[no-any-return]

    return {"t": lambda: cx.add_element("t", grad, add)}


@view_replace.ignores
@view_fill.ignores
def _write_ignores() -> tuple[str, ...]:
    return ("base",)


@builtin(may_fail=True)
def axis_index(index: Scalar, extent: int, span: int, wrap: bool, axis: int, text: str) -> Scalar:
    """A run-time index of an axis, counted from its end where it is negative and ``wrap``.

    From there ``span`` elements must lie on the axis; ``text`` is the message where they do not.
    """


@axis_index.result
def _index_result(index: ScalarType) -> ScalarType:
    if not index.dtype.is_integer:
        raise KernelTypeError(f"an index must be an integer, got a {index}; use int(...)")
    return ScalarType(int32)


@axis_index.reference
def _index_reference(index: Any, extent: int, span: int, wrap: bool, axis: int, text: str) -> Any:
    found = int(index) + (extent if wrap and index < 0 else 0)
    if not 0 <= found <= extent - span:
        raise KernelIndexError(text.format(index=int(index), extent=extent, axis=axis))
    return found


@axis_index.emit
def _index_emit(cx: Any, index: str, extent: int, span: int, wrap: bool, axis: int, text: str, types: Any) -> str:
    given = cx.fresh()
    cx.line(f"const tk::i64 {given} = {signed(index, types['index'].dtype)};")
    wrapped = f"({given} < 0 ? {given} + {extent} : {given})" if wrap else given
    if cx.target.index_checks or cx.target.checked:
        ok = f"(tk::u64){wrapped} <= (tk::u64){extent - span}"
        require(cx, ok, text, "kIndexError", given, str(extent), axis)
    return f"(tk::i32){wrapped}"


# Single elements: one lane writes them without the others.


@builtin(operator="element=", reuses=("base",), in_place="base", moves=("base", "value"))
def element_write(base: Tile, value: Scalar, offset: Scalar | None, map: ViewMap) -> Tile:
    """A tile with one element replaced by a number."""


element_write.coerce(_fill_coerce)
element_write.result(_fill_result)
element_write.verify(_verify_reach)
element_write.reference(_fill_reference)
element_write.emit(_fill_emit)


@element_write.adjoint
def _write_adjoint(cx: Any, grad: Any, value: Any, map: ViewMap) -> dict[str, Any]:
    number = element(view_of(grad, value("offset"), map))  # read first: lanes zero it in place
    return {
        "base": lambda: element_write(grad, 0.0, value("offset"), map),
        "value": lambda: cx.once(number, "offset", "value"),
    }


element_write.ignores(_write_ignores)


@builtin(operator="element op=", reuses=("base",), in_place="base")
def element_update(base: Tile, value: Scalar, offset: Scalar | None, map: ViewMap, symbol: str) -> Tile:
    """A tile with one element updated by a number; where several lanes update it, each counts."""


element_update.coerce(_fill_coerce)


@element_update.result
def _update_result(base: TileType, value: ScalarType, offset: ScalarType | None, map: ViewMap, symbol: str) -> TileType:
    if base.dtype.kind not in UPDATES[symbol].kinds:
        raise KernelTypeError(f"{symbol}= is not for an element of a {base}")
    _check_writable(base, map, offset is None)
    return base


element_update.verify(_verify_reach)


@element_update.reference
def _update_reference(base: Any, value: Any, offset: Any, map: ViewMap, symbol: str) -> Any:
    result = base.copy().reshape(-1)
    number = numbers(map, offset)
    result[number] = UPDATES[symbol].combine(result[number], value)
    return result.reshape(base.shape)


@element_update.emit
def _update_emit(cx: Any, base: Any, value: str, offset: str | None, map: ViewMap, symbol: str) -> None:
    update = UPDATES[symbol]
    with cx.leader():
        element = cx.viewed(base, map, offset).at(())
        cx.update(element, f"tk::{update.native}({element}, {value})", update.atomic(f"&{element}", value))


@element_update.adjoint
def _update_adjoint(grad: Any, value: Any, map: ViewMap, symbol: str) -> dict[str, Any]:
    def number() -> Any:
        found = element(view_of(grad, value("offset"), map))
        return -found if symbol == "-" else found

    return {"base": grad, "value": number}
