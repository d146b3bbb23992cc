"""Builtins that are declared by what they stand for, in terms of other builtins, run on every device."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import tilekit as tk
from tests.builtins.both import run
from tests.nvrtc import missing
from tests.passes.finite_differences import check_gradient
from tilekit.errors import VerificationError
from tilekit.ir.builtin import REGISTRY, Builtin, builtin
from tilekit.ir.context import LaunchForm
from tilekit.ir.core import walk
from tilekit.ir.handles import Scalar, Tile
from tilekit.ir.types import ScalarType, TileType
from tilekit.passes.expand import expand
from tilekit.passes.legalize import legalize


@pytest.fixture
def declared() -> Iterator[dict[str, Builtin]]:
    """Builtins that are there for one test."""
    before = set(REGISTRY)
    yield _declare()
    for name in set(REGISTRY) - before:
        del REGISTRY[name]


def _declare() -> dict[str, Builtin]:
    @builtin(elementwise=True, unify=("a", "b"))
    def halfway(a: Scalar, b: Scalar) -> Scalar:
        """The number between two."""

    halfway.result(lambda a: a)
    halfway.reference(lambda a, b: (a + b) * 0.5)
    halfway.lower(lambda a, b: (a + b) * 0.5)

    @builtin(cooperative=True)
    def centered(t: Tile) -> Any:
        """A tile less half of its first element and its second half, and that half."""

    @centered.result
    def _result(t: TileType) -> tuple[Any, ...]:
        return t, ScalarType(t.dtype)

    @centered.reference
    def _reference(t: Any) -> tuple[Any, ...]:
        half = t[0] * 0.5
        return np.concatenate([t[: len(t) // 2] - half, t[len(t) // 2 :] - half]), half

    @centered.lower
    def _lower(t: Tile) -> tuple[Any, ...]:
        half = halfway(t[0], 0.0)
        made = t - half
        return made, half

    return {"halfway": halfway, "centered": centered}


X = np.arange(8, dtype=np.float32)


def test_lowered_builtins_run_on_every_device(declared: dict[str, Builtin]) -> None:
    """In a map, in a loop and a branch, and one that stands for another."""
    halfway, centered = declared["halfway"], declared["centered"]

    @tk.kernel
    def kernel(x: tk.array1d[float], n: int, out: tk.array1d[float]):
        t = tk.tile_load(x, shape=8)
        for _ in range(n):
            t, half = centered(t)
            if half < 1.0:
                t = halfway(t, t * 3.0 + half)
        out[8] = halfway(t[1], 5.0)
        tk.tile_store(out, t)

    wanted = X
    for _ in range(3):
        half = wanted[0] / 2
        wanted = (wanted - half) * 2 + half / 2
    (found,) = run(kernel, [X, 3], [np.zeros(9, np.float32)])
    np.testing.assert_array_equal(found[:8], wanted)
    assert found[8] == (wanted[1] + 5) / 2
    fn = expand(kernel.trace(kernel.default_types(), LaunchForm(ndim=1)))
    assert not declared.keys() & {op.builtin.name for op in walk(fn.body)}
    if not missing():
        assert tk.compile(kernel, device="cuda").cubin


def test_what_has_no_gradient_has_that_of_what_it_stands_for(declared: dict[str, Builtin]) -> None:
    centered = declared["centered"]

    @tk.kernel
    def kernel(x: tk.array1d[tk.float64], out: tk.array1d[tk.float64]):
        t, half = centered(tk.tile_load(x, shape=4))
        tk.tile_store(out, t * half)

    check_gradient(kernel, {"x": np.array([1.0, 2.0, -3.0, 0.5]), "out": np.zeros(4)}, ("out",))


def test_a_builtin_with_a_gradient_stays_until_code_is_made(declared: dict[str, Builtin]) -> None:
    halfway = declared["halfway"]
    halfway.adjoint(lambda grad: {"a": lambda: grad * 0.5, "b": lambda: grad * 0.5})

    @tk.kernel
    def kernel(x: tk.array1d[float], out: tk.array1d[float]):
        out[0] = halfway(x[0], x[1])

    fn = kernel.trace(kernel.default_types(), LaunchForm(ndim=1))
    assert "halfway" in str(expand(fn)) and "halfway" not in str(legalize(fn))


def test_a_rule_that_gives_something_else_is_an_error(declared: dict[str, Builtin]) -> None:
    declared["halfway"].lower(lambda a: a > 0.0)

    @tk.kernel
    def kernel(x: tk.array1d[float], out: tk.array1d[float]):
        out[0] = declared["halfway"](x[0], x[1])

    fn = kernel.trace(kernel.default_types(), LaunchForm(ndim=1))
    with pytest.raises(VerificationError, match=r"halfway\.lower gives bool, not f32"):
        expand(fn)
