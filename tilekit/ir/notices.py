"""Python warnings and errors located at the user's line."""

from __future__ import annotations

import linecache
import re
import sys
import warnings
from types import FrameType

from tilekit.errors import Location

_told: set[tuple[type[Warning], str, str, int]] = set()


def printable(text: str) -> str:
    """The text without what terminals or compilers obey or refuse: control characters and lone surrogates as escapes.

    Example:
        >>> printable("a\\x1b[31mb")
        'a\\\\x1b[31mb'
    """
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)


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


def calling_place(word: str = "", through: str = "tilekit") -> Location:
    """Where tilekit was called: the ``word`` that the call has, else its first line; the call may have come ``through``
    another package."""
    frame = _calling_frame(through)
    start, end, column, end_column = list(frame.f_code.co_positions())[frame.f_lasti // 2]
    file, first = frame.f_code.co_filename, start or frame.f_lineno
    for line in range(first, (end or first) + 1 if word else first):
        found = re.search(rf"\b{re.escape(word)}\b", linecache.getline(file, line, frame.f_globals))
        if found:
            return Location(file, line, *found.span())
    return Location(file, first, column or 0, (end_column or 0) if start == end else 0)


def _caller() -> tuple[str, int]:
    frame = _calling_frame()
    return frame.f_code.co_filename, frame.f_lineno


def _calling_frame(through: str = "tilekit") -> FrameType:
    """The innermost frame outside tilekit, and outside another package that called it."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] in ("tilekit", through):
        frame = frame.f_back
    return frame
