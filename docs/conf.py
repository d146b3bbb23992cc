"""Sphinx configuration: ``python -m sphinx -W --keep-going docs docs/_build``."""

from __future__ import annotations

import sys
from importlib.metadata import version as installed_version
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

project = "tilekit"
author = "the tilekit authors"
project_copyright = "the tilekit authors"
release = version = installed_version("tilekit-lang")

references = ["builtins_reference", "host_reference", "atoms_reference"]  # in _ext
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", *references]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
exclude_patterns = ["_build", "_ext"]
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3

html_theme = "furo"
html_title = "tilekit"
html_static_path: list[str] = []
nitpicky = False
