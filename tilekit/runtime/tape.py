"""``tk.Tape``: records launches, and goes backward through them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from tilekit.errors import KernelTypeError, KernelValueError, TilekitError
from tilekit.ir.operands import describe
from tilekit.runtime.array_view import ArrayView
from tilekit.runtime.arrays import library_of, view_of
from tilekit.runtime.gradient_store import GradientStore
from tilekit.runtime.gradients import active_tape, warp_runs, watch
from tilekit.runtime.guards import is_zero
from tilekit.runtime.last_writes import LastWrites, seen_as_array
from tilekit.runtime.records import LaunchRecord
from tilekit.runtime.tape_copies import CopyRecord
from tilekit.runtime.tape_functions import FunctionRecord
from tilekit.runtime.tape_warp import WarpRecord, recorder

__all__ = ["Tape"]

Record = LaunchRecord | WarpRecord | CopyRecord | FunctionRecord


class Tape:
    """Records launches, and computes gradients by going backward through them.

    Inside ``with``, launches of tilekit's kernels are recorded, and where Warp is loaded, its launches and copies as
    well, all in order. The tape keeps the arrays of its launches alive.

    Which arrays have gradients, and where these are:

    - Warp's arrays made with ``requires_grad=True``: in ``grad``, as in Warp.
    - PyTorch's tensors that require grad, and all NumPy arrays of floats: on the tape; ``gradients`` gives them. The
      ``grad`` of a tensor is PyTorch's alone.
    - Arrays that a launch wrote from any of these: on the tape too. ``backward`` consumes their gradients.

    Args:
        verify: Whether a launch also keeps a checksum of its arrays, which shows writes that the tape has not seen; by
            default of arrays on the CPU. True does so on GPUs as well, and waits for each launch.
        save: ``"auto"``: launches keep tiles that their gradient would need a product or a loop for again, such as a
            sum that goes through ``tanh``; they are freed when the tape is reset or gone. ``"none"``: all is computed
            again.

    Raises:
        KernelValueError: ``save`` is another word.

    Example:
        >>> import numpy as np, tilekit as tk
        >>> @tk.kernel
        ... def squares(a: tk.array1d[float], out: tk.array1d[float]):
        ...     t = tk.tile_load(a, shape=4)
        ...     tk.tile_store(out, t * t)
        >>> a, out = np.arange(4, dtype=np.float32), np.zeros(4, np.float32)
        >>> with tk.Tape() as tape:
        ...     tk.launch_tiled(squares, dim=1, inputs=[a], outputs=[out], block_dim=32)
        >>> tape.backward(grads=[(out, np.ones(4, np.float32))])
        >>> tape.gradients[a]
        array([0., 2., 4., 6.], dtype=float32)
    """

    def __init__(self, verify: bool | None = None, save: str = "auto") -> None:
        if save not in ("auto", "none"):
            raise KernelValueError(f"save must be 'auto' or 'none', got {save!r}")
        self.verify = verify
        self.save = save
        self.launches: list[Record] = []
        """What was recorded, in order."""
        self.scopes: list[tuple[int, str | None, dict[str, Any]]] = []
        """Of the scopes that begin and, with the name None, end, the number of records before them."""
        self.last_writes = LastWrites()
        self._store = GradientStore()
        self._analysed = 0
        self._recorder: Any = None
        """What records on Warp's side, inside ``with``."""

    # Recording.

    def __enter__(self) -> Tape:
        if watch.tape is not None or active_tape() is not None:
            raise KernelValueError("a tape is active already: tapes cannot be nested; leave its with block first")
        if "warp" in sys.modules:
            self.attach()
        watch.tape = self
        watch.update()
        return self

    def __exit__(self, *_: object) -> None:
        watch.tape = None
        watch.update()
        if self._recorder is not None:
            self._recorder.__exit__(None, None, None)
            self._recorder = None
        elif warp_runs():
            raise KernelValueError(
                "Warp was imported inside the with block of a tape, which so has not recorded what it did; import it "
                "before"
            )

    def attach(self) -> None:
        """Record what Warp, which is loaded, does from now on."""
        self._recorder = recorder(self)
        self._recorder.__enter__()

    def record_func(self, backward: Callable[[], Any], arrays: Sequence[Any]) -> None:
        """Record a function that ``backward`` calls in its turn.

        Args:
            backward: Takes the gradients of what it stands for from ``get_adjoint``, and adds to those of others.
            arrays: The arrays whose gradients it uses. What it stands for may have written them.

        Raises:
            KernelTypeError: an array cannot have a gradient, or ``backward`` is no function.
        """
        if not callable(backward):
            raise KernelTypeError(f"record_func takes a function of no arguments, got {describe(backward)}")
        if not isinstance(arrays, Sequence):
            raise KernelTypeError(f"record_func takes a list of arrays, got {describe(arrays)}")
        views = [self._with_gradient(array) for array in arrays]
        self.last_writes.forget(views)
        self.launches.append(FunctionRecord(backward, views))

    def record_launch(
        self,
        kernel: Any,
        dim: Any,
        max_blocks: int = 0,
        inputs: Sequence[Any] = (),
        outputs: Sequence[Any] = (),
        device: Any = None,
        block_dim: int = 0,
        metadata: Mapping[str, Any] | None = None,
        tiled: bool = False,
    ) -> None:
        """Record a launch that has run, of a kernel of tilekit's or Warp's; ``tiled`` means ``launch_tiled``."""
        from tilekit.frontend.kernel import Kernel
        from tilekit.runtime.records import record_launch

        if isinstance(kernel, Kernel):
            record_launch(self, kernel, dim, [*inputs, *outputs], (device, block_dim, tiled))
        elif not hasattr(kernel, "adj"):
            raise KernelTypeError(f"record_launch takes a kernel of tilekit's or Warp's, got {describe(kernel)}")
        else:
            given = kernel, dim, max_blocks, inputs, outputs, device, block_dim, dict(metadata or {})
            self.record_warp(WarpRecord(*given))

    def record_warp(self, record: WarpRecord) -> None:
        """Record a launch of a kernel of Warp's that has just run."""
        record.tell()
        self.last_writes.see([record.views[name] for name in record.written])
        self.launches.append(record)

    def record_scope_begin(self, scope_name: str, metadata: Mapping[str, Any] | None = None) -> None:
        """Begin a scope, which :meth:`visualize` draws around what is recorded until its end."""
        self.scopes.append((len(self.launches), scope_name, dict(metadata or {})))

    def record_scope_end(self, remove_scope_if_empty: bool = True) -> None:
        """End the scope that began last.

        Raises:
            KernelValueError: none has begun.
        """
        depth = sum(1 if name is not None else -1 for _, name, _ in self.scopes)
        if depth <= 0:
            raise KernelValueError("record_scope_end: no scope has begun")
        start, name, _ = self.scopes[-1]
        if remove_scope_if_empty and name is not None and start == len(self.launches):
            self.scopes.pop()
        else:
            self.scopes.append((len(self.launches), None, {}))

    # Going backward.

    def backward(self, loss: Any = None, grads: Any = None) -> None:
        """Compute gradients: add to those of all arrays that the recorded launches read.

        A second ``backward`` adds to the gradients that are there; :meth:`zero` sets them to zero.

        Args:
            loss: An array of one float; its gradient is 1.
            grads: The gradients of other arrays: a dict, or pairs, of arrays and gradients like them, which are copied.

        Raises:
            KernelTypeError, KernelValueError: ``loss`` or ``grads`` do not fit, or there is neither and no array of
                Warp's that may have a gradient already; an array was overwritten.
            KernelNotImplementedError: a kernel's gradient cannot be computed rightly; the error names the op.
        """
        if self._store.broken:
            raise KernelValueError(
                "an earlier backward of this tape has failed and left gradients that are not whole; call tape.zero() "
                "before the next"
            )
        pairs = _pairs(grads, "backward(grads=...)", "gradient")
        seeds: list[tuple[ArrayView, ArrayView | float]] = []
        if loss is not None:
            seeds.append((self._loss(loss), 1.0))
        seeds += [_seed(array, gradient) for array, gradient in pairs]
        if not seeds and not any(_may_have_begun(record) for record in self.launches):
            raise KernelValueError(
                "backward() needs a gradient to start from: loss=, an array of one float, or grads={array: gradient}"
            )
        self._analyse()
        with self._store.going_backward():
            for view, gradient in seeds:
                self._store.seed(view, gradient)
            for record in reversed(self.launches):
                record.backward(self._store)

    def _analyse(self) -> None:
        if self._analysed != len(self.launches):
            self._store.see(self.launches)
            self._analysed = len(self.launches)

    def _loss(self, loss: Any) -> ArrayView:
        try:
            view = view_of(loss)
        except TilekitError as error:
            raise type(error)(f"backward(loss=...): {error.message}") from error.__cause__
        if view.size != 1 or not view.dtype.is_float:
            raise KernelValueError(
                f"backward(loss=...) takes an array of one float, got {view.dtype.name} of shape {view.shape}; give "
                "the gradients of a larger array by grads={array: gradient}"
            )
        if library_of.get(type(loss)) == "warp" and not loss.requires_grad:
            raise KernelValueError("backward(loss=...) takes an array made with requires_grad=True")
        if not any(record.may_write(view) for record in self.launches):
            raise KernelValueError("backward(loss=...): nothing on this tape has written that array")
        return view

    def get_adjoint(self, a: Any) -> Any:
        """The gradient of an argument of a launch: an array like it, or None where it has none.

        Raises:
            KernelValueError: the gradient has gone on through the launch that wrote the array.
        """
        if not hasattr(a, "shape") or (library_of.get(type(a)) is None and seen_as_array(a) is None):
            return None
        return self._store.of(a)

    @property
    def gradients(self) -> Gradients:
        """The gradients by array: ``tape.gradients[a]``."""
        return Gradients(self)

    def retain_grad(self, array: Any) -> None:
        """Keep the gradient of an array that a launch has written; else ``backward`` consumes it. Arrays of Warp's have
        an attribute ``retain_grad`` for this."""
        self._store.retained.append(view_of(array))

    def zero(self) -> None:
        """Set all gradients to zero."""
        self._analyse()
        self._store.zero()

    def reset(self) -> None:
        """Forget what was recorded, and set all gradients to zero."""
        self.zero()
        self.launches.clear()
        self.scopes.clear()
        self.last_writes.clear()
        self._store = GradientStore()
        self._analysed = 0

    def _with_gradient(self, array: Any) -> ArrayView:
        try:
            view = view_of(array)
        except TilekitError as error:
            raise type(error)(f"record_func: {error.message}") from error.__cause__
        if not view.dtype.is_float:
            raise KernelTypeError(f"record_func: an array of {view.dtype.name} has no gradient")
        self._store.activate(view)
        self._store.gradient(view, make=True)
        return view

    def visualize(self, filename: str | None = None, array_labels: Any = None, graph_direction: str = "LR") -> str:
        """What was recorded, as a drawing of GraphViz.

        Args:
            filename: Where to write it as well.
            array_labels: Names of arrays: a dict, or pairs.
            graph_direction: ``"LR"`` from left to right, ``"TB"`` from the top down.

        Returns:
            The text, for the program ``dot``.

        Raises:
            KernelTypeError, KernelValueError: ``array_labels`` are no pairs, or ``graph_direction`` is another word.
        """
        from tilekit.runtime.tape_graph import drawing

        if graph_direction not in ("LR", "TB"):
            raise KernelValueError(f"visualize: graph_direction must be 'LR' or 'TB', got {graph_direction!r}")
        labels = _pairs(array_labels, "visualize(array_labels=...)", "name")
        text = drawing(self.launches, self.scopes, labels, graph_direction)
        if filename is not None:
            with open(filename, "w", encoding="utf-8") as file:
                file.write(text)
        return text


