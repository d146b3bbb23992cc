"""Backward launches: from a kernel's arguments and gradient arrays to a run of its adjoint.

The adjoint of a kernel is derived and compiled at its first backward launch, for the gradients that are asked for.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import combinations, permutations
from typing import TYPE_CHECKING, Any

from tilekit.builtins.grid import dimensions
from tilekit.config import config
from tilekit.errors import KernelTypeError, KernelValueError, TilekitError
from tilekit.frontend.kernel import Kernel
from tilekit.ir.context import LaunchForm
from tilekit.ir.core import Function
from tilekit.ir.float_state import in_ieee_state
from tilekit.ir.program import Program
from tilekit.ir.rewrite import substitute
from tilekit.ir.types import DType
from tilekit.runtime.arguments import Entry, array_names, bind, check_output, form_kept, mark_written, types_of
from tilekit.runtime.array_view import ArrayView, alignment_class, overlaps
from tilekit.runtime.arrays import library_of, view_of
from tilekit.runtime.gradient_arrays import add, assign, dense
from tilekit.runtime.grids import block_dim_of, dims_of, form_of
from tilekit.runtime.launch_options import options_now
from tilekit.runtime.placement import place

if TYPE_CHECKING:
    from tilekit.runtime.saving import Saved, SavingForm


def launch_adjoint(
    kernel: Kernel,
    grid: Any,
    arguments: Sequence[Any],
    gradients: Mapping[str, Any],
    *,
    device: Any = None,
    stream: Any = None,
    block_dim: int | None = None,
    tiled: bool = True,
) -> None:
    """Run a kernel's adjoint: add to the gradients of what it reads, and take from those of what it writes.

    Args:
        kernel: The kernel.
        grid: What the kernel was launched over.
        arguments: All its arguments, in order. Arrays hold what they held right after that launch.
        gradients: By parameter, an array like the argument: of the same dtype, shape and device. Those of written
            arrays hold the gradients that come in, zero where one is left out, and are zeroed where the kernel stored.
            To those of arrays that are read is added; one that is left out is not computed.
        device, stream, block_dim: As in ``tk.launch``.
        tiled: Whether the kernel was launched by ``tk.launch_tiled``.

    Raises:
        KernelTypeError, KernelValueError: arguments or gradients that do not fit the kernel.
        KernelNotImplementedError: the gradient cannot be computed rightly; the error names the op and its line.
        DeviceError: as in ``tk.launch``.

    Example:
        >>> import numpy as np, tilekit as tk
        >>> @tk.kernel
        ... def squares(a: tk.array1d[float], out: tk.array1d[float]):
        ...     i = tk.tid()
        ...     t = tk.tile_load(a, shape=2, offset=2 * i)
        ...     tk.tile_store(out, t * t, offset=2 * i)
        >>> a, out = np.array([1.0, 2.0], np.float32), np.zeros(2, np.float32)
        >>> found, seed = np.zeros(2, np.float32), np.ones(2, np.float32)
        >>> launch_adjoint(squares, 1, [a, out], {"a": found, "out": seed})
        >>> found, seed
        (array([2., 4.], dtype=float32), array([0., 0.], dtype=float32))
    """
    prepare_adjoint(kernel, grid, arguments, gradients, device, block_dim, tiled).run(stream)


@dataclass(frozen=True)
class AdjointForm:
    """The adjoint of one specialisation of a kernel, for some of its gradients."""

    compiled: Any
    """What runs it."""
    gradients: Mapping[str, DType]
    """Of the arrays whose gradients are asked for, the dtype that their gradients are computed in."""
    reads: frozenset[str]
    """The arrays whose contents it reads."""
    written: frozenset[str]
    """The arrays that the kernel itself writes."""
    replaced: frozenset[str]
    """Of those, the ones whose old contents it does not use."""


@dataclass(frozen=True)
class AdjointLaunch:
    """A backward launch that is checked and compiled."""

    form: AdjointForm
    where: str
    grid: tuple[int, ...]
    values: list[Any]
    """What is packed of the kernel's own arguments."""
    views: Mapping[str, ArrayView]
    """The kernel's arrays."""
    gradients: Mapping[str, ArrayView]
    holds: Callable[[], bool]
    """Whether a launch of the same arguments would find the same form now."""
    saved: Saved | None = None
    """What the forward launch has kept; it is among ``values``."""

    @in_ieee_state
    def run(self, stream: Any) -> None:
        """Run it; on a GPU on ``stream``."""
        buffers = {
            name: Buffer(view, self.form.gradients[name], name in self.form.written)
            for name, view in self.gradients.items()
            if self.apart(name, view)
        }
        given = {**self.gradients, **{name: buffer.view for name, buffer in buffers.items()}}
        values = [
            *self.values,
            *(item for view in given.values() for item in (view.pointer, *view.shape, *view.strides)),
        ]
        views = [*self.views.values(), *given.values()]
        with nullcontext() if self.saved is None else self.saved.read_by(views, stream):
            self._run(values, views, stream)
        for buffer in buffers.values():
            buffer.give_back()
        if "torch" in library_of.values():
            mark_written(range(len(self.gradients)), list(self.gradients.values()))

    def _run(self, values: list[Any], views: list[ArrayView], stream: Any) -> None:
        compiled, points = self.form.compiled, math.prod(self.grid)
        if self.where.startswith("cuda"):
            compiled.run(values, self.grid, points, views, stream)
        elif all(view.device == "cpu" for view in views):
            compiled.run(values, self.grid, points)
        else:
            from tilekit.runtime.cuda.host_copies import run_on_host

            run_on_host(compiled, values, self.grid, points, views, stream)

    def apart(self, name: str, view: ArrayView) -> bool:
        """Whether a gradient is computed in memory of its own: it has another dtype, or lies where others do, or an
        argument."""
        if self.form.gradients[name] is not view.dtype or any(overlaps(view, each) for each in self.views.values()):
            return True
        earlier = list(self.gradients)[: list(self.gradients).index(name)]
        others = [*(other for other in self.gradients if other in self.form.written), *earlier]
        return name not in self.form.written and any(overlaps(view, self.gradients[other]) for other in others)


