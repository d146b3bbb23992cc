"""That conformance notices a wrong adjoint rule, and gradients of 16-bit floats, which are float32."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pytest

from tests.adjoints import Adjoint
from tests.conformance import Case, build, cases_of, for_gradients
from tilekit.ir.builtin import REGISTRY

MODULES = ("arithmetic", "atoms", "elements", "math", "memory", "tiles")


def cases(name: str, *dtypes: str) -> list[Case]:
    """The smooth cases of a builtin whose floats have one of the dtypes."""
    modules = [importlib.import_module(f"tests.builtins.test_conform_{module}") for module in MODULES]
    return [
        case
        for module in modules
        for case in cases_of(module.__name__)
        if case.builtin == name and case.smooth
        if any(spec.dtype.name in dtypes for spec in case.operands.values())
    ]


def adjoint(case: Case) -> Adjoint:
    built = build(case)
    seeds = [name for name, type in built.results.items() if type.dtype.is_float]
    return Adjoint(built.function, {**case.data(), **built.arrays()}, seeds or case.outputs)


@pytest.mark.parametrize(
    ("name", "operand"),
    [("tile_matmul", "alpha"), ("tile_matmul", "beta"), ("view_fill", "value"), ("tile_full", "value"),
     ("element_update", "value"), ("element_store", "value"), ("pow", "y"), ("mod", "b")],
)  # fmt: skip
def test_a_wrong_factor_on_an_operand_fails(name: str, operand: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Numbers too, which the launch would give: they are loaded, so that they have gradients."""
    declared = REGISTRY[name]
    found = cases(name, "float32", "float64")
    rule, names = declared._rules["adjoint"]

    def wrong(**given: Any) -> Any:
        answers = dict(rule(**given))
        right = answers[operand]
        answers[operand] = lambda: (right() if callable(right) else right) * 1.001
        return answers

    def differ() -> int:
        """How many cases fail."""
        count = 0
        for case in found:
            checked = adjoint(for_gradients(case))
            try:
                checked.compared()
            except AssertionError:
                count += 1
        return count

    assert found and differ() == 0
    monkeypatch.setitem(declared._rules, "adjoint", (wrong, names))
    assert differ() > 0


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("name", ["exp", "tanh", "rsqrt", "pow", "element_load", "sqrt", "tile_load"])
def test_gradients_of_16_bit_floats_are_float32(name: str, dtype: str) -> None:
    """They are those of float64 at the same numbers, but for the rounding of what the kernel computes in between."""
    unit = {"float16": 2.0**-11, "bfloat16": 2.0**-8}[dtype]
    found = cases(name, dtype)
    assert found
    for case in found:
        narrow = adjoint(case)
        wide = Adjoint(build(case.in_float64()).function, {}, narrow.seeds)
        wide.data = {
            key: np.asarray(value, np.float64) if np.ndim(value) or case.operands[key].dtype.is_float else value
            for key, value in narrow.data.items()
        }
        got, want = narrow.interpreted, wide.interpreted
        for key in got:
            if not narrow.data[key.removeprefix("adj_")].any():  # what is written
                continue
            assert got[key].dtype == np.float32
            np.testing.assert_allclose(got[key], want[key], rtol=8 * unit, atol=8 * unit * np.abs(want[key]).max())
