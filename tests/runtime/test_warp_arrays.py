import gc
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tilekit as tk
from tilekit.errors import DeviceError, KernelTypeError, KernelValueError
from tilekit.ir import types
from tilekit.ir.annotations import array, array1d, array2d
from tilekit.ir.types import DTYPES, bfloat16
from tilekit.runtime import warp_arrays
from tilekit.runtime.arrays import view_of
from tilekit.runtime.cuda import driver
from tilekit.runtime.warp_names import import_warp

pytest.importorskip("warp")
wp = import_warp()
CREATORS = ["zeros", "ones", "empty"]


@pytest.mark.parametrize("name", CREATORS)
@pytest.mark.parametrize("dtype", sorted(DTYPES))
def test_creators_take_every_dtype(name: str, dtype: str) -> None:
    made = getattr(warp_arrays, name)((2, 3), dtype=DTYPES[dtype], device="cpu")
    assert isinstance(made, wp.array) and view_of(made).dtype is DTYPES[dtype] and made.shape == (2, 3)
    if name != "empty":
        assert set(made.list()) == {float(name == "ones")}


def test_values_and_options() -> None:
    assert warp_arrays.full((2, 2), 1.5, bfloat16, "cpu").list() == [1.5] * 4
    assert view_of(warp_arrays.full(2, np.float64(2.5), device="cpu")).dtype is types.float64
    assert view_of(warp_arrays.full(2, types.bfloat16(2.5), bfloat16, device="cpu")).dtype is bfloat16
    made = warp_arrays.zeros(np.int64(3), dtype=np.float64, device="cpu", requires_grad=True)
    assert made.shape == (3,) and made.grad is not None
    assert warp_arrays.zeros(np.array([2, 3]), device="cpu").shape == (2, 3)
    assert warp_arrays.zeros(device="cpu").shape == (0,)
    assert warp_arrays.zeros(n=4, device="cpu").shape == (4,)


def test_like_of_warp_and_numpy() -> None:
    source = warp_arrays.zeros((2, 3), dtype=bfloat16, device="cpu", requires_grad=True)
    assert warp_arrays.ones_like(source).list() == [1.0] * 6
    assert warp_arrays.zeros_like(source).requires_grad
    assert warp_arrays.full_like(np.zeros((2, 2), np.int8), np.int8(3)).numpy().tolist() == [[3, 3], [3, 3]]
    assert warp_arrays.empty_like(np.zeros((0, 2))).shape == (0, 2)
    assert view_of(warp_arrays.zeros_like(np.zeros(2, ml_dtypes.bfloat16))).dtype is bfloat16


def test_clone_copies() -> None:
    source = np.arange(6, dtype=np.float32).reshape(2, 3)
    copied = warp_arrays.clone(source.T)
    source[:] = 0
    assert copied.numpy().tolist() == [[0, 3], [1, 4], [2, 5]]
    with pytest.raises(KernelTypeError, match="a list is not an array"):
        warp_arrays.clone([1, 2])


def test_array_constructor() -> None:
    data = np.arange(6, dtype=np.float32).reshape(2, 3)
    assert array(data, device="cpu").numpy().tolist() == data.tolist()
    assert array([1, 2], dtype=float, device="cpu").numpy().dtype == np.float32
    assert array([[1, 2]], dtype=bfloat16, device="cpu").list() == [1.0, 2.0]
    assert array(shape=(2, 3), dtype=float, device="cpu").shape == (2, 3)
    assert isinstance(array(data, device="cpu"), array)
    assert isinstance(array2d(data, device="cpu"), array2d)
    assert not isinstance(array(data, device="cpu"), array1d)
    assert not isinstance(wp.array(dtype=float), array) and not isinstance(data, array)
    assert array(dtype=float) == array[float]


def test_array_on_given_memory() -> None:
    data = np.arange(4, dtype=np.float32)
    shared = array(ptr=data.ctypes.data, shape=4, dtype=float, device="cpu")
    aliased = array(data, copy=False, device="cpu")
    data[0] = 9
    assert shared.list()[0] == aliased.list()[0] == 9


def test_bfloat16_of_other_arrays_keeps_its_values() -> None:
    values = np.array([1.5, -2.0], ml_dtypes.bfloat16)
    source = array(values, device="cpu")
    for made in (source, array(source), array(source, dtype=bfloat16), warp_arrays.from_numpy(values, device="cpu")):
        assert view_of(made).dtype is bfloat16 and made.list() == [1.5, -2.0]
    assert array(source, dtype=float).list() == [1.5, -2.0]


def test_aliased_memory_outlives_its_owner() -> None:
    class Owner:
        def __init__(self) -> None:
            self.memory = np.full(1000, 7.0)
            self.__array_interface__ = self.memory.__array_interface__

    made = array(Owner(), copy=False, device="cpu")
    gc.collect()
    assert set(made.list()) == {7.0}


@pytest.mark.parametrize(
    ("make", "error", "text"),
    [
        (lambda: array(3.0), KernelTypeError, "not from a number; write tk.array([3.0])"),
        (lambda: array2d([1.0, 2.0], device="cpu"), KernelValueError, "the array has 1 dimension, shape (2,), not 2"),
        (lambda: warp_arrays.zeros(()), KernelValueError, "an array without dimensions is not supported"),
        (lambda: warp_arrays.zeros((2, -1)), KernelValueError, "the shape (2, -1) has a negative extent"),
        (lambda: warp_arrays.zeros((2, 1.5)), KernelTypeError, "a shape is an integer or a sequence of integers"),
        (lambda: warp_arrays.zeros("ab"), KernelTypeError, "a shape is an integer or a sequence of integers"),
        (lambda: array(shape=(), dtype=float), KernelValueError, "an array without dimensions"),
    ],
)
def test_refused(make: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error) as caught:
        make()
    assert text in str(caught.value)


@pytest.mark.parametrize("device", ["cpu", "interpret", wp.get_device("cpu"), None])
def test_devices_of_any_spelling(device):
    assert tk.zeros(3, device=device).device == wp.get_device(None if device is None else "cpu")
    assert tk.array([1.0, 2.0], device=device).device == tk.full_like(np.ones(2), 3.0, device="cpu").device


def test_the_option_says_where_arrays_are():
    for name in ("cpu", "interpret"):
        with tk.config.scoped(device=name):
            for made in (tk.ones(3), tk.array([1.0]), tk.from_numpy(np.ones(3))):
                assert made.device == wp.get_device("cpu")
    with tk.config.scoped(device="gpu"), pytest.raises(ValueError, match="device must be"):
        tk.ones(3)


@pytest.mark.parametrize("make", [tk.zeros, tk.empty])
@pytest.mark.parametrize("name", ["cuda", "cuda:1"])
def test_a_gpu_that_is_not_there(make: Any, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> None:
        raise DeviceError("no NVIDIA driver is installed")

    monkeypatch.setattr(import_warp(), "is_cuda_available", lambda: False)
    monkeypatch.setattr(driver, "driver", missing)
    with pytest.raises(DeviceError, match="no NVIDIA driver is installed"):
        make(3, device=name)
