"""Compiles small drivers around the native headers, for the CPU loaded with ctypes, for CUDA run by one block."""

from __future__ import annotations

import ctypes
import functools
import hashlib
import importlib.util
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.native.cuda_driver import CudaFunction, CudaLibrary, Described
from tilekit.runtime.toolchain import candidates

HEADERS = Path(__file__).parents[2] / "tilekit" / "native"
FLAGS = (
    "-std=c++17 -ffp-contract=off -fno-math-errno -fno-trapping-math -fno-exceptions -fno-rtti -fwrapv -fPIC -shared "
    "-Wall -Wextra -Werror"
).split()


def compilers() -> dict[str, list[str]]:
    """Command lines of the compilers on this machine, by name."""
    found = {}
    if shutil.which("g++"):
        found["g++"] = ["g++", *FLAGS]
    if importlib.util.find_spec("ziglang"):
        clang = ["-Xclang", "-ffloat16-excess-precision=none"] if platform.machine() in ("x86_64", "AMD64") else []
        freestanding = ["-nostdlib", "-fno-sanitize=undefined", "-Wno-unused-command-line-argument"]
        found["zig"] = [sys.executable, "-m", "ziglang", "c++", *FLAGS, *clang, *freestanding]
    return found


COMPILERS = compilers()


@functools.cache
def careful(compiler: str) -> tuple[str, ...]:
    """The flags beside a processor's that kernels are compiled with where a compiler gets some of its code wrong."""
    found = next((each.toolchain for each in candidates() if each.name == compiler), None)
    return () if found is None else found.careful


Build = Callable[..., Any]


@pytest.fixture(params=list(COMPILERS))
def compiler(request: pytest.FixtureRequest) -> str:
    """The name of each compiler in turn."""
    return str(request.param)


# Numbers are the same from every compiler by the tests of `compiler`; these are of memory and of loops.
REPEATED = [pytest.param(name, marks=pytest.mark.deep) for name in list(COMPILERS)[1:]]


@pytest.fixture(params=[*list(COMPILERS)[:1], *REPEATED, pytest.param("cuda", marks=pytest.mark.gpu)])
def device_compiler(request: pytest.FixtureRequest) -> str:
    """The name of each compiler in turn, with that for CUDA: for drivers whose functions are called by ``call``."""
    return str(request.param)


@pytest.fixture(scope="session", name="compilers")
def compilers_fixture() -> dict[str, list[str]]:
    """The command lines by name."""
    return COMPILERS


@pytest.fixture(scope="session")
def build(tmp_path_factory: pytest.TempPathFactory) -> Build:
    """``build(source, compiler, *flags)``: the source compiled against the headers, loaded; built once a session."""
    folder = tmp_path_factory.mktemp("native")
    loaded: dict[str, Any] = {}

    def build_one(source: str, compiler: str, *flags: str) -> Any:
        options = [] if compiler == "cuda" else [*(flags or ("-O3", "-march=native"))]
        if "-march=native" in options:
            options += careful(compiler)
        name = compiler + hashlib.sha256("\0".join([source, *options]).encode()).hexdigest()[:16]
        if name not in loaded and compiler == "cuda":
            loaded[name] = CudaLibrary(source)
        elif name not in loaded:
            path = folder / f"{name}.cpp"
            path.write_text(source)
            output = folder / f"{name}.so"
            command = [*COMPILERS[compiler], *options, f"-I{HEADERS}", str(path), "-o", str(output)]
            result = subprocess.run(command, capture_output=True, text=True)
            assert result.returncode == 0, result.stderr[-4000:]
            loaded[name] = ctypes.CDLL(str(output))
        return loaded[name]

    return build_one


def call(function: Any, *args: Any) -> None:
    """Calls a C function or a kernel with arrays, array descriptors and 64-bit integers (floats pass as f64)."""

    def convert(arg: Any) -> Any:
        if isinstance(arg, Described):
            return arg.words(arg.array.ctypes.data)
        if isinstance(arg, np.ndarray):
            return ctypes.c_void_p(arg.ctypes.data)
        return ctypes.c_double(arg) if isinstance(arg, float) else ctypes.c_longlong(arg)

    if isinstance(function, CudaFunction):
        function(*args)
        return
    function.restype = None
    function(*[convert(a) for a in args])


@pytest.fixture(name="call")
def call_fixture() -> Callable[..., None]:
    """:func:`call`, for tests in files that cannot import this one."""
    return call
