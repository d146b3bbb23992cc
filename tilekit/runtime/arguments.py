"""The arguments of a launch: checked against the kernel's parameters, and turned into what a compiled kernel reads.

``bind`` runs at every launch, so it does as little as it can for arrays and numbers that fit their annotations exactly.
"""

from __future__ import annotations

import inspect
import itertools
import sys
from collections.abc import Mapping, Sequence, Set
from typing import Any

import numpy as np

from tilekit.errors import KernelTypeError, KernelValueError, TilekitError, counted, shown
from tilekit.frontend.guards import GuardedForms
from tilekit.frontend.kernel import Kernel
from tilekit.ir.annotations import MAX_NDIM, ArrayAnnotation
from tilekit.ir.context import LaunchForm
from tilekit.ir.interpret import to_memory
from tilekit.ir.operands import describe
from tilekit.ir.types import ArrayType, DType, ScalarType, bfloat16, dtype_named, find_dtype, outside, to_numpy_scalar
from tilekit.runtime.array_view import ArrayView, self_overlapping
from tilekit.runtime.arrays import library_of, view_of

_LARGEST = 3.4028234e38
_WITHOUT_ORDER = (Mapping, Set)
_NUMBERS = (int, float, np.number, np.bool_)

Entry = None | str | tuple[str, int]
"""What the specialisation key knows of an argument: None, a number's dtype, or an array's dtype and rank."""


class Parameter:
    """One parameter of a kernel, with what it expects looked up beforehand."""

    __slots__ = ("annotation", "default", "dtype", "entry", "is_array", "name", "ndim")

    def __init__(self, name: str, annotation: Any, default: Any) -> None:
        self.name = name
        self.default = default
        """What a launch that leaves it out passes; ``inspect.Parameter.empty`` where it must not."""
        self.annotation = annotation
        self.is_array = isinstance(annotation, ArrayAnnotation)
        self.dtype: DType | None = annotation if isinstance(annotation, DType) else None
        self.ndim = -1
        self.entry: Entry = self.dtype.name if self.dtype is not None else None
        if isinstance(annotation, ArrayAnnotation) and not annotation.is_generic:
            self.dtype, self.ndim = annotation.dtype, annotation.ndim or 1
            self.entry = (self.dtype.name, self.ndim)


def parameters_of(kernel: Kernel) -> list[Parameter]:
    found: list[Parameter] | None = kernel.launch_plan
    if found is None:
        signature = inspect.signature(kernel.function).parameters
        found = [Parameter(name, stated, signature[name].default) for name, stated in kernel.parameters.items()]
        kernel.launch_plan = found
    return found


def with_defaults(kernel: Kernel, given: Sequence[Any]) -> list[Any]:
    """Arguments in order, and the defaults of the parameters after them, as far as these have one.

    Example:
        >>> import tilekit as tk
        >>> @tk.kernel
        ... def scale(a: tk.array1d[float], factor: float = 2.0): ...
        >>> with_defaults(scale, ["an array"])
        ['an array', 2.0]
    """
    left = (parameter.default for parameter in parameters_of(kernel)[len(given) :])
    return [*given, *itertools.takewhile(lambda value: value is not inspect.Parameter.empty, left)]


Bound = tuple[tuple[Entry, ...], list[Any], str | None, list[ArrayView]]
"""The arguments of a launch: what the specialisation key knows of each; what is packed: pointers, shapes, strides and
numbers in order; where the arrays are, None where there is none; and the arrays that were given, in order."""


def bind(kernel: Kernel, inputs: Sequence[Any], outputs: Sequence[Any]) -> Bound:
    """A launch's arguments, checked against the kernel's parameters.

    Raises:
        KernelTypeError, KernelValueError: their number, kind, dtype, rank, device or memory does not fit.
    """
    parameters = parameters_of(kernel)
    given, first_output = _given(kernel, inputs, outputs), len(inputs)
    entries: list[Entry] = []
    values: list[Any] = []
    views: list[ArrayView] = []
    device: str | None = None
    index = 0
    try:
        for value in given:
            parameter = parameters[index]
            if parameter.is_array or (parameter.dtype is None and _is_array(value)):
                if value is None:
                    entries.append(None)
                else:
                    view = view_of(value)
                    if view.dtype is parameter.dtype and len(view.shape) == parameter.ndim:
                        entries.append(parameter.entry)
                    else:
                        entries.append(_generic(parameter, view))
                    if index >= first_output:
                        check_output(view)
                    values += (view.pointer, *view.shape, *view.strides)
                    views.append(view)
                    if device != view.device:
                        if device is not None:
                            raise _elsewhere(view.device, device)
                        device = view.device
            else:
                _number(parameter, value, entries, values)
            index += 1
    except TilekitError as error:
        raise _of_argument(kernel, parameters[index].name, error) from error.__cause__
    return tuple(entries), values, device, views