class Buffer:
    """A gradient while it is computed, in a wider dtype or apart from others: it is rounded once, at the end."""

    def __init__(self, target: ArrayView, dtype: DType, consumed: bool) -> None:
        self.target = target
        self.consumed = consumed
        """Whether it starts as what is there, rather than at 0."""
        self.view = dense(target, dtype)
        if consumed:
            assign(self.view, target)

    def give_back(self) -> None:
        (assign if self.consumed else add)(self.target, self.view)


def prepare_adjoint(
    kernel: Kernel,
    dim: Any,
    arguments: Sequence[Any],
    gradients: Mapping[str, Any],
    device: Any,
    block_dim: int | None,
    tiled: bool,
    saved: Saved | None = None,
) -> AdjointLaunch:
    """Check a backward launch, and compile what it runs where that is not there yet; raises as ``launch_adjoint``.

    ``saved`` is what the launch has kept, where it was a saving one.
    """
    grid = dims_of(dim)
    entries, values, found, views = bind(kernel, arguments, ())
    arrays = dict(zip(array_names(kernel, entries), views, strict=True))
    where = place(device, found)
    given = dict(gradient_views(kernel, arrays, gradients))
    form = form_of(tiled, grid, block_dim_of(block_dim))
    merged, unclear = _merged(kernel, entries, form, math.prod(grid) == 1, arrays, given)
    given = {name: view for name, view in given.items() if name not in merged}
    adjoint, holds = _form_for(kernel, entries, where, form, arrays, given, merged, saved)
    _check_shared(kernel, adjoint, arrays)
    if unclear is not None:
        raise unclear
    _check_seeds(kernel, adjoint, given)
    values += [] if saved is None else saved.values()
    return AdjointLaunch(adjoint, where, grid, values, arrays, given, holds, saved)


