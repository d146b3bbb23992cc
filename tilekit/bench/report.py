"""What was measured of contenders: rows with ratios, as Markdown and JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Protocol, TypeVar

import tilekit as tk
from tilekit.bench.rounds import Clock, Comparison, Contender, Entry, brief
from tilekit.cli.text import table

NONE: Mapping[str, float] = MappingProxyType({})


@dataclass(frozen=True)
class Row:
    """One contender on one problem."""

    problem: str
    by: str
    how: str
    seconds: float | None
    speed: float | None
    """Work of a second, in the report's unit."""
    of: dict[str, float | None]
    """Its speed as a fraction of each reference's."""
    cold: float | None
    """Seconds of the first launch, with a compilation."""
    error: float | None
    """The largest error as a fraction of what is allowed there."""
    note: str


@dataclass
class Report:
    """The rows of a benchmark."""

    unit: str
    """Of speeds, ``"GB/s"`` or ``"TFLOP/s"``."""
    references: Sequence[str]
    """Contenders that the others are compared with, in the order of the columns."""
    rows: list[Row] = field(default_factory=list)

    @property
    def head(self) -> tuple[str, ...]:
        """Above the columns."""
        ratios = (f"of {name}" for name in self.references)
        return ("problem", "by", "how", "us", self.unit, *ratios, "first launch (s)", "error/bound", "")

    def add(self, problem: str, entries: Sequence[Entry], work: float, others: Mapping[str, float] = NONE) -> list[Row]:
        """Add a row for each contender of a problem, and return these.

        Args:
            problem: Its name.
            entries: Measured.
            work: Of a launch: bytes that it must move, or multiplications and additions.
            others: The work of contenders that do other work.
        """
        scale = {"GB/s": 1e9, "TFLOP/s": 1e12}[self.unit]
        speeds = [others.get(each.by, work) / each.seconds / scale if each.seconds else None for each in entries]
        fastest: dict[str, float] = {}
        for entry, speed in zip(entries, speeds, strict=True):
            if speed is not None:
                fastest[entry.by] = max(speed, fastest.get(entry.by, 0.0))
        found = []
        for entry, speed in zip(entries, speeds, strict=True):
            of = {name: speed / fastest[name] if speed and name in fastest else None for name in self.references}
            row = Row(problem, entry.by, entry.how, entry.seconds, speed, of, entry.cold, entry.error, entry.note)
            found.append(row)
        self.rows += found
        return found

    def cells(self, row: Row) -> tuple[str, ...]:
        """Of a table under :attr:`head`."""
        micro = None if row.seconds is None else row.seconds * 1e6
        ratios = [(row.of[name], ".2f") for name in self.references]
        numbers = [(micro, ".1f"), (row.speed, ".0f"), *ratios, (row.cold, ".2f"), (row.error, ".2g")]
        shown = ("" if value is None else format(value, form) for value, form in numbers)
        return (row.problem, row.by, row.how, *shown, row.note)

    def best(self) -> list[Row]:
        """Of each problem and contender the fastest row, or the first one where none has run."""
        kept: dict[tuple[str, str], Row] = {}
        for row in self.rows:
            key = (row.problem, row.by)
            if key not in kept or (row.speed or 0) > (kept[key].speed or 0):
                kept[key] = row
        return list(kept.values())

    def markdown(self) -> str:
        """A table of the best rows.

        Example:
            >>> report = Report("GB/s", ["copy"])
            >>> names = {"copy": 1.0, "tilekit": 2.0}
            >>> entries = [Entry(name, "", print, None, times=[seconds]) for name, seconds in names.items()]
            >>> rows = report.add("softmax", entries, 4e9)
            >>> print(report.markdown())
            | problem | by | us | GB/s | of copy |
            | --- | --- | --- | --- | --- |
            | softmax | copy | 1000000.0 | 4 | 1.00 |
            | softmax | tilekit | 2000000.0 | 2 | 0.50 |
        """
        return markdown(*self.filled(self.best()))

    def show(self, say: Callable[[str], None], rows: Sequence[Row]) -> None:
        """Say what was found of one problem, whose name was said before."""
        head, lines = self.filled(rows)
        say(table(head[1:], [line[1:] for line in lines]))

    def filled(self, rows: Sequence[Row]) -> tuple[list[str], list[list[str]]]:
        """The head and the cells of rows, without columns in which none of these has anything."""
        lines = [self.cells(row) for row in rows]
        kept = [at for at in range(len(self.head)) if any(line[at] for line in lines)]
        return [self.head[at] for at in kept], [[line[at] for at in kept] for line in lines]

    def write(self, path: Path, about: str) -> None:
        """All rows as JSON, with what they were measured on.

        Args:
            path: Of the file to write.
            about: The machine and the versions.
        """
        found = {"about": about, "unit": self.unit, "rows": [asdict(row) for row in self.rows]}
        path.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


class Checked(Protocol):
    """The arrays of a problem, which know its result."""

    def error_of(self, entry: Entry) -> float:
        """The largest error of what an entry has computed, as a fraction of what is allowed there."""
        ...


P = TypeVar("P")
D = TypeVar("D", bound=Checked)


def compare(
    problems: Sequence[P],
    load: Callable[[P], D],
    contenders: Callable[[D], Iterable[Contender]],
    work: Callable[[P], tuple[float, Mapping[str, float]]],
    comparison: Comparison,
    clock: Clock,
    report: Report,
) -> None:
    """Measure problems, and show each as it is done.

    Args:
        problems: In order.
        load: Gives the arrays of a problem.
        contenders: Gives what competes on it.
        work: Of a launch, and of contenders that do other work, as :meth:`Report.add` takes them.
        comparison: How contenders are compared.
        clock: What times launches.
        report: Where the rows go.
    """
    for problem in problems:
        if comparison.spent:
            comparison.show(f"{problem}: left out, the time is spent")
            continue
        comparison.show(f"{problem}:")
        try:
            data = load(problem)
        except Exception as error:  # such as too little memory: the others may still do
            comparison.show(f"  left out: {brief(error)}")
            continue
        entries = comparison.measured(contenders(data), clock, data.error_of, bound=1.0)
        report.show(comparison.show, report.add(str(problem), entries, *work(problem)))


@contextmanager
def reporting(torch: Any, report: Report, json: Path | None) -> Iterator[None]:
    """Names GPU and versions, has everything inside run on a stream of its own, and shows what was found, also where
    it is interrupted.

    Args:
        torch: PyTorch.
        report: Where rows are added inside.
        json: Where all of them go.
    """
    name = torch.cuda.get_device_name(0)
    about = f"{name}, tilekit {tk.__version__}, PyTorch {torch.__version__}"
    print(about, flush=True)
    try:
        with torch.cuda.stream(torch.cuda.Stream()):
            yield
    finally:
        print(report.markdown(), flush=True)
        if json is not None:
            report.write(json, about)


def markdown(head: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """A table in Markdown."""
    every = [head, ("---",) * len(head), *lines]
    return "\n".join(f"| {' | '.join(cell.replace('|', '/') for cell in line)} |" for line in every)
