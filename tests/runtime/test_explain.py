from __future__ import annotations

from typing import Any

import pytest

import tilekit as tk
from tests.nvrtc import needs_nvrtc
from tests.runtime.test_compile import gathers, point, product
from tilekit.errors import MissingPackageError
from tilekit.runtime.cuda import nvrtc


def explained(capsys: pytest.CaptureFixture[str], kernel: Any, **options: Any) -> list[str]:
    tk.explain(kernel, **options)
    return capsys.readouterr().out.splitlines()


@needs_nvrtc
def test_all_that_is_known(capsys: pytest.CaptureFixture[str]) -> None:
    with tk.config.scoped(gemm="scalar"):
        lines = explained(capsys, product)
        compiled = tk.compile(product)
    start = product.function.__code__.co_firstlineno
    file = product.function.__code__.co_filename
    assert lines[0] == f"kernel product ({file}:{start}), launch_tiled, compiled for sm_90"
    assert lines[1:3] == ["  blocks: dim[0] * dim[1]; 128 threads each", "  products:"]
    assert lines[3].startswith(f"    line {start + 7}: 16x16x16, f32 x f32 -> f32: scalar (")
    tiles = [" ".join(line.split()) for line in lines[5 : lines.index(f"  barriers: {compiled.barriers}")]]
    assert sorted(tiles) == [
        f"1024 bytes tile<16x16xf32> registers, 4 elements a thread line {start + 3}",
        f"1024 bytes tile<16x16xf32> shared memory at 0 line {start + 7}",
        f"1024 bytes tile<16x16xf32> shared memory at 1024 line {start + 5}",
        f"1024 bytes tile<16x16xf32> shared memory at 2048 line {start + 6}",
    ]
    assert "  shared memory: 3072 of 232448 bytes" in lines
    assert f"  registers: {compiled.registers} of 255 a thread" in lines
    assert "  spills: 0 bytes; memory of a thread: 0 bytes" in lines
    assert lines[-4:] == ["  assumed of the arrays:", *(f"    {text}" for text in compiled.assumptions)]


def test_without_nvrtc_the_rest_is_known(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def absent() -> Any:
        raise MissingPackageError("compiling for CUDA needs NVRTC")

    monkeypatch.setattr(nvrtc, "version", absent)
    lines = explained(capsys, product, arch=75)
    assert "  shared memory: 6144 of 65536 bytes" in lines
    assert "  registers: not known: compiling for CUDA needs NVRTC" in lines


def test_on_the_cpu(capsys: pytest.CaptureFixture[str]) -> None:
    lines = explained(capsys, product, device="cpu")
    assert lines[0].endswith("launch_tiled, compiled for the CPU")
    assert lines[-1] == "  memory of a block: 3072 bytes"
    assert not any("barriers" in line or "assumed" in line for line in lines)


def test_tiles_of_lanes_have_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    lines = explained(capsys, gathers, device="cpu", tiled=False, block_dim=32)
    assert "  products: none" in lines
    assert not any("no line" in line for line in lines)
    assert "  tiles: none" in explained(capsys, point, device="cpu", tiled=False)
