"""Make loops over k of products that were written out: one load, load, multiply, or several that follow each other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tilekit.errors import Location
from tilekit.ir.affine import Affine, affine_of, definitions
from tilekit.ir.builtin import REGISTRY
from tilekit.ir.core import Block, Const, Function, Op, Value, make_op
from tilekit.ir.types import ScalarType, TileType, bfloat16, float32, int32
from tilekit.passes.eliminate_dead_code import eliminate_dead_code
from tilekit.passes.find_gemm_loops import find_gemm_loops, swaps, uses

INDEX = ScalarType(int32)


@dataclass(frozen=True)
class Factor:
    """What a product reads: a load, and the views between."""

    load: Op
    views: tuple[Op, ...]
    offset: tuple[Affine, ...]

    def step_to(self, other: Factor) -> tuple[int, ...] | None:
        """How far another load is from this one, if they are of one array and alike and it is a constant."""
        if self.load.operands["a"] is not other.load.operands["a"] or self.load.attrs != other.load.attrs:
            return None
        if len(self.views) % 2 != len(other.views) % 2:
            return None
        steps = [b - a for a, b in zip(self.offset, other.offset, strict=True)]
        return None if any(step.terms for step in steps) else tuple(step.constant for step in steps)


@dataclass
class Chain:
    """Products that add to each other's results, of loads that move by constant steps."""

    products: list[Op]
    factors: tuple[Factor, Factor]
    steps: tuple[int, int]
    """Along k, of each factor."""


def roll_products(fn: Function) -> Function:
    """The function with a loop in place of products of loads that stand alone or in a row."""
    loops = {loop.loop for loop in find_gemm_loops(fn) if loop.whole}
    defined = definitions(fn.body)
    body = _rolled(fn.body, loops, defined)
    return fn if body is fn.body else eliminate_dead_code(fn.with_body(body))


def _rolled(block: Block, loops: set[Op], defined: Mapping[Value, Op]) -> Block:
    chains = {chain.products[-1]: chain for chain in _chains(block, defined)}
    dropped = {op for chain in chains.values() for op in chain.products}
    ops: list[Op] = []
    changed = bool(chains)
    for op in block.ops:
        if op in chains:
            ops += _loop(chains[op])
        elif op not in dropped:
            inner = op.blocks if op in loops else tuple(_rolled(each, loops, defined) for each in op.blocks)
            same = all(a is b for a, b in zip(inner, op.blocks, strict=True))
            changed = changed or not same
            ops.append(op if same else op.with_(blocks=inner))
    return Block(block.params, tuple(ops), block.results) if changed else block


def _chains(block: Block, defined: Mapping[Value, Op]) -> Iterator[Chain]:
    current: Chain | None = None
    for op in block.ops:
        factors = _factors(op, block, defined) if op.builtin.contraction else None
        if factors is None:
            continue
        if current is not None and _extend(current, op, factors, block):
            continue
        if current is not None:
            yield current
        k = op.operands["a"].type.shape[1]  # type: ignore[union-attr]
        current = Chain([op], factors, (k, k)) if _is_free(op, factors, block) else None
    if current is not None:
        yield current


