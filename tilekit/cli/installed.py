"""What is installed of tilekit and of what its extras name; read from the project's own metadata."""

from __future__ import annotations

import importlib.metadata
import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

DISTRIBUTION = "tilekit-lang"
CHECKOUT = Path(__file__).resolve().parents[2] / "pyproject.toml"


@dataclass(frozen=True)
class Requirement:
    """A distribution that tilekit can use; ``extra`` is empty for what every install has."""

    name: str
    extra: str

    def version(self) -> str | None:
        """The installed version, or None."""
        return installed_version(self.name)


def installed_version(distribution: str) -> str | None:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None


def _checkout() -> dict[str, object]:
    """The ``project`` table of the checkout that this file is in; empty where it is in none."""
    try:
        project = tomllib.loads(CHECKOUT.read_text(encoding="utf-8")).get("project", {})
    except (OSError, tomllib.TOMLDecodeError):
        return {}
    return project if project.get("name") == DISTRIBUTION else {}


def version() -> str:
    """The installed version, or that of the checkout, marked as such where it is not installed."""
    found = installed_version(DISTRIBUTION)
    if found is not None:
        return found
    return f"{_checkout().get('version', 'of unknown version')} (not installed: run from its folder)"


def requirements() -> list[Requirement]:
    """Every distribution that tilekit or one of its extras asks for, the base ones first."""
    found = dict.fromkeys(_declared())
    return [item for item in found if item.name != DISTRIBUTION]


def _declared() -> Iterator[Requirement]:
    try:
        lines = importlib.metadata.requires(DISTRIBUTION) or []
    except importlib.metadata.PackageNotFoundError:
        project = _checkout()
        extras = project.get("optional-dependencies", {})
        assert isinstance(extras, dict)
        base = project.get("dependencies", [])
        assert isinstance(base, list)
        lines = [*base, *(f"{item} ; extra == '{extra}'" for extra, items in extras.items() for item in items)]
    for line in lines:
        name = re.match(r"[\w.-]+", line)
        extra = re.search(r"extra\s*==\s*['\"]([\w-]+)['\"]", line)
        if name:
            yield Requirement(name.group(), extra.group(1) if extra else "")


def missing(extra: str) -> list[str]:
    """What an extra names and is not installed; ``""`` is what every install has."""
    return [item.name for item in requirements() if item.extra == extra and item.version() is None]


def install_command(extra: str) -> str:
    """What to type to install an extra: from the checkout where this is one, else from the index."""
    return (
        f"python -m pip install -e '.[{extra}]'" if _checkout() else f"python -m pip install '{DISTRIBUTION}[{extra}]'"
    )
