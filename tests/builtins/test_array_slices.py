"""``a[i]`` and ``a[i, j]`` as arrays of fewer dimensions: what whole tiles are loaded from, stored and added to."""

import numpy as np
import pytest

import tilekit as tk
from tests import on_gpu
from tests.builtins.both import out, run
from tests.nvrtc import needs_nvrtc
from tilekit.errors import KernelIndexError

rng = np.random.default_rng(5)
A4 = rng.standard_normal((3, 4, 10, 12)).astype(np.float32)


@tk.kernel
def moves(a: tk.array4d[float], n: int, x: tk.array4d[float], total: tk.array3d[float], rows: tk.array2d[float]):
    i, j = tk.tid()
    t = tk.tile_load(a[i, j], shape=(4, 8), offset=(n, -2))
    tk.tile_store(x[j, i], t * 2.0, offset=(8, n))
    tk.tile_atomic_add(total[i], t, offset=(-1, n))
    tk.tile_store(rows[i * 4 + j], tk.tile_load(a[i][j, n], shape=16, offset=n - 4), offset=-1)
    tk.tile_store(x[j], tk.tile_load(a[i], shape=(1, 2, 12), offset=(j, 0, 0)), offset=(i, 0, 0))


def moved(n):
    """What the kernel does, in NumPy, with zeros around arrays."""
    x, total, rows = np.zeros((4, 3, 9, 14)), np.zeros((3, 5, 9)), np.zeros((12, 13))
    for i, j in np.ndindex(3, 4):
        padded = np.pad(A4[i, j], 8)
        t = padded[8 + n : 12 + n, 6:14]
        x[j, i, 8, n : n + 8] = 2 * t[0, : max(0, 14 - n)]
        fits = min(8, 9 - n)
        total[i, :3, n : n + fits] += t[1:, :fits]
        rows[4 * i + j] = np.pad(A4[i, j, n], 20)[16 + n : 32 + n][1:14]
        x[j, i, :2, :12] = A4[i, j, :2]
    return x, total, rows


@pytest.mark.parametrize("n", [0, 1, 5])
def test_slices_are_loaded_stored_and_added_to(n):
    outputs = [out(4, 3, 9, 14), out(3, 5, 9), out(12, 13)]
    for found, wanted in zip(run(moves, [A4, n], outputs, dim=(3, 4)), moved(n), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-6)


@pytest.mark.parametrize("order", [(0, 1, 2, 3), (1, 0, 3, 2), (3, 2, 1, 0)])
def test_slices_of_arrays_with_other_strides(order):
    a = np.ascontiguousarray(A4.transpose(order)).transpose(np.argsort(order))
    outputs = [out(4, 3, 9, 14), out(3, 5, 9), out(12, 13)]
    for found, wanted in zip(run(moves, [a, 1], outputs, dim=(3, 4)), moved(1), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-6)


M, N, K = 16, 16, 8