def _elsewhere(here: str, others: str) -> KernelValueError:
    return KernelValueError(
        f"is on {here}, other arguments on {others}; copy one of them, as in tk.array(x, device={others!r})"
    )


def _no_list(kernel: Kernel, name: str, given: Any) -> KernelTypeError:
    what = f"{name} of kernel {kernel.key!r} must be a list or tuple of arguments"
    return KernelTypeError(f"{what}, got {describe(given)}; write {name}=[...]")


def _given(kernel: Kernel, inputs: Sequence[Any], outputs: Sequence[Any]) -> list[Any]:
    """All arguments, as many as the kernel has parameters: defaults stand for those that are left out."""
    both = ("inputs", inputs), ("outputs", outputs)
    given: list[Any] = []
    for name, entries in both:
        try:
            given.extend(entries)
            len(entries)  # an iterator would have nothing left for a second launch
        except Exception:  # Warp's arrays raise RuntimeError
            raise _no_list(kernel, name, entries) from None
    for name, entries in both:
        if isinstance(entries, _WITHOUT_ORDER) or (_is_array(entries) and len(given) != len(kernel.parameters)):
            raise _no_list(kernel, name, entries)
    count = len(given)
    if count < len(kernel.parameters):
        given = with_defaults(kernel, given)
    if len(given) != len(kernel.parameters):
        raise wrong_count(kernel, count)
    return given


def _is_array(value: Any) -> bool:
    return find_dtype(type(value)) is None and hasattr(value, "shape")


def _generic(parameter: Parameter, view: ArrayView) -> Entry:
    annotation = parameter.annotation
    if isinstance(annotation, ArrayAnnotation) and not annotation.accepts(view.dtype, len(view.shape)):
        raise misfit(annotation, view)
    return view.dtype.name, len(view.shape)


def wrong_count(kernel: Kernel, given: int) -> KernelTypeError:
    """What is wrong with as many arguments as a kernel does not take."""
    takes, names = counted(len(kernel.parameters), "argument"), ", ".join(kernel.parameters)
    least = sum(parameter.default is inspect.Parameter.empty for parameter in parameters_of(kernel))
    from_on = f"{least} to " if least < len(kernel.parameters) else ""
    return KernelTypeError(f"kernel {kernel.key!r} takes {from_on}{takes} ({names}), got {given}")


def misfit(annotation: ArrayAnnotation, view: ArrayView) -> KernelTypeError:
    """What is wrong with an array that a parameter does not take, and what to do."""
    dtype, ndim = annotation.dtype, annotation.ndim
    needed = [] if ndim in (None, view.ndim) else [f"give it {counted(ndim, 'dimension')}"]
    needed += [] if dtype in (Any, view.dtype) else [f"convert its elements to {dtype.name}"]
    got = f"got an array of {view.dtype.name} with {counted(view.ndim, 'dimension')}"
    fits = f"tk.array{view.ndim}d[{'Any' if dtype is Any else f'tk.{view.dtype.name}'}]"
    other = f", or annotate the parameter with {fits}" if view.ndim <= MAX_NDIM else ""
    return KernelTypeError(f"expects {annotation}, {got}; {' and '.join(needed)}{other}")


def check_written(
    kernel: Kernel, entries: Sequence[Entry], positions: Sequence[int], views: Sequence[ArrayView]
) -> None:
    """Refuse arrays that are written, where they must not be; ``positions`` are theirs among the ``views``.

    Raises:
        KernelValueError: as :func:`check_output`.
    """
    for position in positions:
        try:
            check_output(views[position], "is written by the kernel")
        except KernelValueError as error:
            raise _of_argument(kernel, array_names(kernel, entries)[position], error) from None


def array_names(kernel: Kernel, entries: Sequence[Entry]) -> list[str]:
    """The parameters that were given arrays."""
    return [name for name, entry in zip(kernel.parameters, entries, strict=True) if isinstance(entry, tuple)]


def mark_written(positions: Sequence[int], views: Sequence[ArrayView]) -> None:
    """Tell PyTorch which tensors were written, so that its autograd notices where one was saved for backward."""
    for position in positions:
        tensor = views[position].owner
        if library_of.get(type(tensor)) == "torch":
            sys.modules["torch"].autograd.graph.increment_version(tensor)


