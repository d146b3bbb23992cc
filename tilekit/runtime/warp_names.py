"""Warp's host functions under tilekit's name: what is Warp's own, and how Warp is imported.

Warp is imported on first use, by :func:`import_warp` alone.
"""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from collections.abc import Callable, Iterator
from functools import cache, wraps
from pathlib import Path
from typing import Any

from tilekit.errors import KernelAttributeError, MissingPackageError
from tilekit.forks import Lock
from tilekit.ir.types import find_dtype

_warp: Any = None
_import_lock = Lock()


def import_warp() -> Any:
    """The ``warp`` module, initialised without its banner, which Warp prints to stdout.

    The log level is changed for the initialisation only; where the program has initialised Warp already, not at all.

    Raises:
        MissingPackageError: Warp is not installed.
    """
    global _warp
    if _warp is None:
        with _import_lock:
            if _warp is None:
                _warp = _quiet_import()
        _tell_tape()
    return _warp


def _tell_tape() -> None:
    """Let a tape that is active record what Warp does, too."""
    from tilekit.runtime.gradients import watch

    if watch.tape is not None:
        watch.tape.attach()


def _quiet_import() -> Any:
    try:
        import warp
    except ImportError as error:
        if error.name not in ("warp", None):
            raise  # Warp is there, but something that it needs is not
        raise MissingPackageError("this needs NVIDIA Warp, which is not installed: pip install warp-lang") from error
    module: Any = warp
    if not hasattr(module, "ScopedLogLevel"):
        version = getattr(module, "__version__", "unknown")
        raise MissingPackageError(f"this needs warp-lang 1.19 or newer, found {version}: pip install -U warp-lang")
    with module.ScopedLogLevel(module.LOG_WARNING), _without_line("Could not find or load the NVIDIA CUDA driver"):
        module.init()
    return module


@contextlib.contextmanager
def _without_line(text: str) -> Iterator[None]:
    """Inside, lines with ``text`` are left out of what is written to standard error, by native code too.

    Warp writes one where there is no GPU, at every log level; a program that asks for none need not be told.
    """
    try:
        file, kept = tempfile.TemporaryFile(), os.dup(2)  # noqa: SIM115, closed below
    except OSError:  # there is no room for a file, or no standard error
        yield
        return
    with file:
        os.dup2(file.fileno(), 2)
        try:
            yield
        finally:
            os.dup2(kept, 2)
            os.close(kept)
            file.seek(0)
            for line in file:
                if text.encode() not in line:
                    os.write(2, line)


def to_warp_dtype(dtype: Any) -> Any:
    """Warp's type for a dtype of tilekit, Python, NumPy, PyTorch or Warp; anything else, such as a vector, unchanged.

    Example:
        >>> to_warp_dtype(float).__name__
        'float32'
    """
    found = find_dtype(dtype)
    return dtype if found is None else getattr(import_warp(), found.name)


@cache
def _table() -> dict[str, list[str]]:
    text = (Path(__file__).parent / "warp_names.json").read_text(encoding="utf-8")
    table: dict[str, list[str]] = json.loads(text)
    return table


def names() -> list[str]:
    """The names that :func:`lookup` finds, sorted, for ``dir(tilekit)``."""
    table = _table()
    return sorted(table["names"] + table["with_dtype"])


def lookup(name: str) -> Any:
    """Warp's host function or class of this name, where it means the same beside tilekit's kernels.

    Functions that take a dtype accept tilekit's. Warp's kernel language and geometry are not found: they would not work
    with tilekit's kernels.

    Example:
        >>> lookup("get_device")("cpu").alias
        'cpu'

    Raises:
        KernelAttributeError: no such name here.
        MissingPackageError: Warp is not installed.
    """
    table = _table()
    if name in table["names"]:
        return getattr(import_warp(), name)
    if name in table["with_dtype"]:
        return _with_dtype(getattr(import_warp(), name))
    raise KernelAttributeError(f"tilekit has no attribute {name!r}")


@cache
def _with_dtype(function: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(function)
    def converted(warp_dtype: Any) -> Any:
        return function(to_warp_dtype(warp_dtype))

    return converted
