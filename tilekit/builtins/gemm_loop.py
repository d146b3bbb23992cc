"""A loop over k that adds a product of two arrays' tiles, computed as a whole."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tilekit.builtins.memory import emitted_offset
from tilekit.codegen.gemm.plan import Plan
from tilekit.codegen.gemm.products import is_apart
from tilekit.errors import KernelTypeError, KernelValueError
from tilekit.ir.builtin import builtin
from tilekit.ir.core import Block
from tilekit.ir.handles import Array, Scalar, Tile
from tilekit.ir.operands import Index, known_number
from tilekit.ir.regions import Region
from tilekit.ir.types import TileType, uint8


@dataclass(frozen=True)
class Walk:
    """How a loop moves over an array of which it loads a factor."""

    across: int
    """The array's axis that the product keeps."""
    along: int
    """The array's axis that is summed over."""
    step: int
    """How far an increment of the loop's index moves along it."""

    def __str__(self) -> str:
        return f"axes {self.across} and {self.along}, {self.step} an index"


@builtin(
    late=True,
    region=Region("loop", init="init", leading=1, whole=True),
    cooperative=True,
    by_element=True,
    reads=("a", "b"),
    reuses=("init",),
    scratch=True,
)
def gemm_loop(
    a: Array,
    b: Array,
    a_offset: Index,
    b_offset: Index,
    start: Scalar,
    stop: Scalar,
    step: Scalar,
    init: Tile,
    alpha: Scalar,
    plan: Any,
    walks: Any,
    joined: bool,
) -> Any:
    """The sum of ``alpha * a_tile @ b_tile`` over the indices of a loop, added to ``init``; and its ring's memory.

    The offsets are those of the first iteration; the block says what the loop was.
    """


@gemm_loop.result
def _result(init: TileType, plan: Plan) -> tuple[TileType, TileType]:
    return init, TileType(uint8, (plan.shared,))


@gemm_loop.verify
def _verify(start: Any, init: Any, plan: Plan, walks: tuple[Walk, Walk], blocks: tuple[Block, ...], types: Any) -> None:
    if blocks[0].params[0].type != start.type:
        raise KernelTypeError(f"the index is a {blocks[0].params[0].type}, but starts at a {start.type}")
    if init.type.shape != (plan.m, plan.n):
        raise KernelValueError(f"the plan adds up a tile of {plan.m}x{plan.n} elements, not a {init.type}")
    for name, walk in zip("ab", walks, strict=True):
        if {walk.across, walk.along} != set(range(types[name].ndim)):
            raise KernelValueError(f"{name} is a {types[name]}, which has no {walk}")


@gemm_loop.reference
def _reference(start: Any, stop: Any, step: Any, init: Any, blocks: Any, types: Any) -> tuple[Any, Any]:
    total = init
    for index in range(int(start), int(stop), int(step)) if step else ():
        (total,) = blocks[0](type(start)(index), total)
    return total, np.zeros(types[1].shape, np.uint8)


@gemm_loop.emit
def _emit(cx: Any, results: Any, init: Any, alpha: str, plan: Plan, types: Any) -> None:
    target = cx.tile(results[0])
    in_place = target.layout == plan.layout and known_number(cx.op.operands["alpha"]) == 1
    if in_place and cx.scalar(target.type) == plan.sum:
        cx.copy_tiles([(target, init)])
        with cx.braces():
            _multiply(cx, target.pointer, cx.tile(results[1]).pointer)
        return
    sums = cx.fresh("sums")
    with cx.braces():
        cx.declare_registers(plan.sum, sums, plan.layout, " = {}")
        _multiply(cx, sums, cx.tile(results[1]).pointer)
        scale = f"tk::cast<{plan.sum}>({alpha})"
        number = known_number(cx.op.operands["alpha"])
        if number is None or not np.isfinite(number):  # without iterations there is no sum to scale
            scale = f"(total > 0 ? {scale} : ({plan.sum})0)"
        with cx.own_elements(plan.layout, target) as index:
            value = f"{scale} * {sums}[{index.register}]"
            cx.line(
                f"{target.at(index)} = tk::cast<{target.element}>(tk::cast<{plan.sum}>({init.at(index)}) + {value});"
            )


def _multiply(cx: Any, sums: str, memory: str) -> None:
    """The call of the native loop."""
    op, given = cx.op, cx.operands
    plan: Plan = op.attrs["plan"]
    ring = plan.ring
    assert ring is not None
    feeds = []
    for name, feed, factor, walk in zip("ab", plan.feeds, (plan.a, plan.b), op.attrs["walks"], strict=True):
        assert factor is not None
        offset = f"{name}_offset"
        at = emitted_offset(given[offset], op.types()[offset], op.operands[name].type.ndim)
        cx.line(f"const tk::i64 {offset}[] = {{{', '.join(at)}}};")
        axes = (walk.across, walk.along) if factor.k_major else (walk.along, walk.across)
        moves = str(ring.k) if op.attrs["joined"] else f"(tk::i64)({given['step']}) * {walk.step}"
        feeds.append(f"{feed}::over<{axes[0]}, {axes[1]}>({given[name]}, {offset}, {moves})")
    index = cx.scalar(op.operands["start"].type)
    bounds = ", ".join(given[name] for name in ("start", "stop", "step"))
    cx.line(f"const tk::i64 total = (tk::i64)tk::range_length<{index}>({bounds}) * {plan.k};")
    left, right = plan.operands
    layout = cx.layout_name(plan.layout)
    call = f"{plan.kind}, {layout}, {left}, {right}, {ring.k}, {ring.stages}, {str(plan.ahead).lower()}"
    apart = "_apart" if is_apart(plan, cx.products, adds=True) else ""
    cx.line(f"tk::multiply_ring{apart}<{call}>(team, {sums}, {memory},")
    cx.line(f"    {feeds[0]},")
    cx.line(f"    {feeds[1]}, total);")


__all__: list[str] = []
