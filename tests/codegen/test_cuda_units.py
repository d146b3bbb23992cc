"""The CUDA code of products that cuBLASDx serves, linked with stand-ins for its units."""

from __future__ import annotations

import re
import warnings
from pathlib import Path
from typing import Any

import pytest

import tilekit as tk
from tests.codegen.loops import Tile, product
from tests.native.mma_source import counted, instructions, needs_nvdisasm
from tests.nvrtc import needs_nvrtc
from tests.runtime.mathdx import stand_in
from tilekit.codegen.gemm.units import Unit
from tilekit.errors import CompileError, FallbackWarning, MissingPackageError, PrecisionWarning, TilekitError
from tilekit.runtime.compiled import Compiled
from tilekit.runtime.mathdx import providers, units
from tilekit.runtime.program import compile_kernel


@pytest.fixture(autouse=True)
def cublasdx(monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in.install(monkeypatch)


def kernel(tile: Tile, dtype: Any, order: str = "NN", precision: str = "default", **options: Any) -> tk.Kernel:
    return product(tile, dtype, None, precision, lambda t: t * 0.5, order, **options)


def compiled(kernel: tk.Kernel, arch: str = "90a", gemm: str = "cublasdx") -> Compiled:
    with tk.config.scoped(gemm=gemm):
        return compile_kernel(kernel, device="cuda", arch=arch)


def body_of(found: Compiled) -> str:
    return found.source[found.source.index("TK_FN bool run_block") : found.source.index("return true;")]


def test_a_loop_is_zeros_a_ring_and_a_store() -> None:
    found = compiled(kernel((128, 128, 32), tk.float16))
    (plan,) = found.plans
    name = plan.unit.name
    assert f"TK_GEMM_UNIT({name})  // 128x128x64 F16 NN, 256 threads, sm_90\n" in found.source
    assert "__launch_bounds__(256, 1) tk_launch" in found.source  # else registers are spilled for more blocks
    body = body_of(found)
    calls = re.findall(r"tk::(multiply_ring|store_unit|load|gemm|store)<", body)
    assert calls == ["multiply_ring", "store_unit"]
    assert f"tk::UnitKind<{name}, tk::f32, 64>, L0, " in body
    assert f"typedef tk::UnitLayout<{name}, 128, 128> L0;" in body
    assert f"alignas(16) tk::f32 r0[{name}::registers];" in body
    assert f"tk::UnitOperand<tk::f16, 128, 64, {name}, true, true>" in body
    assert f"tk::UnitOperand<tk::f16, 128, 64, {name}, false, false>" in body


KINDS = [
    ((64, 16, 32), tk.float16, "NN", "default"),
    ((32, 32, 32), tk.bfloat16, "TT", "default"),
    ((16, 32, 16), tk.float32, "NT", "tf32"),
    ((20, 24, 8), tk.float32, "TN", "default"),
    ((16, 32, 16), tk.float64, "NN", "default"),
    ((1, 1, 1), tk.float16, "NN", "default"),
]


@needs_nvrtc
@pytest.mark.parametrize(("tile", "dtype", "order", "precision"), KINDS, ids=str)
def test_loops_are_linked_and_stay_in_registers(tile: Tile, dtype: Any, order: str, precision: str) -> None:
    found = compiled(kernel(tile, dtype, order, precision), arch="80" if dtype is tk.bfloat16 else "90a")
    assert (found.plans[0].backend, found.local_bytes, found.spilled_bytes) == ("cublasdx", 0, 0)
    assert found.registers is not None and 8 <= found.registers <= 255
    assert found.shared_bytes == found.plans[0].shared


@needs_nvrtc
@needs_nvdisasm
def test_sums_do_not_go_through_memory() -> None:
    ops = counted(instructions(compiled(kernel((32, 16, 32), tk.float16)).cubin))
    assert ops["LDGSTS"] and ops["FFMA"] and not {"STL", "LDL", "STS"} & ops.keys()


@needs_nvrtc
@needs_nvdisasm
def test_the_kernels_own_arithmetic_is_not_contracted() -> None:
    @tk.kernel
    def gemm(a: tk.array2d[float], b: tk.array2d[float], c: tk.array2d[float]):
        acc = tk.tile_matmul(tk.tile_load(a, shape=(16, 16)), tk.tile_load(b, shape=(16, 16)))
        tk.tile_store(c, tk.tile_map(lambda x: x * 3.0 + 0.1, acc))

    ops = counted(instructions(compiled(gemm).cubin))
    assert ops["FFMA"] and ops["FMUL"] and ops["FADD"]


@tk.kernel
def in_memory(a: tk.array2d[tk.float16], b: tk.array2d[tk.float16], c: tk.array2d[float], n: int):
    i, j = tk.tid()
    acc = tk.tile_zeros(shape=(32, 32), dtype=float)
    for s in range(n):
        x = tk.tile_map(lambda v: v * tk.float16(2.0), tk.tile_load(a, shape=(32, 64), offset=(i * 32, s * 64)))
        y = tk.tile_load(b, shape=(64, 32), offset=(s * 64, j * 32))
        tk.tile_matmul(
            tk.tile_view(x, offset=(0, 16), shape=(32, 32)), tk.tile_view(y, offset=(0, 0), shape=(32, 32)), acc
        )
    tk.tile_store(c, acc, offset=(i * 32, j * 32))


@needs_nvrtc
@pytest.mark.parametrize("arch", ["75", "90a"])
def test_tiles_are_multiplied_where_they_lie(arch: str) -> None:
    found = compiled(in_memory, arch)
    (plan,) = found.plans
    assert (plan.backend, plan.ring, plan.unit.leading, plan.unit.alignment) == ("cublasdx", None, (64, 32), (16, 16))
    body = body_of(found)
    assert f"tk::multiply<tk::UnitKind<{plan.unit.name}, tk::f32, 32>" in body
    assert body.count("tk::UnitTile<tk::f16>{") == 2
    assert found.local_bytes == 0


@needs_nvrtc
@pytest.mark.parametrize(("dtype", "gemm"), [(tk.float16, "cublasdx"), (tk.float64, "auto")], ids=str)
def test_turing_holds_the_sums_over_the_whole_loop(dtype: Any, gemm: str) -> None:
    found = compiled(kernel((32, 32, 16), dtype), "75", gemm)
    (plan,) = found.plans
    assert (plan.backend, plan.ring.stages, plan.unit.chooses_layout) == ("cublasdx", 2, True)
    assert [name for name, _ in plan.passed_over] == (["mma"] if gemm == "auto" else [])
    assert (
        f"alignas(16) tk::{dtype.short if dtype is tk.float64 else 'f32'} r0[{plan.unit.name}::registers];"
        in found.source
    )
    assert "tk::multiply_ring<" in body_of(found)
    assert found.local_bytes == 0


@needs_nvrtc
def test_products_that_are_alike_share_a_unit() -> None:
    @tk.kernel
    def two(a: tk.array2d[tk.float16], b: tk.array2d[tk.float16], c: tk.array2d[float], n: int):
        first, second = tk.tile_zeros(shape=(16, 16), dtype=float), tk.tile_zeros(shape=(16, 16), dtype=float)
        for s in range(n):
            x = tk.tile_load(a, shape=(16, 32), offset=(0, s * 32))
            tk.tile_matmul(x, tk.tile_load(b, shape=(32, 16), offset=(s * 32, 0)), first)
        for s in range(n):
            x = tk.tile_load(a, shape=(16, 32), offset=(16, s * 32))
            tk.tile_matmul(x, tk.tile_load(b, shape=(32, 16), offset=(s * 32, 0)), second)
        tk.tile_store(c, first)
        tk.tile_store(c, second, offset=(16, 0))

    found = compiled(two)
    assert len(found.plans) == 2 and len(found.generated.units) == 1
    assert found.source.count("TK_GEMM_UNIT(") == 1 and found.local_bytes == 0


def test_a_kernels_own_options_decide() -> None:
    tile = (32, 32, 16)
    own = {"module_options": {"gemm": "cublasdx"}}
    assert compiled(kernel(tile, tk.float16, **own), gemm="auto").plans[0].backend == "cublasdx"
    own = {"module_options": {"enable_mathdx_gemm": False}}
    assert compiled(kernel(tile, tk.float16, **own), gemm="auto").plans[0].backend == "mma"
    with pytest.warns(FallbackWarning, match="the option enable_mathdx_gemm is off"):
        assert compiled(kernel(tile, tk.float16, **own)).plans[0].backend == "scalar"
    own = {"module_options": {"require_gemm": "cublasdx", "enable_mathdx_gemm": False}}
    with pytest.raises(CompileError, match="'cublasdx' is required, but cannot serve: the option enable_mathdx_gemm"):
        compiled(kernel(tile, tk.float16, **own), gemm="auto")


@needs_nvrtc
@pytest.mark.parametrize("kind", [CompileError, MissingPackageError])
def test_what_cublasdx_refuses_is_said_at_the_line_of_the_product(
    kind: type[TilekitError], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As other errors are: with the file, the line and a caret. Of two products it is the one that was refused."""
    refused = (32, 64)

    def refuse(module: str, folder: Path, made_by: str, unit: Unit) -> None:
        if (unit.m, unit.n) == refused:
            raise kind("not this one")
        stand_in.write_unit(unit, folder)

    @tk.kernel
    def two(a: tk.array2d[tk.float16], b: tk.array2d[tk.float16], c: tk.array2d[tk.float16]):
        x = tk.tile_load(a, shape=(32, 16)) * tk.float16(2.0)
        y = tk.tile_load(b, shape=(16, 64)) * tk.float16(2.0)
        tk.tile_store(c, tk.tile_matmul(x, tk.tile_view(y, (0, 0), (16, 32))))
        tk.tile_store(c, tk.tile_matmul(x, y), offset=(32, 0))

    monkeypatch.setattr(units, "_work", refuse)
    with tk.config.scoped(cache_dir=tmp_path), pytest.raises(kind) as found:
        compiled(two).build()
    location = found.value.location
    assert location is not None and location.file == __file__ and "not this one" in found.value.message
    assert str(found.value).splitlines()[-2:] == [
        "    tk.tile_store(c, tk.tile_matmul(x, y), offset=(32, 0))",
        "                     ^^^^^^^^^^^^^^^^^^^^",
    ]


def test_what_is_missing_where_it_is_required_is_said_at_the_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(providers, "find", lambda: providers.Found(why_not=MISSING))
    with tk.config.scoped(require_gemm="cublasdx"), pytest.raises(CompileError, match=MISSING) as found:
        compiled(kernel((32, 32, 16), tk.float16), gemm="auto")
    assert "tile_matmul" in str(found.value).splitlines()[1] and str(found.value).splitlines()[2].endswith("^")


@needs_nvrtc
def test_what_is_missing_since_the_plan_was_made_is_said_at_the_line(monkeypatch: pytest.MonkeyPatch) -> None:
    made = compiled(kernel((32, 32, 16), tk.float16))
    monkeypatch.setattr(providers, "find", lambda: providers.Found(why_not=MISSING))
    with pytest.raises(MissingPackageError, match=MISSING) as found:
        made.build()
    assert "tile_matmul" in str(found.value).splitlines()[1]


def test_without_it_tensor_cores_still_serve_tf32() -> None:
    with tk.config.scoped(enable_mathdx_gemm=False), warnings.catch_warnings():
        warnings.simplefilter("error")
        found = compiled(kernel((64, 64, 16), tk.float32, precision="tf32"), gemm="auto")
    assert found.plans[0].backend == "mma" and "Tf32" in found.source


MISSING = "cuBLASDx is not installed: do this"


@pytest.mark.parametrize("gemm", ["auto", "cublasdx"])
def test_where_it_is_missing_scalar_serves_and_says_what_to_do(gemm: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(providers, "find", lambda: providers.Found(why_not=MISSING))
    with pytest.warns(FallbackWarning, match=MISSING) as told:
        assert compiled(kernel((32, 32, 16), tk.float64), "75", gemm).plans[0].backend == "scalar"
    assert len(told) == 1


def test_what_is_more_precise_than_asked_for_is_said() -> None:
    @tk.kernel
    def gemm(a: tk.array2d[float], c: tk.array2d[float]):
        x = tk.tile_load(a, shape=(32, 32)) * 2.0
        tk.tile_store(c, tk.tile_matmul(x, x, precision="tf32"))

    with pytest.warns(PrecisionWarning, match="on sm_90a, as cuBLASDx cuts bits off"):
        assert compiled(gemm).plans[0].unit.precision == "F32"
