"""The benchmark of attention as a whole, with PyTorch, where there is no GPU."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from tests.bench.test_rows import HostClock
from tilekit.bench.attention import POWERS, SDPA, Data, Problem, contenders, work
from tilekit.bench.report import Report, compare
from tilekit.bench.rounds import Comparison


@pytest.fixture
def torch() -> Any:
    return pytest.importorskip("torch")


@pytest.mark.parametrize("way", ["forward", "backward"])
@pytest.mark.parametrize("form", ["fp32", "bf16"])
def test_contenders_agree_on_the_cpu(form: str, way: str, torch: Any) -> None:
    report, problem = Report("TFLOP/s", [SDPA]), Problem(form, 8, 3, 32, way)
    competing = partial(contenders, tiles=[(16, 8, 32)], powers=POWERS)

    def load(problem: Problem) -> Data:
        return Data(torch, problem, "cpu")

    compare([problem], load, competing, work, Comparison(1), HostClock(), report)
    assert [row.by for row in report.rows] == [SDPA, "tilekit exp2", "tilekit exp"]
    assert [row.note for row in report.rows] == [""] * 3
    assert all(row.error <= 1 and row.of[SDPA] == pytest.approx(1.0) for row in report.rows)


def test_what_is_not_finite_anywhere_is_wrong(torch: Any) -> None:
    data = Data(torch, Problem("fp32", 8, 3, 32), "cpu")
    entry = next(iter(contenders(data, [], []))).make()
    assert data.error_of(entry) < 1
    entry.result[0][2, 31, 7] = float("nan")  # in a head that is compared with nothing
    assert data.error_of(entry) == float("inf")
