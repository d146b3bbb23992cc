"""Which loops are matrix products, and which only look like one."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import tilekit as tk
from tilekit.frontend.kernel import Kernel
from tilekit.ir.affine import Affine
from tilekit.ir.context import LaunchForm
from tilekit.passes.eliminate_dead_code import eliminate_dead_code
from tilekit.passes.find_gemm_loops import GemmLoop, find_gemm_loops


def loops_of(kernel: Kernel) -> list[GemmLoop]:
    return find_gemm_loops(eliminate_dead_code(kernel.trace(kernel.default_types(), LaunchForm(ndim=2))))


@tk.kernel
def example(a: tk.array2d[float], b: tk.array2d[float], out: tk.array2d[float], n: int):
    out_tile = tk.tile_zeros(shape=(4, 8), dtype=float)
    for k in range(n):
        a_tile = tk.tile_load(a, shape=(4, 3), offset=(0, k * 3))
        b_tile = tk.tile_load(b, shape=(3, 8), offset=(k * 3, 0))
        tk.tile_matmul(a_tile, b_tile, out_tile)
    tk.tile_store(out, out_tile)


def test_the_example() -> None:
    (found,) = loops_of(example)
    (product,) = found.products
    assert (product.a.op.attrs["shape"], product.b.op.attrs["shape"]) == ((4, 3), (3, 8))
    index = found.loop.blocks[0].params[0]
    assert product.a.offset == (Affine(0), Affine(0, {index: 3}))
    assert product.b.offset == (Affine(0, {index: 3}), Affine(0))
    assert (product.a.k_axis, product.a.k_step, product.a.transposed) == (1, 3, False)
    assert (product.b.k_axis, product.b.k_step, product.b.transposed) == (0, 3, False)
    assert str(product.op.results[0].type) == str(found.loop.results[product.carry].type) == "tile<4x8xf32>"
    assert found.others == ()


@tk.kernel
def k_tail(a: tk.array2d[tk.float16], b: tk.array2d[tk.float16], out: tk.array2d[float], size: int):
    i, j = tk.tid()
    acc = tk.tile_zeros(shape=(16, 16), dtype=float)
    for k in range(0, size, 8):
        x = tk.tile_load(a, shape=(16, 8), offset=(i * 16, k))
        y = tk.tile_load(b, shape=(8, 16), offset=(k, 16 * j - 16))
        tk.tile_matmul(x, y, acc, alpha=0.5)
    tk.tile_store(out, acc, offset=(i * 16, j * 16))


def test_a_k_tail_under_a_grid() -> None:
    ((product,),) = [loop.products for loop in loops_of(k_tail)]
    assert (product.a.k_step, product.b.k_step) == (1, 1)
    rows, columns = product.a.offset[0], product.b.offset[1]
    assert (rows.constant, [*rows.terms.values()]) == (0, [16])
    assert (columns.constant, [*columns.terms.values()]) == (-16, [16])


@tk.kernel
def transposed(a: tk.array2d[float], b: tk.array2d[float], out: tk.array2d[float], n: int):
    acc = tk.tile_zeros(shape=(4, 8), dtype=float)
    for k in range(n):
        x = tk.tile_load(a, shape=(3, 4), offset=(3 * k + 6, 0))
        y = tk.tile_load(b, shape=(8, 3), offset=(0, (k + 2) * 3))
        tk.tile_matmul(tk.tile_transpose(x), tk.tile_transpose(y), acc)
    tk.tile_store(out, acc)


def test_transposed_loads() -> None:
    ((product,),) = [loop.products for loop in loops_of(transposed)]
    assert (product.a.transposed, product.a.k_axis, product.a.offset[0].constant) == (True, 0, 6)
    assert (product.b.transposed, product.b.k_axis, product.b.offset[1].constant) == (True, 1, 6)


@tk.kernel
def shared_load(a: tk.array2d[float], b: tk.array2d[float], c: tk.array2d[float], out: tk.array2d[float], n: int):
    first = tk.tile_zeros(shape=(4, 8), dtype=float)
    second = tk.tile_zeros(shape=(4, 8), dtype=float)
    for k in range(n):
        x = tk.tile_load(a, shape=(4, 4), offset=(0, k * 4))
        tk.tile_matmul(x, tk.tile_load(b, shape=(4, 8), offset=(k * 4, 0)), first)
        tk.tile_matmul(x, tk.tile_load(c, shape=(4, 8), offset=(k * 4, 0)), second)
    tk.tile_store(out, first * second)


def test_two_products_sharing_a_load_and_an_epilogue() -> None:
    (found,) = loops_of(shared_load)
    assert len(found.products) == 2 and found.others == ()
    assert found.products[0].a.op is found.products[1].a.op
    assert sorted(product.carry for product in found.products) == [0, 1]


@tk.kernel
def beside(a: tk.array2d[float], b: tk.array2d[float], out: tk.array2d[float], n: int):
    acc = tk.tile_zeros(shape=(4, 4), dtype=float)
    norm = tk.tile_zeros(shape=(4, 4), dtype=float)
    for i in range(n):
        for k in range(n):
            x = tk.tile_load(a, shape=(4, 4), offset=(i * 4, k * 4))
            tk.tile_matmul(x, tk.tile_load(b, shape=(4, 4), offset=(k * 4, 0)), acc)
            norm += x * x
    tk.tile_store(out, acc + norm)


def test_a_nested_loop_with_other_work_beside_the_product() -> None:
    (found,) = loops_of(beside)
    assert len(found.products) == 1
    assert found.others and all(op.builtin.name == "map_elements" for op in found.others)


# Near misses.


def near_miss(body: Callable[..., None]) -> Kernel:
    """A kernel around a loop body, which is traced as part of it."""

    @tk.kernel
    def kernel(a: tk.array2d[float], b: tk.array2d[float], out: tk.array2d[float], n: int):
        acc = tk.tile_zeros(shape=(4, 4), dtype=float)
        other = tk.tile_ones(shape=(4, 4), dtype=float)
        for k in range(n):
            body(a, b, out, acc, other, k, n)
        tk.tile_store(out, acc + other)

    return kernel


def load(array, row, column):
    return tk.tile_load(array, shape=(4, 4), offset=(row, column))


def plain(a, b, out, acc, other, k, n):
    tk.tile_matmul(load(a, 0, k * 4), load(b, k * 4, 0), acc)


def reads_the_sum(a, b, out, acc, other, k, n):
    tk.tile_matmul(load(a, 0, k * 4), load(b, k * 4, 0), acc)
    other += acc


def changes_the_sum(a, b, out, acc, other, k, n):
    tk.tile_matmul(load(a, 0, k * 4), load(b, k * 4, 0), acc)
    acc *= 0.5


def forgets_the_sum(a, b, out, acc, other, k, n):
    tk.tile_matmul(load(a, 0, k * 4), load(b, k * 4, 0), acc, beta=0.0)


def scales_the_sum(a, b, out, acc, other, k, n):
    tk.tile_matmul(load(a, 0, k * 4), load(b, k * 4, 0), acc, beta=tk.float32(n))


def quadratic_offset(a, b, out, acc, other, k, n):
    tk.tile_matmul(load(a, 0, k * k), load(b, k * 4, 0), acc)


def divided_offset(a, b, out, acc, other, k, n):
    tk.tile_matmul(load(a, 0, k / 2), load(b, k * 4, 0), acc)


def remainder_offset(a, b, out, acc, other, k, n):
    tk.tile_matmul(load(a, 0, k % 3), load(b, k * 4, 0), acc)


def wrapped_offset(a, b, out, acc, other, k, n):
    tk.tile_matmul(load(a, 0, tk.int32(tk.uint8(k)) * 4), load(b, k * 4, 0), acc)


def wrong_axis(a, b, out, acc, other, k, n):
    tk.tile_matmul(load(a, k * 4, 0), load(b, k * 4, 0), acc)


def both_axes(a, b, out, acc, other, k, n):
    tk.tile_matmul(load(a, k * 4, k * 4), load(b, k * 4, 0), acc)


def same_tile_each_time(a, b, out, acc, other, k, n):
    tk.tile_matmul(load(a, 0, 0), load(b, k * 4, 0), acc)


def not_loaded(a, b, out, acc, other, k, n):
    tk.tile_matmul(load(a, 0, k * 4), other, acc)


def computed_factor(a, b, out, acc, other, k, n):
    tk.tile_matmul(load(a, 0, k * 4) * 2.0, load(b, k * 4, 0), acc)


def stores(a, b, out, acc, other, k, n):
    tk.tile_matmul(load(a, 0, k * 4), load(b, k * 4, 0), acc)
    tk.tile_store(a, other)


def only_sometimes(a, b, out, acc, other, k, n):
    if k > 1:
        tk.tile_matmul(load(a, 0, k * 4), load(b, k * 4, 0), acc)


def product_then_sum(a, b, out, acc, other, k, n):
    acc += load(a, 0, k * 4) @ load(b, k * 4, 0)


def test_the_frame_of_the_near_misses_is_found() -> None:
    assert len(loops_of(near_miss(plain))) == 1


@pytest.mark.parametrize(
    "body",
    [
        reads_the_sum, changes_the_sum, forgets_the_sum, scales_the_sum, quadratic_offset, divided_offset,
        remainder_offset, wrapped_offset, wrong_axis, both_axes, same_tile_each_time, not_loaded, computed_factor,
        stores, only_sometimes, product_then_sum,
    ],
)  # fmt: skip
def test_near_misses_are_left_alone(body: Callable[..., None]) -> None:
    assert loops_of(near_miss(body)) == []


@tk.kernel
def batched(a: tk.array3d[float], b: tk.array3d[float], out: tk.array2d[float], n: int, m: int):
    acc = tk.tile_zeros(shape=(4, 4), dtype=float)
    for k in range(n):
        tk.tile_matmul(load(a[m], 0, k * 4), load(b[m + 1], k * 4, 0), acc)
    other = tk.tile_zeros(shape=(4, 4), dtype=float)
    for k in range(n):
        tk.tile_matmul(load(a[m], 0, k * 4), load(b[k], k * 4, 0), other)
    tk.tile_store(out, acc + other)


def test_the_array_must_be_the_same_in_each_iteration() -> None:
    (found,) = loops_of(batched)
    assert found.loop.blocks[0].params[1 + found.products[0].carry].hint == "acc"
