"""Runs the ``python`` blocks of README.md and of every page under ``docs/``, one page a file, at the page's own lines.

Fragments that are not meant to run are marked ``py``.
"""

from __future__ import annotations

import re
import runpy
from collections.abc import Iterator
from pathlib import Path

import pytest

import tilekit.runtime.specialise  # noqa: F401  with it comes all that a kernel can call, before a page declares more
from tilekit.ir.builtin import REGISTRY
from tilekit.ir.handles import OPERATORS

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def runnable(page: Path) -> str:
    """The page with everything but its ``python`` blocks blanked out, so that line numbers are the page's."""
    lines, inside = [], False
    for line in page.read_text(encoding="utf-8").splitlines():
        fence = line.startswith("```")
        if fence:
            inside = not inside and line.strip() == "```python"
        lines.append(line if inside and not fence else "")
    return "\n".join(lines) + "\n"


def expected_output(code: str) -> str:
    """What the comments right after a ``print`` say it prints."""
    printed = []
    for block in re.findall(r"^print\(.*\n((?:#.*\n)+)", code, flags=re.MULTILINE):
        printed += [line.removeprefix("#").removeprefix(" ") for line in block.splitlines()]
    return "\n".join(printed)


@pytest.fixture(autouse=True)
def forget_declarations() -> Iterator[None]:
    """A builtin that a page declares is gone after it."""
    kept = dict(REGISTRY), dict(OPERATORS)
    yield
    for table, before in zip((REGISTRY, OPERATORS), kept, strict=True):
        table.clear()
        table.update(before)


@pytest.mark.parametrize(
    "page", [p for p in PAGES if runnable(p).strip()], ids=lambda p: p.relative_to(ROOT).as_posix()
)
def test_page_runs(page: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = runnable(page)
    script = tmp_path / f"{page.stem}.py"
    script.write_text(code, encoding="utf-8")
    runpy.run_path(str(script))
    assert capsys.readouterr().out.strip() == expected_output(code)
