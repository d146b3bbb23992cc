"""A file that keeps ``import warp as wp``: annotations, dtypes, constants, helpers and builtins of Warp in kernels."""

import ml_dtypes
import numpy as np
import pytest

import tilekit as tk
from tilekit.errors import KernelAttributeError, KernelNotImplementedError

wp = pytest.importorskip("warp")

FACTOR = wp.constant(3.0)


@wp.func
def scale(x: float, factor: float):
    return x * factor


@tk.kernel
def kernel(a: wp.array2d(dtype=wp.float32), n: wp.int32, out: wp.array(dtype=float, ndim=2)):
    i, j = wp.tid()
    t = wp.tile_load(a, shape=(2, 2), offset=(i * 2, j * 2))
    t = wp.tile_map(wp.abs, t) * FACTOR
    s = wp.float32(n) + scale(float(n), 2.0)
    wp.tile_store(out, t + s, offset=(i * 2, j * 2))


def test_a_kernel_in_warps_words():
    a = wp.array(-np.arange(16, dtype=np.float32).reshape(4, 4), device="cpu")
    out = wp.zeros((4, 4), dtype=float, device="cpu")
    tk.launch_tiled(kernel, dim=(2, 2), inputs=[a, 2], outputs=[out], block_dim=32)
    assert np.array_equal(out.numpy(), np.arange(16).reshape(4, 4) * 3.0 + 6.0)


class Sizes:
    rows = wp.int32(2)
    factor = wp.float32(0.5)


TWICE = wp.constant(wp.float64(2.0))
COUNT, HALF, TINY, YES = wp.int32(3), wp.float16(0.5), wp.uint8(250), wp.bool(True)


@tk.kernel
def numbers_of_warps_classes(x: float, y: tk.float64, out: tk.array1d[tk.float64]):
    out[0] = y * TWICE
    out[1] = TWICE * y - TWICE
    out[2] = tk.float64(HALF + tk.float16(x))
    out[3] = tk.float64(TINY + tk.uint8(x) * tk.uint8(10))
    for i in range(COUNT):
        out[4] += tk.float64(i)
    t = tk.tile_full(shape=(COUNT, Sizes.rows), value=Sizes.factor)
    out[5] = tk.float64(tk.tile_sum(t)[0])
    if YES and TWICE < y and COUNT == 3:
        out[6] = tk.float64(tk.tile_arange(wp.float32(1.0), wp.float32(4.0))[2])
    wp.print(wp.len(t))


@pytest.mark.parametrize("device", ["cpu", "interpret"])
def test_constants_of_warps_number_classes_have_their_dtype(device, capsys):
    out = np.zeros(7)
    tk.launch_tiled(numbers_of_warps_classes, dim=1, inputs=[1.5, 4.0, out], block_dim=32, device=device)
    assert out.tolist() == [8.0, 6.0, 2.0, 4.0, 3.0, 3.0, 3.0]
    assert capsys.readouterr().out.splitlines()[-1] == "3"


def test_a_constant_of_another_dtype_is_named():
    @tk.kernel
    def wrong(x: float, out: tk.array1d[float]):
        out[0] = TWICE * x

    with pytest.raises(tk.errors.KernelTypeError, match="TWICE is float64 but x is float32"):
        tk.launch(wrong, dim=1, inputs=[1.0, np.zeros(1, np.float32)])


def test_a_warp_kernel_declared_again():
    @wp.kernel
    def original(x: wp.array(dtype=float)):
        i = wp.tid()
        x[i] = 2.0 * x[i]

    x = np.ones(4, np.float32)
    tk.launch(tk.kernel(original), dim=4, inputs=[x])
    assert x.tolist() == [2.0] * 4


def test_what_warp_lacks_and_what_tilekit_lacks():
    @tk.kernel
    def vector(out: tk.array1d[float]):
        v = wp.vec3(1.0, 2.0, 3.0)
        out[0] = v[0]

    @tk.kernel
    def missing(out: tk.array1d[float]):
        wp.tile_sort(out, out)

    @tk.kernel
    def unknown(out: tk.array1d[float]):
        wp.tile_lode(out, shape=2)

    out = np.zeros(1, np.float32)
    for wrong, error, text in (
        (vector, KernelNotImplementedError, "wp.vec3f is not available"),
        (missing, KernelNotImplementedError, "wp.tile_sort is a builtin of Warp that tilekit does not have yet"),
        (unknown, KernelAttributeError, "Warp has no 'tile_lode'; did you mean `tile_load`"),
    ):
        with pytest.raises(error, match=text):
            tk.launch_tiled(wrong, dim=1, outputs=[out], block_dim=1)


SPELLINGS = {
    "float32": [float, tk.float32, np.float32, np.dtype("float32"), wp.float32],
    "float64": [tk.float64, np.float64, np.dtype("float64"), wp.float64],
    "float16": [tk.float16, np.float16, np.dtype("float16"), wp.float16],
    "bfloat16": [tk.bfloat16, wp.bfloat16, ml_dtypes.bfloat16, np.dtype(ml_dtypes.bfloat16)],
    "int32": [int, tk.int32, np.int32, np.dtype("int32"), wp.int32],
    "int8": [tk.int8, np.int8, wp.int8],
    "uint8": [tk.uint8, np.uint8, wp.uint8],
    "int64": [tk.int64, np.int64, wp.int64],
    "uint64": [tk.uint64, np.uint64, wp.uint64],
    "bool": [bool, tk.bool, np.bool_, wp.bool],
}
PAIRS = [(name, given) for name, all_given in SPELLINGS.items() for given in all_given]


@pytest.mark.parametrize(("name", "given"), PAIRS, ids=[f"{name}-{given!r}" for name, given in PAIRS])
def test_spellings_of_dtypes(name, given):
    @tk.kernel
    def k(a: tk.array(dtype=given), x: given, out: tk.array1d[tk.float64]):
        t = tk.tile_astype(tk.tile_load(a, shape=2), given)
        u = tk.tile_zeros(shape=2, dtype=given)
        y = given(x) if callable(given) else tk.cast(x, given)
        out[0] = tk.float64(t[0]) + tk.float64(u[1])
        out[1] = tk.float64(y) + tk.float64(x)

    a = tk.zeros(2, dtype=getattr(tk, name), device="cpu")
    out = np.full(2, 9.0)
    tk.launch_tiled(k, dim=1, inputs=[a, 1], outputs=[out], block_dim=1)
    assert out.tolist() == [0.0, 2.0]


def test_spellings_of_torch():
    torch = pytest.importorskip("torch")
    assert tk.float32 == torch.float32
    assert tk.array2d[torch.bfloat16] == tk.array2d[tk.bfloat16]
