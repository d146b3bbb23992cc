"""Wrong results by layout, stride, ragged shapes and aliasing."""

from __future__ import annotations

import numpy as np
import pytest

import tilekit as tk
from tests.cases.everywhere import everywhere, launch
from tilekit.errors import KernelIndexError, KernelValueError, TilekitError

RNG = np.random.default_rng(1)


def normal(*shape: int, dtype=np.float32) -> np.ndarray:
    return RNG.standard_normal(shape).astype(dtype)


def close(got: np.ndarray, a: np.ndarray, b: np.ndarray) -> None:
    """Within ``(K + 4) u |A||B|`` of the exact product, plus one rounding to the result's dtype."""
    a, b = a.astype(np.float64), b.astype(np.float64)
    unit = np.finfo(got.dtype).eps / 2
    bound = ((a.shape[-1] + 4) * 2.0**-24 + unit) * (np.abs(a) @ np.abs(b)) + 1e-30
    assert (np.abs(got - a @ b) <= bound).all()


@tk.kernel
def halves(a: tk.array2d[float], b: tk.array2d[float], out: tk.array3d[float]):
    """Parts of a wide tile as factors, without copies."""
    wide = tk.tile_load(a, shape=(16, 32), storage="shared")
    right = tk.tile_load(b, shape=(16, 16))
    tk.tile_store(out[0], tk.tile_matmul(wide[:, :16], right))
    tk.tile_store(out[1], tk.tile_matmul(wide[:, 16:], right))
    tk.tile_store(out[2], tk.tile_matmul(wide[:, ::2], right))
    tk.tile_store(out[3], tk.tile_matmul(right, tk.tile_transpose(wide[:, 3:19])))


@everywhere
def test_views_of_a_wide_tile_as_factors(device: str) -> None:
    a, b, out = normal(16, 32), normal(16, 16), np.zeros((4, 16, 16), np.float32)
    launch(halves, device, inputs=[a, b], outputs=[out])
    close(out[0], a[:, :16], b)
    close(out[1], a[:, 16:], b)
    close(out[2], a[:, ::2], b)
    close(out[3], b, a[:, 3:19].T)


@tk.kernel
def odd_half(a: tk.array2d[tk.float16], b: tk.array2d[tk.float16], out: tk.array2d[float]):
    wide = tk.tile_load(a, shape=(9, 30))
    acc = tk.tile_zeros(shape=(9, 7), dtype=float)
    tk.tile_matmul(wide[:, 2:15], tk.tile_load(b, shape=(13, 7)), acc)
    tk.tile_store(out, acc)


@everywhere
def test_a_view_in_half_precision_of_odd_extents(device: str) -> None:
    a, b, out = normal(9, 30, dtype=np.float16), normal(13, 7, dtype=np.float16), np.zeros((9, 7), np.float32)
    launch(odd_half, device, inputs=[a, b], outputs=[out])
    close(out, a[:, 2:15], b)


@tk.kernel
def gram(x: tk.array2d[tk.float64], out: tk.array3d[tk.float64]):
    t = tk.tile_transpose(tk.tile_load(x, shape=(3, 3)))
    tk.tile_store(out[0], tk.tile_matmul(tk.tile_transpose(t), t))
    tk.tile_store(out[1], tk.tile_matmul(t, tk.tile_transpose(t)))


@everywhere
def test_a_transposed_tile_times_itself(device: str) -> None:
    x, out = normal(3, 3, dtype=np.float64), np.zeros((2, 3, 3))
    launch(gram, device, inputs=[x], outputs=[out])
    np.testing.assert_allclose(out, [x @ x.T, x.T @ x], rtol=1e-14, atol=1e-15)


@pytest.mark.xfail(strict=True, reason="tile_cholesky_solve comes with part 7", raises=AttributeError)
def test_a_transposed_tile_survives_a_solver() -> None:
    tk.tile_cholesky_solve


@everywhere
@pytest.mark.parametrize("width", [1, 2, 3])
def test_tiles_whose_rows_are_no_vector(width: int, device: str) -> None:
    @tk.kernel
    def narrow(a: tk.array2d[float], out: tk.array2d[float]):
        tk.tile_store(out, tk.tile_load(a, shape=(8, width), offset=(8, 4)), offset=(1, 1))

    a, out = normal(64, 64), np.zeros((10, 5), np.float32)
    launch(narrow, device, inputs=[a], outputs=[out])
    want = np.zeros_like(out)
    want[1:9, 1 : 1 + width] = a[8:16, 4 : 4 + width]
    np.testing.assert_array_equal(out, want)


