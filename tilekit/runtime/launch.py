"""``tk.launch`` and ``tk.launch_tiled``: from a kernel and arguments to a run on a device."""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping, Sequence
from typing import Any

from tilekit.errors import KernelIndexError, KernelTypeError, KernelValueError, shown
from tilekit.frontend.kernel import Kernel
from tilekit.ir.context import LaunchForm
from tilekit.ir.float_state import in_ieee_state
from tilekit.ir.operands import describe
from tilekit.runtime.arguments import (
    array_names,
    bind,
    check_written,
    form_kept,
    mark_written,
    parameters_of,
    with_defaults,
    wrong_count,
)
from tilekit.runtime.array_view import alignment_class
from tilekit.runtime.arrays import library_of
from tilekit.runtime.gradients import active_tape, check_tensors, seen, watch
from tilekit.runtime.grids import block_dim_of, dims_of, form_of
from tilekit.runtime.launch_options import options_now
from tilekit.runtime.placement import name_of, place
from tilekit.runtime.warm import Attempt, Outcome, Reading, attempt_for, launch_again, plain_dim, remember

__all__ = ["Launch", "launch", "launch_tiled"]

PATIENCE, SOMETIMES = 64, 8
"""After so many launches of a kernel that were not like earlier ones, only each eighth is looked at for that."""


def _run(
    kernel: Any,
    dim: Any,
    inputs: Any,
    outputs: Any,
    device: Any,
    block_dim: Any,
    tiled: bool,
    taped: bool,
    stream: Any,
) -> None:
    if not isinstance(kernel, Kernel):
        raise _no_kernel(kernel)
    reading = None
    forms = kernel.cache
    if watch.tape is not None:
        watch.tape.last_writes.look(inputs, outputs)
    if not (watch.saves and taped and forms.may_save):  # what keeps tiles has no quick way
        if forms.misses < PATIENCE or forms.misses % SOMETIMES == 0:
            outcome = launch_again(kernel, dim, inputs, outputs, device, block_dim, tiled, taped, stream)
            if outcome is True:
                forms.misses = 0
                return
            reading = outcome or None
        forms.misses += 1
    how = device, block_dim_of(block_dim), tiled, taped
    _run_anew(kernel, dims_of(dim), inputs, outputs, how, stream, reading)


How = tuple[Any, int, bool, bool]
"""The device as it is given, lanes of a block, whether each point of the grid is a block, and whether an active tape
is to know of the launch."""


@in_ieee_state
def _run_anew(
    kernel: Kernel, grid: tuple[int, ...], inputs: Any, outputs: Any, how: How, stream: Any, reading: Reading | None
) -> None:
    """The long way of a launch, which checks everything; ``reading`` is what the next one like it is known by."""
    device, block_dim, tiled, taped = how
    points = math.prod(grid)
    entries, values, found, views = bind(kernel, inputs, outputs)
    where = place(device, found)
    if library_of:
        check_tensors(kernel, array_names(kernel, entries), views, taped)
    on_cuda = where.startswith("cuda")
    classes = tuple([alignment_class(view) for view in views]) if on_cuda else None
    options, captures = options_now(), kernel.capture_key()
    key = (entries, len(grid), tiled, where, options.number, classes, captures)
    form = form_of(tiled, grid, block_dim)
    compiled = None
    if watch.saves and taped:
        from tilekit.runtime.saving import saving_form

        compiled = saving_form(kernel, key, form, options.values, (values, grid, views), stream)
    compiled = compiled or form_kept(kernel, key, form) or _compiled(kernel, key, form, options.values)
    if len(inputs):  # outputs have been checked
        check_written(kernel, entries, compiled.written, views)
    saved = None
    if on_cuda:
        saved = compiled.run(values, grid, points, views, stream)
    elif found is None or found == "cpu":
        saved = compiled.run(values, grid, points)
    else:
        from tilekit.runtime.cuda.host_copies import run_on_host

        run_on_host(compiled, values, grid, points, views, stream)
    if "torch" in library_of.values():
        mark_written(compiled.written, views)
    if watch.busy or (taped and active_tape() is not None):
        seen(kernel, grid, [*inputs, *outputs], compiled, how, saved)
    if reading is not None and points and reading[0][:2] == (captures, options.with_device):
        remember(kernel, reading, key, form, compiled, values, grid, points)


