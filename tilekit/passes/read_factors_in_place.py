"""Let the products of a loop over K read the tiles of arrays that nothing else reads, and fetch the next ones."""

from __future__ import annotations

from tilekit.ir.builtin import REGISTRY
from tilekit.ir.core import Const, Function, Op
from tilekit.ir.rewrite import replace_ops
from tilekit.passes.find_gemm_loops import GemmLoop, Load, find_gemm_loops, uses


def read_factors_in_place(fn: Function) -> Function:
    """The function in which loads of factors are ops that need not copy, for targets whose products read memory."""
    replaced = {
        load.op: (_factor(loop, load),)
        for loop in find_gemm_loops(fn)
        for product in loop.products
        for load in (product.a, product.b)
        if _only_multiplied(loop, load)
    }
    return fn.with_body(replace_ops(fn.body, replaced)) if replaced else fn


def _only_multiplied(loop: GemmLoop, load: Load) -> bool:
    """Whether only the loop's products read a load, as it is."""
    (tile,) = load.op.results
    factors = [product.op.operands[name] for product in loop.products for name in product.op.builtin.contraction[:2]]
    read = sum(factor is tile for factor in factors)
    return load.op.builtin.for_factors is not None and read == uses(tile, loop.loop.blocks[0])


def _factor(loop: GemmLoop, load: Load) -> Op:
    step = loop.loop.operands["step"]
    by = load.k_step * int(step.value) if isinstance(step, Const) else 0
    replacement = REGISTRY[str(load.op.builtin.for_factors)]
    operands = {name: load.op.operands[name] for name in replacement.operand_names}
    shape = load.op.attrs["shape"]
    attrs = {"shape": shape, "step": tuple(by if axis == load.k_axis else 0 for axis in range(len(shape)))}
    return load.op.with_(builtin=replacement, operands=operands, attrs=attrs)
