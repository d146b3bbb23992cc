"""Choose how many threads run a block."""

from __future__ import annotations

from dataclasses import replace

from tilekit.codegen.target import Target
from tilekit.ir.core import Function, walk
from tilekit.passes.choose_gemm import threads_of_products
from tilekit.passes.eliminate_dead_code import eliminate_dead_code
from tilekit.passes.uniformity import runs_lanes

WARP = 32
"""Threads that a GPU runs together."""
MOST_THREADS = 1024


def choose_block(fn: Function, target: Target) -> Target:
    """The target with the threads of a block: as many as were asked for where it has lanes or an op counts on that,
    else what products on tensor cores want, else whole warps near the hint given."""
    if target.is_cpu:
        return replace(target, threads=1)
    if runs_lanes(fn, target.tiled) or any(op.builtin.exact_block for op in walk(fn.body)):
        return replace(target, threads=target.block_dim)
    threads = min(-(-target.block_dim // WARP) * WARP, MOST_THREADS)
    if any(op.builtin.contraction for op in walk(fn.body)):
        threads = threads_of_products(eliminate_dead_code(fn), target, threads)
    return replace(target, threads=threads)
