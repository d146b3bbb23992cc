"""Choose the code of each matrix product on a GPU, and make one op of each loop that is computed as a whole."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from math import gcd
from typing import Any

from tilekit.builtins.gemm_loop import Walk, gemm_loop
from tilekit.builtins.matmul import gemm_tiles
from tilekit.codegen.architectures import shared_limit
from tilekit.codegen.gemm.plan import OLDEST_TENSOR_CORES, Plan, plan
from tilekit.codegen.gemm.product import Product, Situation, Source
from tilekit.codegen.gemm.products import product_of
from tilekit.codegen.gemm.tiles import architecture
from tilekit.codegen.orders import PACK_BYTES
from tilekit.codegen.target import Target
from tilekit.config import config
from tilekit.errors import CompileError, TilekitError
from tilekit.ir.affine import affine_of, definitions
from tilekit.ir.core import Block, Const, Function, Op, Value, leaves, make_op, walk
from tilekit.ir.regions import carried_params, counted
from tilekit.ir.rewrite import Rewriter, replace_ops
from tilekit.ir.types import TileType, uint8
from tilekit.ir.views import ViewMap
from tilekit.passes import find_gemm_loops as found
from tilekit.passes.assign_layouts import assign_layouts, exchanged_bytes
from tilekit.passes.assign_storage import assign_storage
from tilekit.passes.loops_of_one import loops_of_one


def serve_products(fn: Function, target: Target) -> Function:
    """:func:`choose_gemm`, again with less where the rings of loops do not fit beside the other tiles."""
    fn = prepare_products(fn, target)
    made, limit = choose_gemm(fn, target), shared_limit(target.arch)
    rings = [op.attrs["plan"].shared for op in walk(made.body) if op.builtin.scratch]
    if rings and limit is not None:
        layouts = assign_layouts(made, target)
        size = assign_storage(made, layouts).size + exchanged_bytes(made, layouts)
        if size > limit:
            return choose_gemm(fn, target, size - max(rings))
    return made


def choose_gemm(fn: Function, target: Target, shared: int = 0) -> Function:
    """The function with a plan on each matrix product; loops that tensor cores serve are one op each.

    Args:
        fn: With lanes formed.
        target: A GPU, with the threads of its blocks.
        shared: Bytes of shared memory that the block needs for other things.

    Raises:
        CompileError: the options demand code that cannot serve a product.
    """
    chooser = _Chooser(fn, target, shared)
    replaced = chooser.replacements()
    return fn.with_body(replace_ops(fn.body, replaced)) if replaced else fn


def prepare_products(fn: Function, target: Target) -> Function:
    """The function with products that stand alone as loops, where tensor cores may serve them."""
    if config.gemm == "scalar" or architecture(target.arch) < OLDEST_TENSOR_CORES:
        return fn
    return loops_of_one(fn)


def threads_of_products(fn: Function, target: Target, hint: int) -> int:
    """The threads that suit the largest loop that tensor cores serve, else the hint; others where products of tiles in
    memory need more for their sums, or fewer for the registers of each."""
    fn = prepare_products(fn, target)
    loops = _Chooser(fn, replace(target, threads=0), 0).loop_plans()
    served = {op: made for op, made in loops.items() if made.threads}
    largest = max(served.values(), key=lambda made: made.m * made.n * made.k, default=None)
    chosen = largest.threads if largest and largest.threads else hint
    alone = [op for op in walk(fn.body) if op.builtin.contraction and op not in served]
    needed = [threads for op in alone if (threads := _threads_alone(fn, target, op, chosen)) != chosen]
    most = max([chosen, *needed])
    ways = dict.fromkeys((most, *sorted(needed, reverse=True)))
    return next((way for way in ways if all(_threads_alone(fn, target, op, way) == way for op in alone)), most)


def _threads_alone(fn: Function, target: Target, op: Op, chosen: int) -> int:
    """Threads that can hold the sums of a product of tiles: those that were chosen, if they can or if none can."""
    for threads in (chosen, 0):
        try:
            made = _Chooser(fn, replace(target, threads=threads), 0).alone(op)
        except CompileError:  # what was asked for cannot serve
            continue
        if made.threads:
            return made.threads
    return chosen


class _Chooser:
    def __init__(self, fn: Function, target: Target, shared: int) -> None:
        self.fn = fn
        self.target = target
        self.shared = shared
        self.defined = definitions(fn.body)

    def loop_plans(self) -> dict[Op, Plan]:
        """The plan of each product that a loop accumulates and does nothing else."""
        if architecture(self.target.arch) < OLDEST_TENSOR_CORES:
            return {}
        loops = (loop for loop in found.find_gemm_loops(self.fn) if loop.whole and not self._guesses(loop))
        return {product.op: self._plan(loop.loop, product) for loop in loops for product in loop.products}

    def _guesses(self, loop: found.GemmLoop) -> bool:
        """Whether what comes before the first iteration might read what is not there, where there is none."""
        if _trips(loop.loop):
            return False
        (body,) = loop.loop.blocks
        needed = _needed(body, (value for product in loop.products for value in _before(product)))
        return any(op.builtin.may_fail and (self.target.checked or op.builtin.reads) for op in needed)

    def replacements(self) -> dict[Op, tuple[Op, ...]]:
        plans = self.loop_plans()
        replaced: dict[Op, tuple[Op, ...]] = {}
        for loop in found.find_gemm_loops(self.fn):
            made = [plans.get(product.op) for product in loop.products]
            if all(p is not None and p.ring is not None for p in made):
                ops = [_whole(loop.loop, p, made_plan) for p, made_plan in zip(loop.products, made, strict=True)]
                replaced[loop.loop] = tuple(op for some in ops for op in some)
        inside = {op for loop in replaced for block in loop.blocks for op in walk(block)}
        for op in walk(self.fn.body):
            if op.builtin.contraction and op not in inside:
                alone = self.alone(op, plans.get(op))
                builtin = gemm_tiles if alone.warps is not None else op.builtin
                replaced[op] = (op.with_(builtin=builtin, attrs={**op.attrs, "plan": alone}),)
        return replaced

    def alone(self, op: Op, tried: Plan | None = None) -> Plan:
        """The plan of a product of tiles in shared memory."""
        if tried is not None and tried.backend == "scalar":
            return tried
        product = product_of(op)
        a, b = (replace(getattr(product, name), map=self._map(op.operands[name])) for name in "ab")
        return _located(replace(product, a=a, b=b), self._situation(), op)

    def _map(self, value: Any) -> ViewMap:
        """Where the elements of a tile lie in its base."""
        view = self.defined.get(value)
        if view is None or not view.builtin.view:
            return ViewMap.identity(_tile(value).shape)
        map = view.attrs.get("map") or ViewMap.identity(_tile(value).shape)  # without one, all elements in order
        known = view.operands.get("offset") is None and not self._is_view(next(view.inputs()))
        return map if known else ViewMap(map.shape, map.strides, 1)  # at no multiple of 16 bytes that is known

    def _is_view(self, value: Value) -> bool:
        source = self.defined.get(value)
        return source is not None and source.builtin.view

    def _situation(self) -> Situation:
        threads = self.target.threads or None
        no_mathdx = self.target.no_mathdx if config.enable_mathdx_gemm else "the option enable_mathdx_gemm is off"
        return Situation(self.target.arch, threads, self.shared, config.gemm, config.require_gemm, no_mathdx=no_mathdx)

    def _plan(self, loop: Op, product: found.Product) -> Plan:
        op = product.op
        step, k = _known(loop.operands["step"]), _tile(op.operands["a"]).shape[1]
        joined = all(load.k_step * step == k for load in (product.a, product.b))
        made = self._planned(loop, product, joined)
        ring = made.ring
        packed = [factor for factor in (made.a, made.b) if ring and factor and factor.packed]
        if joined and ring and any(ring.k * factor.dtype.itemsize % PACK_BYTES for factor in packed):
            made = self._planned(loop, product, False)
        return made

    def _planned(self, loop: Op, product: found.Product, joined: bool) -> Plan:
        op = product.op
        made = product_of(op)
        a = replace(made.a, source=self._source(loop, product.a, 1, joined))
        b = replace(made.b, source=self._source(loop, product.b, 0, joined))
        made = replace(made, a=a, b=b, joined=joined, total=_trips(loop) * made.k)
        return _located(made, self._situation(), op)

    def _source(self, loop: Op, load: found.Load, k_axis: int, joined: bool) -> Source:
        known = self.target.class_of(_array(load), self.fn, self.defined)
        across = 1 - load.k_axis
        axes = (across, load.k_axis) if k_axis == 1 else (load.k_axis, across)
        return Source(known, axes, self._multiple(loop, load, known.unit_axis, joined))

    def _multiple(self, loop: Op, load: found.Load, axis: int, joined: bool) -> int:
        """What divides the offsets of a load along an axis: of the first, and where steps are the loop's, of all."""
        if axis < 0:
            return 1
        (index,) = counted(loop)
        first = load.offset[axis].replace(index, affine_of(loop.operands["start"], self.defined))
        step = affine_of(loop.operands["step"], self.defined) * load.offset[axis].factor(index)
        return first.divisor if joined else gcd(first.divisor, step.divisor)


