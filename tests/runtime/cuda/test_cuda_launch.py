"""``tk.launch`` on a GPU that a stand-in for the driver plays, with the real compiler."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import tilekit as tk
from tests.nvrtc import needs_nvrtc
from tests.runtime.cuda.fake_driver import FakeLibrary, fake as fake
from tilekit.errors import CompileError, DeviceError, FallbackWarning, KernelValueError, MissingPackageError
from tilekit.runtime import arrays
from tilekit.runtime.array_view import ArrayView
from tilekit.runtime.arrays import view_of
from tilekit.runtime.cuda import build, nvrtc
from tilekit.runtime.cuda.devices import device

pytestmark = needs_nvrtc


@tk.kernel
def doubled(a: tk.array1d[float], out: tk.array1d[float]):
    i = tk.tid()
    tk.tile_store(out, 2.0 * tk.tile_load(a, shape=4, offset=i * 4), offset=i * 4)


def on_gpu(array: np.ndarray[Any, Any], ordinal: int = 0) -> ArrayView:
    view = view_of(array)
    view.device = f"cuda:{ordinal}"
    return view


def pair(ordinal: int = 0, shift: int = 0) -> list[ArrayView]:
    memory = np.arange(24, dtype=np.float32)
    start = -memory.ctypes.data % 16 // 4
    return [on_gpu(memory[start + shift : start + shift + 8], ordinal), on_gpu(np.zeros(8, np.float32), ordinal)]


@pytest.fixture(autouse=True)
def _compiled_anew() -> None:
    doubled.cache.clear()


def test_a_launch_goes_where_the_arrays_are(fake: FakeLibrary) -> None:
    for ordinal in (1, 0):
        a, out = pair(ordinal)
        tk.launch_tiled(doubled, dim=2, inputs=[a], outputs=[out], block_dim=64)
        launched = fake.launches[-1]
        assert launched.context == device(ordinal).context
        assert (launched.grid, launched.block) == ((2, 1, 1), (32, 1, 1))
        assert launched.values("P2qP2q") == (a.pointer, 8, 4, out.pointer, 8, 4)


def test_the_stream_that_is_asked_for(fake: FakeLibrary) -> None:
    a, out = pair()
    tk.launch_tiled(doubled, dim=2, inputs=[a], outputs=[out], stream=SimpleNamespace(cuda_stream=77))
    command = tk.launch_tiled(doubled, dim=2, inputs=[a], outputs=[out], stream=78, record_cmd=True)
    assert command is not None
    command.launch()
    command.launch(stream=79)
    assert [launched.stream for launched in fake.launches] == [77, 78, 79]


def test_one_compile_serves_arrays_of_one_class(
    fake: FakeLibrary, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    compiled = []
    real = nvrtc.compile_cubin
    monkeypatch.setattr(nvrtc, "compile_cubin", lambda *given: (compiled.append(given), real(*given))[1])
    with tk.config.scoped(cache_dir=tmp_path):
        for shift in (0, 4, 1):
            a, out = pair(shift=shift)
            for _ in range(2):
                tk.launch_tiled(doubled, dim=2, inputs=[a], outputs=[out], block_dim=32)
    assert len(doubled.cache) == 2  # aligned, and not
    assert len(fake.launches) == 6
    assert "--gpu-architecture=sm_90a" in compiled[0][3]


@tk.kernel
def doubled_at_once(a: tk.array1d[float], out: tk.array1d[float]):
    tk.tile_store(out, 2.0 * tk.tile_load(a, shape=4096))


def test_block_dim_is_the_number_of_threads(fake: FakeLibrary) -> None:
    """In whole warps, and without those that would hold nothing of a tile."""
    a, out = pair()
    for block_dim in (None, 1, 33, 1024):
        tk.launch_tiled(doubled_at_once, dim=2, inputs=[a], outputs=[out], block_dim=block_dim)
        tk.launch_tiled(doubled, dim=2, inputs=[a], outputs=[out], block_dim=block_dim)
    assert [launched.block[0] for launched in fake.launches] == [256, 32, 32, 32, 64, 32, 1024, 32]


def test_two_devices(fake: FakeLibrary) -> None:
    with pytest.raises(KernelValueError, match=r"argument 'out' .*: is on cuda:1, other arguments on cuda:0"):
        tk.launch_tiled(doubled, dim=2, inputs=[pair(0)[0]], outputs=[pair(1)[1]])


def test_a_device_that_is_not_there(fake: FakeLibrary) -> None:
    with pytest.raises(DeviceError, match="there is no device 'cuda:2'; the driver offers 'cuda:0', 'cuda:1'"):
        tk.launch_tiled(doubled, dim=2, inputs=[pair(2)[0]], outputs=[pair(2)[1]])


def test_a_compile_that_fails_fails_again(fake: FakeLibrary, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(build, "headers", lambda: {})
    a, out = pair()
    with tk.config.scoped(cache_dir=tmp_path):
        for _ in range(2):
            with pytest.raises(CompileError, match="could not compile kernel 'doubled'"):
                tk.launch_tiled(doubled, dim=2, inputs=[a], outputs=[out])
    assert not fake.launches


def test_without_nvrtc(fake: FakeLibrary, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvrtc, "version", nvrtc.version.__wrapped__)
    monkeypatch.setattr(nvrtc, "_bindings", nvrtc._bindings.__wrapped__)
    monkeypatch.setitem(sys.modules, "cuda.bindings.nvrtc", None)
    a, out = pair()
    with pytest.raises(MissingPackageError, match=r"python -m pip install 'tilekit-lang\[cuda\]'"):
        tk.launch_tiled(doubled, dim=2, inputs=[a], outputs=[out])


def test_the_interpreter_copies(fake: FakeLibrary) -> None:
    a, out = pair()
    with pytest.warns(FallbackWarning, match="device='interpret' copies the arrays on cuda:0 to the host and back"):
        tk.launch_tiled(doubled, dim=2, inputs=[a], outputs=[out], device="interpret")
    assert np.array_equal(out.owner, 2 * a.owner)  # type: ignore[operator]
    copied = [call[0] for call in fake.calls if "cpy" in call[0]]
    assert copied == ["cuMemcpyDtoH_v2", "cuMemcpyDtoH_v2", "cuMemcpyHtoD_v2"]


@tk.kernel
def shifted(a: tk.array1d[float], n: int, none: tk.array1d[float], out: tk.array1d[float]):
    for i in range(n):
        out[i] = a[i] + 1.0


@pytest.mark.filterwarnings("ignore::tilekit.errors.FallbackWarning")
def test_copies_of_arrays_that_overlap_overlap(fake: FakeLibrary) -> None:
    memory = np.zeros(9, np.float32)
    reverse = np.zeros(4, np.float32)
    with tk.config.scoped(device="interpret"):
        tk.launch(shifted, dim=1, inputs=[on_gpu(memory[:-1]), 8, None], outputs=[on_gpu(memory[1:])])
        tk.launch(shifted, dim=1, inputs=[on_gpu(memory[:4]), 4, None], outputs=[on_gpu(reverse[::-1])])
    assert memory.tolist() == list(range(9))
    assert reverse.tolist() == [4, 3, 2, 1]


class Tensor(np.ndarray[Any, Any]):
    """Stands for PyTorch's."""

    requires_grad = False


def test_written_tensors_are_marked(fake: FakeLibrary, monkeypatch: pytest.MonkeyPatch) -> None:
    marked: list[Any] = []
    graph = SimpleNamespace(increment_version=marked.append)
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(autograd=SimpleNamespace(graph=graph)))
    monkeypatch.setitem(arrays.library_of, Tensor, "torch")
    a, out = pair()
    out.owner = out.owner.view(Tensor)
    tk.launch_tiled(doubled, dim=2, inputs=[a, out], stream=5)
    assert len(marked) == 1 and marked[0] is out.owner
    host = np.zeros(8, np.float32)
    tk.launch_tiled(doubled, dim=2, inputs=[host], outputs=[out.owner])
    assert len(marked) == 2
