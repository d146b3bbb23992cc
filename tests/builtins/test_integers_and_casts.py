"""Integer and bit operations, and conversions between all dtypes, compiled and interpreted."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilekit as tk
from tests.builtins.launching import converted, run_both
from tilekit.ir.types import round_bfloat16


@tk.kernel
def integers(x: tk.array1d[Any], y: tk.array1d[Any], out: tk.array2d[Any], counts: tk.array1d[int]):
    i = tk.tid()
    a = x[i]
    b = y[i]
    out[0, i] = a & b
    out[1, i] = a | b
    out[2, i] = a ^ b
    out[3, i] = ~a
    out[4, i] = a << b
    out[5, i] = a >> b
    out[6, i] = a << 3
    out[7, i] = a >> 2
    out[8, i] = tk.bit_and(a, 5)
    out[9, i] = tk.invert(a) + tk.lshift(a, b) - tk.rshift(a, b)
    out[10, i] = tk.abs(a)
    out[11, i] = tk.sign(a)
    out[12, i] = tk.step(a)
    out[13, i] = tk.nonzero(a)
    out[14, i] = tk.min(a, b) - tk.max(a, b)
    out[15, i] = tk.clamp(a, 2, 9)
    out[16, i] = a / b
    out[17, i] = a // b
    out[18, i] = a % b
    out[19, i] = -a
    out[20, i] = a * b + a - b
    c = a
    c &= b
    c |= 1
    c ^= b
    c <<= 1
    c >>= 2
    out[21, i] = c
    counts[i] = tk.bit_count(a)


@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"])
def test_integers(dtype: str) -> None:
    info = np.iinfo(dtype)
    rng = np.random.default_rng(5)
    edge = [info.min, info.max, info.min + 1, 0, 1, 2, 7, 63, 33]
    x = np.concatenate([np.array(edge, dtype), rng.integers(info.min, info.max, 30, dtype, endpoint=True)])
    y = np.concatenate([np.roll(x[:20], 3), rng.integers(0, 12, x.size - 20).astype(dtype)])
    if info.min < 0:
        y[0], y[11] = -1, -5
    out, counts = run_both(integers, x.size, x, y, np.zeros((22, x.size), dtype), np.zeros(x.size, np.int32))[2:]
    assert (out[0] == (x & y)).all() and (out[3] == ~x).all()
    assert counts.tolist() == [bin(int(v) & (1 << info.bits) - 1).count("1") for v in x]


@tk.kernel
def casts(x: tk.array1d[Any], out: tk.array2d[tk.int64], wide: tk.array2d[tk.float64]):
    i = tk.tid()
    a = x[i]
    out[0, i] = tk.int64(tk.int8(a))
    out[1, i] = tk.int64(tk.int16(a))
    out[2, i] = tk.int64(tk.int32(a))
    out[3, i] = tk.int64(a)
    out[4, i] = tk.int64(tk.uint8(a))
    out[5, i] = tk.int64(tk.uint16(a))
    out[6, i] = tk.int64(tk.uint32(a))
    out[7, i] = tk.int64(tk.uint64(a))
    out[8, i] = tk.int64(int(a))
    out[9, i] = tk.int64(bool(a))
    wide[0, i] = tk.float64(tk.float16(a))
    wide[1, i] = tk.float64(tk.bfloat16(a))
    wide[2, i] = tk.float64(float(a))
    wide[3, i] = tk.float64(a)


@pytest.mark.parametrize(
    "dtype", ["float64", "float32", "float16", "bfloat16", "int64", "uint64", "int32", "uint8", "bool"]
)
def test_casts(dtype: str) -> None:
    edge = [
        0.0,
        -0.5,
        1.5,
        -1.5,
        127.9,
        128.0,
        -128.9,
        -129.0,
        2.0**31,
        -(2.0**31) - 1,
        2.0**63,
        -(2.0**63),
        1e30,
        -1e30,
    ]
    edge += [300.0, 65519.9, 65520.0, 2.0**53 + 2, 1 + 2.0**-8 + 2.0**-30, 1 + 2.0**-8, 1 + 3 * 2.0**-8 - 2.0**-40]
    x = converted([*edge, np.nan, np.inf, -np.inf], dtype) if "int" not in dtype else integer_edges(dtype)
    out, wide = np.zeros((10, x.size), np.int64), np.zeros((4, x.size))
    got = run_both(casts, x.size, x, out, wide)
    if dtype == "float64":
        assert got[1][0][:8].tolist() == [0, 0, 1, -1, 127, 127, -128, -128]
        assert got[1][3][10:14].tolist() == [2**63 - 1, -(2**63), 2**63 - 1, -(2**63)]
        assert got[1][2][-3:].tolist() == [0, 2**31 - 1, -(2**31)] and got[1][9][-3:].tolist() == [1, 1, 1]
        assert got[2][1][18] == 1 + 2.0**-7 and got[2][1][19] == 1.0


def integer_edges(dtype: str) -> Any:
    info = np.iinfo(dtype)
    values = [0, 1, 127, 128, 200, 255, info.max, info.min, info.max // 3, info.max // 2 + 1]
    if info.bits == 64:
        values += [2**53 + 1, 2**62 + 2**54 + 1, 2**62 + 2**54, 2**24 + 1, 2**32 + 5, 65520, 65519]
    return np.array(values, dtype)


def test_bfloat16_rounds_once() -> None:
    # Half way between two bfloat16 once rounded to float32, but above before.
    value = 1 + 2.0**-8 + 2.0**-40
    assert tk.bfloat16(value) == 1 + 2.0**-7
    assert round_bfloat16(np.array(value, np.float32)) == 1.0


@tk.kernel
def casts_wide_literals(out: tk.array1d[tk.int64], wide: tk.array1d[tk.uint64]):
    out[0] = tk.cast(3000000000, tk.int64)
    out[1] = tk.cast(-9223372036854775808, tk.int64)
    wide[0] = tk.cast(18446744073709551615, tk.uint64)


@pytest.mark.parametrize("device", ["cpu", "interpret"])
def test_literals_beyond_int32_are_cast_whole(device):
    out, wide = np.zeros(2, np.int64), np.zeros(1, np.uint64)
    tk.launch_tiled(casts_wide_literals, dim=1, outputs=[out, wide], device=device)
    assert out.tolist() == [3000000000, -9223372036854775808]
    assert wide.tolist() == [18446744073709551615]


@tk.kernel
def typed_constants(out: tk.array1d[tk.float64]):
    out[0] = tk.float64(tk.uint8(250) + tk.uint8(10))
    out[1] = tk.float64(tk.int32(2**31 - 1) + tk.int32(1))
    out[2] = tk.float64(tk.float32(3e38) * tk.float32(10.0))
    out[3] = tk.float64(-tk.int8(-128))


@pytest.mark.parametrize("device", ["cpu", "interpret"])
@pytest.mark.filterwarnings("error")
def test_constants_with_a_dtype_wrap_without_a_word_from_numpy(device):
    out = np.zeros(4)
    with np.errstate(all="raise"):
        tk.launch(typed_constants, dim=1, inputs=[out], device=device)
    assert out.tolist() == [4.0, -(2.0**31), np.inf, -128.0]


SEVEN, THREE = np.int32(-7), np.int32(3)


@tk.kernel
def divided_constants(n: int, x: float, out: tk.array1d[tk.float64]):
    out[0] = tk.float64(tk.int32(-7) / tk.int32(2))
    out[1] = tk.float64(SEVEN / 2)
    out[2] = tk.float64(-7 / THREE)
    out[3] = tk.float64(SEVEN % THREE)
    out[4] = tk.float64(SEVEN // THREE)
    out[5] = tk.float64(SEVEN / tk.int32(0)) + tk.float64(SEVEN % tk.int32(0))
    out[6] = tk.float64(tk.float32(-7.5) % tk.float32(2.0))
    out[7] = tk.float64(tk.int32(1) << 40)
    out[8] = tk.float64(n / THREE) + tk.float64(n % THREE)
    out[9] = tk.float64(len(tk.tile_zeros(shape=tk.int32(9) / 2)))
    k = SEVEN
    k /= 2
    k %= THREE
    out[10] = tk.float64(k)
    out[11] = tk.float64(x * (tk.float32(0.1) + 0.2))


@pytest.mark.parametrize("device", ["cpu", "interpret"])
def test_constants_with_a_dtype_follow_the_rules_of_run_time_values(device):
    out = np.zeros(12)
    tk.launch_tiled(divided_constants, dim=1, inputs=[-7, 2.0, out], block_dim=32, device=device)
    last = float(np.float32(2) * (np.float32(0.1) + np.float32(0.2)))
    assert out.tolist() == [-3, -3, -2, -1, -3, 0, -1.5, 0, -3, 4, 0, last]


def test_constants_of_two_dtypes_do_not_mix():
    @tk.kernel
    def mixed(x: float, out: tk.array1d[float]):
        out[0] = x * (SEVEN * 0.5)

    @tk.kernel
    def doubles(x: float, out: tk.array1d[float]):
        out[0] = x * tk.mul(np.float64(2.0), 3.0)

    for wrong, message in ((mixed, "SEVEN is int32 but 0.5 is a float"), (doubles, "x is float32 but .* is float64")):
        with pytest.raises(tk.errors.KernelTypeError, match=message):
            tk.launch(wrong, dim=1, inputs=[1.0, np.zeros(1, np.float32)])
