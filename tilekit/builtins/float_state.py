"""The thread's floating-point state: to nearest and with subnormals while NumPy stands in for a kernel."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

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
