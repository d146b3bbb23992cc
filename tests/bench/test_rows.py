"""The benchmark of rows: its kernels against formulas, its formulas against each other, and what it tells."""

from __future__ import annotations

import importlib
import json
import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tilekit as tk
from tests import on_gpu
from tests.bench.test_elementwise import has_torch
from tests.on_gpu import GPUS
from tilekit.bench import rows, rows_kernels
from tilekit.bench.formats import FORMATS, largest_error
from tilekit.bench.launches import Turns
from tilekit.bench.report import Report
from tilekit.bench.rounds import Comparison
from tilekit.bench.rows_contenders import OURS
from tilekit.bench.rows_problems import ALL, KINDS, SHAPES, THREADS, Problem, block_for, problems
from tilekit.runtime.adjoint import launch_adjoint

RNG = np.random.default_rng(8)
UNIT = 2.0**-53
DEVICES = ["interpret", pytest.param("cpu", marks=pytest.mark.deep)]
NARROW = {"fp32": np.float32, "bf16": ml_dtypes.bfloat16}


def arrays(kind: str, count: int, columns: int, dtype: Any = np.float64) -> list[Any]:
    """What a kernel of rows reads."""
    shapes = [(count, columns), *[(columns,)] * KINDS[kind].vectors]
    return [RNG.standard_normal(shape).astype(dtype) for shape in shapes]


def textbook(kind: str, x: Any, weight: Any = 1.0, bias: Any = 0.0) -> Any:
    if kind == "softmax":
        e = np.exp(x - x.max(1, keepdims=True))
        return e / e.sum(1, keepdims=True)
    t = x - x.mean(1, keepdims=True) if kind == "layer_norm" else x
    return t / np.sqrt((t * t).mean(1, keepdims=True) + 1e-5) * weight + bias


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("kind", KINDS)
def test_rows_forward_and_backward(kind: str, device: str) -> None:
    """Rows that no block fills, and gradients of what all blocks share, as the formulas give them."""
    given, seed = arrays(kind, 5, 12), RNG.standard_normal((5, 12))
    kernel = KINDS[kind].kernel(tk.float64, tk.float64, 2, 12)
    out, names = np.zeros_like(seed), list(kernel.parameters)
    tk.launch_tiled(kernel, dim=3, inputs=given, outputs=[out], device=device)
    np.testing.assert_allclose(out, textbook(kind, *given), rtol=1e-12)
    assert largest_error([out], KINDS[kind].wanted(*given), UNIT) < 1
    found = dict(zip(names, map(np.zeros_like, given), strict=False))
    launch_adjoint(kernel, 3, [*given, out], {**found, names[-1]: seed.copy()}, device=device)
    for got, (exact, _) in zip(found.values(), KINDS[kind].gradients(seed, *given), strict=True):
        np.testing.assert_allclose(got, exact, rtol=1e-10, atol=1e-13)


@pytest.mark.gpu
@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("kind", KINDS)
def test_rows_on_a_gpu(kind: str, form: str) -> None:
    given = arrays(kind, 6, 40, NARROW[form])
    out = np.zeros_like(given[0])
    kernel = KINDS[kind].kernel(FORMATS[form].dtype, tk.float32, 2, 40)
    on_gpu.launch_tiled(kernel, 3, given, [out])
    exact = KINDS[kind].wanted(*(x.astype(np.float64) for x in given))
    assert largest_error([out.astype(np.float64)], exact, FORMATS[form].unit) < 1


@pytest.mark.gpu
@pytest.mark.parametrize("form", FORMATS)
def test_matrices_on_a_gpu(form: str) -> None:
    matrices(form, on_gpu.launch_tiled)


@pytest.mark.parametrize("form", FORMATS)
def test_matrices(form: str) -> None:
    matrices(form, lambda *given: tk.launch_tiled(*given, device="interpret"))


def matrices(form: str, launch: Any) -> None:
    x = RNG.standard_normal((16, 24)).astype(NARROW[form])
    turned, sums = np.zeros((24, 16), NARROW[form]), np.zeros((2, 24), np.float32)
    launch(rows_kernels.transpose(FORMATS[form].dtype, 8), (2, 3), [x], [turned])
    assert np.array_equal(turned, x.T)
    launch(rows_kernels.column_sum(FORMATS[form].dtype, tk.float32, 4, 8), (2, 3), [x, 2], [sums])
    np.testing.assert_allclose(sums, x.astype(np.float64).reshape(2, 8, 24).sum(1), rtol=1e-5, atol=1e-5)


