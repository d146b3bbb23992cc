"""Directives whose content is written from declarations, when the documentation is built."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective


def add(app: Sphinx, name: str, page: Callable[[], str]) -> dict[str, Any]:
    """Add a directive that stands for a page, in the language of the file that has it; what ``setup`` gives."""

    class Written(SphinxDirective):
        has_content = False

        def run(self) -> list[nodes.Node]:
            self.env.note_reread()  # depends on the package, not on this page's text
            return self.parse_text_to_nodes(page(), allow_section_headings=True)

    app.add_directive(name, Written)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
