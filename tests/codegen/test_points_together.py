"""Which kernels run several points a thread on a GPU, and that their reads are then under way together."""

from __future__ import annotations

import ctypes
import struct
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import tilekit as tk
from tests.native.mma_source import instructions, needs_nvdisasm
from tests.nvrtc import needs_nvrtc
from tilekit.codegen.cpu import ENTRY
from tilekit.runtime import cpu
from tilekit.runtime.compile import prepare
from tilekit.runtime.toolchain import find_toolchain


@tk.kernel
def scaled(a: tk.array1d[float], b: tk.array1d[float]):
    i = tk.tid()
    b[i] = 2.0 * a[i]


@tk.kernel
def in_half(a: tk.array2d[tk.float16], b: tk.array2d[tk.float16]):
    i, j = tk.tid()
    b[i, j] = a[j, i] * tk.float16(2.0) + tk.float16(i)


@tk.kernel
def mixed(a: tk.array1d[tk.float64], b: tk.array1d[tk.float16], n: int):
    i = tk.tid()
    a[i] = tk.float64(b[(i * 7) % n]) + a[i]


@tk.kernel
def filled(a: tk.array1d[tk.uint8]):
    i = tk.tid()
    a[i] = tk.uint8(7)


@tk.kernel
def reads_what_it_wrote(a: tk.array1d[float], b: tk.array1d[float]):
    i = tk.tid()
    b[i] = a[i]
    a[i] = b[i] + 1.0


@tk.kernel
def with_a_branch(a: tk.array1d[float]):
    i = tk.tid()
    if a[i] > 0.0:
        a[i] = 0.0


@tk.kernel
def with_a_loop(a: tk.array2d[float], out: tk.array1d[float], n: int):
    i = tk.tid()
    total = 0.0
    for j in range(n):
        total += a[i, j]
    out[i] = total


@tk.kernel
def with_a_check(a: tk.array1d[float]):
    i = tk.tid()
    assert a[i] > 0.0
    a[i] = 1.0


@tk.kernel
def with_a_length(a: tk.array1d[float]):
    i = tk.tid()
    a[i] = float(len(a))


@tk.kernel
def counted(a: tk.array1d[float], n: tk.array1d[int]):
    i = tk.tid()
    tk.atomic_add(n, 0, 1)
    a[i] = 1.0


@pytest.mark.parametrize(
    ("kernel", "together"),
    [
        (scaled, 4), (in_half, 8), (mixed, 2), (filled, 8), (reads_what_it_wrote, 1), (with_a_branch, 1),
        (with_a_loop, 1), (with_a_check, 1), (with_a_length, 1), (counted, 1),
    ],
    ids=lambda value: getattr(value, "key", str(value)),
)  # fmt: skip
def test_how_many(kernel: tk.Kernel, together: int) -> None:
    compiled = prepare(kernel, tiled=False)
    assert compiled.generated.together == together
    assert ("run_points" in compiled.source) == (together > 1)


def test_checked_points_run_alone() -> None:
    with tk.config.scoped(checked=True):
        assert prepare(scaled, tiled=False).generated.together == 1


@needs_nvrtc
@needs_nvdisasm
@pytest.mark.parametrize(("kernel", "together"), [(scaled, 4), (in_half, 8)], ids=["scaled", "in_half"])
def test_all_points_are_read_before_the_first_is_written(kernel: tk.Kernel, together: int) -> None:
    ops = [op.split(".")[0] for op in instructions(tk.compile(kernel, tiled=False, arch="90a").cubin)]
    runs = "".join(op[0] for op in ops if op in ("LDG", "STG"))
    assert "L" * together + "S" * together in runs
    assert not {"LDL", "STL"} & set(ops)


SHIM = """
#define __global__
#define __launch_bounds__(n)
#define __grid_constant__
struct { unsigned x; } threadIdx, blockIdx, gridDim;
"""
THREADS = 32
EVERY_THREAD = f"""
extern "C" void run_all(const Args* args, int blocks)
{{
    gridDim.x = blocks;
    for (blockIdx.x = 0; blockIdx.x < (unsigned)blocks; ++blockIdx.x)
        for (threadIdx.x = 0; threadIdx.x < {THREADS}; ++threadIdx.x) {ENTRY}(*args);
}}
"""


@tk.kernel
def rows(a: tk.array2d[float], b: tk.array2d[float], c: tk.array2d[bool]):
    i, j = tk.tid()
    x = a[i][j]
    b[i, j] = x + 1.0
    c[j, i] = x > 0.0


def run_on_cpu(kernel: tk.Kernel, grid: tuple[int, ...], blocks: int, arrays: list[Any]) -> None:
    """Runs the CUDA code of a kernel as C++, one thread after the other."""
    generated = prepare(kernel, args=arrays, tiled=False, block_dim=THREADS).generated
    source = SHIM + generated.source + EVERY_THREAD
    toolchain = find_toolchain()
    assert toolchain is not None
    library = ctypes.CDLL(str(cpu.build(replace(generated, source=source), toolchain, False, False)))
    values: list[Any] = [*grid, *(1,) * (4 - len(grid)), len(grid), THREADS, 0]
    for array in arrays:
        values += array.ctypes.data, *array.shape, *array.strides
    letters = cpu.LAUNCH + "".join(cpu.format_of(value.type) for value in generated.function.params.values())
    library.run_all(struct.pack(letters, *values), blocks)


@pytest.mark.parametrize("count", [1, 31, 32, 33, 128, 129, 1000, 1024, 1025])
def test_every_point_is_run_once(count: int) -> None:
    """In grids of a thread a point, and in smaller ones; what lies beyond is left alone."""
    for together in (1, 4):
        a, b = np.arange(count + 9, dtype=np.float32), np.full(count + 9, -1, np.float32)
        run_on_cpu(scaled, (count,), -(-count // (THREADS * together)), [a, b])
        np.testing.assert_array_equal(b, [*(2 * a[:count]), *[-1] * 9])


@pytest.mark.parametrize("shape", [(1, 1), (7, 5), (33, 31), (1, 700), (700, 1), (64, 64)])
def test_points_of_two_axes(shape: tuple[int, int]) -> None:
    for together in (1, 4):
        a = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
        b, c = np.zeros_like(a), np.zeros(shape[::-1], bool)
        run_on_cpu(rows, shape, -(-a.size // (THREADS * together)), [a, b, c])
        np.testing.assert_array_equal(b, a + 1)
        np.testing.assert_array_equal(c, a.T > 0)


@tk.kernel
def written_twice(a: tk.array2d[float], b: tk.array2d[tk.int8], c: tk.array2d[tk.float64]):
    i, j = tk.tid()
    x = a[i, j]
    c[i, j] = -1.0
    b[i, j] = tk.int8(x)
    c[i, j] = tk.float64(x) * 2.0 + 0.5


@pytest.mark.parametrize("shape", [(7, 33), (40, 50)])
def test_points_of_arrays_with_any_strides(shape: tuple[int, int]) -> None:
    """The last of a point's writes holds, whatever the arrays are like."""
    row = np.arange(-9, shape[1] - 9, dtype=np.float32)
    for together in (1, 2):
        a = np.broadcast_to(row, shape)
        b, c = np.zeros(shape, np.int8)[::-1, ::-1], np.zeros(shape, np.float64, order="F")
        run_on_cpu(written_twice, shape, -(-a.size // (THREADS * together)), [a, b, c])
        np.testing.assert_array_equal(b, a)
        np.testing.assert_array_equal(c, 2 * a + 0.5)
