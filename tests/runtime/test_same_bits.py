"""Results do not depend on the compiler, the number of threads or the block size."""

from __future__ import annotations

import numpy as np
import pytest

import tilekit as tk
from tests.compiled import Library
from tilekit.ir.context import LaunchForm
from tilekit.runtime import toolchain


@tk.kernel
def product(a: tk.array2d[float], b: tk.array2d[float], out: tk.array2d[float]):
    i, j = tk.tid()
    acc = tk.tile_zeros(shape=(16, 24))
    for k in range(0, 100, 20):
        x = tk.tile_load(a, shape=(16, 20), offset=(i * 16, k))
        tk.tile_matmul(x, tk.tile_load(b, shape=(20, 24), offset=(k, j * 24)), acc)
    tk.tile_store(out, acc, offset=(i * 16, j * 24))


@tk.kernel
def elementary(a: tk.array2d[float], b: tk.array2d[float], out: tk.array2d[float]):
    i, j = tk.tid()
    x = tk.tile_load(a, shape=(16, 16), offset=(i * 16, j * 16))
    y = tk.exp(-x * x) + tk.sin(x * 9.0) * tk.cos(x) / (tk.tanh(x) + 2.0) - tk.sqrt(tk.abs(x))
    tk.tile_store(out, y + tk.log(y * y + 0.5), offset=(i * 16, j * 16))


@tk.kernel
def reduced(a: tk.array2d[float], b: tk.array2d[float], out: tk.array2d[float]):
    i, j = tk.tid()
    x = tk.tile_load(a, shape=(16, 50), offset=(i * 16, j * 50))
    half = tk.tile_astype(tk.tile_astype(x, tk.float16) * tk.float16(3.0), tk.bfloat16)
    total = tk.tile_sum(x, axis=1) + tk.tile_astype(tk.tile_max(half, axis=1), tk.float32)
    tk.tile_store(out, tk.tile_broadcast(tk.tile_reshape(total, (16, 1)), (16, 20)), offset=(i * 16, j * 20))


KERNELS = {"product": product, "elementary": elementary, "reduced": reduced}
GRIDS = {"product": (4, 4), "elementary": (4, 7), "reduced": (4, 2)}


def arrays() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(8)
    a, b = (rng.standard_normal((61, 100)).astype(np.float32), rng.standard_normal((100, 90)).astype(np.float32))
    return {"a": a, "b": b, "out": np.zeros((61, 100), np.float32)}


def compilers() -> list[toolchain.Toolchain]:
    """Every usable compiler of this machine, one of each kind."""
    found = [candidate.toolchain for candidate in toolchain.candidates() if candidate.toolchain is not None]
    return list({compiler.name: compiler for compiler in found}.values())


def test_every_compiler_gives_the_same_bits() -> None:
    functions = [kernel.trace(kernel.default_types(), LaunchForm(ndim=2)) for kernel in KERNELS.values()]
    results = {}
    for compiler in compilers():
        library = Library(functions, compiler, ndim=2)
        for number, name in enumerate(KERNELS):
            data = arrays()
            library.run(number, data, GRIDS[name])
            results.setdefault(name, {})[compiler.name] = data["out"]
    for name, found in results.items():
        assert len(found) >= 2, "a second compiler comes with the extra 'cpu'"
        first, *rest = found.values()
        assert np.abs(first).max() > 0
        for other in rest:
            np.testing.assert_array_equal(other.view(np.uint32), first.view(np.uint32), err_msg=name)


@tk.kernel
def stepped(a: tk.array2d[int], out: tk.array2d[int], n: int):
    x = tk.tile_load(a, shape=(4, 4))
    y = tk.tile_load(a, shape=(4, 4), offset=(4, 0))
    for _ in range(n):
        x += 3
        y -= x
    while n > 0:
        n -= 1
        x += 3
        y -= x
    tk.tile_store(out, x)
    tk.tile_store(out, y, offset=(4, 0))


@tk.kernel
def stepped_numbers(a: tk.array2d[int], out: tk.array2d[int], n: int):
    x = tuple([a[i // 4, i % 4] for i in range(16)])
    y = tuple([a[4 + i // 4, i % 4] for i in range(16)])
    for _ in range(2 * n):
        x = tuple([v + 3 for v in x])
        y = tuple([v - u for u, v in zip(x, y, strict=True)])
    for i, v in enumerate(x + y):
        out[i // 4, i % 4] = v


@pytest.mark.parametrize("kernel", [stepped, stepped_numbers])
def test_integers_that_a_loop_steps_by_one_amount_stay_apart(kernel: tk.Kernel) -> None:
    a = np.arange(32, dtype=np.int32).reshape(8, 4) ** 2
    x, y = a[:4].copy(), a[4:].copy()
    for _ in range(6):
        x += 3
        y -= x
    for compiler in compilers():
        out = np.zeros_like(a)
        Library([kernel.trace(kernel.default_types(), LaunchForm(ndim=1))], compiler).run(
            0, {"a": a, "out": out, "n": 3}, (1,)
        )
        np.testing.assert_array_equal(out, np.concatenate([x, y]), err_msg=compiler.name)


@pytest.mark.parametrize("name", KERNELS)
def test_threads_and_block_sizes_do_not_matter(name: str) -> None:
    found = []
    for threads, block_dim in ((1, 32), (1, 256), (2, 64), (5, 100)):
        data = arrays()
        inputs, out = [data["a"], data["b"]], data["out"]
        with tk.config.scoped(num_threads=threads):
            tk.launch_tiled(KERNELS[name], dim=GRIDS[name], inputs=inputs, outputs=[out], block_dim=block_dim)
        found.append(out)
    for other in found[1:]:
        np.testing.assert_array_equal(other.view(np.uint32), found[0].view(np.uint32))