def _whole(loop: Op, product: found.Product, made: Plan | None) -> Iterator[Op]:
    """A product's loop as one op, after what computes its first offsets."""
    assert made is not None
    (body,) = loop.blocks
    offsets: list[Any] = []
    arrays: list[Any] = []
    for load in (product.a, product.b):
        offset, array = load.op.operands["offset"], _array(load)
        copies = Rewriter(dict.fromkeys(counted(loop), loop.operands["start"]), fresh=True)
        yield from copies.ops(_needed(body, _start_of(load)))
        offsets.append(copies.operand(offset))
        arrays.append(copies.look_up(array))
    operands = {
        "a": arrays[0],
        "b": arrays[1],
        "a_offset": offsets[0],
        "b_offset": offsets[1],
        **{name: loop.operands[name] for name in ("start", "stop", "step")},
        "init": loop.operands["init"][product.carry],  # type: ignore[index]
        "alpha": product.op.operands["alpha"],
    }
    walks = tuple(Walk(1 - load.k_axis, load.k_axis, load.k_step) for load in (product.a, product.b))
    attrs = {"plan": made, "walks": walks, "joined": bool(made.product and made.product.joined)}
    scratch = Value(TileType(uint8, (made.shared,)))
    results = (loop.results[product.carry], scratch)
    yield make_op(gemm_loop, operands, attrs, results, (_iteration(loop, product),), product.op.location)


