"""One line on a terminal when something takes long; nothing anywhere else."""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

PATIENCE = 2.0
"""Seconds after which a user begins to wonder."""

_log = logging.getLogger("tilekit")


@contextmanager
def progress(what: str) -> Iterator[None]:
    """Tell the user on a terminal that ``what`` is going on, once it took longer than ``PATIENCE``.

    The line goes to ``sys.stderr``, never to stdout; where that is no terminal, nothing is written. The time that it
    took is logged in any case.

    Args:
        what: What is going on and why, for example ``"compiling kernel 'gemm' with g++"``.

    Example:
        >>> with progress("compiling"):
        ...     print("done")
        done
    """
    line = _Line(what, sys.stderr)
    began = time.perf_counter()
    timer = threading.Timer(PATIENCE, line.begin)
    timer.daemon = True
    if line.is_terminal():
        timer.start()
    try:
        yield
    except BaseException:
        timer.cancel()
        line.end("failed")
        raise
    timer.cancel()
    seconds = time.perf_counter() - began
    line.end(f"{seconds:.1f} s")
    _log.info("%s: %.2f s", what, seconds)


class _Line:
    """The line: begun at most once, by the timer's thread, and then ended by the one that waits."""

    def __init__(self, what: str, stream: TextIO | None) -> None:
        self.what = what
        self.stream = stream
        self.lock = threading.Lock()
        self.begun = self.over = False

    def is_terminal(self) -> bool:
        return self.stream is not None and self.stream.isatty()

    def begin(self) -> None:
        with self.lock:
            if not self.over:
                self.begun = True
                self._write(f"tilekit: {self.what} ... ")

    def end(self, how: str) -> None:
        with self.lock:
            self.over = True
            if self.begun:
                self._write(f"{how}\n")

    def _write(self, text: str) -> None:
        assert self.stream is not None
        self.stream.write(text)
        self.stream.flush()
