"""Make each product of two loads that stands alone a loop of one iteration: what serves loops over k serves it too."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tilekit.errors import Location
from tilekit.ir.affine import definitions
from tilekit.ir.builtin import REGISTRY
from tilekit.ir.core import Block, Const, Function, Op, Value, make_op
from tilekit.ir.rewrite import Rewriter, replace_ops
from tilekit.ir.types import ScalarType, TileType, bfloat16, float32, int32
from tilekit.passes.eliminate_dead_code import eliminate_dead_code
from tilekit.passes.find_gemm_loops import find_gemm_loops, swaps

INDEX = ScalarType(int32)


@dataclass(frozen=True)
class Factor:
    """What a product reads: a load, and the views between, the nearest to the load first."""

    load: Op
    views: tuple[Op, ...]

    @property
    def offset(self) -> tuple[Any, ...]:
        """Where the load begins on each axis of the array."""
        given = self.load.operands["offset"]
        items = given if isinstance(given, tuple) else (given,)
        return (*items, *(Const(INDEX, 0),) * (len(self.load.attrs["shape"]) - len(items)))


def loops_of_one(fn: Function) -> Function:
    """The function with a loop in place of each product of loads that is in none."""
    loops = {loop.loop for loop in find_gemm_loops(fn) if loop.whole}
    replaced = dict(_alone(fn.body, loops, definitions(fn.body)))
    return eliminate_dead_code(fn.with_body(replace_ops(fn.body, replaced))) if replaced else fn


def _alone(block: Block, loops: set[Op], defined: Mapping[Value, Op]) -> Iterator[tuple[Op, list[Op]]]:
    """The products of loads outside the loops, each with the ops that stand for it."""
    places = {op: place for place, op in enumerate(block.ops)}
    for op in block.ops:
        if op.builtin.contraction:
            a, b = (_factor(op.operands[name], places, defined) for name in op.builtin.contraction[:2])
            if a is not None and b is not None and _adds_or_sets(op) and _undisturbed(op, (a, b), block, places):
                yield op, list(_loop(op, a, b))
        elif op not in loops:
            for inner in op.blocks:
                yield from _alone(inner, loops, defined)


def _factor(value: Any, places: Mapping[Op, int], defined: Mapping[Value, Op]) -> Factor | None:
    """The load in the same block behind a factor."""
    views: list[Op] = []
    op = defined.get(value)
    while op is not None and op.builtin.view and swaps(op):
        views.append(op)
        op = defined.get(next(op.inputs()))
    if op is None or op.builtin.for_factors is None or op not in places:
        return None
    found = Factor(op, tuple(views[::-1]))
    counted = all(item.type.dtype is int32 for item in found.offset if isinstance(item, Value))
    return found if counted else None


def _adds_or_sets(op: Op) -> bool:
    """Whether a product adds to a tile as it is, or to nothing."""
    beta = op.operands["beta"]
    return op.operands["out"] is None or (isinstance(beta, Const) and beta.value in (0, 1))


def _undisturbed(op: Op, factors: tuple[Factor, ...], block: Block, places: Mapping[Op, int]) -> bool:
    """Whether nothing that might be an array's write happens from the first load to a product."""
    first = min(places[factor.load] for factor in factors)
    return not any(between.has_effect for between in block.ops[first : places[op]])


def _loop(product: Op, a: Factor, b: Factor) -> Iterator[Op]:
    """The ops that stand for a product."""
    type, init, where = product.results[0].type, product.operands["out"], product.location
    assert isinstance(type, TileType)
    narrow = type.dtype is bfloat16  # which cannot accumulate
    total = TileType(float32, type.shape) if narrow else type
    result = Value(total) if narrow else product.results[0]
    beta = product.operands["beta"]
    assert isinstance(beta, Value | Const)
    if init is None or not (isinstance(beta, Const) and beta.value == 1):
        init = Value(total)
        zero = {"value": Const(ScalarType(total.dtype), 0.0)}
        attrs = {"shape": total.shape, "dtype": total.dtype, "storage": "register"}
        yield make_op(REGISTRY["tile_full"], zero, attrs, (init,), (), where)
    bounds = {name: Const(INDEX, value) for name, value in (("start", 0), ("stop", 1), ("step", 1))}
    body = _body(product, a, b, total)
    yield make_op(REGISTRY["for_range"], {**bounds, "init": (init,)}, {}, (result,), (body,), where)
    if narrow:
        element, cast = Value(ScalarType(float32)), Value(ScalarType(bfloat16))
        op = make_op(REGISTRY["cast"], {"a": element}, {"dtype": bfloat16}, (cast,), (), where)
        block = Block((element,), (op,), (cast,))
        args = {"args": (result,)}
        yield make_op(REGISTRY["map_elements"], args, {"branches": False}, product.results, (block,), where)


def _body(product: Op, a: Factor, b: Factor, total: TileType) -> Block:
    index, sums, result = Value(INDEX), Value(total), Value(total)
    ops: list[Op] = []
    one = Const(ScalarType(product.operands["beta"].type.dtype), 1.0)  # type: ignore[union-attr]
    tiles = {"a": _moved(a, 1, index, ops), "b": _moved(b, 0, index, ops)}
    operands = {**product.operands, **tiles, "out": sums, "beta": one}
    ops.append(product.with_(operands=operands, results=(result,)))
    return Block((index, sums), tuple(ops), (result,))


def _moved(factor: Factor, k_axis: int, index: Value, ops: list[Op]) -> Value:
    """A factor whose load moves with the index along the axis that is summed over; its ops are added."""
    axis = k_axis if len(factor.views) % 2 == 0 else 1 - k_axis
    load, offset = factor.load, list(factor.offset)
    step = _computed("mul", index, Const(INDEX, load.attrs["shape"][axis]), load.location)
    there = _computed("add", offset[axis], step.results[0], load.location)
    offset[axis] = there.results[0]
    copies = Rewriter(fresh=True)
    moved = copies.rebuilt(load, operands={**load.operands, "offset": tuple(offset)})
    ops += [step, there, moved, *copies.ops(factor.views)]
    return ops[-1].results[0]


def _computed(name: str, a: Value | Const, b: Value | Const, where: Location | None) -> Op:
    """An op of two integers, of the type that its rule gives: what a loop counts may be as weak as its literals."""
    builtin, operands = REGISTRY[name], {"a": a, "b": b}
    (type,) = builtin.result_types({key: operand.type for key, operand in operands.items()}, {}, ())
    return make_op(builtin, operands, {}, (Value(type),), (), where)
