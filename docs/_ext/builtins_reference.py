"""The ``tilekit-builtins`` directive: a section for each declared builtin, written from its declaration."""

from __future__ import annotations

from typing import Any

import written
from sphinx.application import Sphinx
from sphinx.ext.napoleon import Config, GoogleDocstring

from tilekit.public import documented

NAPOLEON = Config(napoleon_use_param=True, napoleon_use_rtype=False, napoleon_use_admonition_for_examples=False)


def section(entry: Any) -> list[str]:
    docstring = str(GoogleDocstring(entry.doc, NAPOLEON))
    body = [f"   {line}".rstrip() for line in docstring.splitlines()]
    kind = "data" if entry.parameters is None else "function"
    gradient = [f"   Gradient: {entry.gradient}.", ""] if entry.gradient else []
    return [f".. py:{kind}:: {entry.signature}", "   :module: tilekit", "", *body, "", *gradient]


def page(entries: list[Any]) -> str:
    """The reference as reStructuredText, by group; the entries of a group stand together."""
    lines: list[str] = []
    group = None
    for entry in entries:
        if entry.group != group:
            group = entry.group
            lines += [group, "-" * len(group), ""]
        lines += section(entry)
    return "\n".join(lines)


def setup(app: Sphinx) -> dict[str, Any]:
    return written.add(app, "tilekit-builtins", lambda: page(documented()))
