"""Every ``python -m tilekit`` command that a page shows is one that the program takes, and every command is shown."""

from __future__ import annotations

import re
import shlex
import tomllib
from pathlib import Path

import pytest

from tests.cli.test_cli import COMMANDS
from tilekit import cli

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
SHOWN = sorted(
    {
        command.strip()
        for page in PAGES
        for block in re.findall(r"```bash\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
        for command in re.findall(r"python -m tilekit (?!\.)([^&#\n]*)", block)
    }
)


@pytest.mark.parametrize("command", SHOWN)
def test_shown_commands_are_taken(command: str) -> None:
    assert cli._parser().parse_args(shlex.split(command)).run is not None


def test_every_command_is_shown() -> None:
    assert {command.split()[0] for command in SHOWN} == set(COMMANDS)


def test_modules_that_pages_run_exist() -> None:
    text = "\n".join(page.read_text(encoding="utf-8") for page in PAGES)
    modules = set(re.findall(r"python -m (tilekit\.[\w.]+\w)", text))
    assert modules
    assert [name for name in modules if not ROOT.joinpath(*name.split(".")).with_suffix(".py").is_file()] == []


def installs(page: Path) -> set[str]:
    return set(re.findall(r"^python -m pip install.*$", page.read_text(encoding="utf-8"), re.MULTILINE))


@pytest.mark.parametrize("name", ["index.md", "guide.md"])
def test_first_pages_install_as_the_readme_does(name: str) -> None:
    found = installs(ROOT / "docs" / name)
    assert found
    assert found - installs(ROOT / "README.md") == set()


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_shown_extras_exist(page: Path) -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    shown = re.findall(r"pip install -e '\.\[([\w,]+)\]'", page.read_text(encoding="utf-8"))
    assert {name for names in shown for name in names.split(",")} - set(extras) == set()