@tk.kernel
def copied(a: tk.array2d[float], out: tk.array2d[float]):
    i, j = tk.tid()
    tk.tile_store(out, tk.tile_load(a, shape=(16, 16), offset=(i * 16, j * 16)), offset=(i * 16, j * 16))


@everywhere
@pytest.mark.parametrize("name", ["columns", "transposed", "reversed", "steps"])
def test_arrays_of_any_stride(name: str, device: str) -> None:
    base = normal(64, 66)
    a = {"columns": base[:, 1:33], "transposed": base.T, "reversed": base[::-1, ::-1], "steps": base[::3, 1::2]}[name]
    out = np.zeros(a.shape, np.float32)
    launch(copied, device, dim=(5, 5), inputs=[a], outputs=[out])
    np.testing.assert_array_equal(out, a)


@tk.kernel
def shifted(a: tk.array1d[float], out: tk.array1d[float], by: int):
    tk.tile_store(out, tk.tile_load(a, shape=4, offset=by))
    tk.tile_store(a, tk.tile_full(4, 7.0), offset=by)


@everywhere
@pytest.mark.parametrize("by", [-5, -2, 0, 3, 9])
def test_nothing_outside_an_array_is_touched(by: int, device: str) -> None:
    """The array is the middle of a larger one, whose other elements must neither be seen nor change."""
    whole = np.full(8, -9.0, np.float32)
    middle, out = whole[2:6], np.full(4, -1.0, np.float32)
    middle[:] = [1, 2, 3, 4]
    launch(shifted, device, inputs=[middle, out, by], block_dim=32)
    inside = [by + i for i in range(4)]
    np.testing.assert_array_equal(out, [float(i + 1) if 0 <= i < 4 else 0.0 for i in inside])
    np.testing.assert_array_equal(middle, [7.0 if i in inside else float(i + 1) for i in range(4)])
    np.testing.assert_array_equal(whole[[0, 1, 6, 7]], -9.0)


@everywhere
def test_a_view_past_the_end_of_its_tile_is_an_error(device: str) -> None:
    @tk.kernel
    def too_long(out: tk.array1d[float]):
        t = tk.tile_zeros(shape=4, storage="shared")
        tk.tile_store(out, tk.tile_view(t, offset=2, shape=8))

    with pytest.raises((KernelValueError, KernelIndexError), match="8"):
        launch(too_long, device, outputs=[np.zeros(8, np.float32)], block_dim=32)


@pytest.mark.xfail(strict=True, reason="tile_sort comes with part 7", raises=AttributeError)
def test_sort_with_a_payload() -> None:
    tk.tile_sort


@tk.kernel
def poisoned(a: tk.array2d[float], out: tk.array2d[float]):
    poison = tk.tile_full(shape=(16, 16), value=float("nan"))
    tk.tile_store(out, poison)
    x = tk.tile_load(a, shape=(16, 16))
    tk.tile_store(out, tk.tile_matmul(x, x))


@everywhere
def test_a_new_product_never_reads_its_memory(device: str) -> None:
    a, out = normal(16, 16), np.zeros((16, 16), np.float32)
    for _ in range(2):
        launch(poisoned, device, inputs=[a], outputs=[out])
        close(out, a, a)


