"""Why a kernel was compiled although it had been before: what its cache entry has other than an earlier one."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping

from tilekit.errors import KernelValueError
from tilekit.runtime import store
from tilekit.runtime.cache import Entry, list_entries
from tilekit.runtime.keys import DIGITS

_NOT_COMPARED = ("kernel",)
_SOURCES = ("kernel.cpp", "kernel.cu")
_LINE = re.compile(r'#line (\d+) "(.*)"')


def why(name: str) -> str:
    """Why a kernel was compiled: the newest of that name, or the entry whose key starts with these digits.

    Returns:
        What differs from the most similar entry of that kernel that was there before, one fact a line.

    Raises:
        KernelValueError: there is no such entry, or several keys start so.
    """
    entries = list_entries()
    found = [entry for entry in entries if entry.describe.get("kernel") == name][:1]
    found = found or [entry for entry in entries if entry.key.startswith(name)]
    if len(found) != 1:
        count = f"{len(found)} entries" if found else "no entry"
        raise KernelValueError(f"{count} of a kernel {name!r}, or with a key that starts so, in {store.root()}")
    (entry,) = found
    kernel, place = entry.describe.get("kernel", ""), entries.index(entry)
    earlier = [other for other in entries[place + 1 :] if other.describe.get("kernel") == kernel]
    if not earlier:
        return f"{_named(entry)}: the first of kernel {kernel!r} in this cache"
    closest = min(earlier, key=lambda other: len(list(_differences(entry, other))))
    reasons = list(_differences(entry, closest)) or ["nothing that is recorded differs: the earlier one was damaged"]
    return "\n".join([f"{_named(entry)}: not as {_named(closest)}:", *(f"  {reason}" for reason in reasons)])


def reason(kind: str, describe: Mapping[str, str]) -> str:
    """Why a kernel with this description is being compiled, in a few words."""
    kernel = describe.get("kernel")
    earlier = [e for e in list_entries() if e.kind == kind and e.describe.get("kernel") == kernel]
    changes = [[name for name in describe if entry.describe.get(name) != describe[name]] for entry in earlier]
    if not changes:
        return "for the first time"
    names = min(changes, key=len)
    return f"changed: {', '.join(names)}" if names else "its code has changed"


def _named(entry: Entry) -> str:
    return f"{entry.kind} {entry.key[:DIGITS]} of {entry.created_at}"


def _differences(new: Entry, old: Entry) -> Iterator[str]:
    if new.kind != old.kind:
        yield f"it is for {new.kind!r}, that was for {old.kind!r}"
        return
    if new.tilekit != old.tilekit:
        yield f"tilekit: {new.tilekit}, was {old.tilekit}"
    for name in dict.fromkeys([*new.describe, *old.describe]):
        text, before = new.describe.get(name, "none"), old.describe.get(name, "none")
        if name not in _NOT_COMPARED and text != before:
            yield f"{name}: {text}, was {before}"
    yield from _code(new, old)


def _code(new: Entry, old: Entry) -> Iterator[str]:
    for name in _SOURCES:
        digests = [entry.files.get(name, {}).get("sha256") for entry in (new, old)]
        if digests[0] == digests[1]:
            continue
        try:
            texts = [(entry.path / name).read_text(encoding="utf-8") for entry in (new, old)]
        except (OSError, UnicodeDecodeError):
            yield "the emitted code"
            return
        yield _first_difference(*texts)


def _first_difference(new: str, old: str) -> str:
    """Where two emitted codes part, with the line of the kernel that was being emitted."""
    place = ""
    for line, before in itertools.zip_longest(new.splitlines(), old.splitlines(), fillvalue=""):
        if line != before:
            return f"the emitted code{place}: {line.strip() or 'nothing'!r}, was {before.strip() or 'nothing'!r}"
        found = _LINE.match(line)
        if found:
            place = f" of {found[2]}:{found[1]}"
    return "the emitted code"
