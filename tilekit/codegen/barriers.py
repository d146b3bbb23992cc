"""When the threads of a block must wait for each other: what they have read and written since they last did."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from tilekit.codegen.storage import Buffer

Place = Buffer | str
"""A tile's memory, or ``ARRAYS``."""
ARRAYS = "arrays"
"""The memory of all arrays: two of them may be the same one."""


def collide(a: Place, b: Place) -> bool:
    """Whether two places share memory."""
    if isinstance(a, Buffer) and isinstance(b, Buffer):
        return a.overlaps(b)
    return a == b


@dataclass(frozen=True)
class Access:
    """What one step of a block reads and writes, each thread another part of it."""

    reads: tuple[Place, ...] = ()
    writes: tuple[Place, ...] = ()


@dataclass
class Pending:
    """What was read and written since the threads last waited."""

    reads: set[Place] = field(default_factory=set)
    writes: set[Place] = field(default_factory=set)

    def conflicts(self, access: Access) -> bool:
        """Whether a thread may not begin the next step before all have done the steps so far."""
        return _meet(self.writes, access.reads) or _meet(self.writes, access.writes) or _meet(self.reads, access.writes)

    def add(self, access: Access) -> None:
        self.reads.update(access.reads)
        self.writes.update(access.writes)

    def clear(self) -> None:
        self.reads.clear()
        self.writes.clear()

    def copy(self) -> Pending:
        return Pending(set(self.reads), set(self.writes))

    def merge(self, other: Pending) -> None:
        self.reads |= other.reads
        self.writes |= other.writes

    def __bool__(self) -> bool:
        return bool(self.reads or self.writes)


def _meet(done: Iterable[Place], next: Iterable[Place]) -> bool:
    return any(collide(a, b) for a in done for b in next)


@dataclass
class Steps:
    """The steps of a block of code as they were emitted, for :func:`verify_barriers`."""

    items: list[Access | Steps | None] = field(default_factory=list)
    """Accesses, parts of the code, and None where the threads wait."""
    kind: str = "once"
    """``"once"``, ``"branch"`` (once or not at all) or ``"loop"`` (any number of times)."""


def verify_barriers(steps: Steps) -> None:
    """Prove that along every path no thread meets what another may still be reading or writing.

    Raises:
        AssertionError: a barrier is missing; this is a fault in tilekit.
    """
    _after(steps, Pending())


def _after(steps: Steps, before: Pending) -> Pending:
    """What is pending after some steps, given what is before them."""
    if steps.kind == "once":
        return _in_order(steps, before)
    entry = before.copy()
    while True:  # what an iteration leaves pending is there when the next one begins
        size = len(entry.reads) + len(entry.writes)
        entry.merge(_in_order(steps, before if steps.kind == "branch" else entry))
        if steps.kind == "branch" or len(entry.reads) + len(entry.writes) == size:
            return entry


def _in_order(steps: Steps, before: Pending) -> Pending:
    pending = before.copy()
    for item in steps.items:
        if item is None:
            pending.clear()
        elif isinstance(item, Steps):
            pending = _after(item, pending)
        else:
            assert not pending.conflicts(item), f"a barrier is missing before {item} after {pending}"
            pending.add(item)
    return pending
