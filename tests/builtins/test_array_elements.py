"""Elements, sub-arrays and extents of arrays, compiled and interpreted."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilekit as tk
from tests.builtins.launching import interpreted, run_both
from tilekit.config import config
from tilekit.errors import KernelIndexError, KernelTypeError

F = np.float32


@tk.kernel
def transpose(a: tk.array2d[float], out: tk.array2d[float]):
    i, j = tk.tid()
    out[j, i] = a[i, j]


@tk.kernel
def rows(a: tk.array3d[float], out: tk.array2d[float]):
    i = tk.tid()
    plane = a[i]
    out[i, 0] = plane[0, 1] + a[i][1][2] + a[i, 1][0]
    out[i][1] = a[i, 1, 1]


@tk.kernel
def load_plane(a: tk.array3d[float], out: tk.array3d[float]):
    i = tk.tid()
    t = tk.tile_load(a[i], shape=(2, 3))
    tk.tile_store(out[i], t * 2.0)


@tk.kernel
def four(a: tk.array4d[int], out: tk.array1d[int]):
    i = tk.tid()
    out[i] = a[i, 1, 0, 2] + a[i][1][0, 2] + a[i, 1, 0][2]


@tk.kernel
def extents(a: tk.array3d[float], out: tk.array1d[int]):
    out[0] = a.shape[0]
    out[1] = a.shape[1]
    out[2] = a[0].shape[1]
    out[3] = len(a)
    out[4] = len(a[0, 0])
    out[5] = len((1, 2, 3))
    out[6] = a.ndim


@tk.kernel
def literals(x: tk.array1d[Any]):
    x[0] = 3
    x[1] = x[0]
    x[2] += 2
    x[3] -= 2
    x[4] *= 3


@tk.kernel
def gather(a: tk.array1d[float], at: tk.array1d[Any], out: tk.array1d[float]):
    i = tk.tid()
    out[i] = a[at[i]]


@tk.kernel
def reads_everywhere(a: tk.array2d[float], n: int, out: tk.array1d[float]):
    i = tk.tid()
    s = 0.0
    for k in range(n):
        if a[i, k] > 0.0:
            s += a[i, k]
        else:
            row = a[i]
            s -= row[k]
    k = 0
    while k < n and a[i, k] < 3.0:
        k += 1
    out[i] = s + float(k)


def test_elements(subtests: Any = None) -> None:
    a = np.arange(12, dtype=F).reshape(3, 4)
    out = run_both(transpose, (3, 4), a, np.zeros((4, 3), F))[1]
    assert (out == a.T).all()


def test_partial_indexing() -> None:
    a = np.arange(24, dtype=F).reshape(4, 2, 3)
    out = run_both(rows, 4, a, np.zeros((4, 2), F))[1]
    assert (out[:, 0] == a[:, 0, 1] + a[:, 1, 2] + a[:, 1, 0]).all()
    assert (out[:, 1] == a[:, 1, 1]).all()
    assert (run_both(load_plane, 4, a, np.zeros_like(a))[1] == 2 * a).all()
    b = np.arange(2 * 2 * 3 * 4, dtype=np.int32).reshape(2, 2, 3, 4)
    assert (run_both(four, 2, b, np.zeros(2, np.int32))[1] == 3 * b[:, 1, 0, 2]).all()


def test_strided_and_reversed_arrays() -> None:
    base = np.arange(60, dtype=F).reshape(6, 10)
    out = np.zeros((4, 3), F)
    tk.launch_tiled(transpose, dim=(3, 4), inputs=[base[::-2, 1:9:2], out], block_dim=1)
    assert (out == base[::-2, 1:9:2].T).all()


def test_extents() -> None:
    out = run_both(extents, 1, np.zeros((4, 2, 3), F), np.zeros(7, np.int32))[1]
    assert out.tolist() == [4, 2, 3, 4, 3, 3, 3]


@pytest.mark.parametrize("device", ["cpu", "interpret"])
def test_extents_that_no_int32_holds(device: str) -> None:
    wide = np.broadcast_to(F(1), (2, 2**31, 3))
    with pytest.raises(KernelIndexError, match="axis 1 of this array has 2147483648 elements"):
        tk.launch_tiled(extents, dim=1, inputs=[wide, np.zeros(7, np.int32)], block_dim=1, device=device)


@pytest.mark.parametrize(
    "dtype", ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64"]
)
def test_every_dtype(dtype: str) -> None:
    x = np.arange(5).astype(dtype)
    expected = np.array([3, 3, 4, 1, 12], dtype)
    assert (run_both(literals, 1, x)[0] == expected).all()


@tk.kernel
def halves(x: tk.array1d[tk.bfloat16], y: tk.array1d[tk.float16]):
    x[0] = 1.00390625
    x[1] = x[2] + x[3]
    x[4] = tk.bfloat16(float(y[1]) * 1.1)
    y[0] = tk.float16(float(x[3]))
    x[5] += 0.3


def test_bfloat16_as_bits() -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    x = np.array([0, 0, 1.5, 2.25, 0, 1.0], ml_dtypes.bfloat16)
    y = np.array([0, 3.0], np.float16)
    bits = x.view(np.uint16).copy()
    interpreted(halves, 1, [bits, other := y.copy()])
    by_dtype = x.copy()
    interpreted(halves, 1, [by_dtype, y.copy()])
    tk.launch_tiled(halves, dim=1, inputs=[x, y], block_dim=1)
    assert x.astype(F).tolist() == [1.0, 3.75, 1.5, 2.25, 3.296875, 1.296875]
    assert (x.view(np.uint16) == bits).all() and (by_dtype.view(np.uint16) == bits).all()
    assert (y == other).all() and y[0] == 2.25


@tk.kernel
def flags(x: tk.array1d[bool], out: tk.array1d[int]):
    x[0] = True
    x[1] = x[2] and not x[3]
    if x[2]:
        out[0] = 7


def test_bools() -> None:
    x, out = run_both(flags, 1, np.array([0, 0, 1, 0], bool), np.zeros(1, np.int32))
    assert x.tolist() == [True, True, True, False] and out[0] == 7


@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"])
def test_index_of_every_integer_dtype(dtype: str) -> None:
    at = np.array([2, 0, 1], dtype)
    assert run_both(gather, 3, np.array([5, 6, 7], F), at, np.zeros(3, F))[2].tolist() == [7, 5, 6]


def test_inside_control_flow() -> None:
    a = np.array([[1, -2, 5, 1], [0, 1, 2, -3]], F)
    out = run_both(reads_everywhere, 2, a, 4, np.zeros(2, F))[1]
    assert out.tolist() == [1 + 2 + 5 + 1 + 2, 0 + 1 + 2 + 3 + 4]


@tk.kernel
def two_dtypes(a: tk.array1d[float], b: tk.array1d[int], out: tk.array1d[float]):
    for i in range(b.shape[0]):
        a[i] = 1.0
        b[i] = b[i] + 1
        out[i] = a[i] * 2.0


@pytest.mark.parametrize("device", ["cpu", "interpret"])
def test_one_memory_under_two_dtypes(device: str) -> None:
    a, out = np.zeros(40, F), np.zeros(40, F)
    tk.launch_tiled(two_dtypes, dim=1, inputs=[a, a.view(np.int32), out], block_dim=1, device=device)
    assert (out == 2 * np.nextafter(F(1), F(2))).all()


# Out of bounds.


@tk.kernel
def shifted(a: tk.array2d[float], di: int, dj: int, out: tk.array2d[float]):
    i, j = tk.tid()
    out[i, j] = a[i + di, j + dj]


@tk.kernel
def last(a: tk.array1d[float]):
    a[0] = a[-1]


@tk.kernel
def scatter(out: tk.array1d[float], n: int):
    i = tk.tid()
    for k in range(n):
        if k > 2:
            out[i + k] = 1.0


@tk.kernel
def far_row(a: tk.array3d[float], i: int):
    row = a[i]
    row[0, 5] = 1.0


@tk.kernel
def bump(a: tk.array1d[int], i: tk.int64):
    a[i] += 1


WRONG: dict[str, tuple[Any, Any, list[Any], str]] = {
    "read": (
        shifted,
        (2, 2),
        [np.ones((2, 2), F), 0, 1, np.zeros((2, 2), F)],
        "index 2 is out of bounds for axis 1 of a",
    ),
    "below": (
        shifted,
        (2, 2),
        [np.ones((2, 2), F), -1, 0, np.zeros((2, 2), F)],
        "index -1 is out of bounds for axis 0",
    ),
    "negative": (last, 1, [np.ones(3, F)], "index -1 is out of bounds for axis 0 of a, which has extent 3"),
    "write in a loop": (
        scatter,
        1,
        [np.zeros(4, F), 9],
        "index 4 is out of bounds for axis 0 of out, which has extent 4",
    ),
    "sub-array": (
        far_row,
        1,
        [np.zeros((2, 2, 3), F), 2],
        "index 2 is out of bounds for axis 0 of a, which has extent 2",
    ),
    "in a sub-array": (far_row, 1, [np.zeros((2, 2, 3), F), 1], "index 5 is out of bounds for axis 1 of a[...]"),
    "far": (bump, 1, [np.zeros(4, np.int32), 2**40], "index 1099511627776 is out of bounds"),
}


@pytest.mark.parametrize("name", WRONG)
def test_out_of_bounds(name: str) -> None:
    kernel, dim, arguments, message = WRONG[name]
    with pytest.raises(KernelIndexError) as interpretation:
        interpreted(kernel, dim, [a.copy() if isinstance(a, np.ndarray) else a for a in arguments])
    with pytest.raises(IndexError) as eager:
        tk.launch_tiled(kernel, dim=dim, inputs=arguments, block_dim=1, device="interpret")
    with pytest.raises(IndexError) as compiled:
        tk.launch_tiled(kernel, dim=dim, inputs=arguments, block_dim=1)
    assert str(eager.value) == str(compiled.value)
    for error in (interpretation.value, compiled.value):
        assert isinstance(error, KernelIndexError)
        assert message in error.message
        assert error.location is not None and error.location.file == __file__
        assert error.location.source_line().strip() in open(__file__).read()
    assert interpretation.value.location.line == compiled.value.location.line
    assert "kernel" in compiled.value.message and "block" in compiled.value.message


def test_error_names_the_block() -> None:
    a = np.ones((3, 5), F)
    with pytest.raises(
        KernelIndexError, match=r"axis 0 of a, which has extent 3, in block \(2, 0\) of kernel 'shifted'"
    ):
        tk.launch_tiled(shifted, dim=(3, 1), inputs=[a, 1, 0, np.zeros((3, 5), F)], block_dim=1)


def test_checks_can_be_turned_off() -> None:
    base = np.arange(6, dtype=F)
    out = np.zeros((1, 1), F)
    with config.scoped(index_checks=False):
        tk.launch_tiled(shifted, dim=(1, 1), inputs=[base[:4].reshape(1, 4), 0, 5, out], block_dim=1)
    assert out[0, 0] == 5


# Wrong programs.


@tk.kernel
def wrong_dtype(a: tk.array1d[float], b: tk.array1d[tk.float64]):
    a[0] = b[0]


@tk.kernel
def float_in_ints(a: tk.array1d[int], b: tk.array1d[int]):
    a[0] = 2.5


@tk.kernel
def float_added_to_ints(a: tk.array1d[int], b: tk.array1d[int]):
    a[0] += 2.5


@tk.kernel
def sliced(a: tk.array1d[float], b: tk.array1d[float]):
    a[0] = b[1:3]


@tk.kernel
def too_many(a: tk.array1d[float], b: tk.array1d[float]):
    a[0] = b[0, 1]


@tk.kernel
def too_few(a: tk.array2d[float], b: tk.array1d[float]):
    a[0] = 1.0


@tk.kernel
def by_float(a: tk.array1d[float], b: tk.array1d[float]):
    a[0] = b[b[0]]


@tk.kernel
def whole_tile(a: tk.array1d[float], b: tk.array1d[float]):
    a[0] = tk.tile_load(b, shape=4)


@tk.kernel
def none_index(a: tk.array1d[float], b: tk.array1d[float]):
    a[0] = b[None]


@pytest.mark.parametrize(
    ("kernel", "types", "message"),
    [
        (wrong_dtype, (F, np.float64), r"a holds float32 but the value is float64; cast it with tk.float32\(...\)"),
        (float_in_ints, (np.int32, np.int32), "a holds int32 but the value is a float"),
        (float_added_to_ints, (np.int32, np.int32), "a holds int32 but the value is a float"),
        (sliced, (F, F), "an array cannot be sliced in a kernel; load a tile with tk.tile_load"),
        (too_many, (F, F), "b is an array1d<f32>: an element has 1 index, got 2"),
        (by_float, (F, F), "must be an integer or a tuple of integers, got a float32"),
        (whole_tile, (F, F), "use tk.tile_store"),
        (none_index, (F, F), "None cannot index an array in a kernel"),
    ],
)
def test_refused(kernel: Any, types: Any, message: str) -> None:
    with pytest.raises(KernelTypeError, match=message) as raised:
        tk.launch_tiled(kernel, dim=1, inputs=[np.zeros(4, t) for t in types], block_dim=1)
    assert raised.value.location is not None and raised.value.location.file == __file__


def test_element_needs_all_indices_to_write() -> None:
    with pytest.raises(KernelTypeError, match="a is an array2d<f32>: an element has 2 indices, got 1"):
        tk.launch_tiled(too_few, dim=1, inputs=[np.zeros((2, 2), F), np.zeros(2, F)], block_dim=1)


# Arrays that are not given.


@tk.kernel
def optional(a: tk.array1d[float], bias: tk.array1d[float], out: tk.array1d[float]):
    i = tk.tid()
    x = a[i]
    if bias:
        x += bias[i]
    if bias is None:
        x += 100.0
    out[i] = x if bias is not None else -x


def test_array_that_is_none() -> None:
    a, bias = np.array([1, 2], F), np.array([10, 20], F)
    assert run_both(optional, 2, a, bias, np.zeros(2, F))[2].tolist() == [11, 22]
    assert run_both(optional, 2, a, None, np.zeros(2, F))[1].tolist() == [-101, -102]


@tk.kernel
def gathers_in_a_map(a: tk.array1d[float], out: tk.array1d[float]):
    tk.tile_store(out, tk.tile_map(lambda k: a[2 - k], tk.tile_arange(3, dtype=int)))


@pytest.mark.parametrize("device", ["cpu", "interpret"])
def test_a_function_of_elements_may_read_an_array(device: str) -> None:
    out = np.zeros(3, np.float32)
    a = np.array([1.0, 2.0, 3.0], np.float32)
    tk.launch_tiled(gathers_in_a_map, dim=1, inputs=[a], outputs=[out], block_dim=32, device=device)
    assert out.tolist() == [3.0, 2.0, 1.0]
