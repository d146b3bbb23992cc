"""Gradients that are added in place, by the point of the grid to which an element belongs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tilekit as tk
from tests.on_gpu import GPUS, arguments, there
from tests.passes import own_kernels
from tests.passes.own_kernels import BLOCKS, LANES, POINTS, vector
from tilekit.errors import KernelNotImplementedError
from tilekit.ir.core import walk
from tilekit.ir.program import Program
from tilekit.ir.types import ArrayType, ScalarType, as_dtype
from tilekit.passes.differentiate import differentiate
from tilekit.runtime.adjoint import adjoint_of, launch_adjoint
from tilekit.runtime.grids import form_of
from tilekit.runtime.reference import run_reference

gpu = pytest.param("cuda:0", marks=[pytest.mark.gpu, pytest.mark.skipif(not GPUS, reason="needs a CUDA device")])
CASES = {**{name: (*case, False) for name, case in POINTS.items()}, **{k: (*v, True) for k, v in BLOCKS.items()}}


def type_of(value: Any) -> Any:
    return ArrayType(as_dtype(value.dtype), value.ndim) if isinstance(value, np.ndarray) else ScalarType(tk.int32)


def adjoint(kernel: Any, dim: tuple[int, ...], given: list[Any], tiled: bool, lanes: int = LANES) -> Program:
    types = dict(zip(kernel.parameters, map(type_of, given), strict=True))
    form = form_of(tiled, dim, lanes)
    return adjoint_of(kernel.trace(types, form), None, form)[0]


def seeded(kernel: Any, given: list[Any]) -> dict[str, Any]:
    """A gradient that comes in for the output, and for other float arrays something to add to."""
    floats = {n: v for n, v in zip(kernel.parameters, given, strict=True) if getattr(v, "dtype", None) == np.float32}
    return {name: 1 + np.abs(vector(value.size).reshape(value.shape)) for name, value in floats.items()}


def scattered(kernel: Any, dim: tuple[int, ...], given: list[Any], tiled: bool) -> dict[str, Any]:
    """The gradients as atomic additions give them."""
    types = dict(zip(kernel.parameters, map(type_of, given), strict=True))
    form = form_of(tiled, dim, LANES)
    program = differentiate(kernel.trace(types, form), form)
    assert any(op.builtin.atomics for op in walk(program.launches[0].function.body))
    held, found = dict(zip(kernel.parameters, given, strict=True)), seeded(kernel, given)
    renamed = {fresh: found[name] for name, fresh in program.gradients.items()}
    run_reference(program, dim, {**held, **renamed}, LANES, tiled)
    return found


def in_place(program: Program) -> Iterator[str]:
    """Each array that is added to and not gathered, with what owns its elements."""
    names = {fresh: name for name, fresh in program.gradients.items()}
    for summed in sorted(program.sums, key=lambda each: names[each.array]):
        owner = re.fullmatch(r"by the (\w+) that it belongs to", summed.how)
        if summed.form != "gathered":
            yield names[summed.array] + (f": {owner[1]}" if owner else "")


@pytest.mark.parametrize("name", CASES)
def test_what_belongs_to_points(name: str) -> None:
    kernel, dim, given, wanted, tiled = CASES[name]
    program = adjoint(kernel, dim, given, tiled)
    assert ", ".join(in_place(program)) == wanted, program
    atomics = {op for launch in program.launches for op in walk(launch.function.body) if op.builtin.atomics}
    added = {name.partition(":")[0] for name in wanted.split(", ") if ":" not in name}
    assert {op.operands["a"].hint for op in atomics} >= {program.gradients[name] for name in added}
    assert bool(atomics) >= bool(added)


@pytest.mark.parametrize("device", ["cpu", "interpret", gpu])
@pytest.mark.parametrize("name", CASES)
def test_the_sums_are_those_of_atomics(name: str, device: str) -> None:
    """Of small integers, so that no order of additions matters; a gradient that is there already is added to."""
    kernel, dim, given, _, tiled = CASES[name]
    exact, found = scattered(kernel, dim, given, tiled), seeded(kernel, given)
    held = [there(value) if device == "cuda:0" else value for value in given]
    wanted = {name: there(value) if device == "cuda:0" else value for name, value in found.items()}
    launch_adjoint(kernel, dim, arguments(held), wanted, device=device, block_dim=LANES, tiled=tiled)
    for each, value in wanted.items():
        np.testing.assert_array_equal(value.numpy() if device == "cuda:0" else value, exact[each], err_msg=each)


@pytest.mark.parametrize("name", [name for name, case in POINTS.items() if ":" in case[3]])
@pytest.mark.parametrize("lanes", [3, 64])
def test_blocks_may_be_larger_than_the_grid(name: str, lanes: int) -> None:
    kernel, dim, given, _, _ = CASES[name]
    exact, found = scattered(kernel, dim, given, False), seeded(kernel, given)
    if kernel is not own_kernels.points_together:  # whose sums are those of blocks
        launch_adjoint(kernel, dim, given, found, device="cpu", block_dim=lanes, tiled=False)
        for each in found:
            np.testing.assert_array_equal(found[each], exact[each], err_msg=each)


def test_threads_and_runs_do_not_change_bits() -> None:
    """Of numbers whose sums are rounded; and the interpreter's order is the one of the code."""
    rng = np.random.default_rng(3)
    x, seed = rng.standard_normal((300, 40)).astype(np.float32), rng.standard_normal(300).astype(np.float32)
    found = []
    for device, threads in (("cpu", 1), ("cpu", 2), ("cpu", 2), ("interpret", 1)):
        with tk.config.scoped(num_threads=threads, deterministic=True):
            given = {"x": np.zeros_like(x), "y": seed.copy()}
            launch_adjoint(own_kernels.rows, 300, [x, np.zeros(300, np.float32), 40], given, device=device, tiled=False)
            found.append(given["x"])
    for each in found[1:]:
        np.testing.assert_array_equal(each, found[0])
    order = (3 * np.arange(40)) % 40
    exact = seed[:, None] * x[:, order].astype(float)
    np.add.at(exact, (slice(None), order), seed[:, None] * x.astype(float))
    np.testing.assert_allclose(found[0], exact, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", [tk.bfloat16, tk.float16])
@pytest.mark.parametrize("device", ["cpu", "interpret"])
def test_sums_of_16_bits_are_rounded_once(dtype: Any, device: str) -> None:
    """In its own dtype, 1 + 2 ** -12 is 1, however often that is added."""

    @tk.kernel(deterministic=True)
    def repeated(x: tk.array1d[dtype], y: tk.array2d[dtype], n: int):
        i = tk.tid()
        for k in range(n):
            y[i, k] = x[i]

    stored = ml_dtypes.bfloat16 if dtype is tk.bfloat16 else np.float16
    x, seed = np.ones(3, stored), np.full((3, 4096), 2.0**-12, stored)
    found = {"x": np.ones(3, stored), "y": seed}
    launch_adjoint(repeated, 3, [x, np.zeros_like(seed), 4096], found, device=device, tiled=False)
    np.testing.assert_array_equal(found["x"].astype(float), 2.0)
    assert not found["y"].any()


def test_gradients_with_strides() -> None:
    x, exact = vector(7), scattered(own_kernels.square, (7,), [vector(7), vector(7)], False)
    held = np.zeros(21, np.float32)
    strided, reverse = held[::3], np.array(exact["x"])[::-1]
    strided[...], reverse[...] = seeded(own_kernels.square, [vector(7), vector(7)])["x"], 1 + np.abs(x)
    seed = 1 + np.abs(x)
    for given in (strided, reverse):
        how: dict[str, Any] = {"adj_inputs": [given], "adj_outputs": [seed.copy()], "adjoint": True}
        tk.launch(own_kernels.square, dim=7, inputs=[x], outputs=[np.zeros(7, np.float32)], **how)
        np.testing.assert_array_equal(given, exact["x"])
    assert not held.reshape(7, 3)[:, 1:].any()


def test_one_array_under_two_names() -> None:
    """Each name has its own additions; the gradient, given for both, is that of the array."""

    @tk.kernel(deterministic=True)
    def product(a: tk.array1d[float], b: tk.array1d[float], y: tk.array1d[float]):
        i = tk.tid()
        y[i] = a[i] * b[6 - i]

    x, seed, found = vector(7), 1 + np.abs(vector(7)), np.zeros(7, np.float32)
    how: dict[str, Any] = {"adj_inputs": [found, found], "adj_outputs": [seed.copy()], "adjoint": True}
    tk.launch(product, dim=7, inputs=[x, x], outputs=[np.zeros(7, np.float32)], **how)
    np.testing.assert_array_equal(found, seed * x[::-1] + (seed * x)[::-1])


def test_what_is_refused_by_deterministic_says_why() -> None:
    with tk.config.scoped(deterministic=True):
        for name, (kernel, dim, given, wanted, tiled) in CASES.items():
            refused = any(":" not in each for each in wanted.split(", "))
            if not refused:
                adjoint(kernel, dim, given, tiled)
                continue
            with pytest.raises(KernelNotImplementedError, match="the option deterministic is on: ") as error:
                adjoint(kernel, dim, given, tiled)
            assert "own_kernels.py" in str(error.value), name


def test_what_is_only_stored_needs_no_atomic() -> None:
    """Wherever that is: the gradient there is set to zero, in any order."""

    @tk.kernel(deterministic=True)
    def constants(x: tk.array1d[float], index: tk.array1d[int], y: tk.array1d[float], z: tk.array1d[float]):
        i = tk.tid()
        y[i] = 2.0 * x[i]
        z[index[i]] = 3.0

    index, zeros = np.array([1, 0, 1], np.int32), np.zeros(3, np.float32)
    found = {"x": np.zeros(3, np.float32), "y": np.ones(3, np.float32), "z": np.ones(3, np.float32)}
    launch_adjoint(constants, 3, [vector(3), index, zeros, zeros.copy()], found, device="cpu", tiled=False)
    np.testing.assert_array_equal([found["x"], found["y"], found["z"]], [[2, 2, 2], [0, 0, 0], [0, 0, 1]])


def test_explain_says_how(capsys: pytest.CaptureFixture[str]) -> None:
    tk.explain(own_kernels.tiles, device="cpu", adjoint=True)
    text = capsys.readouterr().out
    assert "adj_w: added in place, by the block that it belongs to" in text
    assert "adj_x: gathered, over a grid of (dim[0]), each the sum of one" in text


@tk.func
def middle(x: tk.array1d[float], i: int):
    return x[i] + x[i + 1]


@tk.func_grad(middle)
def adj_middle(x: tk.array1d[float], i: int, adj: float):
    tk.adjoint[x][i] += 2.0 * adj
    tk.adjoint[x][i + 1] -= adj


@tk.kernel(deterministic=True)
def in_pairs(x: tk.array1d[float], y: tk.array1d[float]):
    i = tk.tid()
    y[i] = middle(x, 2 * i)


@pytest.mark.parametrize("device", ["cpu", "interpret"])
def test_gradients_of_ones_own_are_added_in_place(device: str) -> None:
    found = {"x": np.zeros(6, np.float32), "y": np.float32([1, 2, 3])}
    launch_adjoint(in_pairs, 3, [vector(6), np.zeros(3, np.float32)], found, device=device, tiled=False)
    np.testing.assert_array_equal(found["x"], [2, -1, 4, -2, 6, -3])
