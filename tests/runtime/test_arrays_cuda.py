"""Views of CUDA memory from the libraries that hold it."""

from typing import Any

import pytest

from tilekit.errors import KernelTypeError
from tilekit.ir.types import bfloat16, float32
from tilekit.runtime.array_protocols import _cuda_driver
from tilekit.runtime.arrays import view_of

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(_cuda_driver() is None, reason="needs a CUDA device")]


class Interface:
    """An object with CUDA's array interface and nothing else."""

    def __init__(self, interface: dict[str, Any]) -> None:
        self.__cuda_array_interface__ = interface


def test_torch() -> None:
    torch = pytest.importorskip("torch")
    for dtype, expected in ((torch.float32, float32), (torch.bfloat16, bfloat16)):
        tensor = torch.zeros((4, 6), dtype=dtype, device="cuda:0").T
        view = view_of(tensor)
        assert (view.pointer, view.shape, view.dtype, view.device) == (tensor.data_ptr(), (6, 4), expected, "cuda:0")
        assert view.strides == tuple(stride * tensor.element_size() for stride in tensor.stride())


def test_cupy() -> None:
    cupy = pytest.importorskip("cupy")
    array = cupy.zeros((4, 6), dtype=cupy.float32)[:, ::2]
    view = view_of(array)
    assert (view.pointer, view.shape, view.strides) == (array.data.ptr, (4, 3), (24, 8))
    assert (view.dtype, view.device, view.owner is array) == (float32, "cuda:0", True)


def test_jax(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # else it takes most of the GPU's memory
    jax = pytest.importorskip("jax")
    array = jax.device_put(jax.numpy.zeros((4, 6)), jax.devices("cuda")[0])
    view = view_of(array)
    assert (view.shape, view.strides, view.dtype, view.device) == ((4, 6), (24, 4), float32, "cuda:0")
    assert view.pointer == array.__cuda_array_interface__["data"][0] and view.readonly
    on_host = view_of(jax.device_put(array, jax.devices("cpu")[0]))
    assert on_host.device == "cpu" and on_host.readonly


def test_interface_of_a_known_and_an_unknown_address() -> None:
    torch = pytest.importorskip("torch")
    tensor = torch.zeros(3, device="cuda:0")
    given = {"shape": (3,), "typestr": "<f4", "data": (tensor.data_ptr(), False), "version": 3}
    assert view_of(Interface(given)).device == "cuda:0"
    with pytest.raises(KernelTypeError, match="which is not CUDA memory"):
        view_of(Interface({**given, "data": (4096, False)}))