def _start_of(load: found.Load) -> tuple[Value, ...]:
    """What a load reads in the first iteration: its offset, and its array, which may be a part that the loop names."""
    return (*leaves(load.op.operands["offset"]), _array(load))


def _before(product: found.Product) -> tuple[Value, ...]:
    return (*_start_of(product.a), *_start_of(product.b))


def _array(load: found.Load) -> Value:
    array = load.op.operands[load.op.builtin.reads[0]]
    assert isinstance(array, Value)
    return array


def _iteration(loop: Op, product: found.Product) -> Block:
    """An iteration as a block of its own, which adds up the one product."""
    (body,) = loop.blocks
    copies = Rewriter(fresh=True)
    params = (*counted(loop), carried_params(loop)[product.carry])
    return copies.block(Block(params, tuple(_needed(body, product.op.results)), product.op.results))


def _needed(body: Block, wanted: Iterable[Value]) -> list[Op]:
    """The ops of a block that its values come from."""
    values = set(wanted)
    needed = []
    for op in reversed(body.ops):
        if not values.isdisjoint(op.results):
            needed.append(op)
            values.update(op.inputs())
    return needed[::-1]


def _located(product: Product, situation: Situation, op: Op) -> Plan:
    try:
        return replace(plan(product, situation), location=op.location)
    except TilekitError as error:
        raise error.at(op.location) from None


def _tile(value: Any) -> TileType:
    type = value.type
    assert isinstance(type, TileType)
    return type


def _trips(loop: Op) -> int:
    """How often a loop runs; 0 where that is not known."""
    bounds = [loop.operands[name] for name in ("start", "stop", "step")]
    return len(range(*map(_known, bounds))) if all(isinstance(bound, Const) for bound in bounds) else 0


def _known(operand: Any) -> int:
    """A constant; 0 where it is not known."""
    return int(operand.value) if isinstance(operand, Const) else 0
