"""Random kernels that bind, swap and update tiles: each name holds what the rule of values says, on every device."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

import tilekit as tk
from tests.frontend.value_programs import PROGRAMS, X, expected, found, kernel_of
from tilekit.ir.context import LaunchForm
from tilekit.ir.interpret import Machine, interpret
from tilekit.ir.types import ArrayType, ScalarType, int32

quiet: Any = {"deadline": None, "suppress_health_check": list(HealthCheck)}
TYPES = {"x": ArrayType(int32, 1), "n": ScalarType(int32), "m": ScalarType(int32), "out": ArrayType(int32, 2)}


def check_traced(body: list[Any], interpreter: bool = True) -> None:
    """The IR, for every way of rolling the loops, and the interpreter."""
    for limit in (0, 1000):
        with tk.config.scoped(max_unroll=limit):
            kernel, text = kernel_of(body)
            function = kernel.trace(TYPES, LaunchForm(ndim=1, block_dim=32))
            for n, m in ((0, 0), (1, 3), (3, 1), (4, 2)):
                wanted, out = expected(body, n, m), np.zeros((5, 4), np.int32)
                with np.errstate(all="ignore"):
                    interpret(function, {"x": X, "n": np.int32(n), "m": np.int32(m), "out": out}, Machine())
                assert np.array_equal(out, wanted), f"traced, n={n}, m={m}\n{text}\n{wanted}\n{out}"
                if interpreter:
                    out = found(kernel, n, m, "interpret")
                    assert np.array_equal(out, wanted), f"interpreter, n={n}, m={m}\n{text}\n{wanted}\n{out}"


@settings(max_examples=40, derandomize=True, **quiet)
@given(PROGRAMS)
def test_names_hold_values(body: list[Any]) -> None:
    check_traced(body)


@pytest.mark.deep
@settings(max_examples=1500, **quiet)
@given(PROGRAMS)
def test_names_hold_values_at_length(body: list[Any]) -> None:
    check_traced(body)


@settings(max_examples=8, derandomize=True, **quiet)
@given(PROGRAMS)
def test_names_hold_values_when_compiled(body: list[Any]) -> None:
    check_compiled(body, "cpu", 1000)
    check_compiled(body, "cpu", 0)


@pytest.mark.gpu
@settings(max_examples=20, derandomize=True, **quiet)
@given(PROGRAMS)
def test_names_hold_values_on_a_gpu(body: list[Any]) -> None:
    check_compiled(body, "cuda", 0)


def check_compiled(body: list[Any], device: str, limit: int) -> None:
    with tk.config.scoped(max_unroll=limit):
        kernel, text = kernel_of(body)
        for n, m in ((0, 0), (1, 3), (3, 1)):
            wanted, out = expected(body, n, m), found(kernel, n, m, device)
            assert np.array_equal(out, wanted), f"{device}, n={n}, m={m}\n{text}\n{wanted}\n{out}"
