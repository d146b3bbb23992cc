from __future__ import annotations

import ctypes

import pytest

from tests.cli.inspected import generic, scale, wrong
from tilekit.codegen.cpu import ENTRY
from tilekit.config import config
from tilekit.errors import CompileError, KernelTypeError, KernelValueError
from tilekit.ir.types import ArrayType, ScalarType, float16, float32
from tilekit.passes import PASSES
from tilekit.runtime.program import compile_kernel


def test_what_a_kernel_becomes() -> None:
    compiled = compile_kernel(scale, block_dim=32)
    first, *stages = compiled.stages
    assert first == "trace"
    assert [run.__name__ for run in PASSES if run.__name__ not in stages] == []
    assert compiled.ir == compiled.stages[stages[-1]]
    assert compiled.ir.startswith("func scale(%x: array1d<f32>, %factor: f32) {")
    assert ENTRY in compiled.source
    assert compiled.arena_bytes == 64
    assert compiled.form.block_dim == 32


def test_the_library_loads() -> None:
    library = compile_kernel(scale).library
    assert hasattr(ctypes.CDLL(str(library)), ENTRY)


def test_types_that_the_annotations_leave_open() -> None:
    types = {"x": ArrayType(float16, 2), "factor": ScalarType(float16)}
    assert "array2d<f16>" in compile_kernel(generic, types).ir
    with pytest.raises(KernelTypeError, match="'factor' of kernel 'generic' is generic"):
        compile_kernel(generic, {"x": ArrayType(float16, 2)})
    with pytest.raises(KernelTypeError, match="has no parameter 'y'; its parameters are x, factor"):
        compile_kernel(scale, {"y": ScalarType(float32)})


def test_a_wrong_kernel() -> None:
    with pytest.raises(KernelValueError, match="K differs"):
        compile_kernel(wrong)


def test_another_device() -> None:
    with pytest.raises(CompileError, match="for the devices 'cpu' and 'cuda', not for 'cuda:0'"):
        compile_kernel(scale, device="cuda:0")


def test_only_the_library_asks_a_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tilekit.runtime.cpu.find_toolchain", lambda: None)
    compiled = compile_kernel(scale)
    assert compiled.source
    with pytest.raises(CompileError, match="no C\\+\\+ compiler was found"):
        compiled.library


def test_options_of_the_kernel_reach_the_compiler() -> None:
    with config.scoped(fast_math=True):
        fast = compile_kernel(scale).library
    assert fast != compile_kernel(scale).library
