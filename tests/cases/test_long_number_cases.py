"""Integers that no dtype holds: everywhere an error of tilekit's with what was given and what would fit, never Python's
OverflowError, nor its refusal to write more than 4300 digits. Where a number is rounded to infinity, that is IEEE's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilekit as tk
from tilekit.errors import KernelTypeError, KernelValueError, TilekitError

LONG = {"~1.000e+400": 10**400, "~-2.500e+5000": -25 * 10**4999}
HERE = ("cpu", "interpret")
FLOATS = ("float16", "bfloat16", "float32", "float64")


@pytest.mark.parametrize(("written", "number"), LONG.items(), ids=["long", "negative"])
@pytest.mark.parametrize("name", FLOATS)
def test_conversions_outside_kernels(name: str, written: str, number: int) -> None:
    dtype = getattr(tk, name)
    with pytest.raises(KernelValueError) as found:
        dtype(number)
    assert found.value.message.startswith(f"{written} does not fit {name}, which holds up to ")
    assert float(dtype(dtype.limits[1])) == dtype.limits[1]
    assert dtype(10**300) == (np.inf if name != "float64" else 1e300)
    assert dtype(float("-inf")) == -np.inf and np.isnan(dtype(float("nan")))


@pytest.mark.parametrize("name", ["int8", "uint8", "int32", "int64", "uint64"])
def test_integers_wrap_and_floats_saturate(name: str) -> None:
    dtype = getattr(tk, name)
    low, high = dtype.limits
    assert int(dtype(10**5000 + 7)) == (10**5000 + 7 - low) % 2**dtype.bits + low
    assert (int(dtype(float("inf"))), int(dtype(float("-inf"))), int(dtype(float("nan")))) == (high, low, 0)
    assert dtype.holds(high) and not dtype.holds(high + 1) and dtype.holds(low) and not dtype.holds(low - 1)


CALLS: dict[str, Callable[[int], Any]] = {
    "sin": lambda n: tk.sin(n),
    "sqrt": lambda n: tk.sqrt(n),
    "max": lambda n: tk.max(n, 1.0),
    "pow": lambda n: tk.pow(2.0, n),
    "clamp": lambda n: tk.clamp(n, 0, 1),
    "where": lambda n: tk.where(True, n, 1.0),
    "isnan": lambda n: tk.isnan(n),
    "fma": lambda n: tk.fma(1.0, n, 1.0),
    "tile_fma": lambda n: tk.tile_fma(n, 1.0, 1.0),
    "pack2": lambda n: tk.pack2(n, 1.0, tk.float16),
    "arch": lambda n: tk.compile(filled, arch=n),
    "spec": lambda n: tk.spec(tk.float32, shape=n),
    "strides": lambda n: tk.spec(tk.float32, shape=2, strides=n),
    "dim": lambda n: tk.launch_tiled(filled, dim=(1, n), inputs=[OUT, 1.0, 1]),
    "block_dim": lambda n: tk.launch_tiled(filled, dim=1, inputs=[OUT, 1.0, 1], block_dim=abs(n)),
    "device": lambda n: tk.launch_tiled(filled, dim=1, inputs=[OUT, 1.0, 1], device=n),
    "array": lambda n: tk.launch_tiled(filled, dim=1, inputs=[n, 1.0, 1]),
    "option": lambda n: tk.kernel(cuda_max_registers=-abs(n)),
    "timeout": lambda n: tk.config.scoped(compile_timeout=n).__enter__(),
}
OUT = np.zeros(4, np.float32)


@tk.kernel
def filled(out: tk.array1d[float], x: float, i: tk.int64):
    tk.tile_store(out, tk.tile_full(shape=4, value=x))


@pytest.mark.parametrize(("written", "number"), LONG.items(), ids=["long", "negative"])
@pytest.mark.parametrize("name", CALLS)
def test_calls_on_the_host(name: str, written: str, number: int) -> None:
    with pytest.raises(TilekitError) as found:
        CALLS[name](number)
    assert written.strip("~-")[5:] in str(found.value) and len(found.value.message) < 300


@pytest.mark.parametrize("device", HERE)
@pytest.mark.parametrize("number", LONG.values(), ids=["long", "negative"])
def test_arguments_of_launches(number: int, device: str) -> None:
    for given in ([OUT, number, 1], [OUT, 1.0, number]):
        with pytest.raises(
            KernelTypeError, match=r"argument '\w' of kernel 'filled': ~.* does not fit .*, which holds"
        ):
            tk.launch_tiled(filled, dim=1, inputs=given, device=device)
        with pytest.raises(KernelTypeError, match="does not fit"):
            tk.compile(filled, args=given, device="cpu")


NUMBER = 0


@pytest.mark.parametrize("device", HERE)
@pytest.mark.parametrize("number", LONG.values(), ids=["long", "negative"])
def test_captured_numbers(number: int, device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a number of a kernel it fits nothing; what Python makes of it before is Python's."""
    monkeypatch.setitem(globals(), "NUMBER", number)

    @tk.kernel
    def added(out: tk.array1d[float]):
        out[0] = out[1] + NUMBER

    @tk.kernel
    def divided(out: tk.array1d[float]):
        out[0] = NUMBER // (NUMBER // 3)

    @tk.kernel
    def shaped(out: tk.array1d[float]):
        tk.tile_store(out, tk.tile_zeros(shape=abs(NUMBER), dtype=float))

    @tk.kernel
    def applied(out: tk.array1d[float]):
        t = tk.tile_load(out, shape=4)
        tk.tile_apply(tk.ptx["fma.rn.f32"], t, t, NUMBER, 1.0)

    for kernel, message in (
        (added, r"'\+': the constant ~.* does not fit float32, which holds up to 3.4028234663852886e\+38"),
        (shaped, r"shape is too large: ~.* does not fit int32"),
        (applied, "does not fit float64"),
    ):
        with pytest.raises(KernelValueError, match=message) as found:
            tk.launch_tiled(kernel, dim=1, inputs=[OUT], device=device)
        assert found.value.location is not None and found.value.location.file == __file__
    out = np.zeros(4, np.float32)
    tk.launch_tiled(divided, dim=1, outputs=[out], device=device)
    assert out[0] == number // (number // 3)