def _of_argument(kernel: Kernel, name: str, error: TilekitError) -> TilekitError:
    return type(error)(f"argument {name!r} of kernel {kernel.key!r}: {error.message}")


def check_output(view: ArrayView, what: str = "is an output") -> None:
    """Refuse what a kernel must not write to.

    Raises:
        KernelValueError: the array is read-only, or two of its elements share memory.
    """
    if view.readonly:
        raise KernelValueError(f"{what} but read-only")
    if len(view.shape) == 1 and view.strides[0] >= view.dtype.bits >> 3:  # the common case, for speed
        return
    if self_overlapping(view):
        raise KernelValueError(f"{what} but its own elements share memory")


def _number(parameter: Parameter, value: Any, entries: list[Entry], values: list[Any]) -> None:
    dtype = parameter.dtype
    if dtype is None:
        dtype = find_dtype(type(value))
        if dtype is None:
            raise KernelTypeError(f"expects a number or an array, got {shown(value)} of type {type(value).__name__}")
    entries.append(dtype.name)
    values.append(number_of(value, dtype))


def number_of(value: Any, dtype: DType) -> Any:
    """A number as ``struct`` packs it; raises as :func:`scalar_value`."""
    kind = type(value)
    if (kind is float and dtype.bits >= 32 and -_LARGEST <= value <= _LARGEST and dtype.is_float) or (
        kind is int and dtype.kind == "i" and dtype.bits >= 32 and -(2**31) <= value < 2**31
    ):
        return value
    return scalar_value(value, dtype)


def scalar_value(value: Any, dtype: DType) -> Any:
    """A number as ``struct`` packs it.

    Raises:
        KernelTypeError: it is not a number, or does not fit.
    """
    own = None if isinstance(value, _NUMBERS) else find_dtype(type(value))
    if own is not None:  # a number of Warp's or of ml_dtypes
        value = getattr(value, "value", value)
        value = float(value) if own.is_float else value
    if not isinstance(value, _NUMBERS) or isinstance(value, np.complexfloating):
        raise KernelTypeError(f"expects {dtype.name}, got {shown(value)} of type {type(value).__name__}")
    if dtype.is_integer:
        if isinstance(value, float | np.floating):
            raise KernelTypeError(f"expects {dtype.name}, got {value!r} of type {type(value).__name__}; use int(...)")
        if dtype.holds(int(value)):
            return int(value)
        raise KernelTypeError(outside(value, dtype))
    if dtype.kind == "b":
        return bool(value)
    try:
        number = to_numpy_scalar(value, dtype)
    except KernelValueError as error:  # as where an integer argument does not fit
        raise KernelTypeError(error.message) from None
    if dtype is bfloat16:
        return int(to_memory(np.asarray([number]), dtype, np.dtype(np.uint16))[0])
    return float(number)


def types_of(kernel: Kernel, entries: Sequence[Entry]) -> dict[str, ArrayType | ScalarType | None]:
    """The parameter types that a key stands for."""
    types: dict[str, ArrayType | ScalarType | None] = {}
    for name, entry in zip(kernel.parameters, entries, strict=True):
        if entry is None:
            types[name] = None
        elif isinstance(entry, str):
            types[name] = ScalarType(dtype_named(entry))
        else:
            types[name] = ArrayType(dtype_named(entry[0]), entry[1])
    return types


class ByBlockDim(dict[Any, Any]):
    """The compiled forms of a kernel that observes lanes, or that runs on a GPU, by what it knows of its blocks."""

    in_blocks = False
    """Whether that is more than the lanes of one: blocks are made of the points of ``launch``."""

    def key(self, form: LaunchForm) -> Any:
        """What a form is kept under."""
        return (form.block_dim, form.ragged, form.whole) if self.in_blocks else form.block_dim or 1


def form_kept(kernel: Kernel, key: Any, form: LaunchForm) -> Any:
    """The compiled form that is kept under a key and valid now, or None."""
    found = kernel.cache.get(key)
    if type(found) is ByBlockDim:
        found = found.get(found.key(form))
    return found.current() if type(found) is GuardedForms else found


def is_current(kernel: Kernel, compiled: Any) -> bool:
    """Whether what a launch has run is what the kernel still means, as far as values that its trace has read go."""
    for found in kernel.cache.values():
        for forms in found.values() if type(found) is ByBlockDim else (found,):
            if type(forms) is GuardedForms and any(form is compiled for _, form in forms.forms):
                return forms.current() is compiled
    return True
