"""What was measured of products: rows with ratios, as Markdown, JSON and a picture."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tilekit.bench.gemm_problems import KINDS, Problem
from tilekit.bench.report import markdown as table
from tilekit.bench.rounds import Entry, judge
from tilekit.errors import MissingPackageError

CUBLAS, WARP = "cuBLAS", "Warp"
COLUMNS = 3
"""Of panels in a picture."""
HEAD = ("product", "by", "tile", "TFLOP/s", "of cuBLAS", "of Warp", "first launch (s)", "error", "")


@dataclass(frozen=True)
class Row:
    """One contender on one problem."""

    kind: str
    size: int
    count: int
    by: str
    tile: str
    tflops: float | None
    of_cublas: float | None
    of_warp: float | None
    cold: float | None
    error: float | None
    note: str

    @property
    def problem(self) -> Problem:
        return Problem(self.kind, self.size, self.count)

    @property
    def cells(self) -> tuple[str, ...]:
        """Of a table under :data:`HEAD`."""
        numbers = ((self.tflops, ".1f"), (self.of_cublas, ".2f"), (self.of_warp, ".2f"), (self.cold, ".2f"))
        shown = tuple("" if value is None else format(value, form) for value, form in numbers)
        error = "" if self.error is None else f"{self.error:.1e}"
        return (str(self.problem), self.by, self.tile, *shown, error, self.note)


def rows_of(problem: Problem, entries: Sequence[Entry]) -> list[Row]:
    """A row for each entry; what is wrong has no speed.

    Args:
        problem: What was computed.
        entries: Measured, with their errors.
    """
    for entry in entries:
        judge(entry, KINDS[problem.kind].bound)
    peers = {name: _fastest(entry for entry in entries if entry.by == name) for name in (CUBLAS, WARP)}
    return [_row(problem, entry, peers) for entry in entries]


def _fastest(entries: Iterable[Entry]) -> float | None:
    return min((entry.seconds for entry in entries if entry.seconds is not None), default=None)


def _row(problem: Problem, entry: Entry, peers: dict[str, float | None]) -> Row:
    seconds = entry.seconds
    speed = problem.flops / seconds / 1e12 if seconds else None
    cublas, warp = (peer / seconds if peer and seconds else None for peer in (peers[CUBLAS], peers[WARP]))
    what = problem.kind, problem.size, problem.count
    return Row(*what, entry.by, entry.how, speed, cublas, warp, entry.cold, entry.error, entry.note)


def best(rows: Sequence[Row]) -> list[Row]:
    """Of each problem and contender the fastest row, or the first one where none has run.

    Args:
        rows: In any order; those kept stay in it.
    """
    kept: dict[tuple[Problem, str], Row] = {}
    for row in rows:
        key = (row.problem, row.by)
        if key not in kept or (row.tflops or 0) > (kept[key].tflops or 0):
            kept[key] = row
    return list(kept.values())


def markdown(rows: Sequence[Row]) -> str:
    """A table of the rows.

    Example:
        >>> row = Row("fp32", 64, 1, "cuBLAS", "", 1.0, 1.0, None, None, 1e-6, "")
        >>> print(markdown([row]).splitlines()[-1])
        | fp32 64^3 | cuBLAS |  | 1.0 | 1.00 |  |  | 1.0e-06 |  |
    """
    return table(HEAD, [row.cells for row in rows])


def as_json(rows: Sequence[Row], about: str) -> str:
    """The rows with what they were measured on.

    Args:
        rows: All of them.
        about: The machine and the versions.
    """
    return json.dumps({"about": about, "rows": [asdict(row) for row in rows]}, indent=1)


def picture(rows: Sequence[Row], path: Path) -> None:
    """Draw the fastest of each contender: a panel for each kind of product, in it a group of bars for each product, as
    fractions of cuBLAS's speed where that was measured.

    Args:
        rows: All of them.
        path: Of the file to write; its suffix says what it is.

    Raises:
        MissingPackageError: Matplotlib is not installed.
    """
    try:
        from matplotlib import rc_context
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingPackageError("the picture needs Matplotlib: python -m pip install matplotlib") from error
    shown = [row for row in best(rows) if row.tflops is not None]
    kinds, names = list(dict.fromkeys(row.kind for row in shown)), list(dict.fromkeys(row.by for row in shown))
    down = -(-len(kinds) // COLUMNS) or 1
    figure = Figure(figsize=(14, 3.4 * down), layout="constrained")
    panels: list[Any] = list(figure.subplots(down, COLUMNS, squeeze=False).flat)
    for panel in panels:
        panel.set_axis_off()
    for kind, panel in zip(kinds, panels, strict=False):
        panel.set_axis_on()
        _panel(panel, [row for row in shown if row.kind == kind], names)
        panel.set_title(kind)
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=max(1, len(names)))
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": "tilekit"}):  # text, not outlines; the same file again
        figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)


def _panel(panel: Any, rows: Sequence[Row], names: Sequence[str]) -> None:
    problems, width = list(dict.fromkeys(row.problem for row in rows)), 0.8 / len(names)
    relative = all(row.of_cublas is not None for row in rows)
    for number, name in enumerate(names):
        own = {row.problem: (row.of_cublas if relative else row.tflops) or 0.0 for row in rows if row.by == name}
        places = [at + (number - len(names) / 2 + 0.5) * width for at in range(len(problems))]
        panel.bar(places, [own.get(problem, 0.0) for problem in problems], width, label=name, color=f"C{number}")
    fastest = [max(row.tflops or 0.0 for row in rows if row.problem == problem) for problem in problems]
    names_of = [str(problem).removeprefix(f"{problem.kind} ").replace(" x ", "\nx ") for problem in problems]
    labels = [f"{own}\n{most:.0f}" for own, most in zip(names_of, fastest, strict=True)]
    panel.set_xticks(range(len(problems)), labels, fontsize=7)
    panel.set_ylabel("of cuBLAS's speed" if relative else "TFLOP/s")
    panel.set_xlabel("below each product, the fastest one's TFLOP/s", fontsize=7)
