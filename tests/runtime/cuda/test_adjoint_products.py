"""What code multiplies in adjoints on a GPU, without one: plans, and that NVRTC takes the code."""

from __future__ import annotations

from typing import Any

import pytest

import tilekit as tk
from tests.nvrtc import needs_nvrtc
from tilekit.ir.context import LaunchForm
from tilekit.ir.program import Launch
from tilekit.ir.types import ArrayType
from tilekit.passes.differentiate import differentiate
from tilekit.runtime.cuda.build import build
from tilekit.runtime.cuda.generate import cuda_target, generate
from tilekit.runtime.spec import dense_class

FORM = LaunchForm(True, 2, 128)


def product(dtype: Any, total: Any, out: Any, precision: str = "default") -> Any:
    @tk.kernel
    def product(a: tk.array2d[dtype], b: tk.array2d[dtype], c: tk.array2d[out], n: int):
        i, j = tk.tid()
        acc = tk.tile_zeros(shape=(64, 128), dtype=total)
        for k in range(n):
            x = tk.tile_load(a, shape=(64, 32), offset=(i * 64, k * 32))
            y = tk.tile_load(b, shape=(32, 128), offset=(k * 32, j * 128))
            tk.tile_matmul(x, y, acc, precision=precision)
        tk.tile_store(c, tk.tile_astype(acc, out), offset=(i * 64, j * 128))

    return product


def generated(launch: Launch, arch: str) -> tuple[Any, Any]:
    arrays = {name: value.type for name, value in launch.function.params.items() if isinstance(value.type, ArrayType)}
    target = cuda_target(launch.form(FORM), arch, {name: dense_class(type.ndim) for name, type in arrays.items()})
    return generate(launch.function, target), target


@needs_nvrtc
@pytest.mark.parametrize(
    ("kernel", "instruction"),
    [
        (product(tk.float32, tk.float32, tk.float32, "tf32"), "tf32.tf32"),
        (product(tk.bfloat16, tk.float32, tk.bfloat16), "bf16.bf16"),
        (product(tk.bfloat16, tk.float32, tk.float32), "bf16.bf16"),
        (product(tk.float16, tk.float32, tk.float16), "tf32.tf32"),
        (product(tk.float32, tk.float32, tk.float32), "fma.rn.f32"),
        (product(tk.float64, tk.float64, tk.float64), "f64.f64"),
    ],
    ids=["tf32", "bf16", "bf16 of float32", "fp16", "fp32", "fp64"],
)
def test_both_gradients_are_pipelined_products_in_the_forwards_precision(kernel: Any, instruction: str) -> None:
    """A float32 gradient of a bfloat16 product is rounded once, by a launch that goes first."""
    adjoint = tk.compile(kernel, arch="90a").adjoint
    assert [summed.form for summed in adjoint.program.sums] == ["gathered", "gathered"]
    assert len(adjoint.program.launches) == 3
    plans = adjoint.plans
    assert all(plan.backend == "mma" and instruction in plan.reason and plan.ring is not None for plan in plans)
    assert tuple(str(plan).partition(",")[0] for plan in plans) == ("64x128x64", "64x128x128")
    assert "adj_b: gathered, over a grid of (ceil(" in str(plans[0]) and "adj_a: gathered" in str(plans[1])


@needs_nvrtc
@pytest.mark.parametrize("arch", ["80", "90a"])
def test_neighbours_are_added_together(arch: str) -> None:
    """As ``differentiate`` leaves it: each block adds to both gradients in every iteration."""
    kernel = product(tk.float32, tk.float32, tk.float32, "tf32")
    (launch,) = differentiate(kernel.trace(kernel.default_types(), FORM)).launches
    made, target = generated(launch, arch)
    assert made.source.count("tk::add_registers<") == 2
    assert build(made.source, launch.function.name, target, {}, made.units)
