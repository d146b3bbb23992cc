"""Python warnings located at the user's line."""

from __future__ import annotations

import sys
import warnings

from tilekit.errors import Location

_told: set[tuple[type[Warning], str, str, int]] = set()


def warn_at(category: type[Warning], text: str, location: Location | None) -> None:
    """Issue a warning at a place in a kernel, or where that is not known, at the line that called tilekit."""
    file, line = (location.file, location.line) if location is not None else _caller()
    warnings.warn_explicit(text, category, file, line)


def warn_once(category: type[Warning], text: str, location: Location | None) -> None:
    """The same, once a place and process: for calls that run again and again."""
    place = (location.file, location.line) if location is not None else _caller()
    if (category, text, *place) not in _told:
        _told.add((category, text, *place))
        warnings.warn_explicit(text, category, *place)


def _caller() -> tuple[str, int]:
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "tilekit":
        frame = frame.f_back
    return frame.f_code.co_filename, frame.f_lineno
