"""``tile_apply`` with atoms of every kind: the CPU, the interpreter and a GPU give the same bits."""

from __future__ import annotations

import numpy as np
import pytest

from tests.builtins.atom_batches import Batch, batches, differing, one_of_each_kind, register_atoms
from tests.builtins.atom_kernels import CASES
from tests.builtins.atom_oracle import possible
from tests.compiled import Library
from tests.cuda_library import CudaLibrary, arch_of_first_gpu
from tests.on_gpu import GPUS
from tests.passes.finite_differences import run, traced
from tilekit.ir.core import Function

ARCH = "90a"


def on_cpu(found: list[Batch], functions: list[Function]) -> list[dict[str, np.ndarray]]:
    library = Library(functions)
    results = []
    for number, batch in enumerate(found):
        results.append(batch.arguments())
        library.run(number, results[-1], batch.grid)
    return results


def test_every_kind_of_atom_is_the_same_on_the_cpu_and_in_the_interpreter() -> None:
    exact = [atom for atom in register_atoms("120a") if atom.exact]
    found = batches(one_of_each_kind(exact), 250)
    functions = [batch.function() for batch in found]
    texts = []
    for batch, function, compiled in zip(found, functions, on_cpu(found, functions), strict=True):
        interpreted = batch.arguments()
        run(function, interpreted, batch.grid)
        texts += differing(batch, compiled, interpreted)
    assert not texts, "\n".join(texts[:20])
    assert sum(len(batch.atoms) for batch in found) > 90


def test_what_differs_is_seen() -> None:
    (batch,) = batches([atom for atom in register_atoms(ARCH) if atom.spelling == "add.rz.f32"], 250)
    one, other = batch.arguments(), batch.arguments()
    assert differing(batch, one, other) == []
    other["Out"].view(np.uint32)[0, 7] = 1
    given = ", ".join(f"{int(operand.view(np.uint32)[7]):x}" for operand in batch.operands)
    assert differing(batch, one, other) == [f"add.rz.f32({given}): 0 and 1"]


def test_only_the_assemblers_choice_among_nans_is_allowed() -> None:
    quiet, other, one = 0x7FF8000000000000, 0xFFF8000000000005, 0x3FF0000000000000
    assert possible("add.rn.f64", quiet, other) == possible("sub.rz.f64", other, quiet) == {quiet, other}
    assert possible("fma.rn.f64", quiet, one, other) == {other, quiet}
    assert possible("fma.rn.f64", quiet, other, other) == {quiet, other}
    assert possible("fma.rn.f64", one, one, other) == possible("add.rn.f64", one, other) == {other}
    assert possible("div.rn.f64", quiet, other) == {quiet} and possible("add.rn.f64", one, one) == {0x4000000000000000}


@pytest.mark.gpu
@pytest.mark.skipif(not GPUS, reason="needs a CUDA device")
class TestOnTheGpu:
    def test_every_exact_atom_has_the_cpus_bits(self) -> None:
        found = batches([atom for atom in register_atoms(arch_of_first_gpu()) if atom.exact], 20_000)
        functions = [batch.function() for batch in found]
        library = CudaLibrary(functions, arch_of_first_gpu())
        texts = []
        for number, (batch, compiled) in enumerate(zip(found, on_cpu(found, functions), strict=True)):
            there = batch.arguments()
            library.run(number, there, batch.grid)
            texts += differing(batch, compiled, there)
        wrong = sorted({text.partition("(")[0] for text in texts})
        assert not texts, f"{len(wrong)} atoms differ: {', '.join(wrong)}\n" + "\n".join(texts[:60])

    @pytest.mark.parametrize("threads", [1, 32, 128])
    def test_every_kernel_gives_what_is_expected(self, threads: int) -> None:
        functions = [traced(case.kernel, case.arguments) for case in CASES]
        library = CudaLibrary(functions, arch_of_first_gpu(), block_dim=threads)
        for number, case in enumerate(CASES):
            arguments = {name: array.copy() for name, array in case.arguments.items()}
            library.run(number, arguments)
            outputs = list(arguments.values())[len(case.inputs) :]
            for got, want in zip(outputs, case.expected(*case.inputs, *case.outputs), strict=True):
                np.testing.assert_array_equal(got, want.astype(got.dtype), err_msg=f"{case} on {threads} threads")
