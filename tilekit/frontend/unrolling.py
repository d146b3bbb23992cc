"""What a loop over a range that is unrolled carries: its floats are run-time values, as where it stays a loop.

So a sum of literals is rounded alike however the loop is compiled.
"""

from __future__ import annotations

from typing import Any

from tilekit.frontend import joins
from tilekit.frontend.merge import Chosen
from tilekit.frontend.state import Cells
from tilekit.ir.operands import WEAK_FLOAT


def begin(cells: Cells, site: joins.Site | None) -> None:
    """At the start of an iteration: what its body assigns, and is known so far, may not be known while it runs."""
    for name, cell in cells.cells.items():
        value = cells.get(cell)
        found, kind = _at_run_time(value, site, name)
        if kind is not None and not name.startswith("__"):
            cells.write({name: found})
            joins.record_kind(site, name, kind, [value])


def _at_run_time(value: Any, site: joins.Site | None, name: str) -> tuple[Any, joins.NumberKind]:
    """The value with floats that are run-time values, and their types; None where there are none."""
    if isinstance(value, tuple):
        items = [_at_run_time(item, site, f"{name}[{i}]") for i, item in enumerate(value)]
        kinds = tuple(kind for _, kind in items)
        return (tuple(item for item, _ in items), kinds) if any(kind is not None for kind in kinds) else (value, None)
    if type(value) is not float:
        return value, None
    chosen = Chosen(WEAK_FLOAT, [value], (site, name))
    return chosen.held(value), chosen.type
