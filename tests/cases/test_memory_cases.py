"""Shared memory that is not there: refused before anything runs, at every launch, with what to do."""

from __future__ import annotations

import time
import warnings
from typing import Any

import numpy as np
import pytest

import tilekit as tk
from tests.cases.everywhere import launch
from tests.nvrtc import needs_nvrtc
from tests.on_gpu import GPUS
from tilekit.codegen.architectures import shared_limit
from tilekit.errors import KernelValueError

BLOCK_DIM = 256


def summed(count: int) -> tk.Kernel:
    """A tile in shared memory, and what a sum over the block exchanges there besides."""

    @tk.kernel
    def total(a: tk.array1d[float], out: tk.array1d[float]):
        t = tk.tile_load(a, shape=count, storage="shared")
        t[3] = 1.0
        tk.tile_store(out, tk.tile_sum(t))
        tk.tile_store(out, t, offset=1)

    return total


def compiled(count: int, arch: str) -> Any:
    return tk.compile(summed(count), arch=arch, block_dim=BLOCK_DIM)


@needs_nvrtc
@pytest.mark.parametrize("arch", ["75", "86", "90a", "120"])
def test_kernels_close_to_the_limit(arch: str) -> None:
    """Every size within a block's reach of the limit is compiled and fits, or is refused; never in between."""
    limit = shared_limit(arch)
    assert limit is not None
    outcomes = []
    for count in range(limit // 4 - BLOCK_DIM, limit // 4 + 2, BLOCK_DIM // 8):
        try:
            found = compiled(count, arch)
            assert found.shared_bytes >= 4 * count
            outcomes.append(found.shared_bytes <= limit)
        except KernelValueError as error:
            assert f"but sm_{arch} has {limit} " in str(error)
            assert f"tile<{count}xf32> of lines" in str(error)
            outcomes.append(False)
    assert outcomes[0] and not outcomes[-1]
    assert outcomes == sorted(outcomes, reverse=True)


def test_too_much_is_refused_each_time_and_at_once() -> None:
    """The message has what is needed, what there is, what each tile takes and where, and what would fit."""
    kernel = summed(200_000)
    for _ in range(3):
        began = time.process_time()
        with pytest.raises(KernelValueError) as raised:
            tk.compile(kernel, arch=86)
        assert time.process_time() - began < 2
        text = str(raised.value)
        assert "needs 800064 bytes of shared memory a block, but sm_86 has 101376 (99 KiB) at most" in text
        assert 't = tk.tile_load(a, shape=count, storage="shared")' in text
        assert "in place of 200000 they fit" in text


@pytest.mark.xfail(strict=True, reason="tile_cholesky comes with part 7", raises=AttributeError)
def test_a_factorisation_that_cannot_fit_is_refused_at_once() -> None:
    tk.tile_cholesky


@pytest.mark.gpu
@pytest.mark.skipif(not GPUS, reason="needs a CUDA device")
def test_the_largest_kernel_that_is_accepted_runs() -> None:
    from tilekit.runtime.cuda.devices import device

    most = device(0).max_shared
    ran, refused = 0, 0
    for count in range(most // 4 - BLOCK_DIM, most // 4 + 2, BLOCK_DIM // 8):
        a, out = np.full(count, 2.0, np.float32), np.zeros(count + 1, np.float32)
        for _ in range(2):
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("error")
                    launch(summed(count), "cuda", [a], [out], block_dim=BLOCK_DIM)
                assert out[0] == 2 * count - 1 and out[4] == 1 and out[-1] == 2
                ran += 1
            except KernelValueError as error:
                assert str(most) in str(error)
                refused += 1
    assert ran and refused
