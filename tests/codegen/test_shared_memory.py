"""Kernels whose tiles do not fit: the message lists them, and what it suggests fits."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import tilekit as tk
from tilekit.codegen.architectures import shared_limit
from tilekit.errors import KernelValueError
from tilekit.runtime.program import compile_kernel

HERE = Path(__file__).read_text(encoding="utf-8").splitlines()
M, N, K = 128, 192, 256
LENGTH = 50_000


@tk.kernel
def gemm(a: tk.array2d[float], b: tk.array2d[float], c: tk.array2d[float]):
    i, j = tk.tid()
    acc = tk.tile_zeros(shape=(M, N), dtype=float)
    for k in range(a.shape[1] / K):
        x = tk.tile_load(a, shape=(M, K), offset=(i * M, k * K))
        y = tk.tile_load(b, shape=(K, N), offset=(k * K, j * N))
        tk.tile_matmul(x, y, acc)
    tk.tile_store(c, acc, offset=(i * M, j * N))


@tk.kernel
def vector(a: tk.array1d[float], out: tk.array1d[float]):
    t = tk.tile_load(a, shape=LENGTH)
    u = tk.tile_load(a, shape=LENGTH, offset=LENGTH)
    tk.tile_store(out, tk.tile_sum(t) + tk.tile_sum(u))
    tk.tile_store(out, t)
    tk.tile_store(out, u)


@tk.kernel
def narrow(a: tk.array2d[float], out: tk.array2d[float]):
    x = tk.tile_load(a, shape=(192, 256))
    y = tk.tile_load(a, shape=(256, 128))
    tk.tile_store(out, tk.tile_matmul(x, y))


def lowered(kernel: tk.Kernel, arch: str) -> int:
    with tk.config.scoped(gemm="scalar"):
        return compile_kernel(kernel, device="cuda", arch=arch, block_dim=128).arena_bytes


def line_of(text: str) -> int:
    return next(number for number, line in enumerate(HERE, 1) if text in line)


def test_the_message_lists_tiles_by_size_and_line() -> None:
    with pytest.raises(KernelValueError) as raised:
        lowered(gemm, "90")
    lines = str(raised.value).splitlines()
    first = line_of("y = tk.tile_load(b, shape=(K, N)")
    assert lines[0] == (
        f"{__file__}:{first}: kernel 'gemm' needs {(M * N + M * K + K * N) * 4} bytes of shared memory a block, but "
        "sm_90 has 232448 (227 KiB) at most. Its tiles there:"
    )
    sizes = [int(re.match(r" *(\d+) bytes", line)[1]) for line in lines[1:4]]  # type: ignore[index]
    assert sizes == [K * N * 4, M * K * 4, M * N * 4]
    assert f"tile<256x192xf32> of line {first}: y = tk.tile_load(" in lines[1]
    assert f"of line {line_of('x = tk.tile_load(a, shape=(M')}: x = " in lines[2]


@pytest.mark.parametrize("arch", ["75", "80", "86", "90a", "100", "120"])
@pytest.mark.parametrize("kernel", [gemm, vector], ids=["gemm", "vector"])
def test_what_is_suggested_fits(kernel: tk.Kernel, arch: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(KernelValueError) as raised:
        lowered(kernel, arch)
    text = str(raised.value)
    size = re.search(r"they fit, in (\d+) bytes", text)
    changes = re.findall(r"(\d+) in place of (\d+)", text)
    assert size is not None
    assert len(changes) == (3 if (kernel, arch) == (gemm, "75") else 1)
    for small, large in changes:
        monkeypatch.setitem(globals(), {M: "M", N: "N", K: "K", LENGTH: "LENGTH"}[int(large)], int(small))
    limit = shared_limit(arch)
    assert limit is not None
    assert lowered(kernel, arch) <= int(size[1]) <= limit


def test_of_two_ways_to_fit_the_one_that_keeps_more_is_suggested() -> None:
    with pytest.raises(KernelValueError, match="With 48 in place of 192 they fit, in 204800 bytes"):
        lowered(narrow, "90")


def test_an_architecture_without_known_limit_is_left_to_the_driver() -> None:
    assert shared_limit("107") is None
    assert lowered(gemm, "107") == (M * N + M * K + K * N) * 4


def test_the_cpu_has_no_limit() -> None:
    assert compile_kernel(gemm).arena_bytes == (M * N + M * K + K * N) * 4
