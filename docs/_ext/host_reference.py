"""The ``tilekit-host`` directive: functions, types and options outside of kernels, written from their declarations."""

from __future__ import annotations

from typing import Any

import written
from builtins_reference import page as sections
from sphinx.application import Sphinx

import tilekit
from tilekit.options import OPTIONS, WARP_OPTIONS
from tilekit.public import on_the_host
from tilekit.runtime import warp_names


def heading(text: str) -> list[str]:
    return ["", text, "-" * len(text), ""]


def names(found: list[str]) -> str:
    return ", ".join(f"``{name}``" for name in found)


def options() -> list[str]:
    """A definition list: name and environment variable, then meaning, values and default."""
    lines = ["``tk.config`` has them as attributes, ``with tk.config.scoped(...)`` sets them for a while.", ""]
    for option in OPTIONS:
        variable = f" (``{option.env}``)" if option.env else ""
        about = option.doc if option.doc.endswith((".", "?")) else f"{option.doc}."
        about += f" Values: {option.expected()}; default: ``{option.default!r}``."
        lines += [f"``{option.name}``{variable}", f"   {about}", ""]
    return [*lines, f"Accepted without effect, for programs written for Warp: {names([o.name for o in WARP_OPTIONS])}."]


def page() -> str:
    """The whole page as reStructuredText."""
    dtypes = [name for name, value in vars(tilekit).items() if isinstance(value, tilekit.DType)]
    lines = [sections(on_the_host()), f"Dtypes, a parameter's annotation where it is a number: {names(dtypes)}."]
    lines += [*heading("Options"), *options(), *heading("Warp's own")]
    lines += ["These names are Warp's, whose documentation has them; they act on Warp arrays as there:"]
    return "\n".join([*lines, f"{names(sorted(warp_names.names()))}.", ""])


def setup(app: Sphinx) -> dict[str, Any]:
    return written.add(app, "tilekit-host", page)
