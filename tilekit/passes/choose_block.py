"""Choose how many threads run a block."""

from __future__ import annotations

from dataclasses import replace

from tilekit.codegen.target import Target
from tilekit.ir.core import Function
from tilekit.passes.uniformity import runs_lanes

WARP = 32
"""Threads that a GPU runs together."""
MOST_THREADS = 1024


def choose_block(fn: Function, target: Target) -> Target:
    """The target with the threads of a block: its lanes where it has any, else whole warps near the hint given."""
    if target.is_cpu:
        return replace(target, threads=1)
    if runs_lanes(fn, target.tiled):
        return replace(target, threads=target.block_dim)
    return replace(target, threads=min(-(-target.block_dim // WARP) * WARP, MOST_THREADS))
