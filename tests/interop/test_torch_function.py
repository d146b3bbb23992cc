"""``tk.torch.function``: kernels under PyTorch's autograd, its compiler and DistributedDataParallel."""

from __future__ import annotations

import inspect
import shutil
from pathlib import Path
from typing import Any

import pytest

import tilekit as tk
from tests.on_gpu import GPUS
from tilekit.errors import KernelNotImplementedError, KernelTypeError, KernelValueError

torch: Any = pytest.importorskip("torch")

on_a_gpu = [pytest.mark.gpu, pytest.mark.skipif(not GPUS, reason="needs a CUDA device")]
devices = pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=on_a_gpu)])


@tk.kernel
def layer(x: tk.array2d[Any], w: tk.array2d[Any], bias: tk.array1d[Any], out: tk.array2d[Any], scale: float = 1.0):
    i, j = tk.tid()
    acc = tk.tile_zeros(shape=(4, 4), dtype=tk.static(tk.float64 if x.dtype == tk.float64 else tk.float32))
    for k in range((x.shape[1] + 3) // 4):
        a = tk.tile_load(x, shape=(4, 4), offset=(i * 4, k * 4))
        tk.tile_matmul(a, tk.tile_load(w, shape=(4, 4), offset=(k * 4, j * 4)), acc)
    b = tk.tile_astype(tk.tile_load(bias, shape=4, offset=4 * j), acc.dtype)
    t = tk.tanh(acc * acc.dtype(scale) + tk.tile_broadcast(b, shape=(4, 4)))
    tk.tile_store(out, tk.tile_astype(t, out.dtype), offset=(4 * i, 4 * j))


def rows_and_columns(x: Any, w: Any, bias: Any, scale: float) -> Any:
    return x.new_empty(x.shape[0], w.shape[1])


def blocks(x: Any, w: Any, bias: Any, scale: float) -> tuple[int, int]:
    return (x.shape[0] + 3) // 4, (w.shape[1] + 3) // 4


fused = tk.torch.function(layer, outputs={"out": rows_and_columns}, dim=blocks)


def plain(x: Any, w: Any, bias: Any, scale: float = 1.0) -> Any:
    return torch.tanh(x @ w * scale + bias)


def tensors(device: str = "cpu", dtype: Any = None, grad: bool = True) -> list[Any]:
    generator = torch.Generator().manual_seed(5)
    made = [torch.randn(shape, generator=generator, dtype=torch.float64) for shape in ((6, 5), (5, 7), (7,))]
    return [t.to(device, dtype or torch.float64).requires_grad_(grad) for t in made]


@devices
def test_gradcheck(device: str) -> None:
    x, w, bias = tensors(device)
    assert torch.autograd.gradcheck(lambda *given: fused(*given, scale=0.5), (x, w, bias), fast_mode=True)
    assert str(inspect.signature(fused)).startswith("(x: ")
    torch.testing.assert_close(fused(x, w, bias), plain(x, w, bias))


@devices
def test_strided_tensors_and_gradients_that_are_not_consumed(device: str) -> None:
    """Transposed and expanded inputs, a gradient that is expanded, one that backward gets three times."""
    w, x, bias = (t.detach() for t in tensors(device))
    given = [x.t()[:, ::1][:6].clone().t().contiguous().t().requires_grad_(), w.t().clone().t(), bias[:1].expand(5)]
    x, w, bias = given[0], torch.randn(5, 5, device=device, dtype=torch.float64).t().requires_grad_(), given[2]
    seed = torch.randn(x.shape[0], 1, device=device, dtype=torch.float64).expand(x.shape[0], 5)
    before = seed.clone()
    found = fused(x, w, bias)
    for times in (1, 2, 3):
        found.backward(seed, retain_graph=True)
        want = torch.autograd.grad(plain(x, w, bias), (x, w), seed)
        torch.testing.assert_close([x.grad, w.grad], [times * grad for grad in want])
    torch.testing.assert_close(seed, before, rtol=0, atol=0)


@devices
@pytest.mark.parametrize("name", ["float16", "bfloat16"])
def test_16_bit_floats(device: str, name: str) -> None:
    given = tensors(device, getattr(torch, name))
    found = fused(*given)
    assert found.dtype == getattr(torch, name)
    found.sum().backward()
    wide = [t.detach().double().requires_grad_() for t in given]
    plain(*wide).sum().backward()
    roundoff = torch.finfo(given[0].dtype).eps
    for narrow, exact in zip(given, wide, strict=True):
        assert narrow.grad.dtype == narrow.dtype
        torch.testing.assert_close(narrow.grad.double(), exact.grad, rtol=8 * roundoff, atol=8 * roundoff)


def test_what_backward_refuses() -> None:
    """A write in place before it, and to be differentiated itself."""
    x, w, bias = tensors()
    shifted = x + 1.0
    found = fused(shifted, w, bias).sum()
    shifted.add_(1.0)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        found.backward()
    (first,) = torch.autograd.grad(fused(x, w, bias).sum(), x, create_graph=True)
    with pytest.raises(KernelNotImplementedError) as caught:
        first.sum().backward()
    assert str(caught.value) == (
        "backward of backward: the gradient of kernel 'layer' cannot be differentiated; call backward without "
        "create_graph=True"
    )
    with pytest.raises(KernelNotImplementedError) as caught:
        torch.func.jvp(lambda x: fused(x, w, bias), (x,), (x,))
    assert str(caught.value) == (
        "the gradient of kernel 'layer' goes backward only: forward-mode differentiation, as by torch.func.jvp, has "
        "none for it"
    )


FACTOR = 2.0


@tk.kernel
def scaled(x: tk.array1d[float], y: tk.array1d[float], rounded: tk.array1d[tk.int32]):
    i = tk.tid()
    y[i] = FACTOR * x[i]
    rounded[i] = tk.int32(x[i])


def test_an_output_of_integers_and_an_outer_value_that_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    outputs = {"y": "x", "rounded": lambda x: (len(x),)}
    run = tk.torch.function(scaled, outputs=outputs, dim=len, tiled=False)
    x = torch.ones(3, requires_grad=True)
    run(x)[0].sum().backward()
    assert x.grad.tolist() == [2.0] * 3
    found = run(x)[0].sum()
    monkeypatch.setitem(globals(), "FACTOR", 3.0)
    with pytest.raises(KernelValueError) as caught:
        found.backward()
    assert str(caught.value) == (
        "an outer value that kernel 'scaled' reads has changed since it ran, so its gradient would be another one; "
        "pass what changes as an argument"
    )


@devices
@pytest.mark.parametrize("backend", ["aot_eager", pytest.param("inductor", marks=pytest.mark.deep)])
def test_torch_compile(device: str, backend: str) -> None:
    if backend == "inductor" and device == "cpu" and not (shutil.which("g++") or shutil.which("clang++")):
        pytest.skip("inductor needs a C++ compiler")
    torch._dynamo.reset()
    compiled = torch.compile(lambda x, w, b: fused(x * 2.0, w, b, 0.5).relu().sum(), fullgraph=True, backend=backend)
    for grow in (0, 3):  # other sizes compile again, or are symbolic
        given = tensors(device)
        given[0] = torch.cat([given[0].detach()] * (1 + grow)).requires_grad_()
        found, want = (
            torch.autograd.grad(run, given)
            for run in (compiled(*given), plain(given[0] * 2.0, *given[1:], 0.5).relu().sum())
        )
        torch.testing.assert_close(found, want)


@tk.kernel
def halves(x: tk.array1d[float], n: int, low: tk.array1d[float], high: tk.array1d[float]):
    t = tk.tile_load(x, shape=8)
    tk.tile_store(low, t[:4] * t[:4])
    for _ in range(n):
        t = t * 2.0
    tk.tile_store(high, t[4:])


def test_two_outputs_of_which_one_is_used() -> None:
    both = tk.torch.function(halves, outputs={"low": (4,), "high": lambda x, n: (5,)}, dim=1)
    x = torch.arange(8.0, requires_grad=True)
    low, high = both(x, 0)
    assert high.tolist() == [4, 5, 6, 7, 0]  # what no block writes is zero
    low.sum().backward()
    assert x.grad.tolist() == [0, 2, 4, 6, 0, 0, 0, 0]


def average(rank: int, folder: str, backend: str, results: Any) -> None:
    where = f"cuda:{rank}" if backend == "nccl" else "cpu"
    torch.distributed.init_process_group(backend, f"file://{folder}/meet", rank=rank, world_size=2)

    class Layer(torch.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.w, self.bias = (torch.nn.Parameter(t.detach()) for t in tensors(where)[1:])

        def forward(self, x: Any) -> Any:
            return fused(x, self.w, self.bias)

    module = torch.nn.parallel.DistributedDataParallel(Layer().to(where))
    module(tensors(where)[0].detach() * (rank + 1)).sum().backward()
    results[rank] = module.module.w.grad.cpu().numpy()
    torch.distributed.destroy_process_group()


@pytest.mark.parametrize("backend", ["gloo", pytest.param("nccl", marks=on_a_gpu)])
def test_distributed_data_parallel(backend: str, tmp_path: Path) -> None:
    """Both processes hold the mean of their gradients."""
    if backend == "nccl" and torch.cuda.device_count() < 2:
        pytest.skip("needs two CUDA devices")
    context = torch.multiprocessing.get_context("spawn")
    with context.Manager() as manager:
        results = manager.dict()
        torch.multiprocessing.spawn(average, (str(tmp_path), backend, results), nprocs=2)
        found = [results[rank] for rank in (0, 1)]
    x, w, bias = tensors()
    want = torch.autograd.grad((plain(x, w, bias).sum() + plain(2 * x, w, bias).sum()) / 2, w)[0].numpy()
    for grad in found:
        torch.testing.assert_close(grad, want)


@pytest.mark.gpu
@pytest.mark.skipif(not GPUS, reason="needs a CUDA device")
def test_streams() -> None:
    """Forward and backward run on the stream that is current: what was queued there before is waited for."""
    x, w, bias = tensors("cuda")
    with torch.cuda.stream(torch.cuda.Stream()):
        torch.cuda._sleep(50_000_000)
        found = fused(x * 1.0, w, bias)
        found.sum().backward()
    torch.cuda.synchronize()
    want = torch.autograd.grad(plain(x, w, bias).sum(), x)
    torch.testing.assert_close(x.grad, want[0])


@tk.kernel
def grows(x: tk.array1d[float], out: tk.array1d[float]):
    t = tk.tile_load(x, shape=4)
    tk.tile_store(x, t)
    tk.tile_store(out, t)


def test_refusals() -> None:
    def fail(error: Any, text: str, *given: Any, **options: Any) -> None:
        with pytest.raises(error) as caught:
            tk.torch.function(*given, **options)
        assert str(caught.value) == text

    fail(KernelTypeError, "function() takes a kernel made by @tk.kernel, got 3 (an int)", 3)
    fail(
        KernelTypeError,
        "function() needs outputs: for each array that kernel 'halves' writes its shape, the name of an input like it, "
        "or a function of the inputs; as in outputs={'high': ...}",
        halves,
    )
    fail(
        KernelValueError,
        "outputs: kernel 'halves' has no array parameter 'lo'; its arrays are x, low, high",
        halves, {"lo": "x"}, 1,
    )  # fmt: skip
    fail(
        KernelValueError,
        "outputs: 'low' is to be like 'high', which is not an input; the inputs are x",
        halves, {"low": "high", "high": "x"}, 1,
    )  # fmt: skip
    fail(
        KernelTypeError,
        "function() needs dim: the grid of kernel 'halves', or a function that gives it",
        halves, {"low": "x", "high": "x"},
    )  # fmt: skip


def test_refusals_when_called() -> None:
    x = torch.ones(8)
    for outputs, error, text in (
        ({"low": "x"}, KernelTypeError, "kernel 'halves' writes 'high', which is not among outputs"),
        ({"low": lambda x, n: x, "high": "x"}, KernelValueError, "the function for 'low' returns an input"),
    ):
        inputs = (x, 1) if "high" in outputs else (x, 1, x)
        with pytest.raises(error, match=text):
            tk.torch.function(halves, outputs, 1)(*inputs)
    with pytest.raises(
        KernelTypeError, match="kernel 'grows' writes 'x', which is not among outputs; name it there, and"
    ):
        tk.torch.function(grows, {"out": "x"}, 1)(x)
    with pytest.raises(
        KernelTypeError, match="parameter 'out' of kernel 'layer' is of any dtype, so that a shape is not"
    ):
        tk.torch.function(layer, {"out": (6, 7)}, blocks)(*tensors())
    with pytest.raises(KernelTypeError) as caught:
        tk.torch.function(layer, {"out": lambda x, *_: x.new_empty(6, 7)}, blocks)(x.numpy(), *tensors()[1:])
    assert caught.value.message == (
        "argument 'x' of the function of kernel 'layer' must be a tensor of PyTorch's, such as torch.as_tensor(x), got "
        "a NumPy array of shape (8,)"
    )
