"""The pass pipeline, in order. A pass is a pure function from one ``Function`` to the next."""

from __future__ import annotations

from collections.abc import Callable

from tilekit.codegen.storage import Storage
from tilekit.codegen.target import Target
from tilekit.ir.core import Function
from tilekit.ir.verify import verify
from tilekit.passes.assign_layouts import assign_layouts
from tilekit.passes.assign_storage import assign_storage
from tilekit.passes.check_initialized import check_initialized
from tilekit.passes.choose_gemm import serve_products
from tilekit.passes.compose_views import compose_views
from tilekit.passes.drop_old_values import drop_old_values
from tilekit.passes.eliminate_dead_code import eliminate_dead_code
from tilekit.passes.expand import expand
from tilekit.passes.form_lanes import form_lanes
from tilekit.passes.fuse_elementwise import fuse_elementwise
from tilekit.passes.inline import inline
from tilekit.passes.insert_barriers import insert_barriers
from tilekit.passes.issue_warnings import issue_warnings
from tilekit.passes.legalize import legalize
from tilekit.passes.mask_missing_lanes import mask_missing_lanes
from tilekit.passes.place_copies import place_copies
from tilekit.passes.publish_results import publish_results
from tilekit.passes.read_factors_in_place import read_factors_in_place
from tilekit.passes.simplify import simplify
from tilekit.passes.uniformity import check_lanes, runs_lanes

Observer = Callable[[str, Function], None]
PASSES: tuple[Callable[[Function], Function], ...] = (eliminate_dead_code, simplify, drop_old_values)
CPU_PASSES: tuple[Callable[[Function], Function], ...] = (read_factors_in_place,)


def run_pipeline(fn: Function, target: Target, observe: Observer = lambda name, fn: None) -> tuple[Function, Storage]:
    """Run every pass on a traced function; ``observe`` sees the function after each one, for dumps and timing."""
    observe("trace", fn)
    verify(fn)
    fn = compose_views(check_initialized(expand(inline(fn))))
    verify(fn)
    fn = _with_lanes(fn, target, observe)
    for run in (*PASSES, *(CPU_PASSES if target.is_cpu else ())):
        fn = _checked(run.__name__, fn, run(fn), observe)
    if not target.is_cpu:
        fn = _checked("choose_gemm", fn, serve_products(fn, target), observe)
    legal = legalize(fn)
    if legal is not fn:
        fn = _checked("legalize", fn, legal, observe)
    issue_warnings(fn, target)
    return _placed(fn, target, observe)


def _with_lanes(fn: Function, target: Target, observe: Observer) -> Function:
    """What each lane runs between what they do together, as a loop over lanes."""
    lanes = target.block_dim if runs_lanes(fn, target.tiled) else None
    if lanes is not None:
        check_lanes(fn, target.whole)
        if target.ragged:
            fn = _checked("mask_missing_lanes", fn, mask_missing_lanes(fn, lanes), observe)
        fn = eliminate_dead_code(fn)
    return _checked("form_lanes", fn, form_lanes(fn, lanes, target.ragged, target.whole), observe)


def _placed(fn: Function, target: Target, observe: Observer) -> tuple[Function, Storage]:
    """The function and where its tiles lie, with the copies and barriers that this asks for."""
    if not target.is_cpu and not target.runs_points(fn):
        fn = _checked("publish_results", fn, publish_results(fn), observe)
    fused, layouts = fuse_elementwise(fn, assign_layouts(fn, target))
    fn = _checked("fuse_elementwise", fn, fused, observe) if fused is not fn else fn
    placed, storage = place_copies(fn, assign_storage(fn, layouts))
    fn = _checked("place_copies", fn, placed, observe)
    waiting = insert_barriers(fn, storage, target)
    return (_checked("insert_barriers", fn, waiting, observe) if waiting is not fn else fn), storage


def _checked(name: str, before: Function, after: Function, observe: Observer) -> Function:
    """What a pass has made, verified and observed."""
    if after is not before:
        verify(after)
    observe(name, after)
    return after
