"""A lock between processes and threads, held on a file. The system frees it when its holder dies."""

from __future__ import annotations

import contextlib
import errno
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

_UNSUPPORTED = frozenset({errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL})
_held: set[int] = set()


@contextlib.contextmanager
def file_lock(path: Path) -> Iterator[bool]:
    """Hold the lock ``path``, waiting for it. Gives False where the file system has no locks (some network ones).

    The file is removed afterwards, so a cache does not fill with them. Raises OSError where it cannot be made.
    """
    descriptor, locked = _acquire(path)
    _held.add(descriptor)
    try:
        yield locked
    finally:
        _held.discard(descriptor)
        if sys.platform != "win32":  # an open file cannot be removed there
            with contextlib.suppress(OSError):
                os.unlink(path)
        _release(descriptor, locked)


def _acquire(path: Path) -> tuple[int, bool]:
    while True:
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o600)
        except FileNotFoundError:  # the folder was cleared away meanwhile
            path.parent.parent.mkdir(mode=0o700, exist_ok=True)
            path.parent.mkdir(mode=0o700, exist_ok=True)
            continue
        try:
            locked = _lock(descriptor)
            if not locked or _is_current(descriptor, path):
                return descriptor, locked
        except BaseException:
            os.close(descriptor)
            raise
        # The former holder removed the file while this process waited for it: the lock is now another file.
        _release(descriptor, locked)


def _is_current(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except FileNotFoundError:
        return False


def _lock(descriptor: int) -> bool:
    if sys.platform == "win32":
        import msvcrt

        while True:
            with contextlib.suppress(OSError):
                msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
                return True
            time.sleep(0.02)
    import fcntl

    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
    except OSError as error:
        if error.errno in _UNSUPPORTED:
            return False
        raise
    return True


def _release(descriptor: int, locked: bool) -> None:
    if locked:
        if sys.platform == "win32":
            import msvcrt

            os.lseek(descriptor, 0, os.SEEK_SET)
            msvcrt.locking(descriptor, msvcrt.LK_UNLCK, 1)
        else:
            import fcntl

            # Explicitly, not by closing alone: a child forked meanwhile has the same open file.
            fcntl.flock(descriptor, fcntl.LOCK_UN)
    os.close(descriptor)


def _close_in_child() -> None:
    """A forked child shares its parent's locks; without this it would keep them should the parent be killed."""
    for descriptor in _held:
        with contextlib.suppress(OSError):
            os.close(descriptor)
    _held.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_close_in_child)
