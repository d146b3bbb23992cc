"""Lists, dicts and arrays that a kernel captures: their items are constants, as wholes they are refused everywhere."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilekit as tk
from tilekit.errors import KernelTypeError

SIZES = [1, 2]
TABLE = {"a": 1}
ARRAY = np.ones(3)


@tk.kernel
def items(out: tk.array1d[float]):
    out[tk.tid()] = float(SIZES[1]) + float(TABLE["a"]) + float(ARRAY[0])


@tk.kernel
def walked(out: tk.array1d[float]):
    for size in SIZES:
        out[tk.tid()] += float(size)


@tk.func
def count():
    return len(SIZES)


@tk.kernel
def counted(out: tk.array1d[float]):
    out[tk.tid()] = float(count())


def launched(kernel: Any) -> None:
    tk.launch(kernel, dim=1, outputs=[np.zeros(1, np.float32)])


def interpreted(kernel: Any) -> None:
    tk.launch(kernel, dim=1, outputs=[np.zeros(1, np.float32)], device="interpret")


def compiled(kernel: Any) -> None:
    tk.compile(kernel, tiled=False, dim=1, device="cpu")


def explained(kernel: Any) -> None:
    tk.explain(kernel, tiled=False, dim=1)


@pytest.mark.parametrize("way", [launched, interpreted, compiled, explained])
@pytest.mark.parametrize("kernel", [walked, counted])
def test_a_list_as_a_whole_is_refused(kernel: Any, way: Callable[[Any], None]) -> None:
    with pytest.raises(KernelTypeError) as caught:
        way(kernel)
    assert caught.value.message == (
        "SIZES is a captured list; put constants into a tuple, or pass an array of numbers to the kernel as an argument"
    )
    assert caught.value.location is not None and "SIZES" in caught.value.location.source_line()


def test_an_item_is_a_constant() -> None:
    out = np.zeros(1, np.float32)
    for size in (7, 2):
        SIZES[1] = size
        tk.launch(items, dim=1, outputs=[out])
        assert out.tolist() == [size + 2.0]
    compiled(items)
