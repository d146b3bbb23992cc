"""Which loads products read from the array itself, and that their numbers stay the same bits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilekit as tk
from tilekit.codegen.target import Target
from tilekit.frontend.kernel import Kernel
from tilekit.ir.context import LaunchForm
from tilekit.ir.core import walk
from tilekit.passes import run_pipeline


def loads_of(kernel: Kernel, target: Target) -> list[tuple[str, Any]]:
    """The loads after all passes: the op's name, and how far the next product's tile lies."""
    fn, _ = run_pipeline(kernel.trace(kernel.default_types(), LaunchForm(ndim=target.ndim)), target)
    return [(op.builtin.name, op.attrs.get("step")) for op in walk(fn.body) if op.builtin.reads]


def with_body(body: Callable[..., None]) -> Kernel:
    """A kernel whose loop over K runs ``body``."""

    @tk.kernel
    def kernel(a: tk.array2d[float], b: tk.array2d[float], out: tk.array2d[float], n: int):
        i, j = tk.tid()
        acc = tk.tile_zeros(shape=(20, 24), dtype=float)
        other = tk.tile_zeros(shape=(20, 24), dtype=float)
        for k in range(n):
            body(a, b, acc, other, i * 20, j * 24, k)
        tk.tile_store(out, acc + other, offset=(i * 20, j * 24))

    return kernel


def left(array, row, k):
    return tk.tile_load(array, shape=(20, 16), offset=(row, k * 16))


def right(array, k, column):
    return tk.tile_load(array, shape=(16, 24), offset=(k * 16, column))


def plain(a, b, acc, other, row, column, k):
    tk.tile_matmul(left(a, row, k), right(b, k, column), acc)


def shared(a, b, acc, other, row, column, k):
    x = left(a, row, k)
    y = right(b, k, column)
    tk.tile_matmul(x, y, acc)
    tk.tile_matmul(x, y, other, alpha=-0.5)


def also_read(a, b, acc, other, row, column, k):
    x = left(a, row, k)
    y = right(b, k, column)
    tk.tile_matmul(x, y, acc)
    other += tk.tile_sum(x)[0]


def transposed(a, b, acc, other, row, column, k):
    x = tk.tile_load(a, shape=(16, 20), offset=(k * 16, row))
    tk.tile_matmul(tk.tile_transpose(x), right(b, k, column), acc)


def downwards(a, b, acc, other, row, column, k):
    tk.tile_matmul(left(a, row, 2 - k), right(b, 2 - k, column), acc)


IN_PLACE = {"a": ("load_factor", (0, 16)), "b": ("load_factor", (16, 0)), "copy": ("tile_load", None)}
BODIES = [
    (plain, ["a", "b"]),
    (shared, ["a", "b"]),
    (also_read, ["copy", "b"]),
    (transposed, ["copy", "b"]),
    (downwards, [("load_factor", (0, -16)), ("load_factor", (-16, 0))]),
]


@pytest.mark.parametrize(("body", "expected"), BODIES, ids=[body.__name__ for body, _ in BODIES])
def test_loads_that_only_products_read_need_no_copy(body: Callable[..., None], expected: list[Any]) -> None:
    found = loads_of(with_body(body), Target(ndim=2))
    assert found == [IN_PLACE[item] if isinstance(item, str) else item for item in expected]


def test_on_a_gpu_loads_stay_what_they_are() -> None:
    with tk.config.scoped(gemm="scalar"):
        found = loads_of(with_body(plain), Target("cuda", "90a", 128, True, 2, threads=128))
    assert found == [IN_PLACE["copy"]] * 2


@tk.kernel
def stepping(a: tk.array2d[float], b: tk.array2d[float], out: tk.array2d[float], size: int, by: int):
    acc = tk.tile_zeros(shape=(20, 24), dtype=float)
    for k in range(0, size, 32):
        x = tk.tile_load(a, shape=(20, 32), offset=(0, k))
        tk.tile_matmul(x, tk.tile_load(b, shape=(32, 24), offset=(k, 0)), acc)
    for k in range(0, size, by):
        x = tk.tile_load(a, shape=(20, 32), offset=(0, k))
        tk.tile_matmul(x, tk.tile_load(b, shape=(32, 24), offset=(k, 0)), acc)
    tk.tile_store(out, acc)


def test_the_step_is_the_loop_s_where_that_is_known() -> None:
    steps = [(0, 32), (32, 0), (0, 0), (0, 0)]
    assert loads_of(stepping, Target(ndim=1)) == [("load_factor", step) for step in steps]


def places(values: Any) -> dict[str, Any]:
    """A matrix in memory of different strides."""
    rows, columns = values.shape
    found = {
        "dense": values.copy(),
        "padded": np.zeros((rows, columns + 3), values.dtype)[:, :columns],
        "flipped": np.zeros_like(values)[::-1],
        "columns": np.asfortranarray(values),
        "strided": np.zeros((rows, 2 * columns), values.dtype)[:, ::2],
    }
    for place in found.values():
        place[...] = values
    return found


@pytest.mark.parametrize("body", [body for body, _ in BODIES], ids=[body.__name__ for body, _ in BODIES])
def test_any_strides_and_edges_give_the_same_bits(body: Callable[..., None]) -> None:
    """Tiles stand over the arrays' edges; a copy of the operands in another place is the judge."""
    kernel = with_body(body)
    rng = np.random.default_rng(5)
    a = rng.standard_normal((48, 43) if body is not transposed else (43, 48)).astype("f4")
    b = rng.standard_normal((43, 50)).astype("f4")
    results = {}
    for name, at in places(a).items():
        for other, bt in places(b).items():
            out = np.zeros((48, 50), "f4")
            tk.launch_tiled(kernel, (3, 3), [at, bt, out, 3], device="cpu")
            results[name, other] = out
    want = np.zeros((48, 50), "f4")
    tk.launch_tiled(kernel, (3, 3), [a, b, want, 3], device="interpret")
    for place, out in results.items():
        assert out.tobytes() == results["strided", "strided"].tobytes(), place
        np.testing.assert_allclose(out, want, rtol=1e-4, atol=1e-4)


def test_an_operand_may_be_the_result_of_the_launch_before_it() -> None:
    """In place, tiles hold what the array holds now."""
    kernel = with_body(plain)
    a, b = np.eye(48, dtype="f4"), np.full((48, 48), 2, "f4")
    for _ in range(3):
        out = np.zeros((48, 48), "f4")
        tk.launch_tiled(kernel, (3, 2), [a, b, out, 3], device="cpu")
        b = out * 2
    np.testing.assert_array_equal(b, np.full((48, 48), 16, "f4"))
