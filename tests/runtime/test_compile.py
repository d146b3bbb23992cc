"""``tk.compile``: for GPUs that are not there, and for the CPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilekit as tk
from tests.nvrtc import needs_nvrtc
from tilekit.config import config
from tilekit.errors import CompileError, KernelTypeError, KernelValueError, MissingPackageError
from tilekit.ir.sizes import CeilDiv, Dim, PointBlocks, Product
from tilekit.runtime.compile import prepare
from tilekit.runtime.cuda import build, nvrtc
from tilekit.runtime.cuda.elf import read_resources


@tk.kernel
def product(a: tk.array2d[float], b: tk.array2d[float], out: tk.array2d[float]):
    i, j = tk.tid()
    acc = tk.tile_zeros(shape=(16, 16), dtype=float)
    for k in range(a.shape[1] / 16):
        x = tk.tile_load(a, shape=(16, 16), offset=(i * 16, k * 16))
        y = tk.tile_load(b, shape=(16, 16), offset=(k * 16, j * 16))
        tk.tile_matmul(x, y, acc)
    tk.tile_store(out, acc, offset=(i * 16, j * 16))


@tk.kernel
def generic(x: tk.array(dtype=Any, ndim=2), factor: Any):
    i, j = tk.tid()
    tk.tile_store(x, tk.tile_load(x, shape=(4, 8), offset=(i * 4, j * 8)) * factor, offset=(i * 4, j * 8))


@tk.kernel
def point(a: tk.array3d[float]):
    i, j, k = tk.tid()
    a[i, j, k] = 2.0 * a[i, j, k]


@tk.kernel
def gathers(a: tk.array1d[float], out: tk.array1d[float]):
    i = tk.tid()
    tk.tile_atomic_add(out, tk.tile_sum(tk.tile(a[i])))


@tk.kernel
def third(a: tk.array2d[float]):
    i, j, lane = tk.tid()
    a[i, j] = float(lane)


@tk.kernel
def torn(a: tk.array3d[float]):
    i, j = tk.tid()
    x, y, z = tk.tid()
    a[i, j, z] = float(x + y)


@tk.kernel
def edge(a: tk.array1d[float], out: tk.array1d[float]):
    t = tk.tile_load(a, shape=SIZE)
    tk.tile_store(out, tk.tile_sum(t))
    tk.tile_store(out, t)


SIZE = 227 * 256
"""Of four bytes each: all that a block on sm_90 can have."""


@needs_nvrtc
def test_all_that_a_compiled_kernel_tells() -> None:
    with tk.config.scoped(gemm="scalar"):
        compiled = tk.compile(product)
    assert isinstance(compiled.cubin, bytes)
    assert compiled.cubin.startswith(b"\x7fELF")
    assert "func product(" in compiled.ir
    assert "__launch_bounds__(128) tk_launch" in compiled.source
    (resources,) = read_resources(compiled.cubin).values()
    assert compiled.registers == resources.registers > 0
    assert compiled.shared_bytes == compiled.arena_bytes + resources.shared_bytes == 3 * 16 * 16 * 4
    assert (compiled.spilled_bytes, compiled.local_bytes) == (0, 0)
    assert (compiled.threads, compiled.arch, compiled.device) == (128, "90", "cuda")
    assert [plan.backend for plan in compiled.plans] == ["scalar"]
    assert compiled.barriers > 0
    (launch,) = compiled.launches
    assert launch == type(launch)("product", Product(Dim(0), Dim(1)), 128, compiled.shared_bytes)
    assert (compiled.folder / build.CUBIN).read_bytes() == compiled.cubin
    with pytest.raises(CompileError, match="'product' is compiled for sm_90: it has a cubin, no library"):
        compiled.library


def test_for_the_cpu() -> None:
    compiled = tk.compile(product, device="cpu")
    assert compiled.library.is_file()
    assert compiled.folder == compiled.library.parent
    assert compiled.shared_bytes == compiled.arena_bytes == 3 * 16 * 16 * 4
    assert compiled.registers is compiled.spilled_bytes is compiled.local_bytes is None
    assert (compiled.threads, compiled.arch, compiled.assumptions) == (1, "", ())
    with pytest.raises(CompileError, match="'product' was compiled for the CPU: it has a library, no cubin"):
        compiled.cubin


@needs_nvrtc
def test_the_architecture_is_the_one_asked_for() -> None:
    plain, accelerated, old = (tk.compile(product, arch=arch) for arch in (90, "90a", "sm_80"))
    assert (plain.arch, accelerated.arch, old.arch) == ("90", "90a", "80")
    assert len({plain.cubin, accelerated.cubin, old.cubin}) == 3
    with pytest.raises(CompileError, match="makes no code for sm_35; it knows "):
        tk.compile(product, arch=35)


@needs_nvrtc
def test_a_list_is_compiled_in_the_options_of_the_caller(tmp_path: Any) -> None:
    with config.scoped(cache_dir=tmp_path / "elsewhere"):
        found = tk.compile([product, gathers, product])
        assert [compiled.kernel for compiled in found] == [product, gathers, product]
        assert all((tmp_path / "elsewhere") in compiled.folder.parents for compiled in found)


@needs_nvrtc
@pytest.mark.parametrize("ask", [tk.compile, tk.explain])
@pytest.mark.filterwarnings("error")
def test_an_architecture_that_is_none_is_told_alone(ask: Any) -> None:
    """Not after a warning that it has no tensor cores."""
    with pytest.raises(CompileError, match="makes no code for sm_17"):
        ask(product, None, None, 17)


@needs_nvrtc
def test_of_a_list_the_first_error_is_raised() -> None:
    with pytest.raises(CompileError, match="makes no code for sm_35"):
        tk.compile([product, point], arch=35)


@needs_nvrtc
def test_what_the_code_declares_in_shared_memory_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "SIZE", 227 * 256 - 32)
    compiled = prepare(edge, arch=90)
    assert compiled.arena_bytes <= 227 * 1024 < compiled.arena_bytes + compiled.resources.shared_bytes
    with pytest.raises(KernelValueError, match=r"needs .* bytes of shared memory a block, but sm_90 has 232448"):
        compiled.cubin


def test_without_nvrtc_the_message_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent() -> Any:
        raise MissingPackageError("compiling for CUDA needs NVRTC")

    monkeypatch.setattr(nvrtc, "version", absent)
    compiled = prepare(product)
    assert compiled.source
    assert compiled.ir
    with pytest.raises(MissingPackageError, match="needs NVRTC"):
        compiled.cubin


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_every_name_of_tid_is_a_coordinate(device: str) -> None:
    compiled = prepare(third, device=device)
    assert compiled.form.ndim == 3
    assert "axis=2" in compiled.ir
    assert prepare(third, dim=(4, 5), device=device).form.ndim == 2
    assert "axis=2" not in prepare(third, dim=(4, 5), device=device).ir
    assert prepare(torn, tiled=False, device=device).form.ndim == 3  # fewer names are the first coordinates


def test_a_grid_of_several_dimensions_compiles_without_dim() -> None:
    assert tk.compile(product, device="cpu").library == tk.compile(product, dim=(2, 3), device="cpu").library


@pytest.mark.parametrize(
    ("kernel", "options", "blocks"),
    [
        (product, {}, Product(Dim(0), Dim(1))),
        (product, {"dim": (3, 4)}, 12),
        (point, {"tiled": False}, PointBlocks(Product(Product(Dim(0), Dim(1)), Dim(2)), 128, 4)),
        (point, {"tiled": False, "dim": (1 << 11, 1 << 10, 1)}, 1 << 12),
        (point, {"tiled": False, "dim": (3, 50, 1), "block_dim": 64}, 3),
        (gathers, {"tiled": False, "block_dim": 32}, CeilDiv(Dim(0), 32)),
        (gathers, {"tiled": False, "block_dim": 32, "dim": 96, "device": "cpu"}, 3),
        (point, {"tiled": False, "dim": (3, 50, 1), "device": "cpu"}, 150),
    ],
)
def test_blocks_of_a_launch(kernel: Any, options: Any, blocks: Any) -> None:
    assert prepare(kernel, **options).blocks == blocks


def test_arguments_decide_types_and_classes() -> None:
    compiled = prepare(generic, [tk.spec(tk.float16, shape=(8, 33)), tk.float16])
    assert "array2d<f16>" in compiled.ir
    assert compiled.target.arrays["x"].aligned is False
    assert compiled.assumptions == ("x: array2d<f16>, row-major, any alignment, at most 2 GiB (given)",)
    named = prepare(product, arrays={"b": np.zeros((4, 4), np.float32).T})
    assert [text.split()[-1] for text in named.assumptions] == ["(assumed)", "(given)", "(assumed)"]
    assert named.target.arrays["b"].unit_axis == 0
    with pytest.raises(KernelTypeError, match="parameter 'x' of kernel 'generic' is generic; give its type"):
        prepare(generic)


@pytest.mark.parametrize("block_dim", [1, 32, 100, 1024])
def test_threads_are_whole_warps(block_dim: int) -> None:
    with tk.config.scoped(gemm="scalar"):
        assert prepare(product, block_dim=block_dim).threads == -(-block_dim // 32) * 32


@pytest.mark.parametrize(
    ("kernel", "options", "error", "message"),
    [
        (len, {}, KernelTypeError, "takes a kernel made by @tk.kernel or a list of them"),
        ([product, len], {}, KernelTypeError, "a kernel made by @tk.kernel is needed"),
        (product, {"device": "cuda:0"}, KernelValueError, "must be 'cpu' or 'cuda', not 'cuda:0'; .* arch=90"),
        (product, {"arch": "hopper"}, KernelValueError, "compute capability without its dot"),
        (product, {"dim": ()}, KernelValueError, "dim must have 1 to 4 entries"),
        (product, {"block_dim": 2000}, KernelValueError, "block_dim must be at most 1024"),
        (product, {"tiled": "no"}, KernelTypeError, "tiled must be True or False, got 'no'"),
    ],
)
def test_wrong_arguments(kernel: Any, options: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        tk.compile(kernel, **options)
