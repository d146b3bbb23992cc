"""The benchmark of products: all its kernels run on tensor cores, and it says what it needs."""

from __future__ import annotations

import pytest

import tilekit as tk
from tilekit.bench.gemm import KINDS, Tile
from tilekit.bench.kernels import product_loop
from tilekit.cli import main
from tilekit.runtime.program import compile_kernel

CASES = [(name, tile) for name, kind in KINDS.items() for tile in kind.tiles]


@pytest.mark.parametrize(("name", "tile"), CASES, ids=str)
def test_every_kernel_is_a_loop_on_tensor_cores(name: str, tile: Tile) -> None:
    kind = KINDS[name]
    total = tk.float64 if kind.dtype is tk.float64 else tk.float32
    kernel = product_loop(tk, kind.dtype, total, tile, kind.precision)
    found = compile_kernel(kernel, device="cuda", arch="90a")
    assert [(plan.backend, plan.ring is not None) for plan in found.plans] == [("mma", True)]
    assert found.arena_bytes == found.plans[0].shared  # nothing else lies in shared memory


def test_unknown_kinds_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "gemm", "--kinds", "fp8"]) == 2
    assert "unknown kind 'fp8'; there are fp16, " in capsys.readouterr().out
