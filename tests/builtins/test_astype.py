"""tile_astype between all dtypes: compiled and interpreted alike, and rounded once."""

from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

import tilekit as tk
from tests.builtins.both import run
from tilekit.ir.types import DTYPES

HOST = {name: np.dtype(ml_dtypes.bfloat16) if name == "bfloat16" else dtype.numpy for name, dtype in DTYPES.items()}
NEAR = [
    1 + 2.0**-8 + 2.0**-40,
    1 + 2.0**-8 - 2.0**-40,
    1 + 2.0**-11 + 2.0**-45,
    65519.99999999,
    65520.0,
    2.0**-25,
    1e39,
]
WHOLE = [2**24 + 1, 2**53 + 1, 257 * 2**40 + 1, 2**63 - 1, 2049, 65519, 65520, 255, 128]


def conversions(source):
    """A kernel that converts a tile to every dtype."""
    dtypes = tuple(DTYPES.values())

    @tk.kernel
    def convert(
        x: tk.array1d[source], a: tk.array1d[dtypes[0]], b: tk.array1d[dtypes[1]], c: tk.array1d[dtypes[2]],
        d: tk.array1d[dtypes[3]], e: tk.array1d[dtypes[4]], f: tk.array1d[dtypes[5]], g: tk.array1d[dtypes[6]],
        h: tk.array1d[dtypes[7]], i: tk.array1d[dtypes[8]], j: tk.array1d[dtypes[9]], k: tk.array1d[dtypes[10]],
        m: tk.array1d[dtypes[11]], n: tk.array1d[dtypes[12]],
    ):  # fmt: skip
        t = tk.tile_load(x, shape=64)
        for array in (a, b, c, d, e, f, g, h, i, j, k, m, n):
            tk.tile_store(array, tk.tile_astype(t, array.dtype))

    return convert


def numbers(dtype):
    rng = np.random.default_rng(1)
    if dtype.kind == "b":
        return rng.integers(0, 2, 64)
    if dtype.is_integer:
        info = np.iinfo(dtype.numpy)
        fit = [v for v in WHOLE if v <= info.max] + [-v for v in WHOLE if -v >= info.min]
        return np.array(fit + list(rng.integers(info.min, info.max, 64 - len(fit), dtype=dtype.numpy)), dtype.numpy)
    return np.concatenate([NEAR, [-v for v in NEAR], rng.standard_normal(50) * 2.0 ** rng.integers(-30, 6, 50)])


@pytest.mark.parametrize("name", DTYPES)
def test_conversions_are_the_same_bits_everywhere(name):
    with np.errstate(all="ignore"):
        x = numbers(DTYPES[name]).astype(HOST[name])
    results = run(conversions(DTYPES[name]), [x], [np.zeros(64, HOST[other]) for other in DTYPES])
    for other, found in zip(DTYPES.values(), results, strict=True):
        if other.is_float:
            exact = [int(v) if DTYPES[name].is_integer else float(v) for v in x]
            assert all(nearest(v, HOST[other.name]) == float(y) for v, y in zip(exact, found, strict=True)), other


def nearest(value, dtype):
    """The closest number of a dtype, ties to even, by comparing with both neighbours."""
    with np.errstate(all="ignore"):
        guess = np.asarray(float(value)).astype(dtype)
    if not np.isfinite(float(guess)):
        return float(guess)
    bits = guess.view(f"i{dtype.itemsize}")
    near = [np.asarray(bits + step).view(dtype) for step in (-1, 0, 1)]
    finite = [v for v in near if np.isfinite(float(v))]

    def distance(v):
        return abs(Fraction(float(v)) - Fraction(value)), int(v.view(f"i{dtype.itemsize}")) & 1

    return float(min(finite, key=distance))
