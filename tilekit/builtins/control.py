"""Structured control flow: ops that own blocks. The frontend records them; no user calls them by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilekit.errors import KernelTypeError
from tilekit.ir.builtin import builtin
from tilekit.ir.core import Block, Const, walk
from tilekit.ir.handles import OPERATORS, Scalar, wrap
from tilekit.ir.operands import BOOL, Tiles
from tilekit.ir.regions import Region, repeats
from tilekit.ir.types import ScalarType, TileType, Type, bool_, int64


def datum(value: Any, type: ScalarType = BOOL) -> Any:
    """A handle or number as an operand."""
    return value.datum if isinstance(value, Scalar) else Const(type, value)


Run = Callable[..., tuple[Any, ...]]


def _yielded(block: Block) -> tuple[Type, ...]:
    return tuple(result.type for result in block.results)


@builtin(region=Region("branch"), by_element=True)
def if_else(test: Scalar) -> Any:
    """Run the first block where ``test`` is true, else the second; yields what that block yields."""


@if_else.result
def _if_result(test: ScalarType, blocks: tuple[Block, ...]) -> tuple[Type, ...]:
    if test.dtype != bool_:
        raise KernelTypeError(f"a condition must be bool, got {test}")
    then, orelse = map(_yielded, blocks)
    return tuple(b if isinstance(a, ScalarType) and a.weak else a for a, b in zip(then, orelse, strict=True))


@if_else.reference
def _if_reference(test: Any, blocks: tuple[Run, ...]) -> tuple[Any, ...]:
    return blocks[0]() if test else blocks[1]()


@if_else.emit
def _if_emit(cx: Any, results: Any, test: str, blocks: tuple[Block, ...]) -> None:
    cx.declare_results(results)
    with cx.braces(f"if ({test})"):
        cx.block(blocks[0], results)
    if blocks[1].ops or blocks[1].results:
        with cx.braces("else"):
            cx.block(blocks[1], results)


@if_else.adjoint
def _if_adjoint(cx: Any, value: Any) -> None:
    cx.reverse_branches(lambda blocks: if_else.record({"test": datum(value("test"))}, {}, blocks))


COUNTED = Region("loop", init="init", leading=1)
TESTED = Region("loop", init="init", decides=1)


@builtin(region=COUNTED, by_element=True)
def for_range(start: Scalar, stop: Scalar, step: Scalar, init: Tiles) -> Any:
    """Run a block for each index in the range; its parameters are the index and what it carries."""


@for_range.result
def _for_result(blocks: tuple[Block, ...]) -> tuple[Type, ...]:
    return tuple(param.type for param in COUNTED.params(blocks[0]))


@for_range.verify
def _for_verify(start: Any, stop: Any, step: Any, blocks: tuple[Block, ...]) -> None:
    index = blocks[0].params[0].type
    if any(str(bound.type) != str(index) for bound in (start, stop, step)):
        raise KernelTypeError(f"the index is an {index}, but goes from {start.type} to {stop.type} by {step.type}")


@for_range.reference
def _for_reference(start: Any, stop: Any, step: Any, init: Any, blocks: tuple[Run, ...]) -> tuple[Any, ...]:
    state = tuple(init)
    for index in range(int(start), int(stop), int(step)) if step else ():
        state = blocks[0](type(start)(index), *state)
    return state


@for_range.emit
def _for_emit(cx: Any, results: Any, start: str, stop: str, step: str, init: Any, blocks: tuple[Block, ...]) -> None:
    (body,) = blocks
    counter, params = body.params[0], COUNTED.params(body)
    cx.carry(results, params, init)
    dtype = cx.scalar(counter.type)
    last, by = cx.hold(dtype, stop), cx.hold(dtype, step)
    index = cx.define(counter)
    if by.rstrip("l") in ("1", "-1"):
        with cx.unit_loop(dtype, index, (start, last, by), _is_light(body)):
            cx.block(body, params)
        return
    # A step past the last index may not fit the index's dtype, and wraps: the indices left are counted instead.
    left = cx.fresh("left")
    cx.line(f"{dtype} {index} = {start};")
    cx.line(f"tk::u64 {left} = tk::range_length<{dtype}>({index}, {last}, {by});")
    with cx.loop(f"for (; {left}; --{left}, {index} += {by})"):
        cx.block(body, params)


def _is_light(block: Block) -> bool:
    """Whether an iteration takes some nanoseconds: no loop is in it, and nothing goes over the elements of a tile."""
    ops = list(walk(block))
    loops = any(op.builtin.cooperative or repeats(op) for op in ops)
    return not loops and not any(isinstance(item.type, TileType) for op in ops for item in (*op.results, *op.inputs()))


@for_range.adjoint
def _for_adjoint(cx: Any, value: Any) -> None:
    """The same indices from the last to the first."""
    start, stop, step = value("start"), value("stop"), value("step")
    type = cx.op.operands["start"].type

    def count() -> Any:
        known = all(isinstance(bound, int) for bound in (start, stop, step))
        return len(range(start, stop, step)) if known else range_length(*(typed(b) for b in (start, stop, step)))

    def typed(bound: Any) -> Any:
        return wrap(datum(bound, type))

    def leading(number: Any) -> tuple[Any, ...]:
        return (typed(start) + OPERATORS["cast"](number, type.dtype) * typed(step),)

    bounds = _backwards(start, stop, step)
    if bounds is None:
        cx.reverse_loop(count, leading)
        return
    operands = {name: datum(bound, type) for name, bound in zip(("start", "stop", "step"), bounds, strict=True)}
    cx.reverse_loop(count, leading, lambda init, block: for_range.record({**operands, "init": init}, {}, (block,)))


def _backwards(start: Any, stop: Any, step: Any) -> tuple[Any, Any, Any] | None:
    """The bounds that give the same indices from the last to the first; None where the step is not known."""
    if not isinstance(step, int):
        return None
    if isinstance(start, int) and isinstance(stop, int):
        indices = range(start, stop, step)[::-1]
        return indices.start, indices.stop, indices.step
    away = 1 if step > 0 else -1
    count = stop - start if step in (1, -1) else (stop - start + (step - away)) / step * step
    return start + count - step if step not in (1, -1) else stop - step, start - step, -step


@builtin(operator="range length")
def range_length(start: Scalar, stop: Scalar, step: Scalar) -> Scalar:
    """How many indices a range has; none where the step is zero."""


@range_length.result
def _length_result(start: ScalarType, stop: ScalarType, step: ScalarType) -> ScalarType:
    if not start.dtype == stop.dtype == step.dtype:
        raise KernelTypeError(f"the bounds of a range must have one dtype, got {start}, {stop} and {step}")
    return ScalarType(int64)


@range_length.reference
def _length_reference(start: Any, stop: Any, step: Any) -> Any:
    return len(range(int(start), int(stop), int(step))) if step else 0


@range_length.emit
def _length_emit(cx: Any, start: str, stop: str, step: str, types: Any) -> str:
    dtype = cx.scalar(types["start"])
    return f"(tk::i64)tk::range_length<{dtype}>({start}, {stop}, {step})"


@builtin(region=TESTED, by_element=True)
def while_loop(test: Scalar, init: Tiles) -> Any:
    """Run a block while a condition holds; it yields the next condition, then what it carries."""


@while_loop.result
def _while_result(test: ScalarType, blocks: tuple[Block, ...]) -> tuple[Type, ...]:
    if test.dtype != bool_:
        raise KernelTypeError(f"a condition must be bool, got {test}")
    return tuple(param.type for param in TESTED.params(blocks[0]))


@while_loop.reference
def _while_reference(test: Any, init: Any, blocks: tuple[Run, ...]) -> tuple[Any, ...]:
    state = tuple(init)
    while test:
        test, *rest = blocks[0](*state)
        state = tuple(rest)
    return state


@while_loop.emit
def _while_emit(cx: Any, results: Any, test: str, init: Any, blocks: tuple[Block, ...]) -> None:
    (body,) = blocks
    params = TESTED.params(body)
    cx.carry(results, params, init)
    go = cx.hold("bool", test, constant=False)
    with cx.loop(f"while ({go})"):
        cx.block(body, (go, *params))


@while_loop.adjoint
def _while_adjoint(cx: Any) -> None:
    """The iterations are counted first, then reversed by their numbers."""
    cx.reverse_loop(cx.count_iterations, lambda number: ())
