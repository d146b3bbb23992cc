"""The on-disk cache of compiled kernels: safe with many processes and threads, killed builders and full disks.

An entry is a folder ``<kind>/<key[:2]>/<key>/`` with the files of one build and ``entry.json``, which says what they
are. It is built under another name and renamed when complete, so an entry exists whole or not at all.
"""

from __future__ import annotations

import contextlib
import datetime
import functools
import hashlib
import json
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tilekit.errors import CompileError, KernelValueError
from tilekit.ir.notices import printable
from tilekit.runtime import store
from tilekit.runtime.keys import key_of as key_of
from tilekit.runtime.locks import file_lock

_ENTRY = "entry.json"
_KIND = re.compile(r"[a-z][a-z0-9_-]*")
_KEY = re.compile(r"[0-9a-f]{16,128}")
_SHARD = re.compile(r"[0-9a-f]{2}")
_verified: dict[str, str] = {}

Build = Callable[[Path], None]


@dataclass(frozen=True)
class Entry:
    """What ``entry.json`` says of one entry."""

    kind: str
    key: str
    path: Path
    created: str
    """UTC, ISO 8601."""
    tilekit: str
    describe: Mapping[str, str]
    """As it may be printed: without control characters."""
    files: Mapping[str, Mapping[str, Any]]
    """Name -> {"size": bytes, "sha256": hex digest}."""

    @property
    def created_at(self) -> str:
        """When, to the second, for people."""
        return self.created[:19].replace("T", " ")

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(int(file["size"]) for file in self.files.values())


def get_or_build(kind: str, key: str, build: Build, describe: Mapping[str, str]) -> Path:
    """The folder of the entry ``key``, made by ``build(folder)`` unless the cache has it whole.

    Among all processes and threads one builds, the others wait for it. What ``build`` raises is raised, and leaves
    nothing behind. A damaged entry is built anew. Where the disk is full or cannot be written, the entry is built in
    a folder of this process and one warning is logged. ``describe`` is kept for :func:`explain`.

    Example:
        >>> from tilekit.config import config
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder, config.scoped(cache_dir=folder):
        ...     key = key_of(source="f", arch=90)
        ...     build = lambda path: (path / "kernel.txt").write_text("built")
        ...     path = get_or_build("cpu", key, build, {"kernel": "f"})
        ...     (path / "kernel.txt").read_text(), len(list_entries())
        ('built', 1)
    """
    if not _KIND.fullmatch(kind) or not _KEY.fullmatch(key):
        raise KernelValueError(f"not a kind and a hexadecimal key of a cache entry: {kind!r}, {key!r}")
    found = _load(_place(store.root(), kind, key))
    if found:
        return found.path
    return store.written(lambda root: _build_once(root, kind, key, build, describe))


def list_entries() -> list[Entry]:
    """All whole entries, the newest first. Damaged ones are left out."""
    entries = [entry for path in _entry_folders(store.root()) if (entry := _read(path))]
    return sorted(entries, key=lambda entry: entry.created, reverse=True)


def sizes() -> dict[str, int]:
    """Bytes in the cache by kind, what compilers keep there (``zig``, ``toolchains``) included."""
    root = store.root()
    return {name: _tree_size(root / name) for name in _kinds(root)}


def explain(key: str) -> str:
    """What the entry is whose key starts with ``key``, one fact a line.

    Raises KernelValueError where no entry or several match.
    """
    matching = [entry for entry in list_entries() if entry.key.startswith(key)]
    if len(matching) != 1:
        found = "no entry" if not matching else f"{len(matching)} entries"
        raise KernelValueError(f"{found} with a key that starts with {key!r} in {store.root()}")
    entry = matching[0]
    lines = [f"{entry.kind} {entry.key}", f"  created: {entry.created} by tilekit {entry.tilekit}"]
    lines += [f"  {name}: {text}" for name, text in entry.describe.items()]
    lines += [f"  {entry.path / name} ({file['size']} bytes)" for name, file in entry.files.items()]
    return "\n".join(lines)


def clear(kind: str | None = None) -> tuple[int, int]:
    """Remove the entries of one kind, or everything. Gives the number of entries and the bytes removed."""
    count = size = 0
    root = store.root()
    for name in _kinds(root):
        if kind in (None, name):
            before = _tree_size(root / name)
            # Locks and unfinished builds of running processes stay: those would fail without them.
            entries = list(_entry_folders(root, name))
            for path in entries:
                _discard(path)
            if name in store.SUBFOLDERS:
                shutil.rmtree(root / name, ignore_errors=True)
            count += sum(not path.exists() for path in entries)
            size += max(0, before - _tree_size(root / name))
    return count, size


