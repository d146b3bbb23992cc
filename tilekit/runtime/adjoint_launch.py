"""Backward launches as Warp spells them: ``tk.launch(..., adj_inputs, adj_outputs, adjoint=True)``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tilekit.errors import KernelTypeError, KernelValueError, counted
from tilekit.frontend.kernel import Kernel
from tilekit.ir.operands import describe
from tilekit.runtime.adjoint import prepare_adjoint
from tilekit.runtime.adjoint_warm import WarmBackward, warm_backward
from tilekit.runtime.arguments import parameters_of
from tilekit.runtime.arrays import library_of, view_of
from tilekit.runtime.gradients import watch
from tilekit.runtime.guards import note_writes
from tilekit.runtime.launch import Launch


class BackwardLaunch(Launch):
    """A launch that runs a kernel's adjoint."""

    _last: list[Any] | None = None
    """The gradient arrays of the last launch, where its arguments were those of the next."""
    _warm: WarmBackward | None = None

    def __init__(
        self, kernel: Kernel, dim: Any, inputs: Any, outputs: Any, adj_inputs: Any, adj_outputs: Any, *how: Any
    ) -> None:
        super().__init__(kernel, dim, inputs, outputs, *how)
        self._gradients = [
            *_listed(kernel, "adj_inputs", adj_inputs, "inputs", len(inputs)),
            *_listed(kernel, "adj_outputs", adj_outputs, "outputs", len(outputs)),
        ]
        self._gradients += [None] * (len(self.params) - len(self._gradients))  # of defaults

    def launch(self, stream: Any = None) -> None:
        """Run the adjoint, on a GPU on ``stream``, or on the one that the launch was recorded with."""
        *_, recorded = self._how
        gradients = dict(self._given())
        if not gradients:
            raise KernelValueError(
                f"a backward launch of kernel {self.kernel.key!r} without any gradient array: give them as adj_inputs "
                "and adj_outputs, or pass Warp's arrays made with requires_grad=True"
            )
        stream = recorded if stream is None else stream
        if self._warm is None or not self._same(gradients) or not self._warm.run(stream):
            self._run_anew(gradients, stream)
        if watch.busy:
            written = {parameter: view_of(array) for parameter, array in gradients.items()}
            note_writes(watch.records, written, f"a backward launch of kernel {self.kernel.key!r}")
            if watch.tape is not None:
                watch.tape.last_writes.see(written.values())

    def _run_anew(self, gradients: Mapping[str, Any], stream: Any) -> None:
        device, block_dim, tiled, _, _ = self._how
        launch = prepare_adjoint(self.kernel, self.dim, self.params, gradients, device, block_dim, tiled)
        launch.run(stream)
        if self._same(gradients):  # from the second time on: many are launched once
            self._warm = warm_backward(launch, dict(zip(self.kernel.parameters, self.params, strict=True)), gradients)
        self._last = list(gradients.values())

    def _same(self, gradients: Mapping[str, Any]) -> bool:
        """Whether the arguments and gradient arrays are those of the last launch."""
        last = self._last
        return (
            last is not None
            and len(last) == len(gradients)
            and all(one is other for one, other in zip(last, gradients.values(), strict=True))
        )

    def set_dim(self, dim: Any) -> None:
        """Run over another grid from now on."""
        super().set_dim(dim)
        self._forget()

    def _set(self, params: list[Any]) -> None:
        super()._set(params)
        self._forget()

    def _forget(self) -> None:
        self._last = self._warm = None

    def _given(self) -> Iterator[tuple[str, Any]]:
        """The gradient arrays by parameter."""
        for parameter, value, given in zip(parameters_of(self.kernel), self.params, self._gradients, strict=True):
            gradient = given
            if gradient is None and library_of.get(type(value)) == "warp":
                gradient = value.grad
            elif isinstance(gradient, int | float) and not hasattr(value, "shape"):
                gradient = None  # as Warp takes for a number
            if gradient is not None:
                yield parameter.name, gradient


def _listed(kernel: Kernel, name: str, given: Any, of: str, count: int) -> list[Any]:
    """A list of gradients; all None where it is left out."""
    if not isinstance(given, Sequence) or isinstance(given, str):
        raise KernelTypeError(f"{name} of kernel {kernel.key!r} must be a list or tuple, got {describe(given)}")
    if given and len(given) != count:
        raise KernelTypeError(
            f"{name} of kernel {kernel.key!r} has {counted(len(given), 'entry')}, but {of} has {count}; give one for "
            "each, None where there is no gradient"
        )
    return list(given) or [None] * count
