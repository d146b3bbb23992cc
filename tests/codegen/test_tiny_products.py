"""Products smaller than what instructions multiply: the plan says how much is used, and under a quarter a warning."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

import tilekit as tk
from tilekit.codegen.gemm.plan import Factor, Plan, Product, Situation, plan
from tilekit.errors import PerformanceWarning
from tilekit.ir.types import DTYPES, float32
from tilekit.ir.views import ViewMap


def planned(dtype: str, m: int, n: int, k: int, arch: str = "90a") -> Plan:
    a, b = (Factor(DTYPES[dtype], ViewMap.identity(shape)) for shape in ((m, k), (k, n)))
    return plan(Product(a, b, float32 if dtype != "float64" else DTYPES[dtype]), Situation(arch))


@pytest.mark.parametrize(
    ("dtype", "shape", "used"),
    [
        ("float32", (4, 4, 4), 1 / 32),
        ("float32", (8, 8, 8), 1 / 8),
        ("float32", (16, 16, 16), 1 / 2),
        ("float32", (64, 64, 64), 1),
        ("float16", (4, 4, 4), 1 / 32),
        ("float16", (16, 8, 16), 1),
        ("float16", (16, 8, 4), 1 / 4),
        ("bfloat16", (24, 8, 16), 3 / 4),
    ],
)
def test_how_much_of_the_instruction_is_used(dtype: str, shape: tuple[int, int, int], used: float) -> None:
    found = planned(dtype, *shape)
    assert found.used == used
    text = f"{used:.0%} of what its instructions multiply is used"
    assert (text in str(found)) == (used < 1)


@pytest.mark.parametrize("arch", ["", "52"])
def test_what_has_no_such_instruction_uses_all(arch: str) -> None:
    assert planned("float32", 4, 4, 4, arch).used == 1


def kernel_of(size: int, depth: int = 3) -> Any:
    @tk.kernel
    def tiny(a: tk.array2d[float], b: tk.array2d[float], out: tk.array2d[float]):
        acc = tk.tile_zeros(shape=(size, size), dtype=float)
        for k in range(depth):
            x = tk.tile_load(a, shape=(size, size), offset=(0, k * size))
            tk.tile_matmul(x, tk.tile_load(b, shape=(size, size), offset=(k * size, 0)), acc)
        tk.tile_store(out, acc)

    return tiny


def told(kernel: Any, **options: Any) -> list[warnings.WarningMessage]:
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        tk.compile(kernel, **options)
    return [one for one in found if one.category is PerformanceWarning]


def test_a_warning_names_the_line_once() -> None:
    kernel = kernel_of(4)
    (warning,) = told(kernel, device="cuda", arch="90a")
    assert (warning.filename, warning.lineno) == (__file__, kernel.function.__code__.co_firstlineno + 5)
    assert str(warning.message) == (
        "tile_matmul(): of what its instructions (fma.rn.f32) multiply, a product of 4x4x4 uses 3%: a warp makes "
        "16x32 at a time; larger tiles, or several products side by side in one, use more"
    )


@tk.kernel
def chained(a: tk.array2d[float], out: tk.array2d[float]):
    x = tk.tile_load(a, shape=(8, 8))
    y = tk.tile_matmul(x, x)
    y = tk.tile_matmul(y, x)
    tk.tile_store(out, y)


def test_a_chain_of_equal_products_is_warned_of_once() -> None:
    (found,) = told(chained, device="cuda", arch="90a")
    assert "a product of 8x8x8 uses 12%" in str(found.message)


def test_products_that_use_a_quarter_and_kernels_for_the_cpu_are_not_warned_of() -> None:
    assert told(kernel_of(16), device="cuda", arch="90a") == []
    assert told(kernel_of(4), device="cpu") == []
