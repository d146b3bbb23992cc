"""Functions of numbers as compiled kernels compute them, for the interpreter: NumPy's differ in their last bits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tilekit.builtins.grid import tid
from tilekit.codegen.target import Target
from tilekit.errors import CompileError, FallbackWarning
from tilekit.forks import Lock
from tilekit.ir.builtin import Builtin
from tilekit.ir.context import Builder, LaunchForm, using
from tilekit.ir.core import Function, Value
from tilekit.ir.handles import Array
from tilekit.ir.interpret import from_memory, set_compiled_hook, to_memory
from tilekit.ir.notices import warn_at
from tilekit.ir.types import ArrayType, DType, bfloat16

if TYPE_CHECKING:
    from tilekit.runtime.cpu import CpuKernel

__all__: list[str] = []

_lock = Lock()
_kernels: dict[tuple[Builtin, DType], CpuKernel | None] = {}
_told = False


def compute(builtin: Builtin, data: Mapping[str, Any], dtype: DType) -> Any:
    """The function of these numbers or arrays, as kernels on the CPU compute it; None where there is no compiler.

    It is compiled at the first use, and kept in the cache.
    """
    kernel = _kernel(builtin, dtype)
    if kernel is None:
        return None
    stored = np.dtype(np.uint16) if dtype is bfloat16 else dtype.numpy
    values = np.broadcast_arrays(*(np.asarray(value) for value in data.values()))
    operands = [np.ascontiguousarray(to_memory(value, dtype, stored), stored).reshape(-1) for value in values]
    out = np.empty(values[0].size, stored)
    if out.size:
        arguments = [number for array in (*operands, out) for number in (array.ctypes.data, array.size, array.itemsize)]
        kernel.run(arguments, (out.size,), out.size)
    return from_memory(out, dtype).reshape(values[0].shape)[()]


set_compiled_hook(compute)


def _kernel(builtin: Builtin, dtype: DType) -> CpuKernel | None:
    key = builtin, dtype
    found = _kernels.get(key)
    if found is not None or key in _kernels:
        return found
    with _lock:
        if key not in _kernels:
            _kernels[key] = _compiled(builtin, dtype)
        return _kernels[key]


def _compiled(builtin: Builtin, dtype: DType) -> CpuKernel | None:
    """A kernel that applies the function to each element of arrays; None where it cannot be compiled."""
    from tilekit.runtime.cpu import CpuKernel, build, generate  # what emits code, which few programs need here
    from tilekit.runtime.toolchain import absence, find_toolchain

    target = Target("cpu", tiled=False, index_checks=False, line_directives=False)
    generated = generate(_each(builtin, builtin.operand_names, dtype), target)
    try:
        toolchain = find_toolchain()
        if toolchain is None:
            raise CompileError(absence())
        return CpuKernel(generated, build(generated, toolchain, debug=False, fast_math=False), target)
    except CompileError as error:
        _tell(error.message)
        return None


def _each(builtin: Builtin, operands: Sequence[str], dtype: DType) -> Function:
    params = {name: Value(ArrayType(dtype, 1), name) for name in (*operands, "out")}
    arrays = {name: Array(value, name) for name, value in params.items()}
    builder = Builder(form=LaunchForm(tiled=False, ndim=1))
    with using(builder):
        i = tid().unpack(1)[0]
        arrays["out"][i] = builtin(*(arrays[name][i] for name in operands))
    return Function(builtin.name, params, builder.block(()))


def _tell(why: str) -> None:
    global _told
    if not _told:
        _told = True
        text = f"functions such as exp are NumPy's, whose last bits differ from those of compiled kernels: {why}"
        warn_at(FallbackWarning, text, None)
