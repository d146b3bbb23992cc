"""Recorded backward launches: launched again they look nothing up, unless something is not as it was."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilekit as tk
from tilekit.errors import KernelTypeError
from tilekit.runtime import adjoint_launch
from tilekit.runtime.programs import ProgramKernel

FACTOR = 2.0


@tk.kernel
def product(a: tk.array2d[float], b: tk.array2d[float], n: int, scale: float, out: tk.array2d[float]):
    i, j = tk.tid()
    acc = tk.tile_zeros(shape=(4, 4), dtype=float)
    for k in range(n):
        x = tk.tile_load(a, shape=(4, 4), offset=(i * 4, k * 4))
        y = tk.tile_load(b, shape=(4, 4), offset=(k * 4, j * 4))
        tk.tile_matmul(x, y, acc)
    tk.tile_store(out, FACTOR * scale * acc, offset=(i * 4, j * 4))


class Case:
    def __init__(self, k: int = 12) -> None:
        rng = np.random.default_rng(k)
        self.a, self.b = (rng.integers(-4, 5, shape).astype(np.float32) for shape in ((8, k), (k, 8)))
        self.found, self.seed = np.zeros_like(self.a), np.zeros((8, 8), np.float32)

    def command(self) -> Any:
        return tk.launch_tiled(
            product, dim=(2, 2), inputs=[self.a, self.b, self.a.shape[1] // 4, 1.0], outputs=[np.zeros_like(self.seed)],
            adj_inputs=[self.found, None, None, None], adj_outputs=[self.seed], adjoint=True, record_cmd=True,
            device="cpu",
        )  # fmt: skip

    def check(self, command: Any, factor: float = 2.0) -> None:
        self.seed[:] = 1
        self.found[:] = 0
        command.launch()
        np.testing.assert_array_equal(self.found, factor * np.ones_like(self.seed) @ self.b.T)
        assert not self.seed.any()


@pytest.fixture(autouse=True)
def _nothing_kept() -> None:
    product.cache.clear()


@pytest.fixture
def looked_up(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What each launch has found out that looked everything up."""
    prepare, found = adjoint_launch.prepare_adjoint, []
    monkeypatch.setattr(adjoint_launch, "prepare_adjoint", lambda *args: found.append(prepare(*args)) or found[-1])
    return found


def test_the_third_launch_looks_nothing_up(looked_up: list[Any]) -> None:
    case = Case()
    command = case.command()
    for _ in range(5):
        case.check(command)
    assert len(looked_up) == 2
    compiled = looked_up[0].form.compiled
    assert type(compiled) is ProgramKernel and len(compiled.parts) > 1


def test_what_is_not_as_it_was_is_looked_up(looked_up: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    case, other = Case(), Case()
    command = case.command()

    def after(change: Any, factor: float = 2.0) -> int:
        for _ in range(3):
            case.check(command)
        before = len(looked_up)
        change()
        case.check(command, factor)
        return len(looked_up) - before

    assert after(lambda: None) == 0
    assert after(lambda: command.set_param_by_name("a", other.a)) == 1
    assert after(lambda: command.set_param_by_name("scale", 2.0), 4.0) == 1
    command.set_param_by_name("scale", 1.0)
    with tk.config.scoped(checked=True):
        case.check(command)
    monkeypatch.setitem(globals(), "FACTOR", 3.0)
    case.check(command, 3.0)
    monkeypatch.setitem(globals(), "FACTOR", 2.0)
    assert after(lambda: command.set_dim((2, 2))) == 1


def test_an_array_that_is_the_same_object_with_another_shape() -> None:
    case = Case()
    command = case.command()
    for _ in range(3):
        case.check(command)
    case.found.shape = 12, 8
    with pytest.raises(KernelTypeError, match=r"the gradient of argument 'a' .* must be like the argument"):
        command.launch()
