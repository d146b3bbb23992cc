"""Random places that the points of a grid touch: what the pass says belongs to one point, no other one touches."""

from __future__ import annotations

import itertools
import linecache
from collections import Counter
from dataclasses import dataclass, replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from tilekit.ir.context import LaunchForm
from tilekit.ir.types import ArrayType, ScalarType, float32, int32
from tilekit.runtime.adjoint import adjoint_of

GRID = (5, 4)
SCALAR = 3
NUMBERS = itertools.count()
STEPS = st.sampled_from([1, -1, 2, 3, -4, 6, 8])
FEW = st.sampled_from([0] * 9 + [1, -1, 2])


@dataclass(frozen=True)
class Place:
    """An index along one axis, and how many elements lie there."""

    factors: dict[str, int]
    constant: int
    divisor: int
    extent: int

    def __str__(self) -> str:
        text = " + ".join([*(f"{by} * {name}" for name, by in self.factors.items() if by), str(self.constant)])
        return f"({text}) // {self.divisor}" if self.divisor > 1 else text

    def touched(self, values: dict[str, int]) -> range:
        sum = self.constant + SCALAR * self.factors["s"] + sum_of(self.factors, values)
        return range(sum // self.divisor, sum // self.divisor + self.extent)


def sum_of(factors: dict[str, int], values: dict[str, int]) -> int:
    return sum(factors[name] * value for name, value in values.items())


@st.composite
def places(draw: st.DrawFn, tile: bool, mover: str) -> Place:
    """Those along one axis, mostly moved by one coordinate."""
    factors = {name: draw(STEPS if name == mover else FEW) for name in "ijks"}
    constant, divisor = draw(st.integers(-2, 4)), draw(st.sampled_from([1] * 12 + [2]))
    return Place(factors, constant, divisor, draw(st.integers(1, 4)) if tile else 1)


@st.composite
def reads(draw: st.DrawFn, tile: bool) -> list[tuple[Place, Place]]:
    """Those of one kernel: most are a first one, a bit further on."""
    one, other = draw(st.permutations("ij"))
    first = (draw(places(tile, one)), draw(places(tile, other)))
    found = [first]
    for _ in range(draw(st.integers(0, 2))):
        near = tuple(replace(place, constant=place.constant + draw(st.integers(0, 2))) for place in first)
        elsewhere = (draw(places(tile, one)), draw(places(tile, other)))
        found.append(draw(st.sampled_from([near, near, near, elsewhere])))
    return found


def kernel(accesses: list[tuple[Place, Place]], loop: range, tile: bool) -> Any:
    """A kernel that reads all the places in each iteration of a loop."""
    lines = ["import tilekit as tk", "@tk.kernel", "def drawn(x: tk.array2d[float], y: tk.array3d[float], s: int):"]
    lines += ["    i, j = tk.tid()", f"    for k in range({loop.start}, {loop.stop}, {loop.step}):"]
    for number, (row, column) in enumerate(accesses):
        shape = f"({row.extent}, {column.extent})"
        element = f"        y[{number}, i, j + 8 * k] = x[{row}, {column}]"
        part = (
            f"        tk.tile_store(y[{number}], tk.tile_load(x, {shape}, ({row}, {column})), (4 * i, 4 * j + 8 * k))"
        )
        lines.append(part if tile else element)
    text, file = "\n".join(lines) + "\n", f"<places {next(NUMBERS)}>"
    linecache.cache[file] = (len(text), None, text.splitlines(True), file)
    names: dict[str, Any] = {}
    exec(compile(text, file, "exec"), names)
    return names["drawn"]


def touched(accesses: list[tuple[Place, Place]], loop: range, i: int, j: int) -> set[tuple[int, int]]:
    """What one point touches."""
    found: set[tuple[int, int]] = set()
    for (row, column), k in itertools.product(accesses, loop):
        values = {"i": i, "j": j, "k": k}
        found.update(itertools.product(row.touched(values), column.touched(values)))
    return found


def form_of(accesses: list[tuple[Place, Place]], loop: range, tile: bool) -> str:
    types = {"x": ArrayType(float32, 2), "y": ArrayType(float32, 3), "s": ScalarType(int32)}
    form = LaunchForm(tile, len(GRID), 8)
    program, _ = adjoint_of(kernel(accesses, loop, tile).trace(types, form), ["x", "y"], form)
    (summed,) = (each for each in program.sums if each.array == "adj_x")
    return summed.form


@pytest.mark.parametrize("tile", [False, True], ids=["elements", "tiles"])
def test_no_two_points_touch_what_is_added_in_place(tile: bool) -> None:
    """And where no two do, most are found."""
    counts: Counter[str] = Counter()

    @settings(max_examples=75, deadline=None, suppress_health_check=list(HealthCheck), database=None, derandomize=True)
    @given(reads(tile), st.sampled_from([range(3), range(40), range(2, -1, -1), range(60, 20, -3)]))
    def run(accesses: list[tuple[Place, Place]], loop: range) -> None:
        points = [touched(accesses, loop, i, j) for i, j in itertools.product(*map(range, GRID))]
        apart = sum(map(len, points)) == len(set().union(*points))
        form = form_of(accesses, loop, tile)
        counts[f"{form}, {'apart' if apart else 'shared'}"] += 1
        assert apart or form != "added in place", (accesses, loop)

    run()
    assert counts["added in place, apart"] > 10 and counts["scattered, shared"] > 10, counts
