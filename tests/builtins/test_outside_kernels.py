"""Builtins and tiles outside kernels: what the errors of a first session at the prompt say."""

import numpy as np
import pytest

import tilekit as tk

A = np.zeros((2, 3), np.float32)
LOAD = "got a NumPy array of shape (2, 3); load a tile of it with tk.tile_load(a, shape=(2, 3))"


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda: tk.tile_sum(A), f"tile_sum(): a must be a tile, {LOAD}"),
        (lambda: tk.tile_matmul(A, A), f"tile_matmul(): a must be a tile, {LOAD}"),
        (lambda: tk.tile_transpose(A), f"tile_transpose(): a must be a tile, {LOAD}"),
        (lambda: tk.tile_store(A, A), f"tile_store(): t must be a tile, {LOAD}"),
        (lambda: tk.untile(A), f"untile(): a must be a tile, {LOAD}"),
        (lambda: tk.sin(A), f"sin(): x must be a number or a tile, {LOAD}"),
        (lambda: tk.tile_zeros(shape=(2, 3)) + A, f"'+': b must be a number or a tile, {LOAD}"),
        (lambda: tk.tile_map(tk.sin, A), f"tile_map(): none of the arguments is a tile: {LOAD}"),
        (lambda: tk.tile_sum(A[0]), "got a NumPy array of shape (3,); load a tile of it with tk.tile_load(a, shape=3)"),
        (lambda: tk.tile_sum(A[0, 0]), "tile_sum(): a must be a tile, got 0.0 (a float32)"),
        (lambda: tk.tile_sum([1.0]), "tile_sum(): a must be a tile, got a list"),
        (lambda: tk.tile(A), "tile(): x must be a number, got a NumPy array of shape (2, 3)"),
        (lambda: tk.tile_load([1.0], shape=1), "tile_load(): a must be an array, got a list"),
    ],
)
def test_a_host_value_where_a_tile_is_wanted(wrong, message):
    with pytest.raises(TypeError) as caught:
        wrong()
    assert isinstance(caught.value, tk.errors.TilekitError)
    assert caught.value.message.endswith(message)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("shap", "a tile<2x3xf32> has no attribute 'shap'; did you mean `shape`?"),
        ("foo", "a tile<2x3xf32> has no attribute 'foo'; it has shape, dtype, ndim, size and T"),
    ],
)
def test_attributes_that_tiles_do_not_have(name, message):
    t = tk.tile_zeros(shape=(2, 3))
    with pytest.raises(AttributeError) as caught:
        getattr(t, name)
    assert isinstance(caught.value, tk.errors.KernelAttributeError)
    assert (str(caught.value), caught.value.name, caught.value.obj) == (message, name, t)
    assert not hasattr(t, name)
    assert getattr(t, name, 7) == 7


def test_protocols_that_tiles_do_not_have():
    t = tk.tile_zeros(shape=2)
    for name in ("__array_interface__", "__dlpack__", "_private"):
        assert not hasattr(t, name)
    assert np.asarray(t).tolist() == [0, 0]
