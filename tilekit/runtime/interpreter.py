"""``device="interpret"``: kernels run as Python, block after block, so that debuggers work inside them."""

from __future__ import annotations

import ctypes
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from tilekit.codegen.target import Target
from tilekit.errors import FallbackWarning, TilekitError
from tilekit.frontend.eager import Forms, Interpreter
from tilekit.frontend.joins import Joins, recording
from tilekit.frontend.kernel import Kernel
from tilekit.frontend.source import in_kernels, locate_error
from tilekit.ir.context import Concrete, LaunchForm, using
from tilekit.ir.core import Function
from tilekit.ir.handles import Array, Scalar
from tilekit.ir.interpret import Machine, from_memory
from tilekit.ir.types import ArrayType, DType, ScalarType, bfloat16, to_numpy_scalar
from tilekit.passes import run_pipeline
from tilekit.runtime.toolchain import find_toolchain

INTERPRET = "interpret"
_told = False


def stands_in() -> bool:
    """Whether the interpreter runs what should run on the CPU, because there is no compiler; tells so once."""
    global _told
    if find_toolchain() is not None:
        return False
    if not _told:
        _told = True
        text = (
            "no C++ compiler was found, so kernels run in the interpreter, which is slow; "
            "install g++, clang++ or the ziglang package, or set TILEKIT_CXX"
        )
        warnings.warn(text, FallbackWarning, stacklevel=2)
    return True


@contextmanager
def undebugged() -> Iterator[None]:
    """Inside, no debugger stops: tracing runs a kernel's lines without values, which nobody wants to see."""
    tracer = sys.gettrace()
    sys.settrace(None)
    try:
        yield
    finally:
        sys.settrace(tracer)


def compile_eager(
    kernel: Kernel, types: Mapping[str, ArrayType | ScalarType | None], form: LaunchForm
) -> InterpretedKernel:
    """Trace a kernel, which finds all compile-time errors, and make its eager form."""
    joins = Joins()
    target = Target("cpu", "", form.block_dim or 1, form.tiled, form.ndim or 1, index_checks=True, checked=True)
    with undebugged(), recording(joins):
        function = kernel.trace(types, form)
        run_pipeline(function, target)
    return InterpretedKernel(kernel, function, types, form, Forms(joins))


class InterpretedKernel:
    """A kernel in its eager form: unpacks arguments and runs block after block."""

    def __init__(
        self,
        kernel: Kernel,
        function: Function,
        types: Mapping[str, ArrayType | ScalarType | None],
        form: LaunchForm,
        forms: Forms,
    ) -> None:
        self.kernel = kernel
        self.function = function
        self.types = types
        self.form = form
        self.forms = forms

    def run(self, values: Sequence[Any], grid: tuple[int, ...], blocks: int) -> None:
        """Run ``blocks`` blocks over ``grid``; ``values`` are pointers, shapes, strides and numbers in order."""
        arguments = unpack(self.types, values)
        for block in np.ndindex(*grid):
            machine = Machine(block, grid, self.form.block_dim or 1, points=not self.form.tiled)
            try:
                self._run_block(arguments, machine)
            except Exception as error:
                raise self._placed(error, block) from error.__cause__

    def _run_block(self, arguments: Mapping[str, Any], machine: Machine) -> None:
        context = Interpreter(self.forms, machine)
        with using(context):
            context.support.bind(self.kernel.function)(**arguments)

    def _placed(self, error: Exception, block: tuple[int, ...]) -> Exception:
        """The error, saying which block of which kernel it is from."""
        if not isinstance(error, TilekitError):
            error.add_note(self._where(block))
            return error
        error.at(locate_error(error.__traceback__))
        error.message += f", {self._where(block)}"
        return error.with_traceback(in_kernels(error.__traceback__))

    def _where(self, block: tuple[int, ...]) -> str:
        return f"in block {block[0] if len(block) == 1 else block} of kernel {self.kernel.key!r}"


def unpack(types: Mapping[str, ArrayType | ScalarType | None], values: Sequence[Any]) -> dict[str, Any]:
    """The handles of a kernel's parameters, from what a launch packs; arrays are not copied."""
    waiting = list(values)
    found: dict[str, Any] = {}
    for name, type in types.items():
        if type is None:
            found[name] = None
        elif isinstance(type, ArrayType):
            pointer, *extents = waiting[: 1 + 2 * type.ndim]
            del waiting[: 1 + 2 * type.ndim]
            data = array_at(pointer, tuple(extents[: type.ndim]), tuple(extents[type.ndim :]), type.dtype)
            found[name] = Array(Concrete(type, data), name)
        else:
            found[name] = Scalar(Concrete(type, _number(waiting.pop(0), type.dtype)))
    return found


def _number(value: Any, dtype: DType) -> Any:
    if dtype is bfloat16:
        return from_memory(np.asarray([value], np.uint16), dtype)[0]
    return to_numpy_scalar(value, dtype)


def array_at(pointer: int, shape: tuple[int, ...], strides: tuple[int, ...], dtype: DType) -> np.ndarray[Any, Any]:
    """An array over memory: ``pointer`` is the address of the element with index zero, strides are in bytes."""
    stored = np.dtype(np.uint16) if dtype is bfloat16 else dtype.numpy
    if 0 in shape:
        return np.zeros(shape, stored)
    steps = [stride * (extent - 1) for stride, extent in zip(strides, shape, strict=True)]
    low, high = sum(s for s in steps if s < 0), sum(s for s in steps if s > 0)
    memory: Any = (ctypes.c_char * (high - low + stored.itemsize)).from_address(pointer + low)
    return np.ndarray(shape, stored, memory, -low, strides)
