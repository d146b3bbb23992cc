"""What is read from cubins is what the assembler prints of them."""

from __future__ import annotations

import re

import pytest

from tests.nvrtc import ARCHES, needs_nvrtc
from tilekit.errors import CompileError
from tilekit.runtime.cuda import nvrtc
from tilekit.runtime.cuda.elf import Resources, read_resources

SOURCE = r"""
extern "C" __global__ void __launch_bounds__(1024) spills(float* p, int n)
{
    float a[200];
    #pragma unroll
    for (int i = 0; i < 200; i++) a[i] = p[i * n + threadIdx.x];
    __syncthreads();
    #pragma unroll
    for (int i = 0; i < 200; i++) p[i] = a[i] * a[199 - i];
}
extern "C" __global__ void indexed(float* p, int k)
{
    float x[300];
    for (int i = 0; i < 300; i++) x[i] = p[i * k];
    for (int i = 0; i < k; i++) p[i] = x[(int)p[i] % 300];
}
extern "C" __global__ void shares(float* p)
{
    __shared__ float x[256];
    __shared__ double y[10];
    x[threadIdx.x] = p[threadIdx.x];
    y[threadIdx.x % 10] = 1;
    __syncthreads();
    p[threadIdx.x] = x[255 - threadIdx.x] + y[threadIdx.x % 7];
}
extern "C" __global__ void asks(float* p)
{
    extern __shared__ float arena[];
    arena[threadIdx.x] = p[threadIdx.x];
    __syncthreads();
    p[threadIdx.x] = arena[255 - threadIdx.x];
}
extern "C" __global__ void plain(float* p) { p[threadIdx.x] *= 2; }
"""


def said(log: str) -> dict[str, Resources]:
    """What the assembler prints of each kernel."""
    found = {}
    for part in log.split("Compiling entry function '")[1:]:
        numbers = [re.search(p, part) for p in (r"Used (\d+) registers", r"(\d+) bytes smem", r"(\d+) bytes stack")]
        found[part.partition("'")[0]] = Resources(*(int(number[1]) if number else 0 for number in numbers))
    return found


@needs_nvrtc
@pytest.mark.parametrize("arch", [*ARCHES, "90"])
def test_what_the_assembler_prints_is_read(arch: str) -> None:
    options = (f"--gpu-architecture=sm_{arch}", "--ptxas-options=--verbose")
    cubin = nvrtc.compile_cubin(SOURCE, "several", {}, options)
    found = read_resources(cubin.code)
    assert found == said(cubin.log)
    assert set(found) == {"spills", "indexed", "shares", "asks", "plain"}
    assert found["shares"].shared_bytes == 256 * 4 + 10 * 8
    assert found["asks"].shared_bytes == 0
    assert found["spills"].local_bytes > 0
    assert found["indexed"].local_bytes == 1200
    assert min(resources.registers for resources in found.values()) > 0


@pytest.mark.parametrize("data", [b"", b"\x7fELF", b"\x7fELF\x02\x01" + bytes(58), b"nothing of the kind" * 9])
def test_what_is_no_cubin(data: bytes) -> None:
    with pytest.raises(CompileError, match="no cubin"):
        read_resources(data)
