"""What the project says of itself: README, metadata, and the names that must not appear."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
METADATA = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS: dict[str, list[str]] = METADATA["optional-dependencies"]
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
SOURCES = [*PAGES, *sorted((ROOT / "tilekit").rglob("*.py")), ROOT / "pyproject.toml"]


def distribution(requirement: str) -> str:
    return re.split(r"[\s\[<>=!~;]", requirement, maxsplit=1)[0]


@pytest.mark.parametrize(
    "command",
    [
        "python -m pip install -e '.[cpu]' && python -m tilekit demo",
        "python -m pip install -e '.[test]' && python -m pytest",
    ],
)
def test_readme_has_the_two_commands_once(command: str) -> None:
    assert README.splitlines().count(command) == 1


def test_editable_installs_are_folders_on_the_path() -> None:
    """Else Python takes a checkout called tilekit, seen from its parent, for a namespace package that hides it."""
    tools = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]
    assert tools["setuptools"]["package-dir"] == {"": "."}


def test_base_dependencies() -> None:
    assert METADATA["name"] == "tilekit-lang"
    assert METADATA["requires-python"] == ">=3.11"
    assert {distribution(requirement) for requirement in METADATA["dependencies"]} == {"numpy", "warp-lang"}


def test_extras() -> None:
    assert set(EXTRAS) == {"cuda", "mathdx", "cpu", "torch", "examples", "test", "tirx", "docs"}
    assert any(re.match(r"tilekit-lang\[.*\bcpu\b.*\]", requirement) for requirement in EXTRAS["test"])


def test_nothing_pulls_in_the_proprietary_library() -> None:
    others = [requirement for name, requirements in EXTRAS.items() if name != "mathdx" for requirement in requirements]
    assert not [requirement for requirement in METADATA["dependencies"] + others if "mathdx" in requirement]


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_nobody_is_sent_to_the_other_project_of_that_name(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert re.findall(r"install\s+['\"]?tilekit(?!-lang)\b.*", text) == []


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_links_between_files_hold(page: Path) -> None:
    targets = re.findall(r"\]\((?!https?:|#)([^)#]+)", page.read_text(encoding="utf-8"))
    assert [target for target in targets if not (page.parent / target).exists()] == []


def test_import_is_light() -> None:
    code = "import sys, tilekit; print([m for m in ('warp', 'torch', 'cuda', 'jax', 'cupy') if m in sys.modules])"
    printed = subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    assert printed.strip() == "[]"


def test_messages_install_from_the_index() -> None:
    """Who has a wheel has no checkout; one function knows where it runs."""
    package = Path(__file__).parents[2] / "tilekit"
    found = [path.name for path in package.rglob("*.py") if "pip install -e" in path.read_text(encoding="utf-8")]
    assert found == ["installed.py"]
