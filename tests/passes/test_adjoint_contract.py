"""What an adjoint rule is given and must answer, and what the program of a gradient tells of its parameters."""

from __future__ import annotations

import numpy as np
import pytest

import tilekit as tk
from tests.passes.finite_differences import check_gradient, traced
from tilekit.errors import KernelNotImplementedError
from tilekit.ir.builtin import REGISTRY
from tilekit.ir.context import LaunchForm
from tilekit.passes.differentiate import differentiate


@tk.kernel
def named(a: tk.array1d[tk.float64], adj_a: tk.array1d[tk.float64], out: tk.array1d[tk.float64]):
    tk.tile_store(out, tk.tile_load(a, shape=3) * tk.tile_load(adj_a, shape=3))


def test_gradients_have_names_of_their_own() -> None:
    a, b = np.arange(1.0, 4.0), np.arange(4.0, 7.0)
    arguments = {"a": a, "adj_a": b, "out": np.zeros(3)}
    program = differentiate(traced(named, arguments))
    assert program.gradients == {"a": "adj_a_", "adj_a": "adj_adj_a", "out": "adj_out"}
    check_gradient(named, arguments, ("out",))


def test_what_is_read_sums_in_float32_and_what_is_only_written_keeps_its_dtype() -> None:
    @tk.kernel
    def halves(a: tk.array1d[tk.bfloat16], out: tk.array1d[tk.bfloat16], unused: tk.array1d[tk.float16]):
        tk.tile_store(out, tk.tile_load(a, shape=4) * tk.bfloat16(2.0))

    program = differentiate(halves.trace(halves.default_types(), LaunchForm()))
    types = {name: str(program.params[fresh].type) for name, fresh in program.gradients.items()}
    assert types == {"a": "array1d<f32>", "out": "array1d<bf16>", "unused": "array1d<f16>"}


@pytest.fixture
def silent(monkeypatch: pytest.MonkeyPatch) -> None:
    """A rule of ``pow``'s kind that forgets its second operand."""
    monkeypatch.setitem(REGISTRY["mul"]._rules, "adjoint", (lambda grad: {"a": grad}, ("grad",)))


@pytest.mark.usefixtures("silent")
def test_a_rule_that_leaves_out_a_float_operand_is_an_error_although_nothing_asks_for_it() -> None:
    @tk.kernel
    def scaled(a: tk.array1d[tk.float64], out: tk.array1d[tk.float64], s: tk.float64):
        tk.tile_store(out, tk.tile_load(a, shape=4) * s)

    with pytest.raises(KernelNotImplementedError) as caught:
        differentiate(traced(scaled, {"a": np.zeros(4), "out": np.zeros(4), "s": 1.0}))
    assert caught.value.message == "cannot differentiate through '*': its adjoint rule does not answer for operand 'b'"