def _compiled(kernel: Kernel, key: Any, form: LaunchForm, options: Mapping[str, Any]) -> Any:
    from tilekit.runtime.specialise import compile_for  # compilers and passes, which a warm launch never needs

    return compile_for(kernel, key, form, options)


def _no_kernel(given: Any) -> KernelTypeError:
    warps = type(given).__module__.partition(".")[0] == "warp" and hasattr(given, "key")
    found = f"Warp's kernel {given.key!r}" if warps else describe(given)
    if isinstance(getattr(given, "__wrapped__", None), Kernel):
        found += ", which wraps a kernel; put @tk.kernel above its other decorators"
    return KernelTypeError(f"the first argument must be a kernel made by @tk.kernel, got {found}")


class Launch:
    """A launch to run later and again; ``record_cmd=True`` gives one instead of running the kernel.

    It runs under the values that the options in ``tk.config`` have then, as any launch; what a kernel is to keep, such
    as its code for products, goes into its own ``module_options``.

    Example:
        >>> import numpy as np, tilekit as tk
        >>> @tk.kernel
        ... def fill(out: tk.array1d[float], value: float):
        ...     tk.tile_store(out, tk.tile_full(shape=2, value=value))
        >>> out = np.zeros(2, np.float32)
        >>> command = tk.launch_tiled(fill, dim=1, inputs=[out, 1.0], block_dim=32, record_cmd=True)
        >>> command.set_param_by_name("value", 3.0)
        >>> command.launch()
        >>> out
        array([3., 3.], dtype=float32)
    """

    def __init__(self, kernel: Kernel, dim: Any, inputs: Sequence[Any], outputs: Sequence[Any], *how: Any) -> None:
        bind(kernel, inputs, outputs)
        self._kernel = kernel
        self._first_output = len(inputs)
        self._how = how
        self._attempt: Attempt | None = None
        """The one of the last launch, where an earlier one was like it."""
        self.set_dim(dim)
        self._set(with_defaults(kernel, [*inputs, *outputs]))

    @property
    def kernel(self) -> Kernel:
        """The kernel."""
        return self._kernel

    @property
    def dim(self) -> tuple[int, ...]:
        """The grid that it runs over; :meth:`set_dim` changes it."""
        return self._dim

    @property
    def params(self) -> tuple[Any, ...]:
        """The arguments in order; :meth:`set_params` and its kin change them."""
        return tuple(self._params)

    def launch(self, stream: Any = None) -> None:
        """Run the kernel, on a GPU on ``stream``, or on the one that the launch was recorded with."""
        device, block_dim, tiled, taped, recorded = self._how
        if stream is None:
            stream = recorded
        inputs, outputs = self._arguments
        if watch.tape is not None:
            watch.tape.last_writes.look(inputs, outputs)
        attempt = self._attempt or attempt_for(inputs, outputs)
        outcome: Outcome = None
        if attempt is not None and not (watch.saves and taped and self._kernel.cache.may_save):
            outcome = attempt(self._kernel, self._plain, inputs, outputs, device, block_dim, tiled, taped, stream)
        self._attempt = attempt if outcome is True else None
        if outcome is not True:
            how = device, block_dim, tiled, taped
            _run_anew(self._kernel, self._dim, inputs, outputs, how, stream, outcome or None)

    def _set(self, params: list[Any]) -> None:
        self._params = params
        self._arguments = params[: self._first_output], params[self._first_output :]
        self._attempt = None

    def set_dim(self, dim: Any) -> None:
        """Run over another grid from now on."""
        self._dim = dims_of(dim)
        self._plain = plain_dim(self._dim)

    def set_param_at_index(self, index: int, value: Any) -> None:
        """Pass another argument from now on.

        Raises:
            KernelIndexError: the kernel has no parameter of that number.
            KernelTypeError: ``index`` is no integer.
        """
        names = list(self.kernel.parameters)
        try:
            found = operator.index(index)
        except TypeError:
            raise KernelTypeError(f"the index of a parameter must be an integer, got {describe(index)}") from None
        if not 0 <= found < len(names):
            raise KernelIndexError(
                f"kernel {self._kernel.key!r} has no parameter {shown(found)}; its {len(names)} parameters are "
                f"{', '.join(f'{number}: {name}' for number, name in enumerate(names))}"
            )
        self._set([*self._params[:found], value, *self._params[found + 1 :]])

    def set_param_by_name(self, name: str, value: Any) -> None:
        """Pass another argument from now on.

        Raises:
            KernelValueError: the kernel has no parameter of that name.
        """
        names = [parameter.name for parameter in parameters_of(self.kernel)]
        if name not in names:
            raise KernelValueError(f"kernel {self._kernel.key!r} has no parameter {name!r}, only {', '.join(names)}")
        self.set_param_at_index(names.index(name), value)

    def set_params(self, values: Sequence[Any]) -> None:
        """Pass other arguments from now on, the first ones in order.

        Raises:
            KernelTypeError: ``values`` is no list or tuple, or has more entries than the kernel has parameters.
        """
        if not isinstance(values, Sequence) or isinstance(values, str):
            raise KernelTypeError(f"the arguments must be a list or tuple, got {describe(values)}")
        if len(values) > len(self._params):
            raise wrong_count(self._kernel, len(values))
        self._set([*values, *self._params[len(values) :]])


