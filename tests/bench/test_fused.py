"""The benchmark of multiply-adds: right kernels, one instruction a step; it says where it has nothing to measure."""

import re

import numpy as np
import pytest

import tilekit as tk
from tests.bench.test_elementwise import has_torch
from tests.native.mma_source import instructions, needs_nvdisasm
from tests.nvrtc import needs_nvrtc
from tests.on_gpu import GPUS
from tilekit.bench import fused


@pytest.mark.parametrize("dtype", fused.ROUNDINGS)
def test_chains_are_exact(dtype: str) -> None:
    x = (np.arange(8 * 16) % fused.PERIOD).astype(dtype).reshape(8, 16)
    for rounding in fused.ROUNDINGS[dtype]:
        for steps in fused.STEPS:
            out = np.zeros_like(x)
            tk.launch_tiled(fused.chain(steps, rounding, (4, 8)), dim=(2, 2), inputs=[x], outputs=[out], device="cpu")
            assert out.tolist() == [[2**steps * (n + 1) - 1 for n in row] for row in x.tolist()]
            assert out.tolist() == fused.expected(x, steps).tolist()


@needs_nvrtc
@needs_nvdisasm
@pytest.mark.parametrize(("dtype", "step", "elements"), [("float32", "FFMA.RZ", 1), ("float16", "HFMA2", 2)])
def test_a_step_is_one_instruction_between_wide_reads_and_writes(dtype: str, step: str, elements: int) -> None:
    array = tk.spec(getattr(tk, dtype), shape=(64, 512))
    kernel = fused.chain(8, fused.ROUNDINGS[dtype][-1])
    found = tk.compile(kernel, [array, array], dim=(4, 2), arch="90a", block_dim=256, device="cuda")
    code = instructions(found.cubin)
    each = fused.TILE[0] * fused.TILE[1] // 256
    # The assembler loads constants with HFMA2.MMA as well, and computes two halves with one instruction.
    least = 8 * each // elements
    assert least <= sum(name.removesuffix(".MMA") == step for name in code) <= least + 16
    assert not [name for name in code if re.match(r"[FH](MUL|ADD)", name)]
    wide = each * array.dtype.itemsize // 16
    # Once for tiles that lie inside their arrays, and once for those at an edge.
    assert [name[:3] for name in code if ".128" in name] == ["LDG"] * 2 * wide + ["STG"] * 2 * wide


@pytest.mark.skipif(bool(GPUS) and has_torch(), reason="there is something to measure")
def test_without_a_gpu(capsys: pytest.CaptureFixture[str]) -> None:
    assert fused.main([]) == 1
    assert "needs a GPU and PyTorch" in capsys.readouterr().out


@pytest.mark.parametrize("side", ["0", "100", "-256"])
def test_sides_are_whole_tiles(side: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        fused.main(["--side", side])
    assert "no positive multiple of 256" in capsys.readouterr().err


@pytest.mark.gpu
@pytest.mark.skipif(not (GPUS and has_torch()), reason="needs a CUDA device and PyTorch")
def test_on_a_gpu(capsys: pytest.CaptureFixture[str]) -> None:
    assert fused.main(["--side", "1024"]) == 0
    assert "of the copy" in capsys.readouterr().out
