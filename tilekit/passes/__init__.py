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
from tilekit.passes.inline import inline
from tilekit.passes.issue_warnings import issue_warnings
from tilekit.passes.legalize import legalize
from tilekit.passes.mask_missing_lanes import mask_missing_lanes
from tilekit.passes.place_copies import place_copies
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
    lanes = target.block_dim if runs_lanes(fn, target.tiled) else None
    if lanes is not None:
        check_lanes(fn, target.whole)
        if target.ragged:
            fn = mask_missing_lanes(fn, lanes)
            verify(fn)
            observe("mask_missing_lanes", fn)
        fn = eliminate_dead_code(fn)
    fn = form_lanes(fn, lanes, target.ragged, target.whole)
    verify(fn)
    observe("form_lanes", fn)
    for run in (*PASSES, *(CPU_PASSES if target.is_cpu else ())):
        before, fn = fn, run(fn)
        if fn is not before:
            verify(fn)
        observe(run.__name__, fn)
    if not target.is_cpu:
        fn = serve_products(fn, target)
        verify(fn)
        observe("choose_gemm", fn)
    legal = legalize(fn)
    if legal is not fn:
        fn = legal
        verify(fn)
        observe("legalize", fn)
    issue_warnings(fn, target)
    fn, storage = place_copies(fn, assign_storage(fn, assign_layouts(fn, target)))
    verify(fn)
    observe("place_copies", fn)
    return fn, storage
