"""What a tape keeps of a launch of a kernel, and how it goes backward through it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, nullcontext
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary, ref

from tilekit.config import config
from tilekit.errors import KernelNotImplementedError, KernelValueError
from tilekit.frontend.kernel import Kernel
from tilekit.ir.notices import calling_place
from tilekit.ir.types import find_dtype
from tilekit.runtime.arguments import bind, is_current, parameters_of, types_of, with_defaults
from tilekit.runtime.array_view import ArrayView, overlaps, self_overlapping
from tilekit.runtime.arrays import library_of, view_of
from tilekit.runtime.gradient_store import wants_gradient
from tilekit.runtime.gradients import watch
from tilekit.runtime.grids import block_dim_of, dims_of, form_of
from tilekit.runtime.guards import Guard, is_zero, note_writes
from tilekit.runtime.launch_options import options_now

if TYPE_CHECKING:
    from tilekit.ir.core import Function
    from tilekit.runtime.adjoint import AdjointLaunch
    from tilekit.runtime.gradient_store import GradientStore
    from tilekit.runtime.last_writes import Left
    from tilekit.runtime.saving import Saved
    from tilekit.runtime.tape import Tape

How = tuple[Any, Any, bool]
"""The device as it was given, lanes of a block, and whether each point of the grid is a block."""


class LaunchRecord:
    """A launch of a kernel that has run."""

    def __init__(
        self,
        kernel: Kernel,
        dim: Any,
        arguments: Sequence[Any],
        views: Mapping[str, ArrayView],
        written: frozenset[str],
        how: How,
        verify: bool | None,
        compiled: Any = None,
        saved: Saved | None = None,
    ) -> None:
        self.kernel = kernel
        self._options = options_now()
        self._meaning = kernel.capture_key(), compiled
        """What the kernel stood for: its outer values, and what ran."""
        self.saved = saved
        """Tiles that the launch has kept for its gradient, however often it is asked for."""
        self.grid = dims_of(dim)
        self.arguments = arguments
        self.views = views
        """Its arrays."""
        self.written = written
        """The arrays that it may have written."""
        self.how = how
        self.place = calling_place()
        self.guards = {name: Guard(view, verify) for name, view in views.items()}
        self.before: dict[str, list[Left]] = {}
        """By parameter, what earlier launches had left in its memory."""
        self.torn: dict[str, list[tuple[Left, str]]] = {}
        """Of that, what was written, unseen by the tape, before this launch; and by what."""
        watch.add(self)

    @property
    def title(self) -> str:
        """What drawings and messages call it."""
        return self.kernel.key

    def floats(self) -> dict[str, ArrayView]:
        """Its arrays that can have gradients."""
        return {name: view for name, view in self.views.items() if view.dtype.is_float}

    def may_write(self, view: ArrayView) -> bool:
        """Whether it may have written an array."""
        return any(overlaps(view, self.views[name]) for name in self.written)

    def _refuse_torn(self, name: str, store: GradientStore) -> None:
        """Refuse to let a gradient flow to launches that wrote an array before something unseen did."""
        for left, what in self.torn[name]:
            if left.record._depends(left.name, store):
                earlier = left.record
                raise KernelValueError(
                    f"backward through kernel {self.kernel.key!r}: its argument {name!r} is not what kernel "
                    f"{earlier.kernel.key!r}, at {earlier.place.file}:{earlier.place.line}, wrote, since {what} has "
                    "written it between the two launches; write to another array, or record what writes it as a launch",
                    self.place,
                )

    def _depends(self, name: str, store: GradientStore) -> bool:
        """Whether what it left in an array depends on arrays that gradients are to flow to."""
        waiting, seen = [(self, name)], set[tuple[int, str]]()
        while waiting:
            record, name = waiting.pop()
            if (id(record), name) in seen:
                continue
            seen.add((id(record), name))
            if any(store.is_active(view) for other, view in record.floats().items() if other not in record.written):
                return True
            if name in record._replaced():
                continue
            before = record.before.get(name, ())
            if not before and wants_gradient(record.views[name].owner):
                return True
            waiting += ((left.record, left.name) for left in before)
        return False

    def _replaced(self) -> frozenset[str]:
        """The arrays that its kernel only stores to."""
        from tilekit.passes.wanted import replaced_parameters

        return replaced_parameters(_function_of(self.kernel, self.grid, self.arguments, self.how))

    def spread(self, store: GradientStore) -> None:
        """Note that what it wrote depends on what it read."""
        floats = self.floats()
        if any(store.is_active(view) for view in floats.values()):
            for name in floats.keys() & self.written:
                store.activate(floats[name])

    def backward(self, store: GradientStore) -> None:
        """Take the gradients of what it wrote, and add to those of what it read.

        Raises:
            KernelValueError: an array that the adjoint reads was written since, or an outer value has changed.
        """
        floats = self.floats()
        coming = {name: store.gradient(floats[name], make=False) for name in floats if name in self.written}
        if all(view is None for view in coming.values()):
            return
        for name in floats.keys() - coming.keys():
            store.refuse_lost(floats[name], f"argument {name!r} of kernel {self.kernel.key!r}", self.place)
        read = {
            name: store.gradient(view, make=True)
            for name, view in floats.items()
            if name not in coming and store.is_active(view)
        }
        for name in read:
            if self_overlapping(floats[name]):
                raise KernelNotImplementedError(
                    f"argument {name!r} of kernel {self.kernel.key!r} is a view that has one element several times, as "
                    "np.broadcast_to makes them, and has no gradient; pass a copy, such as np.ascontiguousarray(x)",
                    self.place,
                )
        for name in read.keys() & self.torn.keys():
            self._refuse_torn(name, store)
        # Again: an array may be among both, by two names.
        written = {name: store.gradient(floats[name], make=False) for name in coming}
        gradients = {name: view for name, view in {**read, **written}.items() if view is not None}
        launch = self._adjoint(gradients)
        for name in self.kernel.parameters:
            if name in launch.form.reads:
                self.guards[name].check(self, name)
        for name in coming:
            store.keep(floats[name], self)
        store.begun = True
        launch.run(None)
        for name in written.keys() & self.torn.keys():
            if (left := written[name]) is not None and not is_zero(left):
                self._refuse_torn(name, store)
        if math.prod(self.grid):
            for name in launch.form.replaced & coming.keys():
                store.consume(floats[name], self)
        for name in read:
            store.regain(floats[name])

    def _adjoint(self, gradients: Mapping[str, Any]) -> AdjointLaunch:
        """The backward launch, of the kernel as it was, under the options that the launch had."""
        from tilekit.runtime.adjoint import prepare_adjoint

        captures, compiled = self._meaning
        if self.kernel.capture_key() != captures or not is_current(self.kernel, compiled):
            raise KernelValueError(
                f"an outer value that kernel {self.kernel.key!r} reads has changed since this launch, so its gradient "
                "would be another one; pass what changes as an argument",
                self.place,
            )
        for name, view in _views(self.kernel, self.arguments).items():
            if not view.same_place(self.views[name]):
                raise KernelValueError(
                    f"backward through kernel {self.kernel.key!r}: its argument {name!r} has other memory, another "
                    "shape or other strides than at this launch, as after x.data = ... or x.resize_(...); go backward "
                    "before",
                    self.place,
                )
        device, block_dim, tiled = self.how
        same = options_now().number == self._options.number
        with nullcontext() if same else config.scoped(**self._options.values):
            given = self.kernel, self.grid, self.arguments, gradients, device, block_dim, tiled
            return prepare_adjoint(*given, self.saved)


class OnWarpsTape:
    """A record on a tape of Warp's own, which calls it when it goes backward."""

    def __init__(self, record: LaunchRecord, tape: Any) -> None:
        self.record = record
        self._tape = ref(tape)

    def __call__(self) -> None:
        tape: Any = self._tape()
        run = _runs.get(tape)
        if run is None or run.last is self:  # else one that has failed
            run = _runs[tape] = _Run(tape)
        self.record.backward(run.store)
        for view in self.record.views.values():
            array: Any = view.owner
            if library_of.get(type(array)) == "warp" and array.grad is not None:
                tape.gradients[array] = array.grad
        if run.first is self:
            del _runs[tape]
            run.ends.close()


