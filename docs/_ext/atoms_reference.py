"""The ``tilekit-atoms`` directive: the table of PTX atoms, a section for each family, written from the data.

For pages in Markdown.
"""

from __future__ import annotations

from typing import Any

import written
from sphinx.application import Sphinx

from tilekit.builtins.atom_forms import families
from tilekit.builtins.atom_listing import legend, rows


def table(head: tuple[str, ...], body: list[tuple[str, ...]]) -> list[str]:
    """A table in Markdown."""
    rows = [head, ("---",) * len(head), *([cell.replace("|", r"\|") for cell in cells] for cells in body)]
    return [*(f"| {' | '.join(cells)} |" for cells in rows), ""]


def page() -> str:
    """The forms by family, those that are refused, and what long names stand for, in Markdown."""
    lines: list[str] = []
    for family, about in families().items():
        forms = [(f"`{row.spelling}`", row.operands, row.needs, row.notes) for row in rows() if row.family == family]
        lines += [f"### {', '.join(family.split())}", "", f"{about[0].upper()}{about[1:]}.", ""]
        lines += table(("spelling", "operands", "needs", "notes"), forms)
    lines += ["### Refused", ""]
    lines += table(("spelling", "why"), [(f"`{row.spelling}`", row.notes) for row in rows(refused=True)])
    lines += ["### Names of long lists", ""]
    lines += table(("name", "stands for"), [(f"`{name}`", f"`{what}`") for name, what in legend()])
    return "\n".join(lines)


def setup(app: Sphinx) -> dict[str, Any]:
    return written.add(app, "tilekit-atoms", page)
