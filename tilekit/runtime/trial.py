"""A kernel and its gradient as functions of what arrays hold, run on copies of a launch's arguments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tilekit.config import config
from tilekit.errors import KernelTypeError, KernelValueError
from tilekit.frontend.kernel import Kernel
from tilekit.ir.core import Function, walk
from tilekit.ir.operands import describe
from tilekit.ir.types import DType, bfloat16
from tilekit.passes.activity import written_parameters
from tilekit.passes.widen import wide_dtype
from tilekit.runtime.adjoint import launch_adjoint
from tilekit.runtime.arguments import bind, types_of, with_defaults
from tilekit.runtime.grids import block_dim_of, dims_of, form_of
from tilekit.runtime.launch import launch, launch_tiled
from tilekit.runtime.placement import INTERPRET, place
from tilekit.runtime.reference import run_reference
from tilekit.runtime.samples import Elements, Sample, in_dtype, sample_of
from tilekit.runtime.widened import WideKernel, widened

Mask = Sequence[tuple[str | int, str | int]] | None


@dataclass
class Trial:
    """A launch that can be run with other contents of its arrays."""

    kernel: Kernel
    grid: tuple[int, ...]
    block_dim: int
    tiled: bool
    device: str
    arguments: dict[str, Any]
    """By parameter."""
    samples: dict[str, Sample]
    """The arrays among them."""
    function: Function
    """The kernel as traced."""
    first_output: int
    asked: dict[str, bool] = field(default_factory=dict)
    """For arrays of libraries that know it, whether they require grad."""

    @property
    def floats(self) -> list[str]:
        """The arrays that can have a gradient."""
        return [name for name, sample in self.samples.items() if sample.dtype.is_float]

    @property
    def inputs(self) -> list[str]:
        """The arrays whose gradient is looked at: those that require grad where any does."""
        known = any(self.asked.get(name) for name in self.floats[: self._boundary()])
        return [name for name in self.floats if not known or self.asked.get(name)]

    def _boundary(self) -> int:
        before = list(self.arguments)[: self.first_output]
        return sum(name in before for name in self.floats)

    @property
    def outputs(self) -> list[str]:
        """The arrays of floats that the kernel writes."""
        written = written_parameters(self.function)
        return [name for name in self.floats if name in written]

    @property
    def roundoff(self) -> float:
        """The unit roundoff of the coarsest float that the kernel computes with."""
        values = [*self.function.params.values(), *(r for op in walk(self.function.body) for r in op.results)]
        return max(_roundoff(value.type.dtype) for value in values if value.type.dtype.is_float)

    def place(self, values: Mapping[str, Elements]) -> dict[str, Any]:
        """The arrays of one run: those named hold these values, the others what they held."""
        return {
            name: sample.place(values.get(name, sample.values), self.device) for name, sample in self.samples.items()
        }

    def run(self, values: Mapping[str, Elements]) -> dict[str, Elements]:
        """What the outputs hold after a launch, in float64."""
        placed = self.place(values)
        if self.device == INTERPRET and isinstance(self.kernel, WideKernel):
            # Its text is the float32 kernel's: what runs is what was traced of it.
            data = {name: item.data for name, item in placed.items()}
            run_reference(self.function, self.grid, {**self.arguments, **data}, self.block_dim, self.tiled)
        else:
            self._launch(self._given(placed))
        return {name: placed[name].read().astype(np.float64) for name in self.outputs}

    def _launch(self, given: Sequence[Any]) -> None:
        start = launch_tiled if self.tiled else launch
        with config.scoped(checked=config.checked or self.device.startswith("cuda")):
            start(self.kernel, self.grid, given, device=self.device, record_tape=False, block_dim=self.block_dim)

    def gradients(self, seeds: Mapping[str, Elements]) -> dict[str, Elements]:
        """The gradients of ``sum(seed * output)`` in what the arrays held before, in float64."""
        placed = self.place({})
        found = {
            name: self.samples[name].place(seeds.get(name, np.zeros(self.samples[name].values.shape)), self.device)
            for name in self.floats
        }
        launch_adjoint(
            self.kernel,
            self.grid,
            self._given(placed),
            {name: gradient.array for name, gradient in found.items()},
            device=self.device,
            block_dim=self.block_dim,
            tiled=self.tiled,
        )
        return {name: gradient.read().astype(np.float64) for name, gradient in found.items()}

    def _given(self, placed: Mapping[str, Any]) -> list[Any]:
        return [placed[name].array if name in placed else value for name, value in self.arguments.items()]

    def masked(self, mask: Mask) -> list[tuple[str, str]]:
        """The pairs of an input and an output to look at.

        Raises:
            KernelTypeError: the mask is no list of pairs.
            KernelValueError: the mask names what is no input or output.
        """
        pairs = [(i, o) for i in self.inputs for o in self.outputs]
        if not mask:
            return pairs
        names = list(self.arguments)
        try:
            wanted = [(self._name(i, names), self._name(o, names[self.first_output :])) for i, o in mask]
        except (TypeError, ValueError):
            raise KernelTypeError(
                f"input_output_mask must be a list of pairs of an input and an output, got {describe(mask)}"
            ) from None
        if missing := [pair for pair in wanted if pair not in pairs]:
            i, o = missing[0]
            raise KernelValueError(
                f"input_output_mask: {i!r} and {o!r} are no pair of an input and an output of kernel "
                f"{self.kernel.key!r}; inputs are {', '.join(self.inputs)}, outputs {', '.join(self.outputs)}"
            )
        return wanted

    @staticmethod
    def _name(given: str | int, names: Sequence[str]) -> str:
        return names[given] if isinstance(given, int) and 0 <= given < len(names) else str(given)


def _roundoff(dtype: DType) -> float:
    bits = 8 if dtype is bfloat16 else np.finfo(dtype.numpy).nmant + 1
    return float(2.0**-bits)


def trial_of(
    kernel: Any,
    dim: Any,
    inputs: Sequence[Any],
    outputs: Sequence[Any],
    *,
    device: Any,
    block_dim: int | None,
    tiled: bool,
    wide: bool,
    taker: str,
) -> Trial:
    """The trial of a launch; with ``wide`` in float64, where the kernel then means the same.

    Raises:
        KernelTypeError, KernelValueError: no kernel, or arguments that do not fit it.
    """
    if not isinstance(kernel, Kernel):
        raise KernelTypeError(f"{taker}() takes a kernel made by @tk.kernel, got {describe(kernel)}")
    if dim is None:
        raise KernelTypeError(f"{taker}() needs dim, the grid that the kernel is launched with")
    inputs, outputs = list(inputs or ()), list(outputs or ())
    entries, _, here, _ = bind(kernel, inputs, outputs)
    grid, lanes, where = dims_of(dim), block_dim_of(block_dim), place(device, here)
    arguments = dict(zip(kernel.parameters, with_defaults(kernel, [*inputs, *outputs]), strict=True))
    types, form = types_of(kernel, entries), form_of(tiled, grid, lanes)
    arrays = [name for name, entry in zip(arguments, entries, strict=True) if isinstance(entry, tuple)]
    samples = {name: sample_of(arguments[name]) for name in arrays}
    asked = {name: bool(getattr(arguments[name], "requires_grad", False)) for name in arrays}
    run: Kernel = kernel
    if wide and (found := widened(kernel, types, form)) is not None:
        run, samples = found, in_dtype(samples, wide_dtype)
    return Trial(run, grid, lanes, tiled, where, arguments, samples, run.trace(types, form), len(inputs), asked)
