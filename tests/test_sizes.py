"""Files have at most 400 lines, functions at most 40 without their docstring."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FILE_LINES = 400
FUNCTION_LINES = 40
PYTHON = sorted(path for folder in ("tilekit", "tests", "docs", ".ci") for path in (ROOT / folder).rglob("*.py"))
HEADERS = sorted(path for kind in ("*.h", "*.cuh") for path in (ROOT / "tilekit" / "native").rglob(kind))


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def too_long(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            first = node.body[0]
            if ast.get_docstring(node, clean=False) is not None:
                lines -= (first.end_lineno or first.lineno) - first.lineno + 1
            if lines > FUNCTION_LINES:
                yield f"{node.name} (line {node.lineno}) has {lines} lines"


@pytest.mark.parametrize("path", PYTHON + HEADERS, ids=name)
def test_file_is_short(path: Path) -> None:
    assert path.read_bytes().count(b"\n") <= FILE_LINES


@pytest.mark.parametrize("path", PYTHON, ids=name)
def test_functions_are_short(path: Path) -> None:
    assert list(too_long(ast.parse(path.read_text(encoding="utf-8")))) == []


def test_docstring_is_not_counted() -> None:
    body = "    x = 1\n" * (FUNCTION_LINES - 1)
    docstring = '    """' + "text\n" * 30 + '    """\n'
    assert list(too_long(ast.parse(f"def f():\n{docstring}{body}"))) == []
    assert list(too_long(ast.parse(f"def f():\n{body}    y = 2\n"))) == ["f (line 1) has 41 lines"]
