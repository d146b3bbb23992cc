"""Plain text that fits the terminal: tables, wrapped lines, help, warnings."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import TextIO

GAP = "  "
NARROWEST = 20
"""Columns that a cell which wraps keeps at least, however narrow the terminal is."""


def width() -> int | None:
    """Columns of the terminal, or of ``COLUMNS``; None where the output goes elsewhere and nothing need be wrapped."""
    if os.environ.get("COLUMNS", "").isdigit() and int(os.environ["COLUMNS"]):
        return int(os.environ["COLUMNS"])
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def table(head: Sequence[str], rows: Sequence[Sequence[str]], columns: int | None = None) -> str:
    """Rows below a head, columns aligned; the last column takes what is left of the width and wraps.

    Args:
        head: Names of the columns; without any, no head is printed.
        rows: As many cells each.
        columns: The width; by default that of the terminal.

    Returns:
        Lines without trailing spaces.

    Example:
        >>> print(table(["name", "what"], [["a", "one two three four five"], ["bcd", "six"]], columns=14))
        name  what
        ----  ----
        a     one two three four
              five
        bcd   six
    """
    if not rows:
        return ""
    columns = columns or width()
    widths = [max(map(len, column)) for column in zip(*([head] if head else []), *rows, strict=True)]
    last = None if columns is None else max(NARROWEST, columns - sum(length + len(GAP) for length in widths[:-1]))
    rule = ["-" * length for length in (*widths[:-1], len(head[-1]))] if head else []
    shown = [head, rule, *rows] if head else rows
    return "\n".join(line for row in shown for line in _lines(row, widths, last))


def _lines(row: Sequence[str], widths: Sequence[int], columns: int | None) -> list[str]:
    *cells, last = row
    wrapped = [piece for line in last.split("\n") for piece in wrap(line, columns)]
    lines = []
    for index, text in enumerate(wrapped):
        front = cells if index == 0 else [""] * len(cells)
        padded = [cell.ljust(length) for cell, length in zip(front, widths, strict=False)]
        lines.append(GAP.join([*padded, text]).rstrip())
    return lines


def wrap(text: str, columns: int | None) -> list[str]:
    """Lines of at most that many columns; words that are longer, such as paths, stay whole."""
    if columns is None:
        return [text]
    return textwrap.wrap(text, columns, break_long_words=False, break_on_hyphens=False) or [""]


def size(count: float) -> str:
    """Bytes in words.

    Example:
        >>> size(17), size(4096), size(3 << 20)
        ('17 B', '4.0 KiB', '3.0 MiB')
    """
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024 or unit == "GiB":
            break
        count /= 1024
    return f"{count:.0f} B" if unit == "B" else f"{count:.1f} {unit}"


def seconds(time: float) -> str:
    """A time in the unit that suits it.

    Example:
        >>> seconds(1.5), seconds(0.0123), seconds(4.2e-6)
        ('1.50 s', '12.3 ms', '4.2 us')
    """
    if time >= 1:
        return f"{time:.2f} s"
    return f"{time * 1e3:.1f} ms" if time >= 1e-3 else f"{time * 1e6:.1f} us"


class OneLineHelp(argparse.RawDescriptionHelpFormatter):
    """Help whose text stays as written in a command's docstring."""


def show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """A warning as one line on stderr, in place of Python's own two; with its place, where that is in a user's file."""
    place = f"{filename}:{lineno}: " if filename != sys.argv[0] and Path(filename).is_file() else ""
    print(f"tilekit: {place}{category.__name__}: {message}", file=file or sys.stderr)