def _otherwise(
    kernel: Any, dim: Any, given: tuple[Any, ...], how: tuple[Any, ...], adjoint: bool, record_cmd: bool
) -> Launch | None:
    """A launch that is recorded, or goes backward, or both; ``given`` are the four lists of arguments."""
    if not isinstance(kernel, Kernel):
        raise _no_kernel(kernel)
    device, block_dim, *others = how
    how = (None if device is None else name_of(device), block_dim_of(block_dim), *others)
    if not adjoint:
        return Launch(kernel, dim, *given[:2], *how)
    from tilekit.runtime.adjoint_launch import BackwardLaunch

    launch = BackwardLaunch(kernel, dim, *given, *how)
    if record_cmd:
        return launch
    launch.launch()
    return None


def launch(
    kernel: Kernel,
    dim: Any,
    inputs: Sequence[Any] = (),
    outputs: Sequence[Any] = (),
    adj_inputs: Sequence[Any] = (),
    adj_outputs: Sequence[Any] = (),
    device: Any = None,
    stream: Any = None,
    adjoint: bool = False,
    record_tape: bool = True,
    record_cmd: bool = False,
    max_blocks: int = 0,
    block_dim: int | None = None,
) -> Launch | None:
    """Run a kernel once for each point of ``dim``.

    A kernel with tile operations runs ``block_dim`` consecutive points together, row by row, as the lanes of a block.

    Args:
        kernel: The kernel.
        dim: The points: an int, or 1 to 4 of them. Where they leave the last block without some lanes, those have no
            part in ``tk.tile(x)``.
        inputs: Arguments in order; arrays of any supported library, numbers, or None for an array. The last ones may
            be left out where their parameters have defaults.
        outputs: The arguments after ``inputs``; arrays that the kernel writes.
        adj_inputs, adj_outputs: With ``adjoint``, the gradient of each of ``inputs`` and ``outputs``: an array like it,
            or None, which stands for the ``grad`` of an array of Warp's, and elsewhere for no gradient. A list may be
            left out.
        record_tape: Whether an active ``tk.Tape()`` records the launch.
        device: ``"cpu"``, ``"cuda"``, ``"cuda:N"``, ``"interpret"``, or a device of Warp, PyTorch or CuPy; by default
            where the arrays are.
        stream: A stream of Warp, PyTorch or CuPy, or its handle; by default PyTorch's current one where an array is
            PyTorch's, else CuPy's where one is CuPy's, else Warp's. Without meaning on the CPU.
        adjoint: Run the kernel backward: add to the gradients of the arrays that it reads, and set those of the arrays
            that it writes to zero where it stored.
        record_cmd: Return a ``Launch`` to run later instead of running the kernel.
        max_blocks: Accepted, without meaning.
        block_dim: Lanes of a block, at most 1024; None, and what is not positive, means 256. It affects results only
            in kernels that observe lanes. On a GPU a block has as many threads; without lanes and atoms in whole warps,
            as suits its products, and fewer where some would hold nothing of its tiles.

    Returns:
        None, or with ``record_cmd`` a ``Launch``.

    Raises:
        KernelTypeError, KernelValueError: arguments that do not fit the kernel.
        KernelNotImplementedError: a PyTorch tensor requires grad, grad mode is on, and no ``tk.Tape()`` is active; with
            ``adjoint``, the gradient cannot be computed rightly, and the error names the op and its line.
        DeviceError: there is no such GPU, or it reports a failure.
        TilekitError: the kernel is wrong, or one of its checks failed. On a GPU, a check that failed is reported by the
            next launch or by ``tk.synchronize()``, except with the option ``checked``.

    Example:
        >>> import numpy as np, tilekit as tk
        >>> @tk.kernel
        ... def squares(out: tk.array1d[tk.int32]):
        ...     i = tk.tid()
        ...     tk.tile_store(out, tk.tile(i * i))
        >>> out = np.zeros(4, np.int32)
        >>> tk.launch(squares, dim=4, outputs=[out], block_dim=4)
        >>> out
        array([0, 1, 4, 9], dtype=int32)
    """
    if not (adjoint or record_cmd):
        _run(kernel, dim, inputs, outputs, device, block_dim, False, record_tape, stream)
        return None
    given = inputs, outputs, adj_inputs, adj_outputs
    return _otherwise(kernel, dim, given, (device, block_dim, False, record_tape, stream), adjoint, record_cmd)


