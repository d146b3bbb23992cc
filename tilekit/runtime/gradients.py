"""Whether a tape records, and who must know of a launch: the tape, and earlier records whose arrays must not change."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any
from weakref import ref

from tilekit.errors import KernelNotImplementedError
from tilekit.frontend.kernel import Kernel
from tilekit.runtime.array_view import ArrayView
from tilekit.runtime.arrays import library_of

if TYPE_CHECKING:
    from tilekit.runtime.records import LaunchRecord
    from tilekit.runtime.tape import Tape


class Watch:
    """What launches are told to."""

    __slots__ = ("_records", "busy", "saves", "tape")

    def __init__(self) -> None:
        self.tape: Tape | None = None
        """The tape of tilekit's own that records now."""
        self._records: dict[int, ref[LaunchRecord]] = {}
        self.busy = False
        """Whether there is anything to tell; launches ask this alone."""
        self.saves = False
        """Whether that tape's launches keep tiles for their gradients."""

    @property
    def records(self) -> list[LaunchRecord]:
        """The launches that a tape still holds, and whose arrays must not change until it has gone backward."""
        return [record for found in list(self._records.values()) if (record := found()) is not None]

    def add(self, record: LaunchRecord) -> None:
        """Watch over the arrays of a record for as long as it lives."""
        number = id(record)

        def gone(_: object) -> None:
            self._records.pop(number, None)
            self.update()

        self._records[number] = ref(record, gone)
        self.update()

    def update(self) -> None:
        """Look again whether there is anything to tell."""
        self.busy = self.tape is not None or bool(self._records)
        self.saves = self.tape is not None and self.tape.save == "auto"


watch = Watch()


def warps_state() -> Any:
    """Where Warp, once it is initialised, keeps the active tape: an object with ``tape``; None where that is not known,
    as it is not public."""
    found = getattr(sys.modules.get("warp._src.context"), "runtime", None)
    return found if hasattr(found, "tape") else None


def hides_tapes() -> bool:
    """Whether Warp is initialised, and does not say whether a tape of its own records."""
    return warp_runs() and warps_state() is None


def warp_runs() -> bool:
    """Whether Warp is loaded and initialised."""
    if "warp" not in sys.modules:
        return False
    context = sys.modules.get("warp._src.context")
    return context is None or getattr(context, "runtime", context) is not None


def active_tape() -> Any:
    """Warp's tape that records now, or None; one that a tape of tilekit's holds is that one's."""
    state = warps_state()
    return None if state is None else state.tape


def grad_mode() -> bool:
    """Whether PyTorch, which the program has loaded, records now."""
    return bool(sys.modules["torch"].is_grad_enabled())


def check_tensors(kernel: Kernel, names: Sequence[str], views: Sequence[ArrayView], taped: bool) -> None:
    """Refuse arrays whose gradient would be lost without a word.

    Args:
        names: Of the parameters that the arrays are for.
        taped: Whether an active tape records the launch.

    Raises:
        KernelNotImplementedError: a tensor of PyTorch's requires grad, grad mode is on, and no ``tk.Tape`` records; or
            one of Warp's does, and this Warp does not say whether a tape of its own records.
    """
    if taped and watch.tape is not None:
        return
    for name, view in zip(names, views, strict=True):
        array: Any = view.owner
        library = library_of.get(type(array))
        if library == "torch" and array.requires_grad and grad_mode():
            raise KernelNotImplementedError(
                f"argument {name!r} of kernel {kernel.key!r}: the tensor requires grad, but PyTorch does not see "
                f"launches, so no gradient would flow through this one; make an autograd function of the kernel with "
                f"tk.torch.function({kernel.key}, ...), launch under tk.Tape(), pass {name}.detach(), or launch under "
                "torch.no_grad()"
            )
        if library == "warp" and taped and hides_tapes() and array.requires_grad:
            version = getattr(sys.modules.get("warp"), "__version__", "of an unknown version")
            raise KernelNotImplementedError(
                f"argument {name!r} of kernel {kernel.key!r} requires grad, but Warp {version} does not say whether a "
                "tape records; launch under tk.Tape(), which records Warp's launches too, or with record_tape=False"
            )


def looked_at(taped: bool) -> bool:
    """Whether a launch with an array that requires grad is refused now, or may be; ``taped`` as for a launch."""
    return not (taped and watch.tape is not None) and ("torch" not in sys.modules or grad_mode())


def seen(
    kernel: Kernel, dim: Any, arguments: Sequence[Any], compiled: Any, how: tuple[Any, ...], saved: Any = None
) -> None:
    """Tell of a launch that has just run.

    Args:
        compiled: What ran.
        how: Device, lanes of a block, whether each point of the grid is a block, whether tapes are to know of it.
        saved: What it has kept for its gradient.
    """
    tape = (watch.tape or active_tape()) if how[-1] else None
    if tape is not None or watch.busy:
        from tilekit.runtime.records import note_launch

        note_launch(tape, kernel, dim, arguments, compiled, how[:-1], saved)
