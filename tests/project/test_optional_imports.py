"""Tests that need a GPU run where only the GPU's libraries are: importing them must not need the other ones."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

TESTS = Path(__file__).parents[1]
OPTIONAL = {"warp", "torch", "cupy", "jax", "ziglang", "sklearn", "matplotlib", "nbclient", "nbformat", "sphinx"}


def required_at_import(body: list[ast.stmt]) -> Iterator[str]:
    """The top-level names of the packages that a module cannot be imported without."""
    for statement in body:
        if isinstance(statement, ast.Import):
            yield from (alias.name.split(".")[0] for alias in statement.names)
        elif isinstance(statement, ast.ImportFrom) and not statement.level:
            yield str(statement.module).split(".")[0]
        elif isinstance(statement, ast.If | ast.With | ast.ClassDef):
            yield from required_at_import(statement.body)


def test_no_test_module_needs_an_optional_package_to_be_imported() -> None:
    """``pytest.importorskip`` at the top skips the module; an import within a test or a fixture concerns only that."""
    found = {
        path.relative_to(TESTS).as_posix(): needed
        for path in TESTS.rglob("*.py")
        if (needed := OPTIONAL & set(required_at_import(ast.parse(path.read_text(encoding="utf-8")).body)))
    }
    assert found == {}