def launch_tiled(
    kernel: Kernel,
    dim: Any,
    inputs: Sequence[Any] = (),
    outputs: Sequence[Any] = (),
    adj_inputs: Sequence[Any] = (),
    adj_outputs: Sequence[Any] = (),
    device: Any = None,
    stream: Any = None,
    adjoint: bool = False,
    record_tape: bool = True,
    record_cmd: bool = False,
    max_blocks: int = 0,
    block_dim: int | None = None,
) -> Launch | None:
    """Run one block of ``block_dim`` lanes for each point of the grid ``dim``.

    Args:
        kernel: The kernel.
        dim: The grid: an int, or 1 to 4 of them.
        inputs: Arguments in order; arrays of any supported library, numbers, or None for an array. The last ones may
            be left out where their parameters have defaults.
        outputs: The arguments after ``inputs``; arrays that the kernel writes.
        adj_inputs, adj_outputs: With ``adjoint``, the gradient of each of ``inputs`` and ``outputs``: an array like it,
            or None, which stands for the ``grad`` of an array of Warp's, and elsewhere for no gradient. A list may be
            left out.
        record_tape: Whether an active ``tk.Tape()`` records the launch.
        device: ``"cpu"``, ``"cuda"``, ``"cuda:N"``, ``"interpret"``, or a device of Warp, PyTorch or CuPy; by default
            where the arrays are.
        stream: A stream of Warp, PyTorch or CuPy, or its handle; by default PyTorch's current one where an array is
            PyTorch's, else CuPy's where one is CuPy's, else Warp's. Without meaning on the CPU.
        adjoint: Run the kernel backward: add to the gradients of the arrays that it reads, and set those of the arrays
            that it writes to zero where it stored.
        record_cmd: Return a ``Launch`` to run later instead of running the kernel.
        max_blocks: Accepted, without meaning.
        block_dim: Lanes of a block, at most 1024; None, and what is not positive, means 256. It affects results only
            in kernels that observe lanes. On a GPU a block has as many threads; without lanes and atoms in whole warps,
            as suits its products, and fewer where some would hold nothing of its tiles.

    Returns:
        None, or with ``record_cmd`` a ``Launch``.

    Raises:
        KernelTypeError, KernelValueError: arguments that do not fit the kernel.
        KernelNotImplementedError: a PyTorch tensor requires grad, grad mode is on, and no ``tk.Tape()`` is active; with
            ``adjoint``, the gradient cannot be computed rightly, and the error names the op and its line.
        DeviceError: there is no such GPU, or it reports a failure.
        TilekitError: the kernel is wrong, or one of its checks failed. On a GPU, a check that failed is reported by the
            next launch or by ``tk.synchronize()``, except with the option ``checked``.

    Example:
        >>> import numpy as np, tilekit as tk
        >>> @tk.kernel
        ... def double(a: tk.array1d[float], out: tk.array1d[float]):
        ...     i = tk.tid()
        ...     tk.tile_store(out, tk.tile_load(a, shape=4, offset=i * 4) * 2.0, offset=i * 4)
        >>> out = np.zeros(6, np.float32)
        >>> tk.launch_tiled(double, dim=2, inputs=[np.arange(6, dtype=np.float32)], outputs=[out], block_dim=32)
        >>> out
        array([ 0.,  2.,  4.,  6.,  8., 10.], dtype=float32)
    """
    if not (adjoint or record_cmd):
        _run(kernel, dim, inputs, outputs, device, block_dim, True, record_tape, stream)
        return None
    given = inputs, outputs, adj_inputs, adj_outputs
    return _otherwise(kernel, dim, given, (device, block_dim, True, record_tape, stream), adjoint, record_cmd)
