"""Imports inside tilekit go one way, and none at module level needs POSIX."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "tilekit"
LAYERS = ("ir", "codegen", "builtins", "passes", "frontend", "runtime", "interop")
ABOVE_ALL = ("examples", "bench", "__init__", "__main__")
POSIX_ONLY = {"fcntl", "grp", "pwd", "pty", "resource", "termios", "tty"}
FILES = sorted(PACKAGE.rglob("*.py"))


def layer(parts: tuple[str, ...]) -> int:
    """The height of a module, by the parts of its name after ``tilekit``; errors, config and kin are at the bottom."""
    if not parts or parts[0] in ABOVE_ALL:
        return len(LAYERS)
    return LAYERS.index(parts[0]) if parts[0] in LAYERS else -1


def is_type_checking(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)


def imported(tree: ast.AST, package: tuple[str, ...]) -> Iterator[tuple[int, tuple[str, ...]]]:
    """Line and dotted name, as a tuple, of each import that runs; ``from x import y`` gives ``x.y``."""
    for node in ast.iter_child_nodes(tree):
        if is_type_checking(node):
            continue
        if isinstance(node, ast.Import):
            yield from ((node.lineno, tuple(alias.name.split("."))) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            start = package[: len(package) - node.level + 1] if node.level else ()
            source = start + tuple((node.module or "").split(".") if node.module else ())
            yield from ((node.lineno, (*source, alias.name)) for alias in node.names)
        yield from imported(node, package)


def upward_imports(text: str, module: tuple[str, ...], package: tuple[str, ...]) -> list[str]:
    """Imports of a higher layer; ``module`` is the importer's name after ``tilekit``."""
    return [
        f"line {line}: {'.'.join(name)}"
        for line, name in imported(ast.parse(text), package)
        if name[0] == "tilekit" and layer(name[1:]) > layer(module)
    ]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_imports_go_one_way(path: Path) -> None:
    module = path.relative_to(PACKAGE).with_suffix("").parts
    assert upward_imports(path.read_text(encoding="utf-8"), module, path.parent.relative_to(ROOT).parts) == []


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_no_posix_only_import_at_module_level(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    top = ast.Module([node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)], [])
    assert [name for _, name in imported(top, ()) if name[0] in POSIX_ONLY] == []


@pytest.mark.parametrize(
    ("text", "allowed"),
    [
        ("from tilekit.errors import TilekitError", True),
        ("from tilekit.ir import core", True),
        ("from tilekit.passes import emit", False),
        ("from ..frontend import trace", False),
        ("def f():\n    import tilekit.runtime.launch", False),
        ("import tilekit as tk", False),
        ("from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from tilekit.frontend import kernel", True),
    ],
)
def test_upward_imports_are_found(text: str, allowed: bool) -> None:
    assert (upward_imports(text, ("builtins", "matmul"), ("tilekit", "builtins")) == []) is allowed
