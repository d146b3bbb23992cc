"""A product that falls to the scalar loop says so once a compilation, whether the compiler or the cache serves it."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import tilekit as tk
from tests.nvrtc import needs_nvrtc
from tests.runtime.cuda import fake_driver
from tests.runtime.cuda.fake_driver import FakeLibrary, fake as fake
from tilekit.errors import FallbackWarning
from tilekit.runtime.array_view import ArrayView
from tilekit.runtime.arrays import view_of

pytestmark = needs_nvrtc


@tk.kernel
def square(a: tk.array2d[tk.float64], out: tk.array2d[float]):
    x = tk.tile_load(a, shape=(16, 16))
    tk.tile_store(out, tk.tile_astype(tk.tile_matmul(x, x), float))


def on_gpu(array: np.ndarray) -> ArrayView:
    view = view_of(array)
    view.device = "cuda:0"
    return view


def launch() -> int:
    """How many warnings a launch issues."""
    a, out = np.ones((16, 16), np.float64), np.zeros((16, 16), np.float32)
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        tk.launch_tiled(square, dim=1, inputs=[on_gpu(a)], outputs=[on_gpu(out)])
    assert {warning.category for warning in found} <= {FallbackWarning}
    assert all(warning.filename == __file__ for warning in found)
    return len(found)


def test_it_warns_once_and_again_where_the_cache_serves(monkeypatch: pytest.MonkeyPatch, fake: FakeLibrary) -> None:
    monkeypatch.setitem(fake_driver.ATTRIBUTES, 75, 7)
    monkeypatch.setitem(fake_driver.ATTRIBUTES, 76, 5)
    square.cache.clear()
    assert [launch(), launch()] == [1, 0]
    square.cache.clear()  # as in another process
    assert [launch(), launch()] == [1, 0]


def test_on_tensor_cores_there_is_nothing_to_tell(fake: FakeLibrary) -> None:
    square.cache.clear()
    assert launch() == 0
