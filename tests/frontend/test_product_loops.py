"""Loops over few known indices stay loops where they are products over K; others are unrolled, whatever they try."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilekit as tk
from tests.builtins.both import run
from tilekit.frontend import product_loops
from tilekit.ir.context import LaunchForm
from tilekit.ir.core import walk

RNG = np.random.default_rng(5)
A, B = RNG.standard_normal((8, 24), np.float32), RNG.standard_normal((24, 8), np.float32)
WIDTHS = (4, 8, 4)


def product(a, b, acc, k, alpha=1.0):
    tk.tile_matmul(tk.tile_load(a, (8, 8), offset=(0, k)), tk.tile_load(b, (8, 8), offset=(k, 0)), acc, alpha=alpha)


def plain(a, b, acc):
    for k in range(3):
        product(a, b, acc, k * 8)


def downwards(a, b, acc):
    for k in reversed(range(0, 24, 8)):
        unused = k * 2  # noqa: F841
        product(a, b, acc, k)


def nested(a, b, acc):
    for j in range(2):
        for k in range(3):
            product(a, b, acc, k * 8, alpha=float(j + 1))


def known_index(a, b, acc):
    at = 0
    for k in range(3):
        width = WIDTHS[k]
        x = tk.tile_load(a, (8, width), offset=(0, at))
        tk.tile_matmul(x, tk.tile_load(b, (width, 8), offset=(at, 0)), acc)
        at += width


def method_of_a_text(a, b, acc):
    for k in range(2):
        product(a, b, acc, k * 8, alpha=float(f"{k}".isdigit() + k))


def function_of_a_number(a, b, acc):
    for k in range(2):
        product(a, b, acc, k * 8, alpha=float(divmod(k, 2)[1] + 1))


def used_after(a, b, acc):
    for k in range(2):
        product(a, b, acc, k * 8)
    acc += float(k)


def collects(a, b, acc):
    parts = []
    for k in range(2):
        parts.append(tk.tile_load(a, (8, 8), offset=(0, k * 8)) @ tk.tile_load(b, (8, 8), offset=(k * 8, 0)))
    acc += parts[0] - parts[1] * float(len(parts))


def counts(a, b, acc):
    n = 0
    for k in range(2):
        product(a, b, acc, k * 8)
        n += 2
    acc += tk.tile_load(a, (8, n * 2)) @ tk.tile_load(b, (n * 2, 8))


def reads_between(a, b, acc):
    for k in range(2):
        product(a, b, acc, k * 8)
        acc *= 0.5


def left(a, b, acc):
    for k in range(3):
        if k == 2:
            break
        product(a, b, acc, k * 8)


CASES = [
    (plain, 1, A @ B),
    (downwards, 1, A @ B),
    (nested, 2, 3 * (A @ B)),
    (known_index, 0, A[:, :16] @ B[:16]),
    (method_of_a_text, 0, A[:, :8] @ B[:8] + 2 * (A[:, 8:16] @ B[8:16])),
    (function_of_a_number, 0, A[:, :8] @ B[:8] + 2 * (A[:, 8:16] @ B[8:16])),
    (used_after, 1, A[:, :16] @ B[:16] + 1),
    (collects, 0, A[:, :8] @ B[:8] - 2 * (A[:, 8:16] @ B[8:16])),
    (counts, 1, A[:, :16] @ B[:16] + A[:, :8] @ B[:8]),
    (reads_between, 0, A[:, :8] @ B[:8] / 4 + A[:, 8:16] @ B[8:16] / 2),
    (left, 0, A[:, :16] @ B[:16]),
]


@pytest.mark.parametrize(("body", "loops", "wanted"), CASES, ids=[body.__name__ for body, _, _ in CASES])
def test_loops_that_stay(body: Any, loops: int, wanted: Any) -> None:
    @tk.kernel
    def kernel(a: tk.array2d[float], b: tk.array2d[float], out: tk.array2d[float]):
        acc = tk.tile_zeros(shape=(8, 8))
        body(a, b, acc)
        tk.tile_store(out, acc)

    fn = kernel.trace(kernel.default_types(), LaunchForm(ndim=1))
    assert [op.builtin.name for op in walk(fn.body)].count("for_range") == loops
    (found,) = run(kernel, [A, B], [np.zeros((8, 8), np.float32)])
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)


def test_a_mistake_in_what_decides_is_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    def mistaken(ops: Any, tiles_only: bool) -> bool:
        raise AssertionError("a pass is wrong")

    monkeypatch.setattr(product_loops, "_is_product", mistaken)
    with pytest.raises(AssertionError, match="a pass is wrong"):
        weak.trace(weak.default_types(), LaunchForm(ndim=1))


@tk.kernel
def weak(a: tk.array2d[tk.float64], b: tk.array2d[tk.float64], out: tk.array2d[tk.float64]):
    acc = tk.tile_zeros(shape=(8, 8), dtype=tk.float64)
    scale = 0.1
    for k in range(3):
        product(a, b, acc, k * 8, alpha=scale)
    tk.tile_store(out, acc * scale)


def test_literals_have_the_dtype_that_they_meet_in_the_loop() -> None:
    a, b = A.astype(np.float64), B.astype(np.float64)
    (found,) = run(weak, [a, b], [np.zeros((8, 8))])
    np.testing.assert_allclose(found, 0.1 * 0.1 * (a @ b), rtol=1e-13)
