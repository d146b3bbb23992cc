"""Every case of conformance becomes machine code for GPUs of each generation, on machines without one."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

import tilekit as tk
from tests.conformance import build, cases_of
from tests.cuda_library import CudaLibrary
from tests.nvrtc import ARCHES, needs_nvrtc
from tilekit.codegen.architectures import registers_limit, shared_limit
from tilekit.codegen.cpu import ENTRY
from tilekit.runtime.cuda.elf import read_resources

MODULES = sorted(path.stem for path in Path(__file__).parent.glob("test_conform_*.py"))
WHOLE = ("75", "90a")
"""The oldest, which lacks most, and the one that is tested most; on others one case of each builtin will do."""


@needs_nvrtc
@pytest.mark.filterwarnings("ignore:.* the tensor cores of sm_75 multiply float16 alone:tilekit.errors.FallbackWarning")
@pytest.mark.parametrize("arch", ARCHES)
@pytest.mark.parametrize("module", MODULES)
def test_conformance_compiles(module: str, arch: str) -> None:
    name = f"{__package__}.{module}"
    importlib.import_module(name)
    cases = cases_of(name)
    if arch not in WHOLE:
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


def test_there_are_modules_to_compile() -> None:
    assert MODULES
