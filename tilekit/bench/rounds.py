"""Rounds that alternate between contenders, so that all of them meet the same clocks and the same heat."""

from __future__ import annotations

import importlib
import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol
from weakref import WeakKeyDictionary

ROUNDS = 5
ROUND_SECONDS = 0.01
"""That a contender runs in a round, about."""
MOST_LAUNCHES = 100


@dataclass
class Entry:
    """One way to solve a problem: what launches it, and what is known of it."""

    by: str
    """Whose it is."""
    how: str
    """Its tile or block, or empty."""
    run: Callable[[], object]
    result: Any
    cold: float | None = None
    """Seconds of the first launch, with a compilation."""
    times: list[float] = field(default_factory=list)
    """Seconds of a launch, of each round."""
    error: float | None = None
    note: str = ""
    """What went wrong; such an entry is not measured."""
    renew: Callable[[], object] = lambda: None
    """Gives the launches of a round their inputs again, where they use them up."""
    most: int = MOST_LAUNCHES
    """Launches of a round, at most."""

    @property
    def seconds(self) -> float | None:
        """The median of the rounds."""
        return statistics.median(self.times) if self.times and not self.note else None

    @property
    def name(self) -> str:
        return f"{self.by} {self.how}".rstrip()


Maker = Callable[[], Entry]


@dataclass(frozen=True)
class Contender:
    """An entry that is yet to be made; what that takes, and whether it works, is seen then."""

    by: str
    how: str
    make: Maker


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
            attempt(entry, entry.renew)
            taken = attempt(entry, partial(clock.time, entry.run, count))
            if taken is not None:
                entry.times.append(taken / count)


def _running(entries: Iterable[Entry]) -> Iterable[Entry]:
    return [entry for entry in entries if not entry.note]


def _launches(entry: Entry, clock: Clock) -> int:
    """How many launches make a round; the launch before warms up."""
    clock.time(entry.run, 1)
    once = max(clock.time(entry.run, 1), 1e-9)
    return max(1, min(entry.most, int(ROUND_SECONDS / once)))


def _rotated(entries: list[Entry], by: int) -> list[Entry]:
    at = by % len(entries) if entries else 0
    return entries[at:] + entries[:at]


def judge(entry: Entry, bound: float) -> None:
    """Note that an entry's result is wrong where its error is above the bound, or is no number."""
    if not entry.note and entry.error is not None and not entry.error <= bound:
        entry.note = f"wrong: the error is more than {bound:g}"


@dataclass
class Comparison:
    """Contenders side by side, problem after problem, within a budget of time."""

    rounds: int = ROUNDS
    budget: float = float("inf")
    """Seconds after which nothing more is compiled; what was compiled is still measured."""
    show: Callable[[str], None] = lambda line: print(line, flush=True)
    now: Callable[[], float] = time.perf_counter
    begin: float = field(init=False)

    def __post_init__(self) -> None:
        self.begin = self.now()

    @property
    def spent(self) -> bool:
        """Whether the budget is used up."""
        return self.now() - self.begin > self.budget

    def measured(
        self,
        contenders: Iterable[Contender],
        clock: Clock,
        error_of: Callable[[Entry], float],
        bound: float = float("inf"),
    ) -> list[Entry]:
        """Make each contender, launch it once, check it, and measure those that are right in rounds.

        Args:
            contenders: In the order in which they are made.
            clock: What times launches.
            error_of: The error of an entry's result.
            bound: The largest error of a right result.
        """
        entries = []
        for contender in contenders:
            if self.spent:
                self.show(f"  {contender.by} {contender.how}: left out, the time is spent")
                continue
            entries.append(self._prepared(contender, error_of, bound))
        measure(entries, clock, self.rounds)
        return entries

    def _prepared(self, contender: Contender, error_of: Callable[[Entry], float], bound: float) -> Entry:
        """A contender, compiled, launched once and checked; one that fails notes why."""
        begin = self.now()
        try:
            entry = contender.make()
        except Exception as error:  # a peer that is missing or fails must not keep the others from running
            entry = Entry(contender.by, contender.how, lambda: None, None, note=brief(error))
        else:
            entry.error = attempt(entry, lambda: error_of(entry))
            judge(entry, bound)
        self.show(f"  {entry.name}: {entry.note or 'ready'} after {self.now() - begin:.1f} s")
        return entry


class Graphs:
    """Times launches that a CUDA graph repeats: a small product takes a GPU less time than a launch takes the host."""

    def __init__(self, torch: Any) -> None:
        self.torch = torch
        self.captured: WeakKeyDictionary[Callable[[], object], tuple[int, Any]] = WeakKeyDictionary()

    def time(self, run: Callable[[], object], launches: int) -> float:
        """Seconds of so many launches together, on the current stream, which must not be the default one; a single one
        is not captured.

        Args:
            run: What launches.
            launches: How often it is launched.
        """
        if launches == 1:
            return self._timed(run)
        if self.captured.get(run, (0, None))[0] != launches:
            self.captured[run] = launches, self._capture(run, launches)
        return self._timed(self.captured[run][1].replay)

    def _capture(self, run: Callable[[], object], launches: int) -> Any:
        graph = self.torch.cuda.CUDAGraph()
        graph.capture_begin(capture_error_mode="thread_local")
        try:
            for _ in range(launches):
                run()
        finally:
            graph.capture_end()
        graph.replay()  # the first one loads it
        return graph

    def _timed(self, run: Callable[[], object]) -> float:
        begin, end = (self.torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        run()
        end.record()
        end.synchronize()
        return float(begin.elapsed_time(end)) / 1000


def torch_on_gpu() -> Any:
    """PyTorch, where it sees a GPU.

    Raises:
        ImportError: PyTorch is not installed.
        RuntimeError: PyTorch sees no GPU.
    """
    torch: Any = importlib.import_module("torch")
    if not torch.cuda.is_available():
        raise RuntimeError("PyTorch sees no GPU")
    return torch
