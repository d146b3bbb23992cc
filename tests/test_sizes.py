"""Files and functions stay short, and text that belongs to one machine stays out."""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
FILE_LINES = 400
FUNCTION_LINES = 40
HEADERS = (".h", ".hpp", ".cuh", ".inc")

# Written in pieces, as this file is searched too.
UNWANTED = {
    "a path of one machine": re.compile(r"(?<![\w.~}])/(?:tm" + r"p|wor" + r"k|hom" + r"e/\w+|roo" + r"t)/"),
    "a package registry's host": re.compile(
        r"\b(?:pyp" + r"i\.org|pythonhost" + r"ed\.org|anacon" + r"da\.org|npm" + r"js\.(?:org|com))"
    ),
    "the name of a stranger's package": re.compile(r"pip install (?:-\S+ )*[\"']?tilek" + r"it(?![\w-])"),
}


def tracked_files() -> list[Path]:
    """The files git knows, or in a source distribution all that lie beside this one."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    try:
        listing = subprocess.run(command, cwd=ROOT, capture_output=True, check=True, text=True).stdout
        paths = [ROOT / name for name in listing.split("\0") if name]
    except (OSError, subprocess.CalledProcessError):
        paths = [path for folder in ("tilekit", "tests", "docs") for path in (ROOT / folder).rglob("*")]
    return [path for path in paths if path.is_file() and not path.is_symlink() and "__pycache__" not in path.parts]


def text_of(path: Path) -> str | None:
    """The file's text, or None for a binary one."""
    data = path.read_bytes()
    if b"\0" in data:
        return None
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return None


def is_limited(path: Path) -> bool:
    parts = path.relative_to(ROOT).parts
    if path.suffix == ".py":
        return parts[0] in ("tilekit", "tests")
    return path.suffix in HEADERS and parts[:2] == ("tilekit", "native")


def function_lengths(source: str) -> Iterator[tuple[str, int, int]]:
    """Name, line and length of each function, from ``def`` to its last line, without its docstring."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            continue
        length = (node.end_lineno or node.lineno) - node.lineno + 1
        first = node.body[0]
        if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str):
            length -= (first.end_lineno or first.lineno) - first.lineno + 1
        yield node.name, node.lineno, length


def unwanted_in(text: str) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(text.splitlines(), 1):
        yield from ((number, what) for what, pattern in UNWANTED.items() if pattern.search(line))


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def test_files_are_short() -> None:
    lengths = {name_of(path): path.read_bytes().count(b"\n") for path in tracked_files() if is_limited(path)}
    assert lengths
    assert not {name: lines for name, lines in lengths.items() if lines > FILE_LINES}


def test_functions_are_short() -> None:
    long = [
        f"{name_of(path)}:{line}: {name} has {length} lines"
        for path in tracked_files()
        if is_limited(path) and path.suffix == ".py"
        for name, line, length in function_lengths(path.read_text(encoding="utf-8"))
        if length > FUNCTION_LINES
    ]
    assert not long


def test_nothing_of_one_machine_lands() -> None:
    found = [
        f"{name_of(path)}:{line}: {what}"
        for path in tracked_files()
        if (text := text_of(path)) is not None
        for line, what in unwanted_in(text)
    ]
    assert not found


def test_lengths_leave_out_the_docstring() -> None:
    source = '@decorator\ndef f(\n    a,\n):\n    """One\n\n    two."""\n    return a\n\n\nasync def g():\n    pass\n'
    assert list(function_lengths(source)) == [("f", 2, 4), ("g", 11, 2)]


@pytest.mark.parametrize(
    ("line", "count"),
    [
        ("path = '/t" + "mp/x'", 1),
        ("see /wo" + "rk/shared", 1),
        ("https://py" + "pi.org/simple", 1),
        ("pip install tile" + "kit", 1),
        ("pip install -U tile" + "kit[cpu]", 1),
        ("pip install tilekit-lang", 0),
        ("pip install -e '.[cpu]'", 0),
        ("tests/work/a, ~/tmp/b, {root}/tmp/c", 0),
    ],
)
def test_unwanted_text_is_found(line: str, count: int) -> None:
    assert len(list(unwanted_in(f"first\n{line}\n"))) == count
