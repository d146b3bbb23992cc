"""The native headers on CUDA: NVRTC, and kernels of one block that are called like C functions."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

HEADERS = Path(__file__).parents[2] / "tilekit" / "native"
OPTIONS = ("--fmad=false", "-std=c++17")
THREADS = 96
"""Threads of the block, an odd number of warps."""

TEAM = f"""
#ifdef TK_CUDA
#define EACH_MEMBER {{ const tk::BlockTeam<{THREADS}> team;
#else
template <int N> struct Member {{
    static constexpr bool alone = false;
    static constexpr int threads = N;
    int r;
    int rank() const {{ return r; }}
    static constexpr int size() {{ return N; }}
}};
#define EACH_MEMBER for (int member = 0; member < {THREADS}; ++member) {{ const Member<{THREADS}> team{{member}};
#endif
"""
"""``EACH_MEMBER ... }`` in a driver: what every thread of a block does, on the CPU one after the other."""

ONE_THREAD = """
#ifdef TK_CUDA
#define ONE_THREAD if (threadIdx.x == 0)
#else
#define ONE_THREAD
#endif
"""
"""``ONE_THREAD`` before a statement of a driver that is not for a whole block."""

SHARED = """
#ifdef TK_CUDA
#define SHARED __shared__
#else
#define SHARED
#endif
"""
"""``SHARED`` before an array of a driver that the threads of a block share."""

EACH = """
#define EACH for (i64 i = Team().rank(); i < n; i += Team().size())
"""
"""``EACH`` before a statement of a driver about element ``i`` of ``n``."""


class Described:
    """An argument that a driver takes as ``const Array<T, ND>*``."""

    def __init__(self, array: Any) -> None:
        self.array = array

    def words(self, address: int) -> Any:
        values = [address, *self.array.shape, *self.array.strides]
        return (ctypes.c_longlong * len(values))(*values)


def checked(result: Any) -> Any:
    """What a call of the driver or of NVRTC returned besides success."""
    status, *rest = result
    assert int(status) == 0, status
    return rest[0] if len(rest) == 1 else rest


def compile_cubin(source: str, arch: str) -> bytes:
    """The machine code of a source that includes native headers, by NVRTC."""
    from cuda.bindings import nvrtc

    paths = sorted(HEADERS.glob("*.h"))
    texts, names = [p.read_bytes() for p in paths], [p.name.encode() for p in paths]
    program = checked(nvrtc.nvrtcCreateProgram(source.encode(), b"driver.cu", len(paths), texts, names))
    options = [option.encode() for option in (f"--gpu-architecture=sm_{arch}", *OPTIONS)]
    (status,) = nvrtc.nvrtcCompileProgram(program, len(options), options)
    log = bytearray(checked(nvrtc.nvrtcGetProgramLogSize(program)))  # not bytes, which other code may hold as well
    nvrtc.nvrtcGetProgramLog(program, log)
    assert int(status) == 0, log.decode()[:3000]
    code = bytearray(checked(nvrtc.nvrtcGetCUBINSize(program)))
    nvrtc.nvrtcGetCUBIN(program, code)
    nvrtc.nvrtcDestroyProgram(program)
    return bytes(code)


class CudaLibrary:
    """The kernels of a source, compiled for the first device."""

    def __init__(self, source: str) -> None:
        from cuda.bindings import driver

        self.driver = driver
        checked(driver.cuInit(0))
        device = checked(driver.cuDeviceGet(0))
        self.context = checked(driver.cuDevicePrimaryCtxRetain(device))
        checked(driver.cuCtxSetCurrent(self.context))
        kinds = driver.CUdevice_attribute
        major = checked(driver.cuDeviceGetAttribute(kinds.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device))
        minor = checked(driver.cuDeviceGetAttribute(kinds.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device))
        self.module = checked(driver.cuModuleLoadData(compile_cubin(source, f"{major}{minor}")))

    @contextmanager
    def mapped(self, size: int) -> Iterator[tuple[Any, int]]:
        """Zeroed host memory that the device sees, as bytes, and its address there."""
        driver = self.driver
        host = int(checked(driver.cuMemHostAlloc(size, driver.CU_MEMHOSTALLOC_DEVICEMAP)))
        try:
            memory = np.frombuffer((ctypes.c_ubyte * size).from_address(host), np.uint8)
            memory[:] = 0
            yield memory, int(checked(driver.cuMemHostGetDevicePointer(host, 0)))
        finally:
            checked(driver.cuMemFreeHost(host))

    def __getitem__(self, name: str) -> CudaFunction:
        return CudaFunction(self, name)

    def __getattr__(self, name: str) -> CudaFunction:
        return CudaFunction(self, name)


class CudaFunction:
    """A kernel; calling it copies the memory of its arguments to the device, runs one block, and copies it back."""

    def __init__(self, library: CudaLibrary, name: str) -> None:
        self.driver = library.driver
        checked(self.driver.cuCtxSetCurrent(library.context))
        self.kernel = checked(self.driver.cuModuleGetFunction(library.module, name.encode()))

    def __call__(self, *args: Any, blocks: int = 1, threads: int = THREADS, shared: int = 0) -> None:
        memory = _Memory(self.driver)
        try:
            values, types = zip(*map(memory.argument, args), strict=True)
            limit = self.driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
            checked(self.driver.cuFuncSetAttribute(self.kernel, limit, shared))
            checked(self.driver.cuLaunchKernel(
                self.kernel, blocks, 1, 1, threads, 1, 1, shared, 0, (values, types), 0
            ))  # fmt: skip
            checked(self.driver.cuCtxSynchronize())
            memory.copy_back()
        finally:
            memory.free()


class _Memory:
    """Device copies of the arrays that are arguments' memory; one copy of what several arguments share."""

    def __init__(self, driver: Any) -> None:
        self.driver = driver
        self.copies: dict[int, tuple[Any, int]] = {}
        self.other: list[int] = []

    def argument(self, arg: Any) -> tuple[Any, Any]:
        if isinstance(arg, Described):
            words = np.frombuffer(arg.words(self.address(arg.array)), np.int64)
            return self.upload(words), ctypes.c_void_p
        if isinstance(arg, np.ndarray):
            return self.address(arg), ctypes.c_void_p
        if isinstance(arg, float):
            return arg, ctypes.c_double
        return int(arg), ctypes.c_longlong

    def address(self, array: Any) -> int:
        root = array
        while root.base is not None:  # of a strided view it is a holder of its memory
            above = root.base if isinstance(root.base, np.ndarray) else getattr(root.base, "base", None)
            if above is None:  # its memory is a bytes object's
                break
            root = above
        if not array.size and not root.size:
            return 0
        if id(root) not in self.copies:
            assert root.flags.c_contiguous or root.flags.f_contiguous
            self.copies[id(root)] = (root, self.upload(root))
        return self.copies[id(root)][1] + int(array.ctypes.data - root.ctypes.data)

    def upload(self, array: Any) -> int:
        copy = int(checked(self.driver.cuMemAlloc(max(array.nbytes, 1))))
        self.other.append(copy)
        checked(self.driver.cuMemcpyHtoD(copy, array.ctypes.data, array.nbytes))
        return copy

    def copy_back(self) -> None:
        for root, copy in self.copies.values():
            checked(self.driver.cuMemcpyDtoH(root.ctypes.data, copy, root.nbytes))

    def free(self) -> None:
        for copy in self.other:
            self.driver.cuMemFree(copy)
