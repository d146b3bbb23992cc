"""Shared libraries of compiled kernels: loaded, and unloaded when nothing holds them any more."""

from __future__ import annotations

import ctypes
import os
import sys
import weakref
from pathlib import Path

from tilekit.errors import CompileError
from tilekit.runtime.hindrances import hindrance

if sys.platform == "win32":
    from _ctypes import FreeLibrary as _close
else:
    from _ctypes import dlclose as _close

Stamp = tuple[int, int, int, int]


def load_library(path: Path) -> ctypes.CDLL:
    """A library that is unloaded when nothing refers to it any more; its functions do, also while they run.

    ctypes' functions refer to themselves as well, so that is when garbage is next collected.

    Raises:
        CompileError: the system cannot load it; the message says what stands in the way.
    """
    try:
        stamp = _stamp(path)
        library = ctypes.CDLL(str(path))
    except OSError as error:
        what = hindrance(str(error)) or str(error)
        if "failed to map segment" in what:
            what = f"{path.parent} may not hold programs (mounted noexec); set TILEKIT_CACHE_DIR to a folder that may"
        raise CompileError(f"a compiled kernel cannot be loaded: {what}") from error
    release = weakref.finalize(library, _unload, library._handle, path, stamp)
    release.atexit = False  # when threads may be running what is in it
    return library


def _stamp(path: Path) -> Stamp:
    """What tells whether a file is still the same, and its contents too."""
    found = os.stat(path)
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


def _unload(handle: int, path: Path, stamp: Stamp) -> None:
    """Unload a library, but for one whose file was written to since: running its last code would be a bus error."""
    try:
        now = _stamp(path)
    except OSError:  # removed: what is mapped stays whole
        now = stamp
    if now == stamp or now[:2] != stamp[:2]:
        _close(handle)
