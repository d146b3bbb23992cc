"""The benchmark of a layer in one kernel as a whole, with PyTorch, where there is no GPU."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from tests.bench.test_rows import HostClock
from tilekit.bench.epilogue import COMPILED, EAGER, GELUS, OURS, PRODUCT, Data, Problem, contenders, work
from tilekit.bench.report import Report, compare
from tilekit.bench.rounds import Comparison


@pytest.fixture
def torch() -> Any:
    return pytest.importorskip("torch")


@pytest.mark.parametrize("gelu", GELUS)
@pytest.mark.parametrize("form", ["fp32", "bf16"])
def test_contenders_agree_on_the_cpu(gelu: str, form: str, torch: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "compile", lambda layer: layer)  # which takes a compiler and half a minute
    report, problem = Report("TFLOP/s", [PRODUCT, EAGER, COMPILED]), Problem(form, 48, gelu)
    competing = partial(contenders, tiles=[(16, 16, 16)], backend="mma", peers=["torch", "compile"])

    def load(problem: Problem) -> Data:
        return Data(torch, problem, "cpu")

    compare([problem], load, competing, work, Comparison(1), HostClock(), report)
    assert [row.by for row in report.rows] == [PRODUCT, OURS, EAGER, COMPILED]
    assert [row.note for row in report.rows] == [""] * 4
    assert all(row.error <= 1 and row.cold > 0 and row.of[PRODUCT] == pytest.approx(1.0) for row in report.rows)
