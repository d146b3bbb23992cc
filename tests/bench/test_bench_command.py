"""The options of ``bench rows``, ``bench attention`` and ``bench epilogue``, and what they say of wrong ones."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from tests.nvrtc import needs_nvrtc
from tilekit.bench import attention, epilogue, rows
from tilekit.bench.rounds import Comparison
from tilekit.cli import main

NAMES = ("rows", "attention", "epilogue")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("rows --kernels relu",
         "unknown kernel 'relu'; there are softmax, layer_norm, rms_norm, column_sum, transpose, threads"),
        ("rows --dtypes fp8", "unknown dtype 'fp8'; there are fp32, bf16"),
        ("rows --passes sideways", "unknown pass 'sideways'; there are forward, backward"),
        ("rows --peers warp", "unknown peer 'warp'; there are torch, triton"),
        ("attention --powers pow", "unknown power 'pow'; there are exp2, exp"),
        ("attention --dtypes fp64", "unknown dtype 'fp64'; there are fp32, bf16"),
        ("attention --length 200", "--length 200 is no positive multiple of 128 queries and 64 keys"),
        ("epilogue --dtype fp16", "unknown dtype 'fp16'; there are fp32, bf16"),
        ("epilogue --gelu relu", "unknown GELU 'relu'; there are erf, tanh"),
        ("epilogue --peers triton", "unknown peer 'triton'; there are torch, compile"),
    ],
)  # fmt: skip
def test_unknown_names_are_told(arguments: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", *arguments.split()]) == 2
    assert capsys.readouterr().err == f"tilekit: {said}\n"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("rows --shapes 64", "argument --shapes: '64' is not 2 positive numbers, such as 64x64"),
        ("rows --blocks 0x128", "argument --blocks: '0x128' is not 2 positive numbers, such as 64x64"),
        ("attention --tiles 64x64", "argument --tiles: '64x64' is not 3 positive numbers, such as 64x64x64"),
    ],
)
def test_extents_are_read(arguments: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["bench", *arguments.split()])
    assert capsys.readouterr().err.endswith(f"error: {said}\n")


@pytest.mark.parametrize("name", NAMES)
def test_what_is_missing_is_told(
    name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    assert main(["bench", name]) == 1
    printed = capsys.readouterr()
    assert not printed.out and printed.err.endswith("python -m pip install 'tilekit-lang[torch]'\n")
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=SimpleNamespace(is_available=lambda: False)))
    assert main(["bench", name]) == 1
    assert capsys.readouterr().err == "tilekit: this benchmark needs a GPU: PyTorch sees no GPU\n"


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[Any]]:
    """What a benchmark is asked for by a command."""

    def ask(module: Any, arguments: str) -> list[Any]:
        found: list[Any] = []
        monkeypatch.setattr(module, "main", lambda *given: found.extend(given))
        assert main(["bench", *arguments.split()]) == 0
        return found

    return ask


def test_options_of_rows(taken: Callable[..., list[Any]]) -> None:
    asked = (
        "rows --kernels softmax --dtypes bf16 --shapes 64x256 --passes forward --blocks 2x32 4x64 --budget 7 --peers"
    )
    (problem,), peers, comparison, json = taken(rows, asked)
    assert (str(problem), problem.blocks) == ("softmax bf16 64x256, 2 blocks", ((2, 32), (4, 64)))
    assert (peers, comparison.budget, comparison.rounds, json) == ([], 7.0, Comparison().rounds, None)
    problems, peers, *_ = taken(rows, "rows")
    assert len(problems) == 66 and peers == ("torch", "triton")


def test_options_of_attention(taken: Callable[..., list[Any]]) -> None:
    problems, tiles, powers, *_ = taken(attention, "attention --backward --heads 2 --length 256 --depths 64")
    assert list(map(str, problems)) == ["attention bf16 2 x 256 x 64", "attention bf16 2 x 256 x 64 backward"]
    assert (tiles, powers) == ([(128, 64, 256)], ("exp2", "exp"))


def test_options_of_the_epilogue(taken: Callable[..., list[Any]]) -> None:
    problem, tiles, backend, peers, *_ = taken(epilogue, "epilogue --dtype fp32 --size 64 --gelu tanh --tiles 16x32x16")
    assert str(problem) == "linear, bias, GELU (tanh), residual fp32 64^3"
    assert (tiles, backend, peers) == ([(16, 32, 16)], "mma", ("torch", "compile"))


@needs_nvrtc
def test_compile_times_need_no_gpu(capsys: pytest.CaptureFixture[str]) -> None:
    assert main("bench epilogue --compile --size 64 --tiles 32x32x32".split()) == 0
    assert capsys.readouterr().out.split()[:4] == ["tile", "plain", "product", "tilekit"]