@tk.kernel
def products(a: tk.array4d[float], b: tk.array3d[float], c: tk.array4d[float]):
    h, g, i, j = tk.tid()
    total = tk.tile_zeros(shape=(M, N), dtype=float)
    for k in range((a.shape[3] + K - 1) // K):
        x = tk.tile_load(a[h, g], shape=(M, K), offset=(i * M, k * K))
        y = tk.tile_load(b[g], shape=(K, N), offset=(k * K, j * N))
        tk.tile_matmul(x, y, total)
    tk.tile_store(c[h, g], total, offset=(i * M, j * N))


@tk.kernel
def products_of_moving_slices(a: tk.array4d[float], b: tk.array3d[float], c: tk.array4d[float]):
    h, g, i, j = tk.tid()
    total = tk.tile_zeros(shape=(M, N), dtype=float)
    for k in range((a.shape[3] + K - 1) // K):
        row = a[h]
        tk.tile_matmul(
            tk.tile_load(row[(g + k) % a.shape[1]], shape=(M, K), offset=(i * M, k * K)),
            tk.tile_load(b[k % b.shape[0]], shape=(K, N), offset=(k * K, j * N)),
            total,
        )
    tk.tile_store(c[h, g], total, offset=(i * M, j * N))


LEFT = rng.standard_normal((2, 3, 20, 37)).astype(np.float32)
RIGHT = rng.standard_normal((3, 37, 19)).astype(np.float32)


def moving_products():
    found = np.zeros((2, 3, 20, 19))
    for h, g in np.ndindex(2, 3):
        for k in range(5):
            part = slice(8 * k, 8 * k + 8)
            found[h, g] += LEFT[h, (g + k) % 3][:, part].astype(float) @ RIGHT[k % 3][part]
    return found


CASES = [(products, np.float64(LEFT) @ np.float64(RIGHT)), (products_of_moving_slices, moving_products())]


@pytest.mark.parametrize(("kernel", "wanted"), CASES, ids=["same", "moving"])
def test_products_of_slices(kernel, wanted):
    (found,) = run(kernel, [LEFT, RIGHT], [out(2, 3, 20, 19)], dim=(2, 3, 2, 2))
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)


@tk.kernel
def written_meanwhile(a: tk.array3d[float], c: tk.array2d[float]):
    """The slice that is read is written between loads."""
    total = tk.tile_zeros(shape=(8, 8), dtype=float)
    for k in range(3):
        x = tk.tile_load(a[k], shape=(8, 8))
        tk.tile_store(a[k + 1], x + 1.0)
        tk.tile_matmul(x, x, total)
    tk.tile_store(c, total)


def test_a_slice_that_a_store_changes_is_read_as_it_is_then():
    a = np.zeros((4, 8, 8), np.float32)
    found = out(8, 8)
    for device in ("cpu", "interpret"):
        tk.launch_tiled(written_meanwhile, dim=1, inputs=[a.copy()], outputs=[found], device=device)
        assert np.array_equal(found, np.full((8, 8), 8.0 * (0 + 1 + 4), np.float32))


@tk.kernel
def at(a: tk.array4d[float], i: int, j: int, x: tk.array2d[float]):
    tk.tile_store(x, tk.tile_load(a[i, j], shape=(2, 2)))


@pytest.mark.parametrize("device", ["cpu", "interpret"])
@pytest.mark.parametrize(("i", "j", "said"), [(3, 0, "index 3 is out of bounds for axis 0 of a"),
                                              (0, -1, "index -1 is out of bounds for axis 1 of a")])  # fmt: skip
def test_a_slice_outside_the_array_is_an_error(i, j, said, device):
    with pytest.raises(KernelIndexError, match=said):
        tk.launch_tiled(at, dim=1, inputs=[A4, i, j], outputs=[out(2, 2)], device=device)


@needs_nvrtc
@pytest.mark.parametrize("kernel", [moves, products, products_of_moving_slices, written_meanwhile])
def test_slices_compile_for_gpus(kernel):
    tk.compile(kernel, dim={moves: (3, 4), written_meanwhile: 1}.get(kernel, (2, 3, 2, 2)), arch=90, block_dim=64)


@needs_nvrtc
def test_a_slice_is_stored_in_packs_where_its_array_is_aligned():
    found = tk.compile(products, dim=(2, 3, 2, 2), arch=90, block_dim=64)
    assert "tk::store_registers<L0, 1, 4, true, 16, 16>(" in found.source


@pytest.mark.gpu
def test_slices_on_a_gpu():
    outputs = [out(4, 3, 9, 14), out(3, 5, 9), out(12, 13)]
    on_gpu.launch_tiled(moves, (3, 4), [A4, 1], outputs)
    for found, wanted in zip(outputs, moved(1), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-6)
    for kernel, wanted in CASES:
        for gemm in ("auto", "scalar"):
            with tk.config.scoped(gemm=gemm):
                found = out(2, 3, 20, 19)
                held = [on_gpu.there(value) for value in (LEFT, RIGHT, found)]
                tk.launch_tiled(kernel, dim=(2, 3, 2, 2), inputs=held[:2], outputs=held[2:], block_dim=64)
                np.testing.assert_allclose(held[2].numpy(), wanted, rtol=1e-4, atol=1e-5)
