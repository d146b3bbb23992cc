"""The thread's floating-point state: to nearest and with subnormals while constants and arguments become bits, and
while NumPy stands in for a kernel."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, wraps
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

_ROOM = 256
"""Bytes, more than any platform's fenv_t."""


@cache
def _library() -> Any:
    """The C library's functions, with what it calls the default state; None where they are not to be had."""
    try:
        library = ctypes.CDLL(None)
        read, write = library.fegetenv, library.fesetenv
    except (OSError, AttributeError, TypeError):
        return None
    if sys.platform == "darwin":
        return read, write, ctypes.byref(ctypes.c_char.in_dll(library, "_FE_DFL_ENV"))
    return read, write, ctypes.c_void_p(-1)  # so on glibc and musl


_HALF_ULP_ABOVE, _HALF_ULP_BELOW, _LEAST_NORMAL = 2.0**-53, 2.0**-54, 2.0**-1022


def is_ieee() -> bool:
    """Whether the thread rounds to nearest and keeps subnormals, found by computing, which is faster than to ask.

    Example:
        >>> is_ieee()
        True
    """
    # Halfway cases next to 1 tell the rounding; flushed results and flushed operands both compare as zero.
    return 1.0 + _HALF_ULP_ABOVE == 1.0 == 1.0 - _HALF_ULP_BELOW and 0.5 * _LEAST_NORMAL > 0.0


@contextmanager
def ieee_state() -> Iterator[None]:
    """Inside, arithmetic rounds to nearest and keeps subnormals; afterwards the thread has its own state again.

    Example:
        >>> import numpy as np
        >>> with ieee_state():
        ...     print(np.float32(1) + np.float32(2.0**-25))
        1.0
    """
    found = _library()
    if found is None:
        yield
        return
    read, write, default = found
    outer = ctypes.create_string_buffer(_ROOM)
    read(outer)
    write(default)
    try:
        yield
    finally:
        write(outer)


def in_ieee_state(function: Callable[P, R]) -> Callable[P, R]:
    """A function that computes as inside :func:`ieee_state`, whatever its caller has set.

    Example:
        >>> import numpy as np
        >>> print(in_ieee_state(np.float32)(1e-45) > 0)
        True
    """

    @wraps(function)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> R:
        if is_ieee():
            return function(*args, **kwargs)
        with ieee_state():
            return function(*args, **kwargs)

    return wrapped