def _extend(chain: Chain, op: Op, factors: tuple[Factor, Factor], block: Block) -> bool:
    """Add a product to a chain if it continues it."""
    last = chain.products[-1]
    if op.operands["out"] is not last.results[0] or uses(last.results[0], block) != 1 or not _adds(op):
        return False
    first = chain.products[0]
    alike = op.attrs == first.attrs and op.operands["alpha"] == first.operands["alpha"]
    count = len(chain.products)
    moved = []
    for start, factor, axis in zip(chain.factors, factors, _k_axes(chain.factors), strict=True):
        step = start.step_to(factor)
        if step is None or step[1 - axis] or step[axis] % count or not step[axis]:
            return False
        moved.append(step[axis] // count)
    steps = (moved[0], moved[1])
    if not alike or not (count == 1 or steps == chain.steps) or not _undisturbed((*chain.factors, *factors), op, block):
        return False
    chain.products.append(op)
    chain.steps = steps
    return True


def _k_axes(factors: tuple[Factor, Factor]) -> tuple[int, int]:
    """The arrays' axes that are summed over."""
    return 1 - len(factors[0].views) % 2, len(factors[1].views) % 2


def _adds(op: Op) -> bool:
    beta = op.operands["beta"]
    return isinstance(beta, Const) and beta.value == 1


def _is_free(op: Op, factors: tuple[Factor, Factor], block: Block) -> bool:
    """Whether a product can be a loop: it adds to a tile or to nothing."""
    beta = op.operands["beta"]
    known = op.operands["out"] is None or (isinstance(beta, Const) and beta.value in (0, 1))
    return known and _undisturbed(factors, op, block)


def _undisturbed(factors: tuple[Factor, ...], last: Op, block: Block) -> bool:
    """Whether nothing that might be an array's write happens from the first load to a product."""
    first = min(block.ops.index(factor.load) for factor in factors)
    return not any(op.has_effect for op in block.ops[first : block.ops.index(last)])


def _factors(op: Op, block: Block, defined: Mapping[Value, Op]) -> tuple[Factor, Factor] | None:
    a, b = (_factor(op.operands[name], block, defined) for name in op.builtin.contraction[:2])
    return None if a is None or b is None else (a, b)


def _factor(value: Any, block: Block, defined: Mapping[Value, Op]) -> Factor | None:
    """The load in the same block behind a factor."""
    views: list[Op] = []
    op = defined.get(value)
    while op is not None and op.builtin.view and swaps(op):
        views.append(op)
        op = defined.get(next(op.inputs()))
    if op is None or op.builtin.for_factors is None or op not in block.ops:
        return None
    offset = _offset(op)
    if any(item.type.dtype is not int32 for item in offset if isinstance(item, Value)):
        return None
    return Factor(op, tuple(views[::-1]), tuple(affine_of(item, defined) for item in offset))


def _offset(load: Op) -> tuple[Any, ...]:
    given = load.operands["offset"]
    items = given if isinstance(given, tuple) else (given,)
    return (*items, *(Const(INDEX, 0),) * (len(load.attrs["shape"]) - len(items)))


def _loop(chain: Chain) -> Iterator[Op]:
    """The ops that stand for a chain."""
    first, last = chain.products[0], chain.products[-1]
    type, init = last.results[0].type, first.operands["out"]
    assert isinstance(type, TileType)
    narrow = type.dtype is bfloat16  # which cannot accumulate
    total = TileType(float32, type.shape) if narrow else type
    result = Value(total) if narrow else last.results[0]
    if init is None or not _adds(first):
        init = Value(total)
        zero = {"value": Const(ScalarType(total.dtype), 0.0)}
        attrs = {"shape": total.shape, "dtype": total.dtype, "storage": "register"}
        yield make_op(REGISTRY["tile_full"], zero, attrs, (init,), (), first.location)
    bounds = {name: Const(INDEX, value) for name, value in (("start", 0), ("stop", len(chain.products)), ("step", 1))}
    body = _body(chain, total)
    yield make_op(REGISTRY["for_range"], {**bounds, "init": (init,)}, {}, (result,), (body,), first.location)
    if narrow:
        element, cast = Value(ScalarType(float32)), Value(ScalarType(bfloat16))
        op = make_op(REGISTRY["cast"], {"a": element}, {"dtype": bfloat16}, (cast,), (), last.location)
        block = Block((element,), (op,), (cast,))
        args = {"args": (result,)}
        yield make_op(REGISTRY["map_elements"], args, {"branches": False}, last.results, (block,), last.location)


def _body(chain: Chain, total: TileType) -> Block:
    index, sums = Value(INDEX), Value(total)
    ops: list[Op] = []
    product = chain.products[0]
    operands = {**product.operands, "out": sums, "beta": Const(ScalarType(_scale(product)), 1.0)}
    for name, factor, step, axis in zip("ab", chain.factors, chain.steps, _k_axes(chain.factors), strict=True):
        offset = list(_offset(factor.load))
        start = offset[axis]
        start = Const(INDEX, int(start.value)) if isinstance(start, Const) else start
        where = factor.load.location
        moved = _computed("mul", index, Const(INDEX, step), where)
        there = _computed("add", start, moved.results[0], where)
        ops += [moved, there]
        offset[axis] = there.results[0]
        tile = Value(factor.load.results[0].type)
        given = {**factor.load.operands, "offset": tuple(offset)}
        ops.append(factor.load.with_(operands=given, results=(tile,)))
        for view in factor.views:
            seen = Value(view.results[0].type)
            ops.append(view.with_(operands={**view.operands, "base": tile}, results=(seen,)))
            tile = seen
        operands[name] = tile
    result = Value(total)
    ops.append(product.with_(operands=operands, results=(result,)))
    return Block((index, sums), tuple(ops), (result,))


def _computed(name: str, a: Value | Const, b: Value | Const, where: Location | None) -> Op:
    """An op of two integers, of the type that its rule gives: what a loop counts may be as weak as its literals."""
    builtin, operands = REGISTRY[name], {"a": a, "b": b}
    (type,) = builtin.result_types({key: operand.type for key, operand in operands.items()}, {}, ())
    return make_op(builtin, operands, {}, (Value(type),), (), where)


def _scale(product: Op) -> Any:
    return product.operands["beta"].type.dtype  # type: ignore[union-attr]
