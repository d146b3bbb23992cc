import array as array_module
import gc
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tilekit.errors import KernelNotImplementedError, KernelTypeError
from tilekit.ir.types import DTYPES, bfloat16, float32, int64, uint16
from tilekit.runtime import arrays
from tilekit.runtime.arrays import ArrayView, view_of
from tilekit.runtime.warp_names import import_warp

wp = pytest.importorskip("warp")

import_warp()


def described(view: ArrayView) -> tuple[Any, ...]:
    return view.pointer, view.shape, view.strides, view.dtype, view.device, view.readonly


class Interface:
    """An object with one array protocol and nothing else."""

    def __init__(self, name: str, value: Any) -> None:
        setattr(self, name, value)


class Capsule:
    """A host array that shows itself by DLPack only."""

    def __init__(self, array: Any, device: tuple[int, int] = (1, 0)) -> None:
        self.array, self.device = array, device

    def __dlpack__(self, **options: Any) -> Any:
        return self.array.__dlpack__()

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device


@pytest.mark.parametrize("name", sorted(DTYPES))
def test_numpy_dtypes(name: str) -> None:
    data = np.zeros((2, 3), ml_dtypes.bfloat16 if name == "bfloat16" else name)
    view = view_of(data)
    assert described(view) == (data.ctypes.data, (2, 3), data.strides, DTYPES[name], "cpu", False)
    assert view.owner is data and view.ndim == 2 and view.size == 6


@pytest.mark.parametrize("name", sorted(DTYPES))
def test_warp_dtypes(name: str) -> None:
    data = wp.zeros((2, 3), dtype=getattr(wp, name), device="cpu")
    view = view_of(data)
    assert described(view) == (data.ptr, (2, 3), data.strides, DTYPES[name], "cpu", False)
    assert view.owner is data


def test_layouts_of_numpy() -> None:
    base = np.zeros((4, 6, 2), np.int64)
    for data in (base, base.T, base[::-1, ::2], base[..., 1], base[1:1], np.broadcast_to(base, (3, 4, 6, 2))):
        assert described(view_of(data))[:4] == (data.ctypes.data, data.shape, data.strides, int64)


def test_pointer_fallback_agrees() -> None:
    for data in (np.zeros((3, 2)), np.zeros((3, 2)).T[::-1], np.zeros(0)):
        assert arrays._pointer_by_interface(data) == view_of(data).pointer


def test_readonly_arrays() -> None:
    data = np.zeros(3)
    data.flags.writeable = False
    assert view_of(data).readonly
    assert view_of(np.frombuffer(b"12345678", np.int64)).readonly


def test_subclasses_of_known_arrays(tmp_path: Any) -> None:
    class Named(np.ndarray): ...

    named = np.zeros((2, 3)).view(Named)
    mapped = np.memmap(tmp_path / "data", np.float32, "w+", shape=(2, 3))
    assert view_of(named).shape == (2, 3) and view_of(named).owner is named
    assert view_of(mapped).pointer == mapped.ctypes.data and view_of(mapped).owner is mapped


def test_warp_slices_and_empty_arrays() -> None:
    data = wp.zeros((4, 6), dtype=float, device="cpu")
    part = data[1:, 2:5]
    assert view_of(part).pointer == data.ptr + 24 + 8 and view_of(part).strides == (24, 4)
    assert view_of(data[2]).shape == (6,)
    empty = view_of(wp.zeros((0, 3), device="cpu"))
    assert empty.shape == (0, 3) and empty.size == 0


def test_uint16_carrier_is_not_bfloat16() -> None:
    assert view_of(wp.zeros(2, dtype=wp.uint16, device="cpu")).dtype is uint16
    assert view_of(wp.zeros(2, dtype=wp.bfloat16, device="cpu")).dtype is bfloat16


def test_array_interface() -> None:
    data = np.arange(6, dtype=np.float32).reshape(2, 3)
    source = Interface("__array_interface__", {**data.__array_interface__, "strides": None})
    view = view_of(source)
    assert described(view) == described(view_of(data)) and view.owner is source


def test_cuda_array_interface_without_strides() -> None:
    given = {"shape": (2, 0, 3), "typestr": "<f4", "data": (0, False), "version": 3}
    view = view_of(Interface("__cuda_array_interface__", given))
    assert view.shape == (2, 0, 3) and view.strides[2] == 4 and view.device.startswith("cuda:")


@pytest.mark.skipif(wp.get_cuda_device_count() > 0, reason="a driver would check the made-up address")
def test_cuda_array_interface_of_a_made_up_address() -> None:
    given = {"shape": (2, 3), "typestr": "<f4", "data": (4096, True), "strides": None, "version": 3}
    source = Interface("__cuda_array_interface__", given)
    assert described(view_of(source)) == (4096, (2, 3), (12, 4), float32, "cuda:0", True)
    source.__dlpack_device__ = lambda: (2, 1)  # type: ignore[attr-defined]
    assert view_of(source).device == "cuda:1"
    source.__cuda_array_interface__ = {**given, "strides": (4, 8)}  # type: ignore[attr-defined]
    assert view_of(source).strides == (4, 8)