class Gradients(Mapping[Any, Any]):
    """The gradients on a tape by array; arrays that cannot be hashed, as NumPy's, are keys too."""

    def __init__(self, tape: Tape) -> None:
        self._tape = tape

    def __getitem__(self, array: Any) -> Any:
        found = self._tape.get_adjoint(array)
        if found is None:
            raise KernelValueError(
                "the tape has no gradient of this array: backward has not come to a launch that reads it, or it does "
                "not require grad"
            )
        return found

    def __contains__(self, array: object) -> bool:
        return self._tape.get_adjoint(array) is not None

    def __iter__(self) -> Iterator[Any]:
        seen: set[int] = set()
        for record in self._tape.launches:
            for view in record.floats().values():
                if id(view.owner) not in seen and self._tape._store.gradient(view, make=False) is not None:
                    seen.add(id(view.owner))
                    yield view.owner

    def __len__(self) -> int:
        return sum(1 for _ in self)


def _may_have_begun(record: Record) -> bool:
    """Whether a gradient may start at a record by itself: a function's, or one that an array of Warp's already has.

    On a GPU nobody looks whether that is zero, as this would wait for it.
    """
    if isinstance(record, FunctionRecord):
        return True
    owners: list[Any] = [view.owner for view in record.floats().values()]
    found = (owner.grad for owner in owners if library_of.get(type(owner)) == "warp" and owner.grad is not None)
    return any(view.device != "cpu" or not is_zero(view) for view in map(view_of, found))


def _pairs(given: Any, name: str, what: str) -> list[tuple[Any, Any]]:
    """A dict, or what gives pairs, as a list of pairs of an array and a ``what``."""
    if given is None:
        return []
    if isinstance(given, Mapping):
        return list(given.items())
    try:
        return [(array, other) for array, other in given]
    except (TypeError, ValueError):
        wanted = f"a dict, or a list of pairs of an array and its {what}"
        raise KernelTypeError(f"{name} takes {wanted}, got {describe(given)}") from None


def _seed(array: Any, gradient: Any) -> tuple[ArrayView, ArrayView]:
    try:
        view, found = view_of(array), view_of(gradient)
    except TilekitError as error:
        raise type(error)(f"backward(grads=...): {error.message}") from error.__cause__
    like = (view.dtype, view.shape, view.device) == (found.dtype, found.shape, found.device)
    if not like or not view.dtype.is_float:
        raise KernelTypeError(
            f"backward(grads=...): the gradient of an array of {view.dtype.name} of shape {view.shape} on "
            f"{view.device!r} must be like it, got {found.dtype.name} of shape {found.shape} on {found.device!r}"
        )
    return view, found
