"""What keeps a compiler or the cache from its work without being their fault: full disks, quotas, too few files."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path

from tilekit.errors import CompileError


class HinderedError(CompileError):
    """The machine, not the compiler, stood in the way. It says nothing lasting about the compiler."""


_DISK = {
    "ENOSPC": "the disk is full",
    "EDQUOT": "the disk quota is used up",
    "EROFS": "the file system is read-only",
    "EFBIG": "a file may not grow so large (ulimit -f)",
}
_ELSEWHERE = ("EACCES", "EPERM", "ENOTDIR", "EISDIR", "EEXIST", "EIO", "ELOOP", "ESTALE", "ENAMETOOLONG")
_ANYWHERE = {
    "EMFILE": "this process has too many files open (ulimit -n)",
    "ENFILE": "the system has too many files open",
    "ENOMEM": "memory has run out",
    "EAGAIN": "no more processes or threads are allowed (ulimit -u)",
}
# zig has names of its own for what the C library says of the same errors.
_ZIG = {
    "NoSpaceLeft": "ENOSPC", "DiskQuota": "EDQUOT", "ReadOnlyFileSystem": "EROFS", "FileTooBig": "EFBIG",
    "ProcessFdQuotaExceeded": "EMFILE", "SystemFdQuotaExceeded": "ENFILE", "OutOfMemory": "ENOMEM",
    "SystemResources": "ENOMEM",
}  # fmt: skip


def _numbers(names: dict[str, str] | tuple[str, ...]) -> dict[int, str]:
    return {number: name for name in names if (number := getattr(errno, name, None)) is not None}


_DISK_ERRNOS = _numbers(_DISK)
_STORAGE_ERRNOS = frozenset(_DISK_ERRNOS) | frozenset(_numbers(_ELSEWHERE))
_HINDRANCES = _DISK | _ANYWHERE
_ERRNOS = _numbers(_HINDRANCES)
_GCC = {"virtual memory exhausted": "ENOMEM", "out of memory": "ENOMEM"}
_TEXTS = {os.strerror(number): name for number, name in _ERRNOS.items() if name != "EAGAIN"} | _GCC | _ZIG


def storage_failure(error: BaseException) -> str | None:
    """What is wrong with the disk (full, read-only, forbidden) where ``error`` is its fault, and not the build's."""
    if isinstance(error, OSError):
        return named(error) if error.errno in _STORAGE_ERRNOS else None
    if isinstance(error, CompileError) and (name := _found(error.message)) in _DISK:
        return _DISK[name]
    return None


def hindrance(error: BaseException | str) -> str | None:
    """What of the machine stood in the way, by an OSError or what a compiler has written; None where nothing did."""
    if isinstance(error, OSError):
        return named(error) if error.errno in _ERRNOS or error.errno in _STORAGE_ERRNOS else None
    name = _found(error) if isinstance(error, str) else None
    return None if name is None else _HINDRANCES[name]


def named(error: OSError) -> str:
    """An OSError in words, with the path that it is about."""
    what = _HINDRANCES.get(_ERRNOS.get(error.errno or 0, ""), error.strerror or str(error))
    return f"{what}: {error.filename}" if error.filename else what


def remedy(folder: Path) -> str:
    """Where files were to be written, how much room there is, and what else can be done."""
    try:
        room = f" ({shutil.disk_usage(folder).free >> 10} KiB are free)"
    except OSError:
        room = ""
    return f"the files lie in {folder}{room}; make room there, or set TILEKIT_CACHE_DIR to a folder with more"


def _found(text: str) -> str | None:
    return next((name for known, name in _TEXTS.items() if known in text), None)
