"""Where the on-disk cache lies, and whether code may be loaded from there."""

from __future__ import annotations

import atexit
import contextlib
import errno
import logging
import os
import shutil
import stat
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from tilekit.config import config
from tilekit.errors import CompileError
from tilekit.forks import Lock
from tilekit.runtime.hindrances import HinderedError, hindrance, named, storage_failure

_log = logging.getLogger("tilekit")
_T = TypeVar("_T")
SUBFOLDERS = ("toolchains", "zig")
"""What lies in the cache's folder beside entries: verdicts on compilers, and zig's own cache."""

_lock = Lock()
_trusted: dict[Path, Path] = {}
_unwritable: set[Path] = set()
_private: dict[int, Path] = {}
_warned: set[str] = set()


def root() -> Path:
    """The cache's folder, created with mode 0700. Every library is loaded from below it.

    A folder that belongs to somebody else, that others may write to or that cannot be made is not used: a private
    folder, removed at exit, takes its place and one warning is logged.
    """
    folder = config.cache_folder()
    with _lock:
        chosen = _trusted.get(folder)
        if chosen is None or not chosen.is_dir():
            reason = _prepare(folder)
            if reason:
                warn_once(f"the cache folder {folder} is not used: {reason}. Compiled kernels are not kept.")
            chosen = _trusted[folder] = private() if reason else folder
        return chosen


def writable() -> Path:
    """Where new files of the cache go: :func:`root`, or a private folder once that could not be written."""
    folder = root()
    return private() if folder in _unwritable else folder


def written(write: Callable[[Path], _T]) -> _T:
    """``write(folder)`` in the cache's folder; where the disk does not let it, in a private one, after one warning.

    Raises HinderedError where neither can be written, naming both; the next call tries both again.
    """
    folder = root()
    refused = None
    if folder not in _unwritable:
        try:
            return write(folder)
        except (OSError, CompileError) as error:
            refused = storage_failure(error)
            if refused is None:
                _name_hindrance(error)
                raise
            _unwritable.add(folder)
            warn_once(f"the cache folder {folder} cannot be written ({refused}). Compiled kernels are not kept.")
    own = private()
    try:
        return write(own)
    except (OSError, CompileError) as error:
        if storage_failure(error) is None:
            _name_hindrance(error)
            raise
        _unwritable.discard(folder)
        tried = [(folder, refused)] if refused else []
        places = ", ".join(f"{place} ({why})" for place, why in [*tried, (own, storage_failure(error))])
        detail = f"\n{error}" if isinstance(error, CompileError) else ""
        raise HinderedError(_NOWHERE.format(places) + detail) from error


_NOWHERE = "no folder for compiled kernels can be written: {}; set TILEKIT_CACHE_DIR to one that can"


def _name_hindrance(error: OSError | CompileError) -> None:
    if isinstance(error, OSError) and (what := hindrance(error)):
        raise HinderedError(f"kernels cannot be compiled now: {what}") from error


def subfolder(name: str) -> Path:
    """One of :data:`SUBFOLDERS` below :func:`writable`, or a private one where that cannot be written."""
    for parent in (writable, private):
        folder = parent() / name
        with contextlib.suppress(OSError):
            folder.mkdir(mode=0o700, exist_ok=True)
            if os.access(folder, os.W_OK) and distrust(folder) is None:
                break
    return folder


def private() -> Path:
    """A folder of this process alone, mode 0700, removed at exit."""
    with _lock:
        folder = _private.get(os.getpid())
        if folder is None or not folder.is_dir():
            try:
                folder = Path(tempfile.mkdtemp(prefix="tilekit-"))
            except OSError as error:
                raise HinderedError(_NOWHERE.format(named(error))) from error
            _private[os.getpid()] = folder
            atexit.register(_remove, os.getpid(), folder)
        return folder


def made(folder: Path) -> Path:
    """A folder of the cache, made where it is not there. Raises OSError where it cannot be made or trusted."""
    with contextlib.suppress(FileExistsError):  # a file that is no folder is distrusted
        folder.mkdir(mode=0o700, exist_ok=True)
    if reason := distrust(folder):
        raise PermissionError(errno.EACCES, reason, str(folder))
    return folder


def distrust(folder: Path) -> str | None:
    """Why code must not be loaded from ``folder``, or None where it is the user's own."""
    status = os.stat(folder)
    if not stat.S_ISDIR(status.st_mode):
        return "it is not a folder"
    if not hasattr(os, "geteuid"):  # Windows: folders below the user's profile are the user's own
        return None
    if status.st_uid != os.geteuid():
        return f"it belongs to user id {status.st_uid}, not to {os.geteuid()} who runs this process"
    if status.st_mode & 0o022:
        return f"other users can write to it (mode {stat.S_IMODE(status.st_mode):03o}); run chmod 700 on it"
    return None


def warn_once(message: str) -> None:
    """Log a warning the first time this process has this message."""
    with _lock:
        if message in _warned:
            return
        _warned.add(message)
    _log.warning("%s", message)


def _prepare(folder: Path) -> str | None:
    try:
        with contextlib.suppress(FileExistsError):  # a file that is no folder is distrusted
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return distrust(folder)
    except OSError as error:
        return f"it cannot be made ({error.strerror or error})"


def _remove(owner: int, folder: Path) -> None:
    if os.getpid() == owner:  # a forked child also runs its parent's exit functions
        shutil.rmtree(folder, ignore_errors=True)