def gradient_views(
    kernel: Kernel, arrays: Mapping[str, ArrayView], gradients: Mapping[str, Any]
) -> Iterator[tuple[str, ArrayView]]:
    """The gradient arrays in the order of the parameters.

    Raises:
        KernelTypeError, KernelValueError: one is for no array of floats, or is not like it.
    """
    for name in gradients:
        if name not in kernel.parameters:
            known = ", ".join(kernel.parameters)
            raise KernelTypeError(
                f"a gradient of {name!r} is given, but kernel {kernel.key!r} has no such parameter, only {known}"
            )
        if name not in arrays:
            raise KernelTypeError(
                f"a gradient of {name!r} of kernel {kernel.key!r} is given, but {name!r} is not an array"
            )
    for name in kernel.parameters:
        if name in gradients:
            try:
                view = view_of(gradients[name])
                _check_like(view, arrays[name])
            except TilekitError as error:
                text = f"the gradient of argument {name!r} of kernel {kernel.key!r}: {error.message}"
                raise type(error)(text) from error.__cause__
            yield name, view


def _check_like(view: ArrayView, array: ArrayView) -> None:
    if not array.dtype.is_float:
        raise KernelTypeError(f"the argument is an array of {array.dtype.name}, which has no gradient; leave it out")
    if (view.dtype, view.shape, view.device) != (array.dtype, array.shape, array.device):
        raise KernelTypeError(f"must be like the argument, {_text(array)}, got {_text(view)}")
    check_output(view, "is written")


def _text(view: ArrayView) -> str:
    return f"an array of {view.dtype.name} of shape {view.shape} on {view.device!r}"


def _form_for(
    kernel: Kernel,
    entries: tuple[Entry, ...],
    where: str,
    form: LaunchForm,
    arrays: Mapping[str, ArrayView],
    gradients: Mapping[str, ArrayView],
    merged: Mapping[str, str],
    saved: Saved | None,
) -> tuple[AdjointForm, Callable[[], bool]]:
    """The form for a backward launch, and what says whether it still is."""
    options, captures = options_now(), kernel.capture_key()
    classes = None
    if where.startswith("cuda"):
        kept = () if saved is None else saved.views.values()
        classes = tuple(alignment_class(view) for view in (*arrays.values(), *kept, *gradients.values()))
    wanted, saving = tuple(gradients), None if saved is None else saved.form
    own = wanted, tuple(merged.items()), saving
    key = (entries, form.ndim, form.tiled, where, options.number, classes, captures, *own)
    found: AdjointForm | None = form_kept(kernel, key, form)
    if found is None:
        from tilekit.runtime.specialise import compile_for

        found = compile_for(kernel, key, form, options.values, _make(wanted, merged, saving))

    def holds() -> bool:
        now = options_now().with_device == options.with_device and kernel.capture_key() == captures
        return now and form_kept(kernel, key, form) is found

    assert found is not None
    return found, holds


def _make(wanted: tuple[str, ...], merged: Mapping[str, str], saving: SavingForm | None) -> Any:
    """What derives and compiles the adjoint of a kernel, or of its saving variant, for the gradients of some arrays;
    those in ``merged`` are what they stand for."""

    def make(kernel: Kernel, types: Any, form: LaunchForm, device: str, classes: Any) -> tuple[AdjointForm, Function]:
        from tilekit.passes.activity import read_parameters, written_parameters
        from tilekit.passes.wanted import replaced_parameters
        from tilekit.runtime.specialise import program_for

        function = substituted(kernel.trace(types, form), merged)
        taken, saved = (function, ()) if saving is None else (substituted(saving.function, merged), saving.names)
        program, named = adjoint_of(taken, wanted, form, saved)
        reads = frozenset().union(*(read_parameters(item.function) for item in program.launches))
        dtypes = {name: program.params[other].type.dtype for name, other in named.items()}
        compiled = program_for(program, form, device, classes, kernel.options)
        written, replaced = written_parameters(function), replaced_parameters(function)
        return AdjointForm(compiled, dtypes, reads, written, replaced), function

    return make


