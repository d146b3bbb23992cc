"""The benchmark of products: its kernels run on tensor cores; fakes for GPUs show what is measured and told."""

from __future__ import annotations

import itertools
import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import tilekit as tk
from tilekit.bench import gemm
from tilekit.bench.gemm_contenders import PEERS, WARP_OPTIONS, contenders
from tilekit.bench.gemm_problems import KINDS, Problem, Tile, problems
from tilekit.bench.gemm_report import CUBLAS, WARP, as_json, best, markdown, picture, rows_of
from tilekit.bench.kernels import product_batch, product_loop
from tilekit.bench.rounds import Contender, Entry, Graphs, attempt, measure
from tilekit.cli import main
from tilekit.runtime.program import compile_kernel
from tilekit.runtime.warp_names import import_warp

CASES = [(name, tile) for name, kind in KINDS.items() for tile in kind.tiles]


@pytest.mark.parametrize(("name", "tile"), CASES, ids=str)
def test_every_kernel_is_a_loop_on_tensor_cores(name: str, tile: Tile) -> None:
    kind = KINDS[name]
    kernel = product_loop(tk, kind.dtype, kind.total, tile, kind.precision)
    found = compile_kernel(kernel, device="cuda", arch="90a")
    assert [(plan.backend, plan.ring is not None) for plan in found.plans] == [("mma", True)]
    assert found.arena_bytes == found.plans[0].shared  # nothing else lies in shared memory


@pytest.mark.parametrize("name", KINDS)
def test_a_product_a_block_is_on_tensor_cores(name: str) -> None:
    kind = KINDS[name]
    for size in (32, 64, 128):
        kernel = product_batch(tk, kind.dtype, kind.total, (size, size, size), kind.precision)
        (plan,) = compile_kernel(kernel, device="cuda", arch="90a").plans
        assert (plan.backend, plan.ring is not None) == ("mma", True)


@pytest.mark.parametrize("make", [product_loop, product_batch])
def test_a_backend_is_a_kernels_own_option(make: Any) -> None:
    """Else launches would be timed under the option that holds then, not the one that they were made with."""
    kernel = make(tk, tk.float16, tk.float32, (64, 64, 64), module_options={"gemm": "scalar"})
    with tk.config.scoped(gemm="mma"):
        assert [plan.backend for plan in compile_kernel(kernel, device="cuda", arch="90a").plans] == ["scalar"]


