"""Checks in emitted code: what fails is recorded with its place, and the block stops."""

from __future__ import annotations

from typing import Any


def require(cx: Any, ok: str, text: str, kind: str, index: str = "0", extent: str = "0", axis: int = 0) -> None:
    """Emit a check of the condition ``ok``; ``text`` is the message, with ``{index}``, ``{extent}`` and ``{axis}``."""
    with cx.braces(f"if (!({ok}))"):
        cx.record(kind, cx.site(text), index, extent, axis)
