"""Functions of one name whose parameters have other types, as Warp's ``@wp.func`` allows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilekit as tk

wp = pytest.importorskip("warp")

OFFSET = 1.0


@tk.func
def shifted(x: float):
    return x + OFFSET


@tk.func
def shifted(x: int):  # noqa: F811
    return x + 2


@tk.func
def shifted(x: float, y: float):  # noqa: F811
    return x + 10.0 * y


@tk.func
def shifted(t: tk.tile[float, 4]):  # noqa: F811
    return t * 2.0


@tk.func
def shifted(a: tk.array1d[float], i: int):  # noqa: F811
    return a[i] * 100.0


@wp.func
def warps(x: float):
    return x + 1.0


@wp.func
def warps(x: int):  # noqa: F811
    return x + 2


@wp.func
def warps(x: Any, y: Any):  # noqa: F811
    return x * y


@tk.kernel
def k(x: float, n: int, a: tk.array1d[float], out: tk.array1d[float]):
    out[0] = shifted(x)
    out[1] = float(shifted(n))
    out[2] = shifted(x, 3.0)
    out[3] = shifted(tk.tile_load(a, shape=4))[1]
    out[4] = shifted(a, n)
    out[5] = shifted(2.5)
    out[6] = float(shifted(5))
    out[7] = shifted(y=x, x=1.0)
    out[8] = warps(x)
    out[9] = float(warps(n))
    out[10] = warps(x, 2.0)
    if n > 2:
        out[11] = shifted(x)
    t = tk.tile_map(shifted, tk.tile_load(a, shape=4))
    out[12] = t[2]


@pytest.mark.parametrize("device", ["cpu", "interpret"])
def test_a_call_means_the_function_that_takes_its_arguments(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    a, out = np.arange(4, dtype=np.float32), np.zeros(13, np.float32)
    for offset in (1.0, 0.5):
        monkeypatch.setattr(f"{__name__}.OFFSET", offset)
        tk.launch_tiled(k, dim=1, inputs=[4.0, 3, a, out], block_dim=32, device=device)
        first = 4 + offset
        assert out.tolist() == [first, 5, 34, 2, 300, 2.5 + offset, 7, 41, 5, 5, 8, first, 2 + offset]


def test_on_the_host() -> None:
    assert shifted(2.5) == 3.5
    assert shifted(2) == 4
    assert shifted(2.0, 1.0) == 12.0


def test_the_same_types_replace_and_another_scope_does_not_count() -> None:
    @tk.func
    def helper(x: float):
        return x

    first = helper

    @tk.func
    def helper(x: float):
        return x + 1.0

    assert helper.forms != first.forms
    assert len(helper.forms) == 1
    assert helper(1.0) == 2.0

    @tk.func
    def shifted(x: tk.float64):
        return x

    assert len(shifted.forms) == 1


def test_arguments_that_no_function_takes() -> None:
    @tk.func
    def helper(x: float):
        return x

    @tk.func
    def helper(x: int, a: tk.array2d[float]):  # noqa: F811
        return x

    @tk.kernel
    def wrong(x: tk.float64, out: tk.array1d[float]):
        out[0] = helper(x)

    message = r"helper\(\) is declared for \(x: float32\) and \(x: int32, a: array2d\[float32\]\), not for a float64"
    with pytest.raises(tk.errors.KernelTypeError, match=message):
        tk.launch(wrong, dim=1, inputs=[1.0, np.zeros(1, np.float32)])
