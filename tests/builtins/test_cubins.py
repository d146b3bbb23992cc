"""Every case of conformance becomes machine code for GPUs of each generation, on machines without one."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tilekit as tk
from tests.adjoints import AdjointLibrary
from tests.conformance import adjoints_among, build, cases_of
from tests.cuda_library import CudaLibrary
from tests.nvrtc import ARCHES, needs_nvrtc
from tests.passes.finite_differences import traced
from tilekit.codegen.architectures import registers_limit, shared_limit
from tilekit.codegen.cpu import ENTRY
from tilekit.runtime.cuda.elf import read_resources

MODULES = sorted(path.stem for path in Path(__file__).parent.glob("test_conform_*.py"))
WHOLE = "90a"
"""The generation that is tested most."""
ENDS = (ARCHES[0], WHOLE)
ARCHES_OF_CASES = [pytest.param(arch, marks=[] if arch in ENDS else pytest.mark.deep) for arch in ARCHES]
"""The others take the code of these."""


@needs_nvrtc
@pytest.mark.filterwarnings("ignore:.* the tensor cores of sm_75 multiply float16 alone:tilekit.errors.FallbackWarning")
@pytest.mark.parametrize("arch", ARCHES_OF_CASES)
@pytest.mark.parametrize("module", MODULES)
def test_conformance_compiles(module: str, arch: str) -> None:
    """One case of each builtin."""
    compiles(module, arch, whole=False)


@needs_nvrtc
@pytest.mark.deep
@pytest.mark.filterwarnings("ignore:.* the tensor cores of sm_75 multiply float16 alone:tilekit.errors.FallbackWarning")
@pytest.mark.parametrize("arch", [ARCHES[0], WHOLE])
@pytest.mark.parametrize("module", MODULES)
def test_all_cases_compile(module: str, arch: str) -> None:
    compiles(module, arch, whole=True)


def compiles(module: str, arch: str, whole: bool) -> None:
    """Compile the cases of a module, or one of each builtin, and check what their machine code needs."""
    name = f"{__package__}.{module}"
    importlib.import_module(name)
    cases = cases_of(name)
    if not whole:
        cases = list({case.builtin: case for case in reversed(cases)}.values())
    library = CudaLibrary([build(case).function for case in cases], arch, quick=True)
    found = {name: found for cubin in library.cubins.values() for name, found in read_resources(cubin.code).items()}
    limit = shared_limit(arch)
    assert limit is not None
    for number, (case, generated) in enumerate(zip(cases, library.generated, strict=True)):
        resources = found[f"{ENTRY}_{number}"]
        assert 0 < resources.registers <= registers_limit(), case
        assert generated.arena + resources.shared_bytes <= limit, case


@needs_nvrtc
@pytest.mark.parametrize("module", MODULES)
def test_every_builtin_compiles_as_it_does_for_users(module: str) -> None:
    """NVRTC 13.0 never ended where a sub-array was read. .ci/run has it compile these as well."""
    name = f"{__package__}.{module}"
    importlib.import_module(name)
    cases = list({case.builtin: case for case in reversed(cases_of(name))}.values())
    with tk.config.scoped(compile_timeout=150):
        library = CudaLibrary([build(case).function for case in cases], "90a")
    assert len(library.cubins) == len(cases)


@needs_nvrtc
@pytest.mark.deep
@pytest.mark.parametrize("module", MODULES)
def test_every_adjoint_compiles_as_it_does_for_users(module: str) -> None:
    """NVRTC 13.0 never ended where a gradient of one element was added atomically."""
    name = f"{__package__}.{module}"
    importlib.import_module(name)
    with tk.config.scoped(compile_timeout=150):
        AdjointLibrary(adjoints_among(cases_of(name)), lambda functions: CudaLibrary(functions, "90a"))


@tk.kernel
def greatest(a: tk.array1d[Any], out: tk.array1d[Any], n: int):
    t = tk.tile_load(a, shape=32)
    found = t[0]
    for i in range(n):
        x = t[i]
        if x > found:
            found = x
    out[0] = found


@tk.kernel
def least(a: tk.array1d[Any], out: tk.array1d[Any], n: int):
    t = tk.tile_load(a, shape=32)
    found = t[0]
    for i in range(n):
        if i % 3 > 0:
            found = tk.min(found, t[i])
    out[0] = found


@tk.kernel
def pairs(a: tk.array1d[Any], out: tk.array1d[Any], n: int):
    pair = tk.tile_zeros(shape=2, dtype=a.dtype)
    pair[0], pair[1] = a[n], a[n + 1]
    out[0] = tk.tile_min(pair)[0] - tk.tile_reduce(tk.max, pair)[0]


@needs_nvrtc
@pytest.mark.parametrize("arch", ENDS)
@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_a_chosen_half_compiles_as_it_does_for_users(dtype: Any, arch: str) -> None:
    """NVRTC 13.0 never ended where a loop assigned 16-bit floats under a condition."""
    given = {"a": np.zeros(32, dtype), "out": np.zeros(1, dtype), "n": np.int32(32)}
    with tk.config.scoped(compile_timeout=60):
        library = CudaLibrary([traced(kernel, given) for kernel in (greatest, least, pairs)], arch)
    assert len(library.cubins) == 3


def test_there_are_modules_to_compile() -> None:
    assert MODULES
