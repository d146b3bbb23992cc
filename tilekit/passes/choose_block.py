"""Choose how many threads run a block."""

from __future__ import annotations

from dataclasses import replace

from tilekit.codegen.gemm.tiles import WARP, round_up
from tilekit.codegen.layouts import Layout
from tilekit.codegen.target import Target
from tilekit.ir.core import Function, walk
from tilekit.ir.regions import emitted
from tilekit.passes.assign_layouts import assign_layouts, tiles_of
from tilekit.passes.choose_gemm import threads_of_products
from tilekit.passes.compose_views import compose_views
from tilekit.passes.eliminate_dead_code import eliminate_dead_code
from tilekit.passes.expand import expand
from tilekit.passes.form_lanes import form_lanes
from tilekit.passes.inline import inline
from tilekit.passes.legalize import legalize
from tilekit.passes.simplify import simplify
from tilekit.passes.uniformity import runs_lanes

MOST_THREADS = 1024


def choose_block(fn: Function, target: Target) -> Target:
    """The target with the threads of a block: as many as were asked for where it has lanes or an op counts on that,
    else what products on tensor cores want, else whole warps near the hint given, without those that would idle."""
    if target.is_cpu:
        return replace(target, threads=1)
    fn = inline(fn)
    if runs_lanes(fn, target.tiled) or any(op.builtin.exact_block for op in walk(fn.body)):
        return replace(target, threads=target.block_dim)
    target = replace(target, threads=min(round_up(target.block_dim, WARP), MOST_THREADS))
    fn = simplify(eliminate_dead_code(form_lanes(compose_views(expand(fn)), None)))
    if any(op.builtin.contraction for op in walk(fn.body)):
        return replace(target, threads=threads_of_products(fn, target, target.threads))
    return replace(target, threads=_busy(legalize(fn), target))


def _busy(fn: Function, target: Target) -> int:
    """The threads that hold some of the tiles, where threads hold all of them: the others would only take the place of
    blocks that load something."""
    layouts = assign_layouts(fn, target)
    busy = [layout.busy for layout in set(layouts.values()) if isinstance(layout, Layout)]
    if not busy or any(tile not in layouts for op in emitted(fn.body) for tile in tiles_of(op)):
        return target.threads
    return min(target.threads, round_up(max(busy), WARP))
