"""The benchmark of rows as a whole, with PyTorch, where there is no GPU."""

from __future__ import annotations

from typing import Any

import pytest

import tilekit as tk
from tests.bench.test_rows import HostClock
from tilekit.bench import rows, rows_contenders
from tilekit.bench.report import Report
from tilekit.bench.rounds import Comparison
from tilekit.bench.rows_contenders import COPY, MOST_SETS, OURS, TORCH, Data, contenders, kernel_of
from tilekit.bench.rows_problems import KINDS, Problem, problems


@pytest.fixture
def torch() -> Any:
    return pytest.importorskip("torch")


SMALL = [
    *problems(["softmax", "layer_norm"], ["fp32"], [(8, 24)], blocks=[(2, 32), (2, 64)]),
    *problems(list(KINDS), ["bf16"], [(16, 240)], blocks=[(2, 32)]),
    Problem("column_sum", "bf16", (512, 128)),
    Problem("transpose", "fp32", (64, 128)),
]


@pytest.mark.parametrize("problem", SMALL, ids=str)
def test_contenders_agree_on_the_cpu(problem: Problem, torch: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """All that is measured, launched by tilekit and PyTorch where there is no GPU."""
    monkeypatch.setattr(rows_contenders, "ROTATED", 3 * problem.size)
    said: list[str] = []
    report, comparison = Report("GB/s", rows.REFERENCES), Comparison(rounds=2, show=said.append)
    ahead: list[Any] = []

    def load(problem: Problem) -> Data:
        return Data(torch, problem, "cpu")

    rows.run([problem], ["torch"], load, comparison, HostClock(), report, ahead.append)
    assert ahead == [[problem]]
    assert not [row.note for row in report.rows if row.note]
    ours = max(1, len(problem.blocks))
    assert [row.by.partition(" ")[0] for row in report.rows] == [COPY, *[OURS] * ours, TORCH]
    assert all(row.error <= 1 and row.speed == pytest.approx(problem.moved / 1e6) for row in report.rows[1:])
    assert report.rows[0].speed == pytest.approx(2 * problem.size / 1e6)
    assert not [row.how for row in report.rows if "other" in row.how]
    assert "of copy" in said[-1]


def test_a_launch_gets_its_gradient_again(torch: Any) -> None:
    problem = next(problems(["softmax"], ["fp32"], [(8, 24)], ["backward"], [(2, 32)]))
    data = Data(torch, problem, "cpu")
    entry = list(contenders(data, []))[1].make()
    once = entry.result[0].clone()
    assert entry.most == len(data.xs) == MOST_SETS
    for _ in range(entry.most):
        entry.run()  # the last on the first set again, whose gradient was taken
    assert torch.equal(entry.result[0], once)
    entry.renew()
    for _ in range(entry.most):
        entry.run()
    assert torch.equal(entry.result[0], 2 * once)


def test_what_is_wrong_is_told_and_not_measured(torch: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    kind = KINDS["softmax"]
    monkeypatch.setattr(rows_contenders, "kernel_of", lambda *_: kind.kernel(tk.float32, tk.float32, 1, 24))
    report, problem = Report("GB/s", rows.REFERENCES), Problem("softmax", "fp32", (8, 24), blocks=((2, 32),))
    rows.run([problem], [], lambda each: Data(torch, each, "cpu"), Comparison(1), HostClock(), report, print)
    assert [row.note for row in report.rows] == ["", "wrong: the error is more than 1"]
    assert report.rows[1].speed is None


def test_other_bits_are_told(torch: Any) -> None:
    problem = Problem("softmax", "fp32", (8, 24), blocks=((2, 32), (2, 64)))
    data = Data(torch, problem, "cpu")
    _, *ours = (each.make() for each in contenders(data, []))
    ours[0].result, ours[1].result = [ours[0].result[0].clone()], [ours[1].result[0].clone()]
    ours[1].result[0][7, 23] *= 1 + 2**-23
    assert [data.error_of(each) < 1 for each in ours] == [True, True]
    assert [each.how for each in ours] == ["2x32", "2x64, other bits"]


def test_kernels_are_compiled_ahead(torch: Any) -> None:
    """Launches over no block compile what the measured ones run; one that fails keeps no other from it."""
    kernel_of.cache_clear()
    asked = list(problems(["softmax"], ["fp32"], [(8, 24)], blocks=[(2, 32)]))
    rows.compile_ahead(torch, "cpu", [Problem("softmax", "fp32", (8, 24), blocks=((-1, 32),)), *asked])
    forms = kernel_of("softmax", "fp32", 2, 24).cache
    known = set(forms)
    assert len(known) == 2  # forward and backward
    for problem in asked:
        next(each for each in contenders(Data(torch, problem, "cpu"), []) if each.by == OURS).make()
    assert set(forms) == known
