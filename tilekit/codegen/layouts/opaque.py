"""Layouts that only the compiler knows."""

from __future__ import annotations

from dataclasses import dataclass

from tilekit.codegen.layouts.layout import Layout


@dataclass(frozen=True)
class OpaqueLayout:
    """How the threads of a block hold the sums of a unit of cuBLASDx.

    Elementwise ops stay in it; other layouts are reached through memory alone.
    """

    cpp: str
    """The type of ``native/mathdx.h``."""
    threads: int
    registers: str
    """A C++ constant: elements that a thread holds."""


AnyLayout = Layout | OpaqueLayout
"""Of a tile that lies in registers."""
