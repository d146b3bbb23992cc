"""Launches under a tape that keep tiles for their gradient: the record of the launch holds them as long as it lives."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import prod
from typing import Any

from tilekit.frontend.kernel import Kernel
from tilekit.ir.context import LaunchForm
from tilekit.ir.core import Function
from tilekit.runtime.arguments import form_kept
from tilekit.runtime.array_view import ArrayView
from tilekit.runtime.gradient_store import wants_gradient
from tilekit.runtime.gradients import watch
from tilekit.runtime.programs import ProgramKernel

MOST_BYTES = 1 << 30
"""That a launch keeps. It never keeps more than its arrays have, either."""


@dataclass(frozen=True, eq=False)
class SavingForm:
    """The saving variant of one specialisation of a kernel."""

    kernel: ProgramKernel
    function: Function
    """Its parameters are those of the kernel, then the arrays that tiles are kept in."""
    names: tuple[str, ...]
    """Of these arrays."""

    @property
    def written(self) -> tuple[int, ...]:
        """Which of the kernel's arrays it may write."""
        return self.kernel.written

    def run(
        self,
        values: Sequence[Any],
        grid: tuple[int, ...],
        points: int,
        views: Sequence[ArrayView] = (),
        stream: Any = None,
    ) -> Saved:
        """Run it as the kernel itself; gives what it has kept."""
        return Saved(self, self.kernel.run(values, grid, points, views, stream))

    def keeps_little(self, values: Sequence[Any], grid: tuple[int, ...], views: Sequence[ArrayView]) -> bool:
        """Whether what a launch would keep is no more than its arrays have, and than the limit."""
        _, chunk = self.kernel.sizes(values, grid).chunks
        kept = sum(prod(place.shape) * place.dtype.bits // 8 for place in chunk.places.values())
        return kept <= min(sum(view.size * view.dtype.bits // 8 for view in views), MOST_BYTES)


@dataclass(frozen=True, eq=False)
class Saved:
    """What a launch has kept. Its memory is freed with it; where a CUDA graph reads it, which may come again, never."""

    form: SavingForm
    views: Mapping[str, ArrayView]

    def values(self) -> list[Any]:
        """The arrays as they are packed for a kernel."""
        return [item for view in self.views.values() for item in (view.pointer, *view.shape, *view.strides)]

    @contextmanager
    def read_by(self, views: Sequence[ArrayView], stream: Any) -> Iterator[None]:
        """A launch in it, which has these arrays too, reads what is kept: after it was written, before it is freed."""
        owner: Any = next(iter(self.views.values())).owner
        if not hasattr(owner, "stream"):  # memory of the host
            yield
            return
        from tilekit.runtime.cuda.streams import choose, handle_of, is_capturing, order

        own, chosen = owner.stream, choose(views, owner.device)[0] if stream is None else handle_of(stream)
        with owner.device.current():
            if is_capturing(owner.device, chosen):
                _in_graphs.append(self)
            if own != chosen:
                order(owner.device, own, chosen)
            try:
                yield
            finally:
                if own != chosen:
                    order(owner.device, chosen, own)


_in_graphs: list[Saved] = []


class _Nothing:
    """What is kept of a specialisation that has no saving variant."""


_NOTHING = _Nothing()


def saving_form(
    kernel: Kernel,
    key: Any,
    form: LaunchForm,
    options: Mapping[str, Any],
    packed: tuple[list[Any], tuple[int, ...], Sequence[ArrayView]],
    stream: Any,
) -> SavingForm | None:
    """The saving variant for a launch; None where there is none, where no gradient can flow through it, where it would
    keep too much, where its arrays lie on another device than it runs on, and where a CUDA graph captures it.

    Args:
        kernel, key, form, options: As for a launch without.
        packed: The launch's values, its grid and its arrays.
        stream: As the launch was given it.
    """
    device, (values, grid, views) = key[3], packed
    if not all(grid) or any(view.device != device for view in views) or not any(map(_may_have_gradient, views)):
        return None
    key = (*key, "saving")
    found = form_kept(kernel, key, form)
    if found is None:
        from tilekit.runtime.specialise import compile_for

        found = compile_for(kernel, key, form, options, _make)
    if not isinstance(found, SavingForm) or not found.keeps_little(values, grid, views):
        return None
    return None if device.startswith("cuda") and _is_captured(found, views, stream) else found


def _may_have_gradient(view: ArrayView) -> bool:
    """Whether an array has a gradient, or depends on what the tape has recorded."""
    if not view.dtype.is_float or watch.tape is None:
        return False
    return wants_gradient(view.owner) or any(record.may_write(view) for record in watch.tape.launches)


def _is_captured(form: SavingForm, views: Sequence[ArrayView], stream: Any) -> bool:
    from tilekit.runtime.cuda.streams import choose, handle_of, is_capturing

    memory: Any = form.kernel.memory
    device = memory.device_handle
    with device.current():
        return bool(is_capturing(device, choose(views, device)[0] if stream is None else handle_of(stream)))


def _make(kernel: Kernel, types: Any, form: LaunchForm, device: str, classes: Any) -> tuple[Any, Function]:
    """What derives and compiles the saving variant of a kernel."""
    from tilekit.passes.save_values import save_values
    from tilekit.runtime.interpreter import stands_in
    from tilekit.runtime.specialise import program_for

    function = kernel.trace(types, form)
    found = None if device == "cpu" and stands_in() else save_values(function, form)
    if found is None:
        return _NOTHING, function
    made = program_for(found.program, form, device, classes, kernel.options)
    return SavingForm(made, found.function, found.names), function
