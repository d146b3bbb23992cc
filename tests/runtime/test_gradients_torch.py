"""Tensors that require grad: with stand-ins for PyTorch's, and with PyTorch where it is installed."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import tilekit as tk
from tilekit.errors import KernelNotImplementedError
from tilekit.runtime import arrays, launch

wp = pytest.importorskip("warp")


@tk.kernel
def scaled(a: tk.array1d[float], factor: float, out: tk.array1d[float]):
    i = tk.tid()
    out[i] = a[i] * factor


class Tensor(np.ndarray[Any, Any]):
    """Stands for PyTorch's."""

    requires_grad = False
    __hash__ = object.__hash__  # type: ignore[assignment]


class StandIn:
    """The part of PyTorch that a launch asks."""

    def __init__(self) -> None:
        self.grad = True
        self.autograd = SimpleNamespace(graph=SimpleNamespace(increment_version=lambda tensor: None))

    def is_grad_enabled(self) -> bool:
        return self.grad

    def set_grad_enabled(self, mode: bool) -> None:
        self.grad = mode

    def ones(self, size: int, requires_grad: bool = False) -> Any:
        found = np.ones(size, np.float32).view(Tensor)
        found.requires_grad = requires_grad
        return found


@pytest.fixture(params=["stand-in", "torch"])
def torch(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    scaled.cache.clear()
    if request.param == "torch":
        found: Any = pytest.importorskip("torch")
    else:
        found = StandIn()
        monkeypatch.setitem(sys.modules, "torch", found)
        monkeypatch.setitem(arrays.library_of, Tensor, "torch")
    yield found
    found.set_grad_enabled(True)


def go(a: Any, out: Any, **options: Any) -> None:
    tk.launch(scaled, dim=8, inputs=[a, 2.0], outputs=[out], **options)


def interpreted(a: Any, out: Any) -> None:
    go(a, out, device="interpret")


def recorded(a: Any, out: Any) -> None:
    command = tk.launch(scaled, dim=8, inputs=[a, 2.0], outputs=[out], record_cmd=True)
    assert command is not None
    for _ in range(4):
        command.launch()


WAYS = [go, recorded, interpreted]
Run = Callable[..., None]


@pytest.mark.parametrize("way", WAYS)
def test_a_tensor_that_requires_grad_is_refused(torch: Any, way: Run) -> None:
    a, out = torch.ones(8, requires_grad=True), torch.ones(8)
    with pytest.raises(KernelNotImplementedError) as caught:
        way(a, out)
    assert str(caught.value) == (
        "argument 'a' of kernel 'scaled': the tensor requires grad, but PyTorch does not see launches, so no gradient "
        "would flow through this one; make an autograd function of the kernel with tk.torch.function(scaled, ...), "
        "launch under tk.Tape(), pass a.detach(), or launch under torch.no_grad()"
    )
    with pytest.raises(KernelNotImplementedError, match=r"argument 'out' of kernel .*, pass out.detach\(\), or"):
        way(np.ones(8, np.float32), a)
    assert out.tolist() == [1.0] * 8


@pytest.mark.parametrize("way", WAYS)
def test_without_grad_mode_it_is_not(torch: Any, way: Run) -> None:
    a, out = torch.ones(8, requires_grad=True), torch.ones(8)
    torch.set_grad_enabled(False)
    way(a, out)
    assert out.tolist() == [2.0] * 8


def test_launches_like_earlier_ones_look_at_it(torch: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same tensors become ones whose gradient matters."""
    a, out = torch.ones(8), torch.ones(8)
    command = tk.launch(scaled, dim=8, inputs=[a, 2.0], outputs=[out], record_cmd=True)
    assert command is not None
    for _ in range(4):
        go(a, out)
        command.launch()
    with monkeypatch.context() as patch:
        patch.setattr(launch, "_run_anew", None)
        go(a, out)
        command.launch()
        a.requires_grad = True
        torch.set_grad_enabled(False)
        go(a, out)
        command.launch()
    torch.set_grad_enabled(True)
    for run in (lambda: go(a, out), command.launch):
        with pytest.raises(KernelNotImplementedError, match="argument 'a' of kernel 'scaled': the tensor"):
            run()


@pytest.mark.parametrize("way", WAYS)
def test_an_active_tape_is_asked_instead(torch: Any, way: Run) -> None:
    a, out = torch.ones(8, requires_grad=True), torch.ones(8)
    with tk.Tape() as tape:
        way(a, out)
        with pytest.raises(KernelNotImplementedError, match="the tensor requires grad"):
            go(a, out, record_tape=False)
    assert len(tape.launches) == (4 if way is recorded else 1)
    with wp.Tape(), pytest.raises(KernelNotImplementedError, match="the tensor requires grad"):
        way(a, out)


def test_inside_a_function_of_autograd() -> None:
    """Its forward runs without grad mode: this is how a program gives a kernel a gradient of its own."""
    torch: Any = pytest.importorskip("torch")

    class Scaled(torch.autograd.Function):  # type: ignore[misc, name-defined]
        @staticmethod
        def forward(context: Any, a: Any) -> Any:
            out = torch.empty_like(a)
            go(a, out)
            return out

        @staticmethod
        def backward(context: Any, gradient: Any) -> Any:
            found = torch.empty_like(gradient)
            go(gradient, found)
            return found

    a = torch.ones(8, requires_grad=True)
    Scaled.apply(a).sum().backward()
    assert a.grad.tolist() == [2.0] * 8