def test_the_bound_of_errors() -> None:
    """A rounding is allowed, a wrong element or a NaN is not."""
    (x,) = arrays("softmax", 4, 100, np.float32)
    exact = KINDS["softmax"].wanted(x.astype(np.float64))
    rounded = exact[0][0].astype(ml_dtypes.bfloat16).astype(np.float64)
    assert 0.1 < largest_error([rounded], exact, FORMATS["bf16"].unit) <= 1
    assert largest_error([rounded], exact, FORMATS["fp32"].unit) > 10
    for wrong in (math.nan, 0.0, 1.02 * rounded[3, 99]):
        rounded[3, 99] = wrong
        assert largest_error([rounded], exact, FORMATS["bf16"].unit) > 1


def test_all_problems() -> None:
    found = list(problems())
    count = len(KINDS) * len(SHAPES) * len(FORMATS)
    assert [each.way for each in found] == ["forward"] * (count + 3 * len(FORMATS)) + ["backward"] * count
    assert [each.blocks for each in found if each.kind == "softmax" and len(each.blocks) > 1] == [
        tuple((16, threads) for threads in THREADS)
    ] * 2
    assert len({str(each) for each in found}) == len(found)
    assert {each.kind for each in problems([kind for kind in ALL if kind != "threads"])} == {*KINDS, *ALL[3:5]}
    assert block_for((100, 200)) == (16, 128) and block_for((10, 9000)) in ((1, 128), (1, 512))
    assert all(shape[0] % block_rows == 0 for shape, (block_rows, _) in SHAPES.items())


class HostClock:
    """Times on the host, what the first GPU does otherwise."""

    def time(self, run: Any, launches: int) -> float:
        for _ in range(launches):
            run()
        return 1e-3 * launches


def test_turns_go_around() -> None:
    found: list[int] = []
    turns = Turns([lambda: found.append(0), lambda: found.append(1), lambda: found.append(2)])
    for _ in range(4):
        turns()
    assert found == [0, 1, 2, 0]


def test_a_spent_budget_and_a_failure_leave_out_the_rest() -> None:
    now, said, loaded = [0.0], [], []
    comparison = Comparison(budget=10, show=said.append, now=lambda: now[0])

    def load(problem: Problem) -> Any:
        loaded.append(problem.shape)
        now[0] += 8
        raise MemoryError("too little memory")

    asked = [Problem("softmax", "fp32", (2, columns), way) for way in ("forward", "backward") for columns in (1, 2, 3)]
    compiled: list[Any] = []
    rows.run(asked, [], load, comparison, HostClock(), Report("GB/s", []), compiled.append)
    assert loaded == [(2, 1), (2, 2)] and compiled == [asked[:3]]
    assert said[:2] == ["softmax fp32 2x1:", "  left out: MemoryError: too little memory"]
    assert said[4:] == [f"{problem}: left out, the time is spent" for problem in asked[2:]]


def test_json(tmp_path: Path) -> None:
    report = Report("GB/s", ["copy"])
    entries: list[Any] = [SimpleNamespace(by=by, how="", seconds=s, cold=None, error=0.5, note="")
                          for by, s in (("copy", 1e-3), ("tilekit", 2e-3), ("tilekit", None))]  # fmt: skip
    report.add("softmax", entries, 1e9, {"copy": 2e9})
    report.write(tmp_path / "rows.json", "a card")
    found = json.loads((tmp_path / "rows.json").read_text())
    assert found["about"] == "a card"
    assert [row["of"]["copy"] for row in found["rows"]] == [1.0, 0.25, None]
    assert [row.speed for row in report.best()] == [2000.0, 500.0]


@pytest.mark.gpu
@pytest.mark.skipif(not (GPUS and has_torch()), reason="needs a CUDA device and PyTorch")
def test_it_runs(tmp_path: Path) -> None:
    cli = importlib.import_module("tilekit.cli")
    where = ["--shapes", "64x1000", "--rounds", "1", "--json", str(tmp_path / "rows.json")]
    assert cli.main(["bench", "rows", "--kernels", "softmax", "layer_norm", *where]) == 0
    found = json.loads((tmp_path / "rows.json").read_text())["rows"]
    assert len([row for row in found if row["by"] == OURS and not row["note"]]) == 8
