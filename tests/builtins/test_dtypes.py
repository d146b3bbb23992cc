"""Every dtype, rank and memory layout: elements, tiles, arithmetic and conversion."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tilekit as tk
from tilekit.ir.types import DTYPES, DType

EXTENTS = {1: (7,), 2: (5, 6), 3: (3, 4, 5), 4: (2, 3, 4, 3)}


def memory(dtype: DType) -> Any:
    return np.dtype(ml_dtypes.bfloat16) if dtype is tk.bfloat16 else dtype.numpy


def numbers(dtype: DType, shape: tuple[int, ...]) -> np.ndarray:
    """Small numbers, which every dtype holds exactly."""
    count = int(np.prod(shape))
    values = np.arange(count).reshape(shape) % (2 if dtype.kind == "b" else 50)
    return (values if dtype.kind in "bu" else values - 20).astype(memory(dtype))


@tk.kernel
def through_tiles_1(a: tk.array1d[Any], out: tk.array1d[Any]):
    tk.tile_store(out, tk.tile_load(a, shape=8))


@tk.kernel
def through_tiles_2(a: tk.array2d[Any], out: tk.array2d[Any]):
    tk.tile_store(out, tk.tile_load(a, shape=(6, 7)))


@tk.kernel
def through_tiles_3(a: tk.array3d[Any], out: tk.array3d[Any]):
    tk.tile_store(out, tk.tile_load(a, shape=(3, 5, 5)))


@tk.kernel
def through_tiles_4(a: tk.array4d[Any], out: tk.array4d[Any]):
    tk.tile_store(out, tk.tile_load(a, shape=(2, 3, 4, 4)))


THROUGH_TILES = {1: through_tiles_1, 2: through_tiles_2, 3: through_tiles_3, 4: through_tiles_4}


def copied(a: Any, out: Any) -> Any:
    tk.launch_tiled(THROUGH_TILES[out.ndim], dim=1, inputs=[a], outputs=[out], block_dim=32)
    return out


TILES = [(dtype, 2) for dtype in DTYPES.values()] + [
    (d, n) for n in (1, 3, 4) for d in (tk.bfloat16, tk.float32, tk.int8)
]


@pytest.mark.parametrize(("dtype", "ndim"), TILES, ids=lambda value: getattr(value, "name", str(value)))
def test_tiles_of_every_dtype_and_rank(dtype: DType, ndim: int) -> None:
    a = numbers(dtype, EXTENTS[ndim])
    out = copied(a, np.zeros_like(a))
    np.testing.assert_array_equal(out.astype(np.float64), a.astype(np.float64))


@tk.kernel
def element_arithmetic(a: tk.array1d[Any], out: tk.array1d[Any], wide: tk.array1d[tk.float64]):
    i = tk.tid()
    x = a[i]
    out[i] = x + x * x
    wide[i] = tk.float64(x)


@pytest.mark.parametrize("dtype", [d for d in DTYPES.values() if d.kind != "b"], ids=lambda d: d.name)
def test_elements_of_every_dtype(dtype: DType) -> None:
    a = (numbers(dtype, (8,)).astype(np.int64) % 9).astype(memory(dtype))
    out, wide = np.zeros_like(a), np.zeros(8)
    tk.launch(element_arithmetic, dim=8, inputs=[a], outputs=[out, wide])
    exact = a.astype(np.int64)
    np.testing.assert_array_equal(out.astype(np.int64), exact + exact * exact)
    np.testing.assert_array_equal(wide, exact)


BASE = np.arange(12 * 14, dtype=np.float32).reshape(12, 14)
LAYOUTS = {
    "dense": BASE[:5, :6].copy(),
    "fortran": np.asfortranarray(BASE[:5, :6]),
    "transposed": BASE[:6, :5].T,
    "offset": BASE[3:8, 5:11],
    "steps": BASE[1:11:2, 2:14:2],
    "reversed": BASE[4::-1, 5::-1],
    "rows-broadcast": np.broadcast_to(BASE[0, :6], (5, 6)),
    "columns-broadcast": np.broadcast_to(BASE[:5, :1], (5, 6)),
    "empty": BASE[:0, :6],
    "no-columns": BASE[:5, :0],
    "one": BASE[2:3, 3:4],
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_arrays_of_every_layout_are_read(name: str) -> None:
    a = LAYOUTS[name]
    out = copied(a, np.full(a.shape, -1, np.float32))
    np.testing.assert_array_equal(out, a)
    whole = copied(a, np.full((5, 6), -1, np.float32))
    want = np.zeros((5, 6), np.float32)
    want[: a.shape[0], : a.shape[1]] = a
    np.testing.assert_array_equal(whole, want)


@pytest.mark.parametrize("name", [name for name in LAYOUTS if "broadcast" not in name])
def test_arrays_of_every_layout_are_written(name: str) -> None:
    """Elements between those of the view stay as they are."""
    base = BASE.copy()
    views = {
        "dense": base[:5, :6],
        "fortran": np.asfortranarray(BASE[:5, :6]),
        "transposed": base[:6, :5].T,
        "offset": base[3:8, 5:11],
        "steps": base[1:11:2, 2:14:2],
        "reversed": base[4::-1, 5::-1],
        "empty": base[:0, :6],
        "no-columns": base[:5, :0],
        "one": base[2:3, 3:4],
    }
    view = views[name]
    source = -1.0 - np.arange(30, dtype=np.float32).reshape(5, 6)
    want = base.copy()
    touched = np.isin(want, view) if name != "fortran" else np.zeros(want.shape, bool)
    copied(source, view)
    np.testing.assert_array_equal(view, source[: view.shape[0], : view.shape[1]])
    np.testing.assert_array_equal(base[~touched], want[~touched])


def test_an_output_whose_elements_share_memory_is_refused() -> None:
    shared = np.lib.stride_tricks.as_strided(np.zeros(6, np.float32), (5, 6), (0, 4))
    with pytest.raises(tk.errors.TilekitError, match="share memory"):
        copied(BASE[:5, :6], shared)


def test_warp_arrays_of_any_stride() -> None:
    wp = pytest.importorskip("warp")
    base = wp.array(BASE, dtype=wp.float32, device="cpu")
    out = wp.zeros((5, 6), dtype=wp.float32, device="cpu")
    for view, want in ((base[3:8, 5:11], BASE[3:8, 5:11]), (base.transpose()[:5, :6], BASE.T[:5, :6])):
        copied(view, out)
        np.testing.assert_array_equal(out.numpy(), want)


def test_an_array_that_spans_more_than_two_gibibytes(tmp_path: Path) -> None:
    """Rows lie far apart in a sparse file, so the byte offsets need 64 bits and the memory does not exist."""
    stride, rows = 600 * 2**20, 5
    path = tmp_path / "sparse"
    with path.open("wb") as file:
        file.truncate(stride * rows)
    flat = np.memmap(path, np.float32, "r+")
    far = np.lib.stride_tricks.as_strided(flat, (rows, 6), (stride, 4))
    assert stride * (rows - 1) > 2**31
    source = np.arange(30, dtype=np.float32).reshape(5, 6)
    copied(source, far)
    np.testing.assert_array_equal(far, source)
    np.testing.assert_array_equal(copied(far, np.zeros((5, 6), np.float32)), source)
    row, out = np.zeros((1, 6), np.float32), flat[(stride // 4) * 4 : (stride // 4) * 4 + 6]
    np.testing.assert_array_equal(copied(far[4:], row)[0], out)


@tk.kernel
def with_constants(a: tk.array[Any], out: tk.array[Any]):
    i = tk.tid()
    t = tk.tile_full(shape=1, value=a.dtype(3))
    out[i] = a[i] * a.dtype(2) + a.dtype(1.5) + t[0]


@pytest.mark.parametrize("device", ["cpu", "interpret"])
@pytest.mark.parametrize("dtype", [tk.bfloat16, tk.float16, tk.float64, tk.int8], ids=str)
def test_a_constant_of_the_array_s_dtype(dtype, device):
    a = np.arange(5).astype(memory(dtype))
    out = np.zeros_like(a)
    tk.launch(with_constants, dim=5, inputs=[a], outputs=[out], device=device, block_dim=1)
    assert np.array_equal(out, a * a.dtype.type(2) + a.dtype.type(1.5) + a.dtype.type(3))
