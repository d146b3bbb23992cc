"""Programs of several launches with scratch between them, on the host."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import threading
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.split_sum import FORM, TILE, check, grid_of, made_for, numbers, split_sum, values_of
from tilekit.config import config
from tilekit.errors import CompileError, KernelAssertionError, KernelValueError, VerificationError
from tilekit.ir.core import Value
from tilekit.ir.program import Computed, Program
from tilekit.ir.sizes import CeilDiv, Difference, Dim, Extent, FloorDiv, Product, Scalar, Trips
from tilekit.ir.types import ScalarType, int8, int32
from tilekit.runtime.cpu import CpuKernel
from tilekit.runtime.explain import explanation
from tilekit.runtime.interpreter import array_at
from tilekit.runtime.program import compile_program
from tilekit.runtime.program_sizes import evaluated
from tilekit.runtime.reference import run_reference
from tilekit.runtime.scratch import HostMemory
from tilekit.runtime.specialise import program_for
from tilekit.runtime.warm import Like

HOST = ("cpu", "interpret")


@pytest.mark.parametrize("device", HOST)
def test_runs_in_order_with_scratch_of_each_run(device: str) -> None:
    made = made_for([], device)
    assert made.written == (2, 3)
    for m, n, k, chunk in ((35, 21, 100, 32), (16, 37, 64, 64), (5, 5, 0, 16), (20, 20, 90, 16)):
        arrays = numbers(m, n, k)
        grid = grid_of(m, n)
        assert made.run(values_of(arrays, chunk, 9)[0], grid, grid[0] * grid[1]) == {}
        check(arrays, chunk)


def test_the_reference_runs_programs() -> None:
    arrays = numbers(20, 37, 40)
    run_reference(split_sum(), grid_of(20, 37), [*arrays, 16, 9])
    check(arrays, 16)


@pytest.mark.parametrize("device", HOST)
def test_a_failure_names_its_launch(device: str) -> None:
    arrays = numbers(16, 16, 64)
    with pytest.raises(KernelAssertionError, match=r"too many parts, in .*kernel 'add_parts'"):
        made_for([], device).run(values_of(arrays, 16, 2)[0], (1, 1), 1)


def test_a_program_of_one_launch_is_that_kernel() -> None:
    (_, launch) = split_sum().launches
    assert type(program_for(Program.of(launch.function), FORM, "cpu")) is CpuKernel


def like_of(arrays: list[np.ndarray[Any, Any]], chunk: int, grid: tuple[int, int]) -> Like:
    values, _ = values_of(arrays, chunk, 9)
    return Like(values, [0, 5, 10, 15], [(20, int32), (21, int32)], grid, grid[0] * grid[1], (None,))


def test_launches_like_an_earlier_one() -> None:
    """Also with another number of parts, on which grids and scratch depend, and of several threads at once."""
    grid = grid_of(35, 21)
    again = made_for([], "cpu").again(like_of(numbers(35, 21, 100), 32, grid))
    wrong = []

    def launches(seed: int) -> None:
        for chunk in (32, 16, 48, 16, 32):
            arrays = numbers(35, 21, 100, seed)
            assert again([array.ctypes.data for array in arrays], [chunk, 9], None) is True
            try:
                check(arrays, chunk)
            except AssertionError as error:
                wrong.append(error)

    threads = [threading.Thread(target=launches, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert made_for([], "interpret").again(like_of(numbers(35, 21, 100), 32, grid)) is None


@pytest.mark.parametrize("device", HOST)
def test_scratch_that_lives_until_backward(device: str) -> None:
    made = made_for([], device, split_sum(until_backward=True))
    arrays = numbers(16, 21, 32)
    kept = made.run(values_of(arrays, 16, 9)[0], (1, 2), 2)
    (view,) = kept.values()
    assert (view.shape, view.strides, view.device) == ((2 * TILE, 21), (96, 4), "cpu")
    assert view.pointer % 64 == 0
    parts = array_at(view.pointer, view.shape, view.strides, view.dtype)
    assert np.array_equal(parts[:TILE] + parts[TILE:], arrays[2])
    assert made.again(like_of(arrays, 16, (1, 2))) is None


def test_sizes_that_are_none() -> None:
    def refusal(chunk: int, computed: Any = None, **changes: Any) -> str:
        first, second = split_sum().launches
        launches = replace(first, **changes), second
        program = replace(split_sum(), launches=launches, computed=computed or split_sum().computed)
        with pytest.raises(KernelValueError) as caught:
            made_for([], "interpret", program).run(values_of(numbers(16, 16, 64), chunk, 9)[0], (1, 1), 1)
        return str(caught.value)

    assert refusal(0, grid=(Dim(0), Dim(1), Difference(Extent("a", 0), 17))) == (
        "program 'split_sum', the grid of 'sum_parts' of (dim[0], dim[1], a.shape[0] - 17): extents must be from 0 to "
        "2**31, but are (1, 1, -1)"
    )
    assert refusal(0, grid=(Dim(0), Dim(1), FloorDiv(7, Scalar("chunk")))) == (
        "program 'split_sum', the grid of 'sum_parts' of (dim[0], dim[1], floor(7 / chunk)): floor(7 / chunk): the "
        "divisor is 0 in this launch"
    )
    large = Computed(split_sum().computed["splits"].value, Product(Extent("a", 0), 1 << 28))
    assert refusal(16, {"splits": large}) == (
        "program 'split_sum', the number 'splits' of a.shape[0] * 268435456: a.shape[0] * 268435456 is 4294967296 in "
        "this launch, which does not fit int32"
    )


def test_numbers_and_memory_that_there_are_not() -> None:
    def refusal(size: Any, type: Any = int32) -> str:
        count = Computed(Value(ScalarType(type), "splits"), size)
        with pytest.raises(KernelValueError) as caught:
            evaluated(replace(split_sum(), computed={"splits": count}), STARTS, VALUES, (1, 1))
        return str(caught.value)

    expected = "program 'split_sum', the number 'splits' of b.shape[0]: 200 does not fit int8"
    assert refusal(Extent("b", 0), int8) == expected
    assert refusal(Trips(0, 9, Scalar("most"))) == (
        "program 'split_sum', the number 'splits' of len(range(0, 9, most)): len(range(0, 9, most)): the step is 0 "
        "in this launch"
    )
    with pytest.raises(KernelValueError) as caught:
        HostMemory().allocate(1 << 62, 0, None)
    assert str(caught.value) == "there are no 4611686018427387904 bytes of memory for scratch arrays"


STARTS = {"a": 0, "b": 5, "out": 10, "count": 15, "chunk": 20, "most": 21}
VALUES = values_of(numbers(16, 16, 200), 16, 0)[0]


def test_malformed_programs() -> None:
    program = split_sum()
    first, second = program.launches
    for wrong, what in (
        (replace(program, launches=(first, first)), "has two launches of one name"),
        (replace(program, scratch={}), "has no array2d<f32> 'parts' for 'sum_parts'"),
        (replace(program, launches=(replace(first, grid=(Extent("c", 0),)), second)), r"for the size c.shape\[0\]"),
        (replace(program, launches=(replace(first, grid=(Scalar("a"),)), second)), "for the size a"),
        (replace(program, launches=(replace(first, grid=(Dim(0),)), second)), "asks for 3 coordinates, but .* has 1"),
        (replace(program, launches=(replace(first, tiled=False), second)), "its lanes act together"),
    ):
        with pytest.raises(VerificationError, match=what):
            program_for(wrong, FORM, "interpret")


def test_text() -> None:
    assert str(split_sum(until_backward=True)).split("func ")[0] == (
        "program split_sum(a, b, out, count, chunk, most)\n"
        "  parts: scratch array2d<f32> of (ceil(a.shape[1] / chunk) * dim[0] * 16, b.shape[1]), until backward\n"
        "  seen: scratch array2d<i32> of (dim[0], dim[1]), zeroed\n"
        "  splits: i32 of ceil(a.shape[1] / chunk)\n"
        "  launch sum_parts over (dim[0], dim[1], ceil(a.shape[1] / chunk))\n"
        "  launch add_parts\n"
    )


def test_another_process_finds_every_launch_in_the_cache() -> None:
    made_for([], "cpu")
    code = """
    from tests.split_sum import made_for
    from tilekit.runtime.toolchain import Toolchain

    def refuse(*args, **given):
        raise AssertionError("a launch was compiled anew")

    Toolchain.compile = refuse
    made_for([], "cpu")
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(code)], check=True)


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_what_is_compiled_tells_of_every_launch(device: str) -> None:
    with config.scoped(gemm="scalar"):
        compiled = compile_program(split_sum(), FORM, device, "90", grid=(3, 2))
    assert repr(compiled).startswith("<tilekit program split_sum, tk.launch_tiled, compiled for ")
    splits = CeilDiv(Extent("a", 1), Scalar("chunk"))
    assert [part.blocks for part in compiled.parts] == [Product(Product(Dim(0), Dim(1)), splits), 6]
    assert [plan.backend for plan in compiled.plans] == ["scalar"]
    for text in (compiled.ir, compiled.source, *compiled.stages.values()):
        assert "sum_parts" in text and "add_parts" in text
    assert compiled.arena_bytes == max(part.arena_bytes for part in compiled.parts) > 0
    with pytest.raises(CompileError) as caught:
        _ = compiled.folder
    assert str(caught.value) == (
        "program 'split_sum' has 2 launches (sum_parts, add_parts), each with a folder of its own; ask its parts"
    )
    with pytest.raises(CompileError) as caught:
        _ = compiled.adjoint
    assert str(caught.value) == "program 'split_sum' has no adjoint: only kernels are differentiated, and once"
    lines, threads = explanation(compiled).splitlines(), "1 thread" if device == "cpu" else "64 threads"
    assert lines[2:6] == [
        "  seen: scratch array2d<i32> of (dim[0], dim[1]), zeroed",
        "  splits: i32 of ceil(a.shape[1] / chunk)",
        "  launch sum_parts over (dim[0], dim[1], ceil(a.shape[1] / chunk))",
        f"    blocks: dim[0] * dim[1] * ceil(a.shape[1] / chunk); {threads} each",
    ]
    assert "  launch add_parts" in lines
