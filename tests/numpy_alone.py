"""Reference rules by themselves, for tests that hold compiled code to them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tilekit.ir import interpret


@contextmanager
def numpy_alone() -> Iterator[None]:
    """Inside, functions that the interpreter takes from compiled code are NumPy's."""
    hook = interpret.compiled_hook
    interpret.set_compiled_hook(None)
    try:
        yield
    finally:
        interpret.set_compiled_hook(hook)
