"""How deep helpers may call one another: recursion is refused, a long chain is not."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import CodeType, FunctionType

from tilekit.errors import KernelNotImplementedError
from tilekit.ir.context import fail

RECURSIONS = 40
DEEPEST = 500
FRAMES = 24
"""Python's frames for one helper, with the branches and loops that its caller is in."""


class _Room:
    """Raises Python's limit of recursion by what the helpers need that run now, in all threads together."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.helpers = 0
        self.limit = 0

    def change(self, by: int) -> None:
        with self.lock:
            if not self.helpers:
                self.limit = sys.getrecursionlimit()
            self.helpers += by
            sys.setrecursionlimit(self.limit + self.helpers * FRAMES)


class _Inlining(threading.local):
    """The helpers that the calling thread is inlining, the innermost last."""

    def __init__(self) -> None:
        self.codes: list[CodeType] = []


_room = _Room()
_inlining = _Inlining()


@contextmanager
def one_deeper() -> Iterator[None]:
    """Inside: a helper, for which Python has frames enough."""
    _room.change(1)
    try:
        yield
    finally:
        _room.change(-1)


@contextmanager
def inlining(function: FunctionType) -> Iterator[None]:
    """Inside: a helper that is traced.

    Raises:
        KernelNotImplementedError: it is in itself already, again and again; or there are too many around it.
    """
    codes = _inlining.codes
    name = function.__name__
    if codes.count(function.__code__) >= RECURSIONS:
        text = f"{name!r} calls itself without end; kernels cannot recurse on run-time values"
        raise fail(KernelNotImplementedError(text))
    if len(codes) >= DEEPEST:
        text = f"{name!r} is called by a chain of more than {DEEPEST} helpers; let some of them be one function"
        raise fail(KernelNotImplementedError(text))
    codes.append(function.__code__)
    try:
        with one_deeper():
            yield
    finally:
        codes.pop()