def adjoint_of(
    function: Function,
    wanted: Sequence[str] | None = None,
    form: LaunchForm | None = None,
    saved: Sequence[str] = (),
) -> tuple[Program, dict[str, str]]:
    """The program of a function's adjoint for the gradients of some of its arrays, by default of all, and the names of
    its parameters for them. ``form`` is that of the launch; without it the grid has the dimensions that are named.
    ``saved`` are the arrays in which a saving variant has kept tiles."""
    from tilekit.passes.differentiate import differentiate
    from tilekit.passes.sum_gradients import sum_gradients
    from tilekit.passes.uniformity import keep_lanes
    from tilekit.passes.wanted import without_gradients, without_stores

    tiled = form is None or form.tiled
    if wanted is not None:
        function = without_stores(keep_lanes(function, tiled), function.params.keys() - {*wanted, *saved})
    program = differentiate(function, form, saved)
    kept = {name: other for name, other in program.gradients.items() if wanted is None or name in wanted}
    program = without_gradients(program, [other for name, other in program.gradients.items() if name not in kept])
    ndim = form.ndim if form is not None and form.ndim is not None else dimensions(function)
    form = LaunchForm(tiled, ndim, None if form is None else form.block_dim)
    return sum_gradients(program, form, config.chosen("deterministic", function.options)), kept


def _merged(
    kernel: Kernel,
    entries: tuple[Entry, ...],
    form: LaunchForm,
    single: bool,
    arrays: Mapping[str, ArrayView],
    gradients: Mapping[str, ArrayView],
) -> tuple[dict[str, str], KernelValueError | None]:
    """The parameters that are one array with another that the kernel writes, and have one gradient with it, where it
    matters which was read or written first: the adjoint is that of a kernel with one name for both.

    Args:
        single: Whether the grid has one point.

    Returns:
        What each stands for, and the error where it matters and they are not one.
    """
    from tilekit.passes.activity import read_parameters, written_parameters
    from tilekit.passes.array_uses import reads_first, uses_one_place

    floats = [name for name, view in arrays.items() if view.dtype.is_float]
    close = [pair for pair in combinations(floats, 2) if overlaps(arrays[pair[0]], arrays[pair[1]])]
    if not close:
        return {}, None
    fn = kernel.trace(types_of(kernel, entries), form)
    read, written = read_parameters(fn), written_parameters(fn)
    found, error = {}, None
    for name, other in (ordered for pair in close for ordered in permutations(pair)):
        if name in written or name not in read or other not in written:
            continue
        one = substituted(fn, {name: other})
        same = arrays[name].same_place(arrays[other])
        if reads_first(one, other) and (single or (same and uses_one_place(one))):
            continue
        if same and name in gradients and other in gradients and gradients[name].same_place(gradients[other]):
            found[name] = other
        else:
            error = KernelValueError(
                f"argument {name!r} of kernel {kernel.key!r} shares memory with {other!r}, which the kernel writes, so "
                "its gradient depends on what was read and written first; pass one array for both, with one gradient, "
                f"or an array of its own for {other!r}"
            )
    return found, error


def substituted(fn: Function, merged: Mapping[str, str]) -> Function:
    """The kernel with parameters in place of others, wherever those are used."""
    body = substitute(fn.body, {fn.params[name]: fn.params[other] for name, other in merged.items()})
    return fn.with_body(body) if merged else fn


def _check_shared(kernel: Kernel, form: AdjointForm, arrays: Mapping[str, ArrayView]) -> None:
    """Refuse arrays whose contents the adjoint needs and that the launch itself has written by another name."""
    for name in form.reads & arrays.keys():
        for other in form.written - {name}:
            if overlaps(arrays[name], arrays[other]):
                raise KernelValueError(
                    f"the adjoint of kernel {kernel.key!r} reads argument {name!r} again, but it shares memory with "
                    f"{other!r}, which the kernel has written; pass an array of its own for {other!r}"
                )


def _check_seeds(kernel: Kernel, form: AdjointForm, gradients: Mapping[str, ArrayView]) -> None:
    for one, other in combinations([name for name in gradients if name in form.written], 2):
        if overlaps(gradients[one], gradients[other]):
            raise KernelValueError(
                f"the gradients of arguments {one!r} and {other!r} of kernel {kernel.key!r} share memory, but the "
                "kernel writes both, and only what was written last has a gradient; write to arrays of their own"
            )
