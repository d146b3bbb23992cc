"""Which MathDx serves, and what a user is told where none does."""

from __future__ import annotations

import importlib.metadata
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tilekit.errors import MissingPackageError
from tilekit.runtime.cuda import nvrtc
from tilekit.runtime.mathdx import providers
from tilekit.runtime.mathdx.providers import PROVIDERS, Installed, chosen, numbers

LIBRARY, HEADERS = PROVIDERS
NEW = (13, 5)


def test_the_library_is_preferred() -> None:
    both = ((LIBRARY, "0.4.2.37"), (HEADERS, "25.6.0"))
    found = chosen(Installed(both, NEW, NEW))
    assert (found.provider, found.version, found.why_not) == (LIBRARY, "0.4.2.37", "")
    assert chosen(Installed(both[1:], NEW, NEW)).provider is HEADERS


def test_the_headers_serve_where_the_library_is_too_old() -> None:
    both = ((LIBRARY, "0.3.1"), (HEADERS, "25.6.0"))
    assert chosen(Installed(both, NEW, NEW)).provider is HEADERS


MISFITS: list[tuple[Any, ...]] = [
    # packages, NVRTC, nvJitLink, what is said, what to do
    ([], NEW, NEW, "cuBLASDx is not installed", "'tilekit-lang[mathdx]'"),
    ([(LIBRARY, "0.3.1.6")], NEW, NEW, "nvidia-libmathdx-cu13 0.3.1.6 is too old, 0.4.1 is needed", "-U 'nvidia-lib"),
    ([(HEADERS, "25.1.1")], NEW, NEW, "nvidia-mathdx 25.1.1 is too old, 25.6 is needed", "-U 'nvidia-mathdx>=25.6'"),
    ([(LIBRARY, "0.4.2")], (12, 9), NEW, "made for CUDA 13, but NVRTC is 12.9", "'tilekit-lang[cuda]'"),
    ([(LIBRARY, "0.4.2")], (14, 0), (14, 0), "made for CUDA 13, but NVRTC is 14.0", "'tilekit-lang[cuda]'"),
    ([(HEADERS, "25.6.0")], (13, 0), NEW, "needs NVRTC 13.3, but it is 13.0", "-U nvidia-cuda-nvrtc"),
    ([(LIBRARY, "0.4.2")], None, NEW, "cuBLASDx needs NVRTC", "'tilekit-lang[cuda]'"),
    ([(LIBRARY, "0.4.2")], NEW, None, "cuBLASDx needs nvJitLink", "'tilekit-lang[cuda]'"),
    ([(LIBRARY, "0.4.2")], NEW, (13, 0), "nvJitLink 13.0 does not link what NVRTC 13.5 makes", "-U nvidia-nvjitlink"),
]


@pytest.mark.parametrize(("packages", "compiler", "linker", "said", "remedy"), MISFITS)
def test_a_misfit_is_named_with_versions_and_remedy(
    packages: list[Any], compiler: Any, linker: Any, said: str, remedy: str
) -> None:
    found = chosen(Installed(tuple(packages), compiler, linker))
    assert found.provider is None and said in found.why_not
    assert f"python -m pip install {remedy}" in found.why_not


def test_the_extra_asks_for_what_is_needed() -> None:
    project = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    (asked,) = project["optional-dependencies"]["mathdx"]
    found = re.fullmatch(r"(\S+)>=(\S+)", asked)
    assert found is not None
    assert (found[1], numbers(found[2])) == (LIBRARY.package, LIBRARY.oldest)


@pytest.fixture
def looked_for(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Runs ``find`` with these packages installed."""

    def find(versions: dict[str, str]) -> providers.Found:
        def version(name: str) -> str:
            if name not in versions:
                raise importlib.metadata.PackageNotFoundError(name)
            return versions[name]

        monkeypatch.setattr(importlib.metadata, "version", version)
        return providers.find.__wrapped__()

    return find


def test_nothing_is_loaded_where_no_package_is_installed(looked_for: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvrtc, "version", lambda: pytest.fail("NVRTC was looked for"))
    assert "not installed" in looked_for({}).why_not


def test_compilers_that_are_not_there(looked_for: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> Any:
        raise MissingPackageError("no NVRTC")

    monkeypatch.setattr(nvrtc, "version", missing)
    assert "needs NVRTC" in looked_for({LIBRARY.package: "0.4.2"}).why_not