def _kinds(root: Path) -> list[str]:
    """The cache's folders below ``root``, which a user may have chosen to hold other things too."""
    return [name for name in _listing(root) if name in store.SUBFOLDERS or any(_entry_folders(root, name))]


def _place(root: Path, kind: str, key: str) -> Path:
    return root / kind / key[:2] / key


def _entry_folders(root: Path, kind: str | None = None) -> Iterator[Path]:
    for name in filter(_KIND.fullmatch, [kind] if kind else _listing(root)):
        for shard in filter(_SHARD.fullmatch, _listing(root / name)):
            for key in filter(_KEY.fullmatch, _listing(root / name / shard)):
                path = root / name / shard / key
                if key.startswith(shard) and path.is_dir():
                    yield path


def _listing(folder: Path) -> list[str]:
    """The names in a folder; none where it is no folder, or is gone: others may be clearing the cache."""
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []


def _build_once(root: Path, kind: str, key: str, build: Build, describe: Mapping[str, str]) -> Path:
    place = _place(root, kind, key)
    for folder in (root / kind, place.parent):
        store.made(folder)
    with file_lock(place.parent / f"{key}.lock") as locked:
        found = _load(place)
        if found:
            return found.path
        if locked:  # whoever began these was killed
            for stale in place.parent.glob(f"{key}.tmp-*"):
                shutil.rmtree(stale, ignore_errors=True)
        temporary = Path(tempfile.mkdtemp(prefix=f"{key}.tmp-", dir=place.parent))
        try:
            build(temporary)
            _write_entry(temporary, kind, key, describe)
            _publish(temporary, place)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
    return place


def _write_entry(folder: Path, kind: str, key: str, describe: Mapping[str, str]) -> None:
    files = {
        path.relative_to(folder).as_posix(): {"size": path.stat().st_size, "sha256": _digest(path)}
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
    if not files:
        raise CompileError(f"the build of {kind} {key} wrote no file")
    entry = {
        "kind": kind,
        "key": key,
        "created": datetime.datetime.now(datetime.UTC).isoformat(timespec="microseconds"),
        "tilekit": tilekit_version(),
        "describe": {str(name): str(value) for name, value in describe.items()},
        "files": files,
    }
    (folder / _ENTRY).write_text(json.dumps(entry, indent=1), encoding="utf-8")


def _publish(temporary: Path, place: Path) -> None:
    try:
        os.rename(temporary, place)
    except OSError:
        if not place.exists():
            raise
        if _load(place):  # without locks two processes may build the same; the first one counts
            return
        _discard(place)
        os.rename(temporary, place)


def _discard(place: Path) -> None:
    """Take an entry out of sight by one rename, then delete it: nobody meets half of one."""
    with contextlib.suppress(OSError):
        aside = Path(tempfile.mkdtemp(prefix=f"{place.name}.tmp-", dir=place.parent))
        os.rename(place, aside / "entry")
        shutil.rmtree(aside, ignore_errors=True)
    _verified.pop(str(place), None)


def _load(place: Path) -> Entry | None:
    """The entry, or None where it is absent or damaged. Digests are compared once per process, sizes always."""
    entry = _read(place)
    if entry is None:
        return None
    text = json.dumps(dict(entry.files), sort_keys=True)
    try:
        for name, file in entry.files.items():
            if (place / name).stat().st_size != file["size"]:
                raise ValueError(f"{name} has another size")
            if _verified.get(str(place)) != text and _digest(place / name) != file["sha256"]:
                raise ValueError(f"{name} has another digest")
    except (OSError, ValueError, KeyError) as error:
        if place.exists():
            store.warn_once(f"the cache entry {place} is damaged ({error}) and is built anew")
        return None
    _verified[str(place)] = text
    return entry


def _read(place: Path) -> Entry | None:
    try:
        text = (place / _ENTRY).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return None
    try:
        data = json.loads(text)
        describe = {printable(name): printable(value) for name, value in data["describe"].items()}
        created, version = printable(data["created"]), printable(data["tilekit"])
        entry = Entry(data["kind"], data["key"], place, created, version, describe, data["files"])
        valid = entry.key == place.name and entry.files and entry.size >= 0
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
    return entry if valid else None


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _tree_size(folder: Path) -> int:
    total = 0
    for path, _, names in os.walk(folder):  # unlike rglob, it passes over folders that vanish meanwhile
        for name in names:
            with contextlib.suppress(OSError):
                total += os.stat(os.path.join(path, name)).st_size
    return total


@functools.cache
def tilekit_version() -> str:
    """The version of the installed distribution, or ``unknown`` in a checkout that was not installed."""
    import importlib.metadata

    try:
        return importlib.metadata.version("tilekit-lang")
    except importlib.metadata.PackageNotFoundError:
        return "unknown"
