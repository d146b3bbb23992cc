"""Which MathDx is installed, and whether the compilers beside it fit; where not, what to do."""

from __future__ import annotations

import importlib
import importlib.metadata
import re
from dataclasses import dataclass
from functools import cache

from tilekit.errors import MissingPackageError
from tilekit.runtime.cuda import nvrtc

REMEDY = "python -m pip install 'tilekit-lang[mathdx]' (proprietary)"
Version = tuple[int, ...]


@dataclass(frozen=True)
class Provider:
    """A package that has cuBLASDx."""

    module: str
    """Of this package, that makes units by it."""
    package: str
    oldest: Version
    """The first version that has what is used of it."""
    cuda: int
    """The major version of CUDA that it is made for."""
    nvrtc: Version = (0,)
    """The first version of NVRTC that it works with."""


PROVIDERS = (
    Provider("libmathdx", "nvidia-libmathdx-cu13", (0, 4, 1), 13),
    Provider("headers", "nvidia-mathdx", (25, 6), 13, (13, 3)),
)
"""The preferred one first: a library that carries newer headers; then headers that NVRTC reads."""


@dataclass(frozen=True)
class Installed:
    """What was found of the packages that a unit is made by; versions are None where there is none."""

    packages: tuple[tuple[Provider, str], ...] = ()
    nvrtc: Version | None = None
    nvjitlink: Version | None = None


@dataclass(frozen=True)
class Found:
    """The provider that serves, of which version; or why none does."""

    provider: Provider | None = None
    version: str = ""
    why_not: str = ""


def chosen(installed: Installed) -> Found:
    """The first provider that serves.

    Example:
        >>> libmathdx, _ = PROVIDERS
        >>> chosen(Installed(((libmathdx, "0.4.2"),), (13, 5), (13, 5))).version
        '0.4.2'
        >>> print(chosen(Installed(((libmathdx, "0.3.1"),), (13, 5), (13, 5))).why_not)
        nvidia-libmathdx-cu13 0.3.1 is too old, 0.4.1 is needed: python -m pip install ...
    """
    if not installed.packages:
        return Found(why_not=f"cuBLASDx is not installed: {REMEDY}")
    first = ""
    for provider, version in installed.packages:
        why_not = _misfit(provider, version, installed)
        if why_not is None:
            return Found(provider, version)
        first = first or why_not
    return Found(why_not=first)


def _misfit(provider: Provider, version: str, installed: Installed) -> str | None:
    """Why a provider does not serve."""
    needed = _text(provider.oldest)
    if numbers(version) < provider.oldest:
        remedy = f"python -m pip install -U '{provider.package}>={needed}'"
        return f"{provider.package} {version} is too old, {needed} is needed: {remedy}"
    made = f"{provider.package} {version} is made for CUDA {provider.cuda}"
    ours = installed.nvrtc
    if ours is None:
        return f"cuBLASDx needs NVRTC: {nvrtc.REMEDY}"
    if ours[0] != provider.cuda:
        return f"{made}, but NVRTC is {_text(ours)}: {nvrtc.REMEDY}"
    if ours < provider.nvrtc:
        remedy = "python -m pip install -U nvidia-cuda-nvrtc"
        return f"{provider.package} needs NVRTC {_text(provider.nvrtc)}, but it is {_text(ours)}: {remedy}"
    linker = installed.nvjitlink
    if linker is None:
        return f"cuBLASDx needs nvJitLink: {nvrtc.REMEDY}"
    if linker < ours:
        remedy = "python -m pip install -U nvidia-nvjitlink"
        return f"nvJitLink {_text(linker)} does not link what NVRTC {_text(ours)} makes: {remedy}"
    return None


def numbers(version: str) -> Version:
    """The numbers that a version begins with.

    Example:
        >>> numbers("0.4.2.37"), numbers("25.6.0rc1")
        ((0, 4, 2, 37), (25, 6, 0))
    """
    found = re.match(r"\d+(\.\d+)*", version)
    return tuple(map(int, found[0].split("."))) if found else ()


def _text(version: Version) -> str:
    return ".".join(map(str, version))


@cache
def find() -> Found:
    """The provider that serves here."""
    packages = tuple((each, version) for each in PROVIDERS if (version := _version_of(each.package)) is not None)
    if not packages:  # the usual case costs no look at libraries
        return chosen(Installed())
    try:
        ours: Version | None = nvrtc.version()
    except MissingPackageError:
        ours = None
    return chosen(Installed(packages, ours, _nvjitlink()))


def why_missing() -> str:
    """Why cuBLASDx cannot serve here, and what to do about it; empty where it can."""
    return find().why_not


def _version_of(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _nvjitlink() -> Version | None:
    try:
        return tuple(importlib.import_module("cuda.bindings.nvjitlink").version())
    except Exception:  # each version of the bindings has an error of its own for a library that is not there
        return None
