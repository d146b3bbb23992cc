"""Random launches over a few arrays and their parts: the gradient, or a refusal just where it needs what is gone."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

import tilekit as tk
from tests.runtime.tapes import Make, of_numpy, of_torch, of_warp
from tilekit.errors import KernelValueError

Array = np.ndarray[Any, Any]
Part = tuple[int, int]
"""Which array, and where a part of four elements begins."""
Step = tuple[str, Part, Part, Part]
"""A kernel, two arrays to read and one to write."""


@tk.kernel
def square(a: tk.array1d[float], b: tk.array1d[float], y: tk.array1d[float]):
    t = tk.tile_load(a, shape=4)
    tk.tile_store(y, t * t)


@tk.kernel
def double(a: tk.array1d[float], b: tk.array1d[float], y: tk.array1d[float]):
    tk.tile_store(y, 2.0 * tk.tile_load(a, shape=4))


@tk.kernel
def product(a: tk.array1d[float], b: tk.array1d[float], y: tk.array1d[float]):
    tk.tile_store(y, tk.tile_load(a, shape=4) * tk.tile_load(b, shape=4))


@tk.kernel
def add(a: tk.array1d[float], b: tk.array1d[float], y: tk.array1d[float]):
    tk.tile_atomic_add(y, 3.0 * tk.tile_load(a, shape=4))


@tk.kernel
def update(a: tk.array1d[float], b: tk.array1d[float], y: tk.array1d[float]):
    t = tk.tile_load(a, shape=4)
    tk.tile_store(y, tk.tile_load(y, shape=4) + t * t)


KERNELS = {"square": square, "double": double, "product": product, "add": add, "update": update}
NEEDED = {"square": 1, "double": 0, "product": 2, "add": 0, "update": 1}
"""How many of the arrays read are read again to go backward."""


def steps_of(rng: random.Random) -> list[Step]:
    count, starts = rng.randint(2, 5), rng.choice([[0, 4], [0, 2, 4]])

    def part() -> Part:
        return rng.randrange(count), rng.choice(starts)

    return [(rng.choice(list(KERNELS)), part(), part(), part()) for _ in range(rng.randint(1, 6))]


def is_refused(steps: list[Step]) -> bool:
    """Whether something that backward reads again is written by its own launch or a later one."""
    return any(
        read[0] == out[0] and abs(read[1] - out[1]) < 4
        for number, (name, *reads, _) in enumerate(steps)
        for read in reads[: NEEDED[name]]
        for *_, out in steps[number:]
    )


def by_hand(steps: list[Step], arrays: list[Array], seeds: list[Array]) -> list[Array]:
    """The gradients of the arrays as they were at first; afterwards ``arrays`` are what the steps make of them."""
    seen = []
    for name, a, b, y in steps:
        x, z = (arrays[i][s : s + 4].copy() for i, s in (a, b))
        seen.append((x, z))
        target = arrays[y[0]][y[1] : y[1] + 4]
        new = {"square": x * x, "double": 2 * x, "product": x * z, "add": target + 3 * x, "update": target + x * x}
        target[:] = new[name]
    gradients = [seed.copy() for seed in seeds]
    for (name, a, b, y), (x, z) in zip(reversed(steps), reversed(seen), strict=True):
        target = gradients[y[0]][y[1] : y[1] + 4]
        g = target.copy()
        if name not in ("add", "update"):
            target[:] = 0
        factor: Any = {"square": 2 * x, "double": 2, "product": z, "add": 3, "update": 2 * x}[name]
        gradients[a[0]][a[1] : a[1] + 4] += factor * g
        if name == "product":
            gradients[b[0]][b[1] : b[1] + 4] += x * g
    return gradients


@pytest.mark.parametrize("make", [of_numpy, of_warp, of_torch], ids=["numpy", "warp", "torch"])
@pytest.mark.parametrize("count", [40, pytest.param(1000, marks=pytest.mark.deep)])
def test_gradients_or_refusals(make: Make, count: int) -> None:
    right = refused = 0
    for number in range(count):
        rng = np.random.default_rng(number)
        steps = steps_of(random.Random(number))
        start, seeds = rng.uniform(0.5, 1.5, (5, 8)).astype(np.float32), rng.standard_normal((5, 8)).astype(np.float32)
        arrays = [make(values) for values in start]
        with tk.Tape() as tape:
            for name, *parts in steps:
                a, b, y = (arrays[i][s : s + 4] for i, s in parts)
                tk.launch_tiled(KERNELS[name], dim=1, inputs=[a, b], outputs=[y], block_dim=32)
        given = [(array, make(seed, False)) for array, seed in zip(arrays, seeds, strict=True)]
        if is_refused(steps):
            with pytest.raises(KernelValueError, match="again, but"):
                tape.backward(grads=given)
            refused += 1
            continue
        tape.backward(grads=given)
        expected = by_hand(steps, list(start), list(seeds))
        for array, gradient in zip(arrays, expected, strict=True):
            found = tape.gradients[array]
            np.testing.assert_allclose(np.asarray(found), gradient, rtol=1e-4, atol=1e-5, err_msg=f"{number}: {steps}")
        right += 1
    assert right > count / 4 and refused > count / 8
