"""One line on a terminal or in a notebook when something takes long; nothing anywhere else."""

from __future__ import annotations

import contextvars
import functools
import logging
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

PATIENCE = 2.0
"""Seconds after which a user begins to wonder."""

_log = logging.getLogger("tilekit")


@contextmanager
def progress(what: str, why: Callable[[], str] = str) -> Iterator[None]:
    """Tell the user on a terminal or in a notebook that ``what`` is going on, once it took longer than ``PATIENCE``.

    The line goes to ``sys.stderr``, never to stdout; where that is neither, nothing is written. The time that it took
    is logged in any case.

    Args:
        what: What is going on, for example ``"compiling kernel 'gemm' with g++"``.
        why: Gives the reason, or an empty string; called only where the line is written.

    Example:
        >>> with progress("compiling"):
        ...     print("done")
        done
    """
    # What ``why`` finds must not depend on the thread that asks: options are those of a context.
    asked = functools.partial(contextvars.copy_context().run, why)
    line = _Line(what, sys.stderr, asked)
    began = time.perf_counter()
    timer = threading.Timer(PATIENCE, line.begin)
    timer.daemon = True
    if line.is_watched():
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

    def __init__(self, what: str, stream: TextIO | None, why: Callable[[], str] = str) -> None:
        self.what = what
        self.stream = stream
        self.why = why
        self.lock = threading.Lock()
        self.begun = self.over = False

    def is_watched(self) -> bool:
        """Whether a person sees at once what is written; a notebook's stream is a class of ``ipykernel``."""
        stream = self.stream
        return stream is not None and (stream.isatty() or type(stream).__module__.startswith("ipykernel."))

    def begin(self) -> None:
        reason = self.why()
        with self.lock:
            if not self.over:
                self.begun = True
                self._write(f"tilekit: {self.what}{f' ({reason})' if reason else ''} ... ")

    def end(self, how: str) -> None:
        with self.lock:
            self.over = True
            if self.begun:
                self._write(f"{how}\n")

    def _write(self, text: str) -> None:
        assert self.stream is not None
        self.stream.write(text)
        self.stream.flush()