@pytest.mark.parametrize("count", [1, 3])
def test_the_kernels_multiply(count: int) -> None:
    make = product_loop if count == 1 else product_batch
    rng = np.random.default_rng(1)
    a, b = (rng.standard_normal((32 * count, 32)).astype(np.float32) for _ in range(2))
    out = np.full_like(a, np.nan)
    kernel = make(tk, tk.float32, tk.float32, (16, 16, 16) if count == 1 else (32, 32, 32))
    dim, steps = ((2, 2), 2) if count == 1 else ((count,), 1)
    tk.launch_tiled(kernel, dim=dim, inputs=[a, b, steps], outputs=[out], block_dim=32, device="cpu")
    want = np.concatenate([x @ y for x, y in zip(np.split(a, count), np.split(b, count), strict=True)])
    np.testing.assert_allclose(out, want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("make", [product_loop, product_batch])
@pytest.mark.parametrize("tf32", [False, True])
def test_warp_takes_its_kernels(make: Any, tf32: bool) -> None:
    warp = import_warp()
    name = "float32" if tf32 else "float16"
    precision = "tf32" if tf32 else "default"
    kernel = make(warp, getattr(warp, name), warp.float32, (16, 16, 16), precision, **WARP_OPTIONS)
    assert kernel.module.options["enable_backward"] is False
    rng = np.random.default_rng(1)
    a, b = (rng.standard_normal((16, 16)).astype(name) for _ in range(2))
    given = [warp.array(x, dtype=getattr(warp, name), device="cpu") for x in (a, b, np.zeros_like(a))]
    dim = (1, 1) if make is product_loop else (1,)
    warp.launch_tiled(kernel, dim=dim, inputs=[*given[:2], 1], outputs=given[2:], block_dim=32, device="cpu")
    np.testing.assert_allclose(given[2].numpy(), (a.astype("f4") @ b.astype("f4")), rtol=2e-3, atol=2e-3)


class Ticks:
    """A clock that goes on by what each entry takes."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, int]] = []

    def time(self, run: Any, launches: int) -> float:
        name, seconds = run()
        self.calls.append((name, launches))
        return seconds * launches


def entry(by: str, seconds: float, how: str = "", error: float = 1e-7) -> Entry:
    return Entry(by, how, lambda: (by, seconds), None, 0.5, error=error)


def test_rounds_alternate_and_the_median_counts() -> None:
    clock = Ticks()
    varying = itertools.chain([5.0, 1.0], [0.002, 0.004, 0.003, 0.9, 0.001], itertools.repeat(9.0))
    entries = [entry("a", 0.001), Entry("b", "", lambda: ("b", next(varying)), None), entry("c", 1e-6)]
    measure(entries, clock, rounds=5)
    warm = [("a", 1)] * 2 + [("b", 1)] * 2 + [("c", 1)] * 2  # the second tells how many launches are a round
    assert clock.calls[:6] == warm
    assert [name for name, _ in clock.calls[6:15]] == ["a", "b", "c", "b", "c", "a", "c", "a", "b"]
    assert dict(clock.calls[6:9]) == {"a": 10, "b": 1, "c": 100}
    assert entries[1].seconds == 0.003
    assert entries[0].seconds == pytest.approx(0.001)
    with pytest.raises(ValueError, match="0 rounds are too few"):
        measure(entries, clock, rounds=0)


def test_one_that_fails_is_left_out_and_says_why() -> None:
    def breaks() -> Any:
        if len(clock.calls) > 7:
            raise RuntimeError("an illegal address\nand more")
        return "broken", 0.01

    clock = Ticks()
    entries = [entry("a", 0.01), Entry("broken", "", breaks, None), entry("c", 0.01)]
    measure(entries, clock, rounds=3)
    assert entries[1].note == "RuntimeError: an illegal address"
    assert entries[1].seconds is None
    assert [len(each.times) for each in (entries[0], entries[2])] == [3, 3]
    assert attempt(entries[0], lambda: 5) == 5


def test_rows_have_ratios_to_the_fastest_of_each_peer() -> None:
    problem = Problem("fp16", 1024)
    entries = [entry(CUBLAS, 1e-5), entry(WARP, 8e-5), entry("tilekit mma", 4e-5, "64x64x32"),
               entry("tilekit mma", 2e-5, "128x128x32"), entry("Triton", 1e-6, error=0.3)]  # fmt: skip
    measure(entries, Ticks(), 1)
    rows = rows_of(problem, entries)
    fastest = rows[3]
    assert fastest.tflops == pytest.approx(2 * 1024**3 / 2e-5 / 1e12)
    assert (fastest.of_cublas, fastest.of_warp) == (pytest.approx(0.5), pytest.approx(4.0))
    assert rows[4].tflops is None and rows[4].note == "wrong: the error is more than 0.01"
    assert [row.tile for row in best(rows) if row.by == "tilekit mma"] == ["128x128x32"]
    assert "| fp16 1024^3 | tilekit mma | 128x128x32 | 107.4 | 0.50 | 4.00 | 0.50 | 1.0e-07 |  |" in markdown(rows)
    assert json.loads(as_json(rows, "a card"))["rows"][3]["tile"] == "128x128x32"
    assert rows_of(problem, [entry("tilekit mma", 1.0, error=float("nan"))])[0].note.startswith("wrong")


@pytest.mark.parametrize("peers", [True, False])
def test_a_picture_shows_what_has_run(tmp_path: Path, peers: bool) -> None:
    rows = []
    for problem in (Problem("fp32", 64, 3), Problem("fp16", 1024), Problem("fp16", 2048)):
        entries = [entry("tilekit mma", 2e-5), Entry(WARP, "", lambda: None, None, note="missing")]
        entries += [entry(CUBLAS, 1e-5)] if peers else []
        measure(entries, Ticks(), 1)
        rows += rows_of(problem, entries)
    for name in ("gemm.svg", "gemm.png"):
        picture(rows, tmp_path / name)
    drawn = (tmp_path / "gemm.svg").read_text()
    assert {
        word for word in ("fp32", "fp16", "2048^3", "64^3", "x 3", "tilekit mma", CUBLAS, WARP) if f">{word}<" in drawn
    } == ({"fp32", "fp16", "2048^3", "64^3", "x 3", "tilekit mma"} | ({CUBLAS} if peers else set()))
    assert ("of cuBLAS's speed" in drawn) == peers


def test_all_that_can_compete_does() -> None:
    data: Any = None
    square = [(each.by, each.how) for each in contenders(Problem("fp16", 1024), data, ["mma", "scalar"], PEERS)]
    assert [by for by, _ in square] == [CUBLAS, *["tilekit mma"] * 4, "tilekit scalar", *["Triton"] * 3, WARP]
    batch = [(each.by, each.how) for each in contenders(Problem("fp16", 32, 100), data, ["mma"], PEERS)]
    assert batch == [(CUBLAS, ""), ("tilekit mma", "32x32x32"), (WARP, "32x32x32")]
    assert WARP not in {each.by for each in contenders(Problem("tf32x3", 1024), data, ["mma"], PEERS)}
    assert [each.by for each in contenders(Problem("fp64", 1024), data, [], ["cublas"])] == [CUBLAS]
    assert len(list(problems(KINDS, [1024], [32, 64]))) == 3 * len(KINDS)


class Tensor:
    """As much of a tensor as errors are computed from."""

    def __init__(self, values: Any) -> None:
        self.values = np.asarray(values, float)

    def __getitem__(self, part: Any) -> Tensor:
        return Tensor(self.values[part])

    def __sub__(self, other: Tensor) -> Tensor:
        return Tensor(self.values - other.values)

    def double(self) -> Tensor:
        return self

    def abs(self) -> Tensor:
        return Tensor(abs(self.values))

    def max(self) -> float:
        return float(self.values.max())


def test_a_run_goes_on_when_a_peer_or_a_problem_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    def fake_contenders(problem: Problem, data: Any, backends: Any, peers: Any) -> Any:
        def missing() -> Entry:
            raise ImportError("No module named 'triton'")

        yield Contender(CUBLAS, "", lambda: Entry(CUBLAS, "", lambda: ("x", 1e-4), data.exact, 0.1))
        yield Contender("Triton", "64x64x32", missing)
        yield Contender(
            "tilekit mma", "64x64x32", lambda: Entry("tilekit mma", "64x64x32", lambda: ("y", 2e-4), data.a)
        )
        seconds[0] += 100
        yield Contender(WARP, "64x64x64", missing)

    def load(problem: Problem) -> Any:
        if problem.size == 4096:
            raise MemoryError("too little memory")
        return SimpleNamespace(a=Tensor([1.0, 2.001]), exact=Tensor([1.0, 2.0]))

    seconds = [0.0]
    lines: list[str] = []
    monkeypatch.setattr(gemm, "contenders", fake_contenders)
    benchmark = gemm.Benchmark(["fp16"], [4096, 1024], [], budget=50.0, show=lines.append, now=lambda: seconds[0])
    rows = benchmark.run(load, Ticks())
    text = "\n".join(lines)
    assert "left out: MemoryError: too little memory" in text
    assert "Triton 64x64x32: ImportError: No module named 'triton' after" in text
    assert "Warp 64x64x64: left out, the time is spent" in text
    assert [(row.by, row.note) for row in rows] == [
        (CUBLAS, ""), ("Triton", "ImportError: No module named 'triton'"), ("tilekit mma", ""),
    ]  # fmt: skip
    assert rows[2].of_cublas == pytest.approx(0.5)
    assert rows[2].error == pytest.approx(0.0005)


class FakeCuda:
    """PyTorch's module for CUDA, whose events tell how much has run."""

    def __init__(self) -> None:
        self.done, self.captures = 0, 0
        self.captured: int | None = None
        """Launches that are captured, during a capture."""
        cuda = self

        class Event:
            def __init__(self, enable_timing: bool) -> None:
                assert enable_timing

            def record(self) -> None:
                self.at = cuda.done

            def synchronize(self) -> None:
                pass

            def elapsed_time(self, other: Event) -> float:
                return float(other.at - self.at)

        class CUDAGraph:
            def capture_begin(self, capture_error_mode: str) -> None:
                cuda.captured, cuda.captures = 0, cuda.captures + 1

            def capture_end(self) -> None:
                self.launches, cuda.captured = cuda.captured, None

            def replay(self) -> None:
                cuda.done += self.launches

        self.Event, self.CUDAGraph = Event, CUDAGraph

    def launch(self) -> None:
        if self.captured is None:
            self.done += 1
        else:
            self.captured += 1


def test_launches_are_repeated_by_a_graph() -> None:
    cuda = FakeCuda()
    clock, launch, other = Graphs(SimpleNamespace(cuda=cuda)), cuda.launch, lambda: cuda.launch()
    assert clock.time(launch, 1) == 0.001
    assert cuda.captures == 0
    assert [clock.time(launch, 50) for _ in range(3)] == [0.05] * 3
    assert cuda.captures == 1
    assert (clock.time(other, 50), clock.time(launch, 20)) == (0.05, 0.02)
    assert cuda.captures == 3

    def fails() -> None:
        raise RuntimeError("no capture of this")

    with pytest.raises(RuntimeError, match="no capture of this"):
        clock.time(fails, 2)
    assert cuda.captured is None  # the capture was ended


def test_what_is_no_number_is_wrong() -> None:
    assert gemm.error_of(Tensor([1.0, np.nan]), Tensor([1.0, 2.0])) == float("inf")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--kinds", "fp8"], "unknown kind 'fp8'; there are fp16, "),
        (["--batches", "33"], "unknown batch 33; there are 32, 64, 128"),
        (["--peers", "cutlass"], "unknown peer 'cutlass'; there are cublas, triton, warp"),
    ],
)
def test_unknown_names_are_told(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "gemm", *arguments]) == 2
    assert said in capsys.readouterr().err


def test_what_is_missing_is_told_with_what_to_install(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    assert main(["bench", "gemm"]) == 1
    printed = capsys.readouterr()
    assert not printed.out and "pip install 'tilekit-lang[torch]'" in printed.err
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=SimpleNamespace(is_available=lambda: False)))
    assert main(["bench", "gemm"]) == 1
    assert capsys.readouterr().err == "tilekit: this benchmark needs a GPU: PyTorch sees no GPU\n"


@pytest.mark.gpu
def test_it_runs(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    pytest.importorskip("torch")
    where = ["--json", str(tmp_path / "gemm.json")]
    assert main(["bench", "gemm", "--kinds", "fp16", "--sizes", "256", "--batches", "32", "--rounds", "1", *where]) == 0
    rows = json.loads((tmp_path / "gemm.json").read_text())["rows"]
    assert {row["by"] for row in rows if not row["note"]} >= {CUBLAS, "tilekit mma"}
