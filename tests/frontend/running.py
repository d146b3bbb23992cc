"""Runs a plain function as part of a kernel, in every way the frontend can take it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import tilekit as tk
from tilekit.frontend.kernel import Kernel
from tilekit.ir.context import LaunchForm
from tilekit.ir.interpret import interpret
from tilekit.ir.types import ArrayType, ScalarType, find_dtype

SLOTS = 16


def store(out: Any, result: Any) -> None:
    """Write a number or the numbers of a tuple, as float64, from index 0 on."""
    for i, item in enumerate(flat(result)):
        tk.tile_store(out, tk.tile_full(shape=1, value=tk.float64(item)), offset=i)


def flat(result: Any) -> tuple[Any, ...]:
    if not isinstance(result, tuple):
        return (result,)
    return sum([flat(item) for item in result], ())


def kernel_of(function: Callable[..., Any], arguments: tuple[Any, ...]) -> Kernel:
    """A kernel that stores what ``function`` returns for run-time arguments like these."""
    match len(arguments):
        case 0:

            @tk.kernel
            def call0(out: tk.array1d[tk.float64]):
                store(out, function())

            return call0
        case 1:

            @tk.kernel
            def call1(a: Any, out: tk.array1d[tk.float64]):
                store(out, function(a))

            return call1
        case 2:

            @tk.kernel
            def call2(a: Any, b: Any, out: tk.array1d[tk.float64]):
                store(out, function(a, b))

            return call2
    raise ValueError("at most two arguments")


def constant_kernel_of(function: Callable[..., Any], arguments: tuple[Any, ...]) -> Kernel:
    """A kernel that stores what ``function`` returns for arguments known at compile time."""

    @tk.kernel
    def call(out: tk.array1d[tk.float64]):
        store(out, function(*arguments))

    return call


def compiled(function: Callable[..., Any], *arguments: Any, device: str = "cpu") -> Any:
    """What the kernel stores, compiled or run by the interpreter; ints become int32, floats float32."""
    given = [np.int32(a) if type(a) is int else np.float32(a) if type(a) is float else a for a in arguments]
    out = np.full(SLOTS, np.nan)
    tk.launch_tiled(kernel_of(function, arguments), dim=1, inputs=given, outputs=[out], block_dim=1, device=device)
    return _numbers(out)


def interpreted(kernel: Kernel, arguments: tuple[Any, ...]) -> Any:
    """What the kernel's IR means."""
    *names, last = kernel.parameters
    types: dict[str, Any] = {name: ScalarType(dtype_of(a)) for name, a in zip(names, arguments, strict=True)}
    types[last] = ArrayType(tk.float64, 1)
    function = kernel.trace(types, LaunchForm(True, 1, 1))
    data = {name: dtype_of(a)(a) for name, a in zip(names, arguments, strict=True)}
    out = np.full(SLOTS, np.nan)
    interpret(function, {**data, last: out})
    return _numbers(out)


def dtype_of(value: Any) -> Any:
    return find_dtype(type(value))


def _numbers(out: np.ndarray[Any, Any]) -> list[float]:
    found: list[float] = out[~np.isnan(out)].tolist()
    return found


def every_way(function: Callable[..., Any], *arguments: Any) -> Iterator[tuple[str, list[float]]]:
    """The results of all forms that one program has: they must agree."""
    yield "compiled", compiled(function, *arguments)
    for unroll in (0, 1000):
        with tk.config.scoped(max_unroll=unroll):
            yield f"eager, max_unroll={unroll}", compiled(function, *arguments, device="interpret")
            yield f"run-time arguments, max_unroll={unroll}", interpreted(kernel_of(function, arguments), arguments)
            yield f"constants, max_unroll={unroll}", interpreted(constant_kernel_of(function, arguments), ())


def check(function: Callable[..., Any], *arguments: Any, expected: Any = None) -> None:
    """All forms give what plain Python gives (or ``expected``)."""
    wanted = [float(x) for x in flat(function(*arguments) if expected is None else expected)]
    for way, found in every_way(function, *arguments):
        assert found == wanted, f"{function.__name__}{arguments}, {way}: {found}, not {wanted}"


__all__ = ["check", "compiled", "constant_kernel_of", "every_way", "interpreted", "kernel_of", "store"]
