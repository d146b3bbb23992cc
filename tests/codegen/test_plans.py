from __future__ import annotations

import tilekit as tk
from tilekit.ir.types import TileType
from tilekit.runtime.program import compile_kernel


@tk.kernel
def three(a: tk.array2d[tk.float16], out: tk.array2d[float]):
    x = tk.tile_load(a, shape=(16, 8))
    y = tk.tile_load(a, shape=(8, 32))
    acc = tk.tile_matmul(tk.tile_astype(x, float), tk.tile_astype(y, float))
    for _ in range(4, a.shape[0]):
        tk.tile_matmul(x, y, acc)
    tk.tile_store(out, acc)
    tk.tile_store(out, tk.tile_transpose(acc) @ acc)


@tk.kernel
def none(a: tk.array1d[float]):
    tk.tile_store(a, tk.tile_zeros(shape=4))


def test_each_product_has_a_plan() -> None:
    with tk.config.scoped(gemm="scalar"):
        first, second, third = compile_kernel(three, device="cuda", arch=75).plans
    assert (first.m, first.n, first.k) == (second.m, second.n, second.k) == (16, 32, 8)
    assert (third.m, third.n, third.k) == (32, 32, 16)
    f16, f32 = tk.float16, tk.float32
    assert second.types == (TileType(f16, (16, 8)), TileType(f16, (8, 32)), TileType(f32, (16, 32)))
    assert {plan.backend for plan in (first, second, third)} == {"scalar"}
    assert "multiply-adds in order of k" in first.reason
    lines = [plan.location.line if plan.location else 0 for plan in (first, second, third)]
    start = three.function.__code__.co_firstlineno
    assert [line - start for line in lines] == [4, 6, 8]
    assert str(second).startswith("16x32x8, f16 x f16 -> f32: scalar (")


def test_on_tensor_cores() -> None:
    plans = compile_kernel(three, device="cuda", arch=90).plans
    assert [plan.backend for plan in plans] == ["mma"] * 3
    assert plans[1].reason == "mma.m16n8k16.f32.f16.f16.f32"


def test_on_the_cpu() -> None:
    assert compile_kernel(three).plans[0].reason == "on the CPU there is no other"


def test_kernels_without_products() -> None:
    assert compile_kernel(none, device="cuda", arch=90).plans == ()
