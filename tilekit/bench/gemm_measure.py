"""Rounds that alternate between contenders, so that all of them meet the same clocks and the same heat."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

ROUNDS = 5
ROUND_SECONDS = 0.01
"""That a contender runs in a round, about."""
MOST_LAUNCHES = 100


@dataclass
class Entry:
    """One way to compute a product: what launches it, and what is known of it."""

    by: str
    """Whose it is."""
    how: str
    """Its tile, or empty."""
    run: Callable[[], object]
    result: Any
    cold: float | None = None
    """Seconds of the first launch, with a compilation."""
    times: list[float] = field(default_factory=list)
    """Seconds of a launch, of each round."""
    error: float | None = None
    note: str = ""
    """What went wrong; such an entry is not measured."""

    @property
    def seconds(self) -> float | None:
        """The median of the rounds."""
        return statistics.median(self.times) if self.times and not self.note else None

    @property
    def name(self) -> str:
        return f"{self.by} {self.how}".rstrip()


class Clock(Protocol):
    """Times launches."""

    def time(self, run: Callable[[], object], launches: int) -> float:
        """Seconds of so many launches together."""
        ...


def attempt(entry: Entry, act: Callable[[], Any]) -> Any:
    """What an action of an entry gives; where it fails, the entry notes why and is left out from then on."""
    try:
        return act()
    except Exception as error:  # of another library's as well: one that fails must not keep the others from running
        entry.note = brief(error)
        return None


def brief(error: BaseException) -> str:
    """The first line of an error, with its class; the second one too where that is what it announces.

    Example:
        >>> brief(ValueError("no such tile\\nhere")), brief(ValueError("in line 3:\\n\\nno such tile"))
        ('ValueError: no such tile', 'ValueError: in line 3: no such tile')
    """
    lines = [line.strip() for line in str(getattr(error, "message", None) or error).splitlines() if line.strip()]
    text = " ".join(lines[: 2 if lines and lines[0].endswith(":") else 1])
    return f"{type(error).__name__}: {text[:240]}" if text else type(error).__name__


def measure(entries: Sequence[Entry], clock: Clock, rounds: int = ROUNDS) -> None:
    """Time the entries in rounds, each of which begins with another one.

    Args:
        entries: Those with a note are left out.
        clock: What times launches.
        rounds: How often each is timed, after a launch that warms up.

    Raises:
        ValueError: fewer than one round was asked for.
    """
    if rounds < 1:
        raise ValueError(f"{rounds} rounds are too few; at least 1 is needed")
    launches = {id(entry): attempt(entry, partial(_launches, entry, clock)) for entry in _running(entries)}
    for number in range(rounds):
        for entry in _rotated(list(_running(entries)), number):
            count = launches[id(entry)]
            taken = attempt(entry, partial(clock.time, entry.run, count))
            if taken is not None:
                entry.times.append(taken / count)


def _running(entries: Iterable[Entry]) -> Iterable[Entry]:
    return [entry for entry in entries if not entry.note]


def _launches(entry: Entry, clock: Clock) -> int:
    """How many launches make a round; the launch before warms up."""
    clock.time(entry.run, 1)
    once = max(clock.time(entry.run, 1), 1e-9)
    return max(1, min(MOST_LAUNCHES, int(ROUND_SECONDS / once)))


def _rotated(entries: list[Entry], by: int) -> list[Entry]:
    at = by % len(entries) if entries else 0
    return entries[at:] + entries[:at]