@everywhere
@pytest.mark.parametrize("block", [24, 40, 56])
def test_a_k_block_that_is_no_power_of_two(block: int, device: str) -> None:
    @tk.kernel
    def product(a: tk.array2d[tk.float16], b: tk.array2d[tk.float16], out: tk.array2d[float]):
        acc = tk.tile_zeros(shape=(64, 64), dtype=float)
        for k in range((a.shape[1] + block - 1) // block):
            x = tk.tile_load(a, shape=(64, block), offset=(0, k * block))
            tk.tile_matmul(x, tk.tile_load(b, shape=(block, 64), offset=(k * block, 0)), acc)
        tk.tile_store(out, acc)

    a, b = normal(64, 100, dtype=np.float16), normal(100, 64, dtype=np.float16)
    out = np.zeros((64, 64), np.float32)
    launch(product, device, inputs=[a, b], outputs=[out], block_dim=128)
    close(out, a, b)


@everywhere
@pytest.mark.parametrize("block", [24, 40, 56, 72])
def test_an_n_block_that_is_no_power_of_two(block: int, device: str) -> None:
    @tk.kernel
    def product(a: tk.array2d[tk.float16], b: tk.array2d[tk.float16], out: tk.array2d[float]):
        j = tk.tid()
        acc = tk.tile_zeros(shape=(16, block), dtype=float)
        for k in range(0, 32, 16):
            y = tk.tile_load(b, shape=(16, block), offset=(k, j * block))
            tk.tile_matmul(tk.tile_load(a, shape=(16, 16), offset=(0, k)), y, acc)
        tk.tile_store(out, acc, offset=(0, j * block))

    a, b = normal(16, 32, dtype=np.float16), normal(32, 150, dtype=np.float16)
    out = np.zeros((16, 150), np.float32)
    launch(product, device, dim=-(-150 // block), inputs=[a, b], outputs=[out], block_dim=128)
    close(out, a, b)


@tk.kernel
def tall(a: tk.array2d[float], b: tk.array2d[float], out: tk.array2d[float]):
    acc = tk.tile_zeros(shape=(256, 8))
    tk.tile_matmul(tk.tile_load(a, shape=(256, 8)), tk.tile_load(b, shape=(8, 8)), acc)
    tk.tile_store(out, acc)


@everywhere
def test_rows_stay_in_their_place(device: str) -> None:
    """Every row of A holds its number, so that rows that change places show."""
    a = np.repeat(np.arange(256, dtype=np.float32)[:, None], 8, 1)
    out = np.zeros((256, 8), np.float32)
    launch(tall, device, inputs=[a, np.eye(8, dtype=np.float32)], outputs=[out], block_dim=256)
    np.testing.assert_array_equal(out, a)


def test_transpose_takes_tiles_with_two_axes() -> None:
    with pytest.raises(TilekitError, match="two axes"):
        tk.tile_transpose(tk.tile_zeros(shape=(2, 8, 16)))


@tk.kernel
def reads_writes_reads(a: tk.array1d[float], b: tk.array1d[float], out: tk.array1d[float]):
    x = tk.tile_load(a, shape=4)
    tk.tile_store(b, x * 2.0)
    y = tk.tile_load(a, shape=4)
    tk.tile_store(out, x + 10.0 * y)


@everywhere
def test_one_array_given_twice_and_overlapping_slices(device: str) -> None:
    a, out = np.arange(8, dtype=np.float32), np.zeros(4, np.float32)
    launch(reads_writes_reads, device, inputs=[a[:4]], outputs=[a[:4], out], block_dim=32)
    np.testing.assert_array_equal(out, np.arange(4) + 10.0 * 2 * np.arange(4))
    a = np.arange(8, dtype=np.float32)
    launch(reads_writes_reads, device, inputs=[a[:4]], outputs=[a[1:5], out], block_dim=32)
    np.testing.assert_array_equal(out, np.arange(4) + 10.0 * np.asarray([0, 0, 2, 4]))


@tk.kernel
def overwrites_what_it_read(a: tk.array2d[float], total: tk.array1d[float], out: tk.array2d[float], n: int):
    acc = tk.tile_zeros(shape=(4, 4))
    for k in range(n):
        t = tk.tile_load(a, shape=(4, 4), offset=(k * 4, 0), storage="shared")
        acc += t
        tk.tile_assign(t, tk.tile_zeros(shape=(4, 4)))
        acc += t
        tk.tile_atomic_add(total, tk.tile_ones(shape=1))
        acc += tk.tile_broadcast(tk.tile_load(total, shape=1), shape=(4, 4))
    tk.tile_store(out, acc)


@everywhere
def test_a_loop_that_overwrites_a_tile_it_read_and_reads_after_an_atomic(device: str) -> None:
    a, total, out = normal(12, 4), np.zeros(1, np.float32), np.zeros((4, 4), np.float32)
    launch(overwrites_what_it_read, device, inputs=[a, total, out, 3], block_dim=32)
    want = np.zeros((4, 4), np.float32)
    for k in range(3):
        want = want + a[4 * k : 4 * k + 4] + np.float32(0) + np.float32(k + 1)
    np.testing.assert_array_equal(out, want)
