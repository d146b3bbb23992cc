"""Whether a source file still holds what was imported from it."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from types import CodeType, FunctionType

_STARTED = time.time()


def is_stale(function: FunctionType, file: str) -> bool:
    """Whether what stands in a file, where ``function`` was defined, is no longer its source.

    Only files that changed since tilekit was imported are looked at: others are as they were, and import hooks may
    compile something else than what stands there.
    """
    try:
        if os.stat(file).st_mtime < _STARTED:
            return False
        with open(file, "rb") as opened:
            module = compile(opened.read(), file, "exec", dont_inherit=True)
    except OSError:  # a notebook cell, a prompt
        return False
    except (SyntaxError, ValueError):
        return True
    return not any(_same(code, function.__code__) for code in _codes(module))


def _codes(code: CodeType) -> Iterator[CodeType]:
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield constant
            yield from _codes(constant)


def _same(a: CodeType, b: CodeType) -> bool:
    """Whether two codes do the same on the same lines."""
    for name in ("co_firstlineno", "co_code", "co_names", "co_varnames"):
        if getattr(a, name) != getattr(b, name):
            return False
    if len(a.co_consts) != len(b.co_consts):
        return False
    return all(
        _same(x, y)
        if isinstance(x, CodeType) and isinstance(y, CodeType)
        else type(x) is type(y) and repr(x) == repr(y)
        for x, y in zip(a.co_consts, b.co_consts, strict=True)
    )
