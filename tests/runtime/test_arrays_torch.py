from typing import Any

import pytest

import tilekit as tk
from tilekit.errors import KernelNotImplementedError, KernelTypeError
from tilekit.ir.types import DTYPES, bfloat16, float32
from tilekit.runtime.arrays import view_of
from tilekit.runtime.warp_arrays import clone, zeros_like

torch = pytest.importorskip("torch")


@pytest.mark.parametrize("name", sorted(DTYPES))
def test_dtypes(name: str) -> None:
    tensor = torch.zeros((2, 3), dtype=getattr(torch, name))
    view = view_of(tensor)
    itemsize = tensor.element_size()
    assert (view.pointer, view.shape, view.strides) == (tensor.data_ptr(), (2, 3), (3 * itemsize, itemsize))
    assert view.dtype is DTYPES[name] and view.device == "cpu" and view.owner is tensor and not view.readonly
    assert type(view.shape) is tuple


def test_layouts() -> None:
    base = torch.zeros((4, 6, 2))
    for tensor in (base, base.transpose(0, 2), base[1:, ::2], base[..., 1], base[0, 0], base.expand(3, 4, 6, 2)):
        view = view_of(tensor)
        assert view.pointer == tensor.data_ptr()
        assert view.strides == tuple(4 * stride for stride in tensor.stride())


def test_tensors_with_gradient_and_parameters() -> None:
    parameter = torch.nn.Parameter(torch.zeros(3))
    assert view_of(parameter).pointer == parameter.data_ptr()
    computed = (parameter * 2).view(1, 3)
    assert view_of(computed).shape == (1, 3)


def test_empty() -> None:
    view = view_of(torch.zeros((0, 3)))
    assert view.shape == (0, 3) and view.size == 0


def refused() -> dict[str, tuple[Any, type[Exception], str]]:
    conj = torch.zeros(3, dtype=torch.complex64).conj()
    return {
        "complex": (
            torch.zeros(2, dtype=torch.complex64),
            KernelTypeError,
            "torch.complex64 is not supported; pass .real",
        ),
        "conj": (conj, KernelTypeError, "torch.complex64 is not supported"),
        "neg": (conj.imag, KernelTypeError, "its neg bit is set"),
        "sparse": (
            torch.eye(3).to_sparse(),
            KernelNotImplementedError,
            "torch.sparse_coo is not supported; pass .to_dense()",
        ),
        "csr": (torch.eye(3).to_sparse_csr(), KernelNotImplementedError, "torch.sparse_csr is not supported"),
        "meta": (torch.zeros(3, device="meta"), KernelTypeError, "device 'meta'"),
        "0-d": (torch.tensor(1.0), KernelTypeError, "without dimensions"),
        "dtype": (torch.zeros(2, dtype=torch.float8_e4m3fn), KernelTypeError, "torch.float8_e4m3fn is not supported"),
    }


@pytest.mark.parametrize("name", ["complex", "conj", "neg", "sparse", "csr", "meta", "0-d", "dtype"])
def test_refused(name: str) -> None:
    tensor, error, text = refused()[name]
    with pytest.raises(error) as caught:
        view_of(tensor)
    assert text in str(caught.value)


def test_vmap_tensors_are_refused() -> None:
    with pytest.raises(KernelTypeError, match="no memory of its own"):
        torch.vmap(lambda row: view_of(row))(torch.zeros((2, 3)))


def test_warp_arrays_of_tensors() -> None:
    tensor = torch.arange(6, dtype=torch.bfloat16).reshape(2, 3).T
    made = tk.array(tensor)
    assert view_of(made).dtype is bfloat16 and made.list() == [0.0, 3.0, 1.0, 4.0, 2.0, 5.0]
    assert view_of(tk.array(tensor, dtype=float)).dtype is float32
    assert tk.array(tensor, dtype=float).numpy().tolist() == [[0.0, 3.0], [1.0, 4.0], [2.0, 5.0]]
    assert clone(torch.ones(3, requires_grad=True)).numpy().tolist() == [1.0, 1.0, 1.0]
    assert view_of(zeros_like(tensor)).dtype is bfloat16
    assert tk.array([1, 2], dtype=torch.float16).numpy().dtype == "float16"