class _Run:
    """What the records on a tape of Warp's share while it goes backward."""

    def __init__(self, tape: Any) -> None:
        from tilekit.runtime.gradient_store import GradientStore
        from tilekit.runtime.tape_warp import WarpRecord

        entries = [entry for entry in tape.launches if isinstance(entry, OnWarpsTape)]
        self.first, self.last = entries[0], entries[-1]
        self.store = GradientStore(warp_alone=True)
        launches = [_record_of(entry) for entry in tape.launches]
        self.store.see(launch for launch in launches if launch is not None)
        for launch in launches:
            if isinstance(launch, WarpRecord):
                launch.refuse_unseen(self.store)
        self.ends = ExitStack()
        self.ends.enter_context(self.store.going_backward())


def _record_of(entry: Any) -> Any:
    """What an entry of a tape of Warp's stands for; None for a function, of which nothing is known."""
    from tilekit.runtime.tape_warp import WarpRecord

    if isinstance(entry, OnWarpsTape):
        return entry.record
    return WarpRecord(*entry) if isinstance(entry, list) else None


_runs: WeakKeyDictionary[Any, _Run] = WeakKeyDictionary()


def note_launch(
    tape: Any, kernel: Kernel, dim: Any, arguments: Sequence[Any], compiled: Any, how: How, saved: Saved | None
) -> None:
    """Tell a tape, where there is one, of a launch that has run, and earlier records of what it wrote."""
    given = with_defaults(kernel, arguments)
    views = _views(kernel, given)
    names = list(views)
    written = frozenset(names[position] for position in compiled.written)
    records = watch.records
    if records:
        note_writes(records, {name: views[name] for name in written}, f"kernel {kernel.key!r}")
    if tape is not None and any(view.dtype.is_float for view in views.values()):
        verify = getattr(tape, "verify", None)
        record = LaunchRecord(kernel, dim, given, views, written, how, verify, compiled, saved)
        if watch.tape is not None and tape is watch.tape:
            watch.tape.last_writes.see([views[name] for name in written], recorded=True)
            watch.tape.last_writes.add(record)
            watch.tape.launches.append(record)
        else:
            tape.record_func(OnWarpsTape(record, tape), [])
    elif watch.tape is not None:
        watch.tape.last_writes.see([views[name] for name in written])


def record_launch(tape: Tape, kernel: Kernel, dim: Any, arguments: Sequence[Any], how: How) -> None:
    """Record a launch of which nothing is known but its arguments."""
    from tilekit.passes.activity import written_parameters

    written = written_parameters(_function_of(kernel, dims_of(dim), arguments, how))
    given = with_defaults(kernel, arguments)
    record = LaunchRecord(kernel, dim, given, _views(kernel, given), written, how, tape.verify)
    tape.last_writes.add(record)
    tape.launches.append(record)


def _function_of(kernel: Kernel, grid: tuple[int, ...], arguments: Sequence[Any], how: How) -> Function:
    """What a launch runs."""
    entries, _, _, _ = bind(kernel, arguments, ())
    return kernel.trace(types_of(kernel, entries), form_of(how[2], grid, block_dim_of(how[1])))


def _views(kernel: Kernel, arguments: Sequence[Any]) -> dict[str, ArrayView]:
    """The arrays among a launch's arguments, by parameter."""
    found = {}
    for parameter, value in zip(parameters_of(kernel), arguments, strict=True):
        if value is not None and (parameter.is_array or (parameter.dtype is None and find_dtype(type(value)) is None)):
            found[parameter.name] = view_of(value)
    return found
