"""What is known of machine code without a GPU is what the driver says of it."""

from __future__ import annotations

import numpy as np
import pytest

import tilekit as tk
from tests.on_gpu import GPUS
from tests.runtime.test_compile import gathers, point, product, third
from tilekit.codegen.architectures import arch_name, shared_limit
from tilekit.errors import KernelValueError
from tilekit.runtime.compile import prepare
from tilekit.runtime.cuda import kernel as loaded, nvrtc
from tilekit.runtime.cuda.buffers import Buffer
from tilekit.runtime.cuda.devices import device
from tilekit.runtime.cuda.kernel import CudaKernel

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not GPUS, reason="needs a CUDA device")]


def arch() -> str:
    return nvrtc.arch_of(device(0).capability)


@pytest.mark.parametrize(
    ("kernel", "tiled"), [(product, True), (point, False), (gathers, False), (third, True)], ids=str
)
def test_registers_and_memory(kernel: tk.Kernel, tiled: bool) -> None:
    compiled = prepare(kernel, tiled=tiled, arch=arch())
    found = CudaKernel(compiled.generated, compiled.parts[0].built[0], compiled.target, device(0))
    assert found.registers == compiled.registers
    assert found.local_bytes == compiled.local_bytes
    assert found._attribute(loaded._STATIC_SHARED) == compiled.resources.shared_bytes


def test_the_limit_of_shared_memory() -> None:
    limit = shared_limit(arch_name(arch()))
    assert limit in (None, device(0).max_shared)


@tk.kernel
def large(a: tk.array1d[float], out: tk.array1d[float]):
    t = tk.tile_load(a, shape=100_000)
    tk.tile_store(out, tk.tile_sum(t))
    tk.tile_store(out, t)


def test_tiles_that_do_not_fit_are_refused_before_the_launch() -> None:
    a, out = (Buffer(np.zeros(100_000, np.float32), 0) for _ in range(2))
    with pytest.raises(KernelValueError, match=r"needs \d+ bytes of shared memory a block, but sm_\w+ has"):
        tk.launch_tiled(large, dim=1, inputs=[a], outputs=[out])
