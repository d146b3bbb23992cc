"""Finds the loops that are a matrix product over K: load, load, multiply, add to a carried tile."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tilekit.ir.affine import Affine, affine_of, definitions
from tilekit.ir.core import Block, Const, Function, Op, Value, leaves, walk
from tilekit.ir.regions import carried_params, carried_yields, counted
from tilekit.ir.types import TileType
from tilekit.ir.views import ViewMap
from tilekit.passes.loops import is_counted


@dataclass(frozen=True)
class Load:
    """A factor of a product: what is loaded, and from where in each iteration."""

    op: Op
    offset: tuple[Affine, ...]
    """Index of the tile's first element on each axis of the array."""
    transposed: bool
    """Whether the product reads the loaded tile with its axes swapped."""
    k_axis: int
    """The axis of the array along which the loop moves."""
    k_step: int
    """How far an increment of the index moves."""


@dataclass(frozen=True)
class Product:
    """One accumulation of a loop."""

    op: Op
    a: Load
    b: Load
    carry: int
    """Which of the loop's results accumulates it."""


@dataclass(frozen=True)
class GemmLoop:
    """A loop whose products are all accumulated over its index."""

    loop: Op
    products: tuple[Product, ...]
    others: tuple[Op, ...]
    """Ops of the body that are neither products, nor loads, nor compute the loads' offsets."""

    @property
    def whole(self) -> bool:
        """Whether it does nothing but add up its products, each scaled by what does not change."""
        (body,) = self.loop.blocks
        inside = {*body.params, *(result for op in body.ops for result in op.results)}
        scaled = any(value in inside for product in self.products for value in leaves(product.op.operands["alpha"]))
        return not (self.others or scaled) and len(self.products) == len(self.loop.results)


def find_gemm_loops(fn: Function) -> list[GemmLoop]:
    """The GEMM loops of a function, outer ones first. Nothing is changed."""
    defined = definitions(fn.body)
    found = (_match(op, defined) for op in walk(fn.body) if is_counted(op))
    return [loop for loop in found if loop is not None]


def product_loop(op: Op) -> GemmLoop | None:
    """An op as a GEMM loop, as far as what it contains tells."""
    return _match(op, definitions(Block((), (op,)))) if is_counted(op) else None


def _match(loop: Op, defined: Mapping[Value, Op]) -> GemmLoop | None:
    (body,) = loop.blocks
    if any(op.has_effect for op in body.ops):  # what it loads might be what it writes
        return None
    products = [found for op in body.ops if op.builtin.contraction and (found := _product(op, loop, defined))]
    if not products:
        return None
    used: set[Op] = set()
    for product in products:
        used.add(product.op)
        _collect(product.op, body, defined, used)
    return GemmLoop(loop, tuple(products), tuple(op for op in body.ops if op not in used))


def _collect(op: Op, body: Block, defined: Mapping[Value, Op], used: set[Op]) -> None:
    """The ops of the body that an op's operands come from."""
    for value in op.inputs():
        source = defined.get(value)
        if source is not None and source in body.ops and source not in used:
            used.add(source)
            _collect(source, body, defined, used)


def _product(op: Op, loop: Op, defined: Mapping[Value, Op]) -> Product | None:
    (body,) = loop.blocks
    a, b, out = (op.operands[name] for name in op.builtin.contraction)
    params, yielded = carried_params(loop), carried_yields(loop, body)
    carry = next((i for i, param in enumerate(params) if param is out), None)
    if carry is None or yielded[carry] is not op.results[0] or not _adds(op):
        return None
    if uses(params[carry], body) != 1 or uses(op.results[0], body) != 1:
        return None  # the sum so far is read as well
    loads = [_load(factor, axis, loop, defined) for factor, axis in ((a, 1), (b, 0))]
    if loads[0] is None or loads[1] is None:
        return None
    return Product(op, loads[0], loads[1], carry)


def _adds(op: Op) -> bool:
    """Whether the product is added to what was there, undiminished."""
    beta = op.operands.get("beta")
    return beta is None or (isinstance(beta, Const) and beta.value == 1)


def uses(value: Value, block: Block) -> int:
    """How often a block reads a value, or yields it."""
    count = sum(result is value for result in block.results)
    for op in block.ops:
        count += sum(used is value for used in op.inputs())
        count += sum(value in inner.free for inner in op.blocks)
    return count


def _load(factor: object, k_axis: int, loop: Op, defined: Mapping[Value, Op]) -> Load | None:
    """The load behind a factor, if the loop moves it along the axis that the product sums over, and no other."""
    (body,) = loop.blocks
    op = defined.get(factor) if isinstance(factor, Value) else None
    transposed = False
    while op is not None and op.builtin.view:
        if not swaps(op):
            return None
        transposed = not transposed
        op = defined.get(next(op.inputs()))
    if op is None or op not in body.ops or not op.builtin.reads or "offset" not in op.operands:
        return None
    if any(_varies(array, body, defined) for name in op.builtin.reads for array in leaves(op.operands[name])):
        return None  # such as a[k]
    type = op.results[0].type
    (index,) = counted(loop)
    given = op.operands["offset"]
    offset = tuple(affine_of(item, defined) for item in (given if isinstance(given, tuple) else (given,)))
    offset += (Affine(),) * (len(type.shape) - len(offset)) if isinstance(type, TileType) else ()
    inside = {result for inner in body.ops for result in inner.results}
    if any(value in inside for part in offset for value in part.terms):
        return None  # not affine in the index
    axis = 1 - k_axis if transposed else k_axis
    moving = [i for i, part in enumerate(offset) if part.factor(index)]
    return Load(op, offset, transposed, axis, offset[axis].factor(index)) if moving == [axis] else None


def _varies(value: Value, body: Block, defined: Mapping[Value, Op]) -> bool:
    """Whether a value may be another one in each iteration."""
    op = defined.get(value)
    if op is None or op not in body.ops:
        return value in body.params
    return bool(op.blocks) or any(_varies(item, body, defined) for item in op.inputs())


def swaps(view: Op) -> bool:
    """Whether a view swaps the two axes of its tile and does nothing else."""
    base = next(view.inputs()).type
    map = view.attrs.get("map")
    if not isinstance(map, ViewMap) or not isinstance(base, TileType) or view.operands.get("offset") is not None:
        return False
    whole = ViewMap.identity(base.shape)
    return map == ViewMap(whole.shape[::-1], whole.strides[::-1]) and len(list(leaves(view.operands["base"]))) == 1
