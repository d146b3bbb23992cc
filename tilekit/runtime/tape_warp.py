"""Launches and copies of Warp's on a tape of tilekit's: Warp goes backward through them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tilekit.errors import KernelNotImplementedError
from tilekit.ir.notices import calling_place
from tilekit.runtime.array_view import ArrayView, overlaps
from tilekit.runtime.arrays import view_of
from tilekit.runtime.gradient_store import GradientStore
from tilekit.runtime.gradients import watch
from tilekit.runtime.guards import note_writes
from tilekit.runtime.tape_copies import WHAT, copies_recorded
from tilekit.runtime.warp_names import import_warp

if TYPE_CHECKING:
    from tilekit.runtime.tape import Tape


def recorder(tape: Tape) -> Any:
    """A tape of Warp's that hands what it is told on; Warp tells the one that was entered."""
    warp = import_warp()

    class Recorder(warp.Tape):  # type: ignore[misc, name-defined]
        def __enter__(self) -> Recorder:
            super().__enter__()
            self._copies = copies_recorded(warp, tape)
            self._copies.__enter__()
            return self

        def __exit__(self, *raised: Any) -> None:
            self._copies.__exit__(None, None, None)
            super().__exit__(*raised)

        def record_launch(self, *given: Any, **named: Any) -> None:
            tape.record_warp(WarpRecord(*given, **named))

        def record_func(self, backward: Any, arrays: Sequence[Any]) -> None:
            copied = _target_of_copy(backward)
            if copied is not None:
                note_writes(watch.records, {"": view_of(copied)}, WHAT, "warp")
                tape.last_writes.see([view_of(copied)])
            tape.record_func(backward, arrays)

        def record_scope_begin(self, *given: Any, **named: Any) -> None:
            tape.record_scope_begin(*given, **named)

        def record_scope_end(self, *given: Any, **named: Any) -> None:
            tape.record_scope_end(*given, **named)

    return Recorder()


def _target_of_copy(backward: Any) -> Any:
    """The array that a copy of Warp's has written, of which this is the backward; None for other functions."""
    code = getattr(backward, "__code__", None)
    if code is None or "adj_copy" not in code.co_names or "dest" not in code.co_freevars:
        return None
    return backward.__closure__[code.co_freevars.index("dest")].cell_contents


class WarpRecord:
    """A launch of a kernel of Warp's."""

    def __init__(
        self,
        kernel: Any,
        dim: Any,
        max_blocks: int,
        inputs: Sequence[Any],
        outputs: Sequence[Any],
        device: Any,
        block_dim: int = 0,
        metadata: Any = None,
    ) -> None:
        self._tape = import_warp().Tape()
        self._tape.record_launch(kernel, dim, max_blocks, inputs, outputs, device, block_dim, metadata)
        self.kernel = kernel
        self.place = calling_place(through="warp")
        names = [argument.label for argument in kernel.adj.args]
        pairs = zip(names, (*inputs, *outputs), strict=False)
        self.views = {name: view_of(value) for name, value in pairs if _is_plain(value)}
        marked = {argument.label for argument in kernel.adj.args if getattr(argument, "is_write", False)}
        self.written = frozenset({*names[len(inputs) :], *marked} & self.views.keys())

    @property
    def title(self) -> str:
        """What drawings call it."""
        return str(getattr(self.kernel.func, "__name__", self.kernel.key))

    def tell(self) -> None:
        """Tell earlier records of what it wrote."""
        note_writes(
            watch.records, {name: self.views[name] for name in self.written}, f"Warp's kernel {self.title!r}", "warp"
        )

    def floats(self) -> dict[str, ArrayView]:
        """Its arrays that can have gradients."""
        return {name: view for name, view in self.views.items() if view.dtype.is_float}

    def may_write(self, view: ArrayView) -> bool:
        """Whether it may have written an array."""
        return any(overlaps(view, other) for other in self.views.values())

    def _without(self) -> list[str]:
        """The arrays of floats that have no gradient of their own, so that Warp sees none."""
        return [name for name, view in self.floats().items() if getattr(view.owner, "grad", None) is None]

    def spread(self, store: GradientStore) -> None:
        """Note which gradients are lost here; of others Warp knows by itself."""
        without = self._without()
        for name in without if len(without) < len(self.floats()) else ():
            if name in self.written:
                store.lose(self.views[name], f"Warp's kernel {self.title!r}")

    def backward(self, store: GradientStore) -> None:
        """Let Warp go backward through it; raises as :meth:`refuse_unseen`."""
        self.refuse_unseen(store)
        store.begun = True
        self._tape.backward()

    def refuse_unseen(self, store: GradientStore) -> None:
        """Refuse arrays whose gradients Warp would leave out.

        Raises:
            KernelNotImplementedError: a gradient is to flow to an array, and Warp would not see it.
        """
        for name in self._without():
            if store.is_active(self.views[name]):
                raise KernelNotImplementedError(
                    f"argument {name!r} of Warp's kernel {self.title!r} depends on arrays that require grad, but has "
                    "no gradient of its own; make it with requires_grad=True",
                    self.place,
                )


def _is_plain(value: Any) -> bool:
    """Whether an argument is an array of numbers, whose gradients tilekit may see."""
    from tilekit.errors import TilekitError

    try:
        return hasattr(value, "dtype") and hasattr(value, "shape") and bool(view_of(value).shape)
    except TilekitError:
        return False
