"""The ``tilekit-builtins`` directive: a section for each declared builtin, written from its declaration."""

from __future__ import annotations

import enum
import inspect
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.ext.napoleon import Config, GoogleDocstring
from sphinx.util.docutils import SphinxDirective

NAPOLEON = Config(napoleon_use_param=True, napoleon_use_rtype=False, napoleon_use_admonition_for_examples=False)


def registry() -> dict[str, Any]:
    """The declared builtins by name; importing the package is what declares them."""
    import tilekit.builtins  # noqa: F401

    try:
        from tilekit.ir.builtin import REGISTRY
    except ModuleNotFoundError as error:
        if error.name != "tilekit.ir.builtin":
            raise
        return {}
    return dict(REGISTRY)


class Written:
    """A default that prints as a user would write it."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __repr__(self) -> str:
        if isinstance(self.value, enum.Enum):
            return f"{type(self.value).__name__}.{self.value.name}"
        if callable(self.value):
            return str(getattr(self.value, "__name__", self.value))
        return repr(self.value)


def signature(builtin: Any) -> str:
    """The signature without annotations: those name the compiler's types, the docstring says what a user passes."""
    empty = inspect.Parameter.empty
    parameters = [
        parameter.replace(annotation=empty, default=empty if parameter.default is empty else Written(parameter.default))
        for parameter in builtin.signature.parameters.values()
    ]
    return f"{builtin.name}{inspect.Signature(parameters)}"


def section(builtin: Any) -> list[str]:
    docstring = str(GoogleDocstring(inspect.cleandoc(builtin.__doc__ or ""), NAPOLEON))
    body = [f"   {line}".rstrip() for line in docstring.splitlines()]
    return [f".. py:function:: {signature(builtin)}", "   :module: tilekit", "", *body, ""]


def page(builtins: dict[str, Any]) -> str:
    """The reference as reStructuredText: public builtins by group, in the order of declaration."""
    groups: dict[str, list[Any]] = {}
    for builtin in builtins.values():
        if builtin.group != "internal":
            groups.setdefault(builtin.group, []).append(builtin)
    lines: list[str] = []
    for group, members in groups.items():
        lines += [group, "-" * len(group), ""]
        for builtin in members:
            lines += section(builtin)
    return "\n".join(lines) or "No builtin is declared."


class BuiltinsDirective(SphinxDirective):
    has_content = False

    def run(self) -> list[nodes.Node]:
        self.env.note_reread()  # depends on the package, not on this page's text
        return self.parse_text_to_nodes(page(registry()), allow_section_headings=True)


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_directive("tilekit-builtins", BuiltinsDirective)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
