"""Tell the user where something that was asked for is not what the target does."""

from __future__ import annotations

from collections.abc import Iterator

from tilekit.builtins.matmul import lost_precision
from tilekit.codegen.gemm.plan import scalar_warning, waste_warning
from tilekit.codegen.target import Target
from tilekit.errors import FallbackWarning, PerformanceWarning, PrecisionWarning
from tilekit.ir.core import Function, Op
from tilekit.ir.notices import warn_at
from tilekit.ir.regions import emitted


def issue_warnings(fn: Function, target: Target) -> None:
    """Issue what the ops of a function warn of for a target, once for each line; of slow code, once."""
    told = set()
    for op in emitted(fn.body):
        for category, text in _warnings(op, target):
            place = None if category is PerformanceWarning else op.location
            if (place, category, text) not in told:
                told.add((place, category, text))
                warn_at(category, text, op.location)


def _warnings(op: Op, target: Target) -> Iterator[tuple[type[Warning], str]]:
    found = op.builtin.apply("warns", op.operands, op.attrs, target=target) if op.builtin.has("warns") else None
    if found is not None:
        yield found
    plan = op.attrs.get("plan")
    if plan is None or plan.product is None:
        return
    if plan.lost_precision:
        why = f"on sm_{target.arch}, as {plan.lost_precision}"
        yield PrecisionWarning, lost_precision(plan.product.precision, why)
    slow = scalar_warning(plan, "tile_matmul()", plan.product)
    if slow is not None:
        yield FallbackWarning, slow
    waste = waste_warning(plan, "tile_matmul()")
    if waste is not None:
        yield PerformanceWarning, waste
