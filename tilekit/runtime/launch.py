"""``tk.launch`` and ``tk.launch_tiled``: from a kernel and arguments to a run on a device."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

from tilekit.codegen.target import Target
from tilekit.config import config
from tilekit.errors import CompileError, KernelTypeError, KernelValueError, TilekitError
from tilekit.frontend.kernel import Kernel
from tilekit.ir.annotations import ArrayAnnotation
from tilekit.ir.context import LaunchForm
from tilekit.ir.types import ArrayType, DType, ScalarType, find_dtype
from tilekit.runtime.arrays import self_overlapping, view_of
from tilekit.runtime.cpu import CpuKernel, compile_cpu, scalar_value
from tilekit.runtime.interpreter import InterpretedKernel, compile_eager

MAX_NDIM = 4
INTERPRET = "interpret"


def dims_of(dim: Any) -> tuple[int, ...]:
    """A launch's ``dim`` as a tuple.

    Raises:
        KernelTypeError: not an int or a sequence of ints.
        KernelValueError: negative, or not 1 to 4 dimensions.
    """
    try:
        found = tuple(map(operator.index, dim if isinstance(dim, tuple | list) else (dim,)))
    except TypeError:
        raise KernelTypeError(f"dim must be an int or a tuple of ints, got {dim!r}") from None
    if not 1 <= len(found) <= MAX_NDIM:
        raise KernelValueError(f"dim must have 1 to {MAX_NDIM} entries, got {dim!r}")
    if min(found) < 0:
        raise KernelValueError(f"dim must not be negative, got {dim!r}")
    return found


class _Arguments:
    """The arguments of one launch: their types, and what is packed for the kernel."""

    __slots__ = ("device", "types", "values")

    def __init__(self, kernel: Kernel, given: Sequence[Any], outputs: int) -> None:
        self.types: list[Any] = []
        self.values: list[Any] = []
        self.device: str | None = None
        parameters = kernel.parameters
        if len(given) != len(parameters):
            raise KernelTypeError(
                f"kernel {kernel.key!r} takes {len(parameters)} arguments ({', '.join(parameters)}), got {len(given)}"
            )
        first_output = len(given) - outputs
        for index, (name, value) in enumerate(zip(parameters, given, strict=True)):
            annotation = parameters[name]
            try:
                if isinstance(annotation, ArrayAnnotation):
                    self._array(annotation, value, index >= first_output)
                else:
                    self._scalar(annotation, value)
            except TilekitError as error:
                message = f"argument {name!r} of kernel {kernel.key!r}: {error.message}"
                raise type(error)(message) from None

    def _array(self, annotation: ArrayAnnotation, value: Any, output: bool) -> None:
        if value is None:
            self.types.append(None)
            return
        view = view_of(value)
        if not annotation.accepts(view.dtype, len(view.shape)):
            raise KernelTypeError(
                f"expects {annotation}, got an array of {view.dtype.name} with {view.ndim} dimensions"
            )
        if output:
            if view.readonly:
                raise KernelValueError("is an output but read-only")
            if self_overlapping(view):
                raise KernelValueError("is an output whose own elements share memory")
        self.types.append((view.dtype, len(view.shape)))
        self.values += (view.pointer, *view.shape, *view.strides)
        if self.device != view.device:
            if self.device is not None:
                raise KernelValueError(f"is on {view.device}, other arguments on {self.device}")
            self.device = view.device

    def _scalar(self, annotation: Any, value: Any) -> None:
        if not isinstance(annotation, DType):
            annotation = find_dtype(type(value))
            if annotation is None:
                if hasattr(value, "shape"):
                    return self._array(ArrayAnnotation(Any, None), value, False)
                raise KernelTypeError(f"expects a number or an array, got {value!r} of type {type(value).__name__}")
        self.types.append(annotation)
        self.values.append(scalar_value(value, ScalarType(annotation)))


def _types(kernel: Kernel, found: Sequence[Any]) -> dict[str, ArrayType | ScalarType | None]:
    types: dict[str, ArrayType | ScalarType | None] = {}
    for name, type in zip(kernel.parameters, found, strict=True):
        types[name] = None if type is None else ArrayType(*type) if isinstance(type, tuple) else ScalarType(type)
    return types


def _run(
    kernel: Any, dim: Any, inputs: Any, outputs: Any, device: Any, block_dim: int, form: bool, ignored: Any
) -> None:
    if not isinstance(kernel, Kernel):
        raise KernelTypeError(f"the first argument must be a kernel made by @tk.kernel, got {kernel!r}")
    grid = dims_of(dim)
    outputs = list(outputs)
    arguments = _Arguments(kernel, [*inputs, *outputs], len(outputs))
    where = str(device) if device is not None else config.device or arguments.device or "cpu"
    key = (tuple(arguments.types), len(grid), form, block_dim, where, config.version, kernel.capture_key())
    compiled = kernel.cache.get(key)
    if compiled is None:
        compiled = _compile(kernel, key, arguments, len(grid), form, block_dim, where)
    compiled.run(arguments.values, grid, math.prod(grid))


def _compile(
    kernel: Kernel, key: Any, arguments: _Arguments, ndim: int, tiled: bool, block_dim: int, device: str
) -> CpuKernel | InterpretedKernel:
    if device not in ("cpu", INTERPRET):
        raise CompileError(f"device {device!r} is not supported yet; use 'cpu' or {INTERPRET!r}")
    with kernel.lock:
        found = kernel.cache.get(key)
        if found is None:
            form = LaunchForm(tiled, ndim, block_dim)
            if device == INTERPRET:
                found = kernel.cache[key] = compile_eager(kernel, _types(kernel, arguments.types), form)
                return found
            function = kernel.trace(_types(kernel, arguments.types), form)
            target = Target("cpu", "", block_dim, tiled, ndim, config.index_checks, config.checked)
            options = kernel.options.get("module_options") or {}
            found = kernel.cache[key] = compile_cpu(function, target, options)
        return found


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
    block_dim: int = 256,
) -> None:
    """Run one block of ``block_dim`` lanes for each point of the grid ``dim``.

    Args:
        kernel: The kernel.
        dim: The grid: an int, or 1 to 4 of them.
        inputs: Arguments in order; arrays of any supported library, numbers, or None for an array.
        outputs: The arguments after ``inputs``; arrays that the kernel writes.
        adj_inputs, adj_outputs, adjoint, record_tape: For gradients, which come with a later release.
        device: ``"cpu"`` or ``"interpret"``; by default where the arrays are.
        stream: Without meaning on the CPU.
        record_cmd: Reserved for a later release.
        max_blocks: Without meaning on the CPU.
        block_dim: Lanes of a block; it affects results only in kernels that observe lanes.

    Raises:
        KernelTypeError, KernelValueError: arguments that do not fit the kernel.
        TilekitError: the kernel is wrong, or one of its checks failed.

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
    _run(kernel, dim, inputs, outputs, device, block_dim, True, (adj_inputs, adj_outputs, adjoint, record_tape))
