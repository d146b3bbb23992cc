"""Gradients of random kernels in float64, gathered where that is possible, against differences and PyTorch."""

from __future__ import annotations

import importlib.util
from collections import Counter
from typing import Any

import hypothesis
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from tests.passes.finite_differences import traced
from tests.passes.random_kernels import Program, layers, programs
from tilekit.errors import KernelNotImplementedError
from tilekit.runtime.adjoint import adjoint_of
from tilekit.runtime.reference import run_reference

BLOCKS = 2
INPUTS = ("a", "w", "c", "g", "h")
STEP = 1e-6
MOST_REFUSED = 0.05
quiet = {"deadline": None, "suppress_health_check": list(HealthCheck), "database": None}
TORCH = importlib.util.find_spec("torch") is not None


def data(n: int) -> dict[str, Any]:
    rng = np.random.default_rng(4)
    shapes = {"a": (7, 10), "w": (6, 9), "c": (7,), "g": (6, 11), "h": (10, 3), "out": (7, 16)}
    return {**{name: rng.standard_normal(shape) for name, shape in shapes.items()}, "n": np.int32(n)}


def order(arguments: dict[str, Any]) -> dict[str, Any]:
    return {name: arguments[name] for name in (*INPUTS, "n", "out")}


class Drawn:
    """One random kernel with its data."""

    def __init__(self, program: Program, n: int) -> None:
        self.program = program
        self.arguments = order(data(n))
        self.function = traced(program.kernel(), self.arguments)
        self.seed = np.random.default_rng(5).standard_normal(self.arguments["out"].shape)

    def loss(self, changed: dict[str, Any]) -> float:
        out = np.zeros_like(self.arguments["out"])
        run_reference(self.function, BLOCKS, {**self.arguments, **changed, "out": out})
        return float(np.sum(self.seed * out))

    def gradients(self, counts: Counter[str]) -> dict[str, Any]:
        program, _ = adjoint_of(self.function)
        counts["gathered"] += sum(summed.form == "gathered" for summed in program.sums)
        found = {
            fresh: self.seed.copy() if name == "out" else np.zeros_like(self.arguments[name])
            for name, fresh in program.gradients.items()
        }
        run_reference(program, BLOCKS, {**self.arguments, **found})
        return {name: found[program.gradients[name]] for name in INPUTS}

    def of_torch(self) -> dict[str, Any]:
        import torch

        tensors = {name: torch.tensor(self.arguments[name], requires_grad=True) for name in INPUTS}
        run, seed = self.program.function(), torch.tensor(self.seed)
        total = torch.zeros(())
        for block in range(BLOCKS):
            stored: list[Any] = []
            run(*tensors.values(), int(self.arguments["n"]), block, stored)
            for value, (row, column) in stored:
                there = seed[row : row + value.shape[0], column : column + value.shape[1]]
                total = total + (there * value[: there.shape[0], : there.shape[1]]).sum()
        found = torch.autograd.grad(total, list(tensors.values()), allow_unused=True)
        assert abs(float(total.detach()) - self.loss({})) <= 1e-10 * (1 + abs(float(total.detach()))), self.program.text
        pairs = zip(tensors, found, strict=True)
        return {n: np.zeros_like(self.arguments[n]) if grad is None else grad.numpy() for n, grad in pairs}

    def compare_with_differences(self, found: dict[str, Any]) -> None:
        rng = np.random.default_rng(6)
        directions = {name: rng.standard_normal(found[name].shape) for name in INPUTS}
        here, (ahead, behind) = (
            self.loss({}),
            (
                self.loss({name: self.arguments[name] + sign * STEP * directions[name] for name in INPUTS})
                for sign in (1, -1)
            ),
        )
        parts = np.concatenate([np.ravel(found[name] * directions[name]) for name in INPUTS])
        error = abs(float(np.sum(parts)) - (ahead - behind) / (2 * STEP))
        size = float(np.linalg.norm(parts)) + 1e-3 * (1 + abs(here))
        if error > 1e-4 * size and abs(ahead - 2 * here + behind) / (2 * STEP) > 0.3 * error:
            return  # a branch or a maximum changes in between
        assert error <= 1e-4 * size, self.program.text


def check(program: Program, n: int, counts: Counter[str]) -> None:
    drawn = Drawn(program, n)
    counts["kernels"] += 1
    try:
        found = drawn.gradients(counts)
    except KernelNotImplementedError as error:
        counts["refused"] += 1
        counts[error.message.partition(":")[0] + "..." + error.message[-60:]] += 1
        return
    if not np.isfinite(drawn.loss({})):
        return
    drawn.compare_with_differences(found)
    if TORCH:
        for name, exact in drawn.of_torch().items():
            size = 1.0 + float(np.max(np.abs(exact)))
            np.testing.assert_allclose(found[name], exact, rtol=0, atol=1e-9 * size, err_msg=drawn.program.text)


def run(examples: int, part: int | None, most: int) -> None:
    counts: Counter[str] = Counter()

    @settings(max_examples=examples, derandomize=part is None, **quiet)
    @given(st.one_of(programs(2, most), layers()), st.integers(0, 4))
    def every(program: Program, n: int) -> None:
        check(program, n, counts)

    (every if part is None else hypothesis.seed(part)(every))()
    refused, kernels, gathered = (counts.pop(name, 0) for name in ("refused", "kernels", "gathered"))
    print(
        f"{kernels} kernels, {gathered} arrays gathered, {refused} refused:",
        *(f"\n  {count} x {why}" for why, count in counts.most_common()),
    )
    assert refused <= MOST_REFUSED * kernels
    assert gathered >= kernels // 10


def test_random_kernels() -> None:
    run(50, None, 5)


@pytest.mark.deep
@pytest.mark.parametrize("part", range(10))
def test_random_kernels_at_length(part: int) -> None:
    run(200, part, 8)
