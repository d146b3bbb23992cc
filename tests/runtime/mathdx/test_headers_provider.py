"""Units from cuBLASDx's headers, by a stand-in for them that NVRTC compiles as it would the real ones."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from typing import Any

import pytest

import tilekit as tk
from tests.native.mma_source import counted, instructions, needs_nvdisasm
from tests.nvrtc import needs_nvrtc
from tests.runtime.mathdx.stand_in_headers import write_headers
from tilekit.codegen.gemm.units import Unit
from tilekit.errors import CompileError
from tilekit.runtime.mathdx import headers, providers
from tilekit.runtime.program import compile_kernel

RING = Unit(64, 32, 16, "F16", "F32", 90, 128, (True, False), (0, 0), (16, 16))
PART = Unit(64, 32, 16, "F64", "F64", 80, 64, (False, True), (72, 40), (16, 8))
ROUNDED = Unit(16, 8, 8, "TF32", "F32", 90, 32, (True, True), (8, 8), (16, 16))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return write_headers(tmp_path)


def test_what_describes_a_unit() -> None:
    assert headers.operators(PART).replace("cublasdx::", "") == (
        "Size<64, 32, 16>() + Precision<double, double, double>() + Type<type::real>() + Function<function::MM>() + "
        "Arrangement<col_major, row_major, row_major>() + Alignment<16, 8, 16>() + SM<800>() + BlockDim<64>() + "
        "experimental::StaticBlockDim() + LeadingDimension<72, 40, 32>() + Block()"
    )
    for unit in (RING, ROUNDED):  # where cuBLASDx chooses, or rows lie side by side
        assert "LeadingDimension" not in headers.operators(unit)
    assert "Precision<cublasdx::tfloat32_t, cublasdx::tfloat32_t, float>" in headers.operators(ROUNDED)
    assert "SM<1010>" in headers.operators(dataclasses.replace(RING, arch=110))  # its number before CUDA 13


def test_each_unit_has_the_layouts_it_was_planned_with() -> None:
    assert "suggest_layout_smem_a" in headers.unit_source(RING) and "suggest_partitioner" in headers.unit_source(RING)
    assert "suggest" not in headers.unit_source(PART)


@needs_nvrtc
@pytest.mark.parametrize("unit", [RING, PART, ROUNDED], ids=str)
def test_a_unit_is_compiled_and_says_how_large_it_is(unit: Unit, root: Path) -> None:
    made = headers.compile_unit(unit, root)
    assert made.version == "cuBLASDx 0.4.7" and made.code
    sizes = {RING: (16, 64 * 16 * 2, 32 * 16 * 2), ROUNDED: (4, 16 * 8 * 4, 8 * 8 * 4)}
    sizes[PART] = (32, (15 * 72 + 64) * 8, (15 * 40 + 32) * 8)
    assert (made.registers, made.bytes_a, made.bytes_b) == sizes[unit]


@needs_nvrtc
def test_what_nvrtc_says_is_passed_on(root: Path) -> None:
    (root / "include/cublasdx.hpp").write_text('#error "no such product"\n')
    with pytest.raises(CompileError, match=f"(?s){RING.name}.*no such product"):
        headers.compile_unit(RING, root)


def test_headers_are_looked_for_in_the_package(tmp_path: Path, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    assert headers.find_headers() == root
    (tmp_path / "nvidia_mathdx-25.6.0.dist-info/RECORD").write_text("")
    with pytest.raises(CompileError, match=r"nvidia-mathdx has no cublasdx\.hpp"):
        headers.find_headers()

    def missing(name: str) -> None:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(headers, "distribution", missing)
    with pytest.raises(CompileError, match=r"nvidia-mathdx has no cublasdx\.hpp"):
        headers.find_headers()


@pytest.fixture
def installed(tmp_path: Path, root: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The stand-in as what is installed, and an empty cache."""
    monkeypatch.syspath_prepend(str(tmp_path))
    found = providers.Found(providers.PROVIDERS[1], "25.6.0")
    monkeypatch.setattr(providers, "find", lambda: found)
    with tk.config.scoped(cache_dir=tmp_path / "cache", gemm="cublasdx"):
        yield


def product(dtype: Any, total: Any) -> tk.Kernel:
    @tk.kernel
    def gemm(a: tk.array2d[dtype], b: tk.array2d[dtype], c: tk.array2d[total], steps: int):
        acc = tk.tile_zeros(shape=(32, 16), dtype=total)
        for s in range(steps):
            x = tk.tile_load(a, shape=(32, 32), offset=(0, s * 32))
            tk.tile_matmul(x, tk.tile_load(b, shape=(32, 16), offset=(s * 32, 0)), acc)
        tk.tile_store(c, acc)

    return gemm


@needs_nvrtc
@pytest.mark.usefixtures("installed")
def test_a_kernel_is_linked_with_units_of_headers() -> None:
    found = compile_kernel(product(tk.bfloat16, tk.float32), device="cuda", arch="80")
    assert [plan.backend for plan in found.plans] == ["cublasdx"]
    assert (found.local_bytes, found.spilled_bytes) == (0, 0)


@needs_nvrtc
@needs_nvdisasm
@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize(("dtype", "letter"), [(tk.float32, "F"), (tk.float64, "D")], ids=str)
def test_multiply_adds_are_one_instruction(dtype: Any, letter: str) -> None:
    """CUTLASS writes them as a product and a sum, which nothing contracts."""
    ops = counted(instructions(compile_kernel(product(dtype, dtype), device="cuda", arch="90a").cubin))
    assert ops[f"{letter}FMA"] >= 8 and not ops[f"{letter}MUL"] and not ops[f"{letter}ADD"]
