"""Locks that a forked child finds free: the thread that held one in the parent is not there to give it back."""

from __future__ import annotations

import os
import threading
import weakref


class Lock:
    """A lock that its holder may take again.

    Example:
        >>> lock = Lock()
        >>> with lock, lock:
        ...     print("held")
        held
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        _locks.add(self)

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    def renew(self) -> None:
        """Make it free, whoever held it."""
        self._lock = threading.RLock()


_locks: weakref.WeakSet[Lock] = weakref.WeakSet()


def _after_fork() -> None:
    for lock in list(_locks):
        lock.renew()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
