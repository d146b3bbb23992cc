"""Checks in emitted code: what fails is recorded with its place, and the block stops."""

from __future__ import annotations

from typing import Any


def require(
    cx: Any, ok: str, text: str, kind: str, index: str = "0", extent: str = "0", axis: int = 0, about: str = ""
) -> None:
    """Emit a check of the condition ``ok``; ``text`` is the message, with ``{index}``, ``{extent}`` and ``{axis}``.

    ``about`` is the array that the condition asks about, where it asks about nothing else.
    """
    with cx.unless(ok, about):
        cx.record(kind, cx.site(text), index, extent, axis)