@pytest.mark.parametrize(
    "interface",
    [
        {},
        {"shape": (2,), "typestr": "<f4"},
        {"shape": (2,), "typestr": "what", "data": (4096, False)},
        {"shape": (2,), "typestr": "<f4", "data": 4096},
        {"shape": 2, "typestr": "<f4", "data": (4096, False)},
        {"shape": (-2,), "typestr": "<f4", "data": (4096, False)},
        {"shape": (2, 2), "typestr": "<f4", "data": (4096, False), "strides": (4,)},
        {"shape": (2,), "typestr": "<f4", "data": (0, False)},
    ],
    ids=str,
)
@pytest.mark.parametrize("name", ["__cuda_array_interface__", "__array_interface__"])
def test_malformed_interfaces(name: str, interface: dict[str, Any]) -> None:
    with pytest.raises(KernelTypeError, match=r"malformed|no memory|not supported"):
        view_of(Interface(name, interface))


def test_dlpack() -> None:
    data = np.arange(6, dtype=np.float32).reshape(2, 3)
    view = view_of(Capsule(data))
    assert (view.pointer, view.shape, view.strides, view.dtype) == described(view_of(data))[:4]
    with pytest.raises(KernelNotImplementedError, match="memory of a device of DLPack's type 8 is not supported"):
        view_of(Capsule(data, (8, 0)))


def test_views_keep_memory_alive() -> None:
    views = [view_of(np.full(100, 7.0)), view_of(Interface("__array_interface__", np.full(9, 7.0).__array_interface__))]
    views += [view_of(Capsule(np.full(100, 7.0)))]
    gc.collect()
    assert np.asarray(views[0].owner)[99] == 7.0
    assert np.asarray(views[2].owner)[99] == 7.0


def test_view_of_a_view() -> None:
    view = view_of(np.zeros(3))
    assert view_of(view) is view


packed = np.zeros(4, np.dtype([("tag", "u1"), ("x", "f4")]))
REFUSED = [
    ([1.0, 2.0], "a list is not an array; convert it with np.asarray(...) or tk.array(...)"),
    ((1.0,), "a tuple is not an array"),
    (3.5, "the number 3.5 is not an array"),
    (np.float32(3), "the number 3.0 is not an array"),
    (None, "None is not an array"),
    (np.zeros(()), "an array without dimensions is not supported; use array.reshape(1)"),
    (
        {"shape": (2,), "typestr": "<f4", "data": (4096, False)},
        "a dict is not an array; pass the object that owns the memory",
    ),
    (np.zeros(2, ">f4"), "dtype >f4 is not in this machine's byte order; convert with .astype('float32')"),
    (np.zeros(2, object), "dtype object holds Python objects"),
    (np.zeros(2, complex), "dtype complex128 is not supported; pass .real and .imag as two arrays"),
    (packed, "is not supported; pass one field, such as x['tag']"),
    (packed["x"], "elements do not lie at multiples of their size (4 bytes); pass a copy"),
    (np.zeros(2, "U3"), "dtype <U3 is not supported"),
    (np.zeros(2, "M8[s]"), "dtype datetime64[s] is not supported"),
    (np.zeros(2, ml_dtypes.float8_e4m3fn), "dtype float8_e4m3fn is not supported"),
    (np.ma.zeros(2), "a masked array has elements without a value; pass array.filled(value)"),
    ("text", "an object of type str is not an array; pass a Warp, NumPy, PyTorch or CuPy array"),
    (array_module.array("f", [1.0]), "an object of type array is not an array"),
    (np.ndarray, "the class ndarray is not an array"),
    (Interface("__array_interface__", 3), "__array_interface__ is a int, not a dict"),
    (wp.array(dtype=float), "this is an annotation without memory"),
]


@pytest.mark.parametrize(("given", "message"), REFUSED, ids=[str(i) for i in range(len(REFUSED))])
def test_refused(given: Any, message: str) -> None:
    for _ in range(2):  # the second time through the cache of converters
        with pytest.raises(KernelTypeError) as caught:
            view_of(given)
        assert message in str(caught.value)


def test_refused_kinds_of_warp() -> None:
    data = wp.zeros(4, device="cpu")
    indexed = wp.indexedarray(data, [wp.array([0, 2], dtype=int, device="cpu")])
    with pytest.raises(KernelNotImplementedError, match="Warp's indexedarray is not supported"):
        view_of(indexed)
    with pytest.raises(KernelNotImplementedError, match="vec3f: this comes in a later release"):
        view_of(wp.zeros(4, dtype=wp.vec3, device="cpu"))


def test_a_misaligned_stride_of_one_element_is_fine() -> None:
    record = np.zeros(1, np.dtype([("x", "f4"), ("tag", "u1")]))
    assert view_of(record["x"]).strides == (5,)
