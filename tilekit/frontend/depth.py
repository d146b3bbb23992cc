"""How deep helpers may call one another: recursion is refused, a long chain is not."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from types import CodeType, FunctionType

from tilekit.errors import KernelNotImplementedError
from tilekit.ir.context import fail
from tilekit.ir.nesting import room_for

RECURSIONS = 40
DEEPEST = 500


class _Inlining(threading.local):
    """The helpers that the calling thread is inlining, the innermost last."""

    def __init__(self) -> None:
        self.codes: list[CodeType] = []


_inlining = _Inlining()


def one_deeper() -> AbstractContextManager[None]:
    """Inside: a helper, for which Python has frames enough: as many as for two branches."""
    return room_for(2)


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
        text = f"{name!r} is called by a chain of more than {DEEPEST} helpers; merge some of them"
        raise fail(KernelNotImplementedError(text))
    codes.append(function.__code__)
    try:
        with one_deeper():
            yield
    finally:
        codes.pop()
