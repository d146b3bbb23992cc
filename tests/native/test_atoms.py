"""Atoms on the CPU, bit for bit: every exact one of the table, by every compiler, with and without its instructions."""

from __future__ import annotations

import json
import platform
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.builtins import atom_bounds, atom_values_cases, measured_atoms
from tests.builtins.atom_cases import operands_of, wrong
from tests.native import atom_drivers, cuda_driver, ftz_triples, probe_atoms
from tests.native.cuda_driver import EACH
from tilekit.builtins.atoms import Atom, atoms, find_atom

VECTORS = json.loads((Path(__file__).parents[1] / "builtins" / "fma_vectors.json").read_text())
PATHS = {
    "instructions": ("-O1", "-march=native"),
    "without": ("-O1", "-march=x86-64"),  # no fused multiply-add, and no rounding of its own in an instruction
}


def flags_for(compiler: str, flags: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(f.replace("x86-64", "x86_64") for f in flags) if compiler == "zig" else flags


def differing(build: Any, call: Any, compiler: str, flags: tuple[str, ...], of: list[Atom], count: int) -> list[str]:
    library = build(atom_drivers.cpu_source(of), compiler, *flags_for(compiler, flags))
    found = []
    for number, atom in enumerate(of):
        given = operands_of([slot.ptx_type for slot in atom.slots[1:]], count)
        got = atom_drivers.run(library[f"run_{number}"], call, atom, given)
        found += wrong(atom.spelling, given, got)[:3]
    return found


def test_exact_atoms(compiler: str, build: Any, call: Any) -> None:
    """Each compiler on one path; on the others, and all of the many conversions, under the marker ``deep``."""
    flags = PATHS["instructions" if compiler == "g++" else "without"]
    assert not differing(build, call, compiler, flags, atom_drivers.sample(), 40)


@pytest.mark.parametrize("pattern", ["fma.r?.f32", "mul.*.f32", "fma.*.f16"])
def test_in_vectors(pattern: str, compiler: str, build: Any, call: Any) -> None:
    matching = set(atoms(pattern))
    chosen = [atom for atom in atom_drivers.computed() if atom in matching and len(atom.types) == 1]
    assert len(chosen) > 2
    assert not differing(build, call, compiler, ("-O3", "-march=native"), chosen, 250)


FUZZED = [
    atom
    for atom in atom_drivers.computed()
    if atom.mnemonic in ("fma", "add", "sub", "mul") and {*atom.types} <= {"f32", "f64", "f16", "bf16"}
]
FULL_PATHS = [("-O3", "-march=native"), ("-O3", "-march=native", "-DTK_ATOM_PORTABLE"), *PATHS.values()]


def fuzzed_operands(atom: Atom, count: int) -> list[np.ndarray[Any, Any]]:
    """About so many; where fma flushes, also as many triples whose result is next to the least normal number."""
    given = operands_of([slot.ptx_type for slot in atom.slots[1:]], count)
    if atom.mnemonic != "fma" or "ftz" not in atom.flags:
        return given
    near = ftz_triples.families(atom.types[0], count // 4).values()
    return [np.concatenate(column) for column in zip(given, *near, strict=True)]


def test_the_fuzzed_atoms() -> None:
    """Every form of single values, those of fma that flush among them."""
    spelled = {atom.spelling for atom in FUZZED}
    assert {"fma.rn.ftz.f32", "fma.rp.ftz.sat.f32", "fma.rn.ftz.relu.f16", "mul.rz.ftz.f32", "fma.rz.f64"} <= spelled
    given = fuzzed_operands(find_atom("fma.rm.ftz.f32"), 400)
    assert len(given) == 3 and len(given[0]) > 600
    expected = atom_values_cases.computed(find_atom("fma.rm.ftz.f32"), given)
    assert np.count_nonzero(expected & np.uint64(0x7FFFFFFF) == 0x00800000) > 50


@pytest.mark.deep
@pytest.mark.parametrize("atom", FUZZED, ids=str)
def test_a_million_triples(atom: Atom, compilers: dict[str, list[str]], build: Any, call: Any) -> None:
    """The oracle says what one build is to give, and all others give its bits."""
    given = fuzzed_operands(atom, 1_000_000)
    results = []
    for compiler in compilers:
        for flags in FULL_PATHS:
            library = build(atom_drivers.cpu_source(FUZZED), compiler, *flags_for(compiler, flags))
            results.append(atom_drivers.run(library[f"run_{FUZZED.index(atom)}"], call, atom, given))
    for other in results[1:]:
        np.testing.assert_array_equal(other, results[0])
    assert not wrong(atom.spelling, given, results[0])


@pytest.mark.deep
@pytest.mark.parametrize("flags", FULL_PATHS, ids=str)
def test_every_exact_atom(flags: tuple[str, ...], compiler: str, build: Any, call: Any) -> None:
    assert not differing(build, call, compiler, flags, atom_drivers.computed(), 2000)


@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="AVX-512 is x86's")
def test_code_for_processors_with_roundings_in_instructions_compiles(compiler: str, build: Any) -> None:
    """It runs in the other tests where the processor has them."""
    chosen = [atom for atom in atom_drivers.computed() if "f64" in atom.types and atom.rounding in ("rz", "rm", "rp")]
    arch = "skylake_avx512" if compiler == "zig" else "skylake-avx512"
    build(atom_drivers.cpu_source(chosen[:40]), compiler, "-O1", f"-march={arch}")


def test_approximations(compiler: str, build: Any, call: Any) -> None:
    """Within what the ISA allows, and as it says of special operands."""
    chosen = atom_drivers.computed(exact=False)
    library = build(atom_drivers.cpu_source(chosen), compiler, "-O1", "-march=native")
    for number, atom in enumerate(chosen):
        run = partial(atom_drivers.run, library[f"run_{number}"], call, atom)
        if atom in atom_bounds.bounded():
            given = atom_bounds.operands_of(atom)
            assert 0 < atom_bounds.error_of(atom.spelling, given, run(given)) <= 1, atom
        for operands, want in atom_bounds.FIXED.get(atom.spelling, {}).items():
            got = run([np.array([bits], np.uint64) for bits in operands])
            assert f"{int(got[0]):x}" == f"{want:x}", (atom, operands)


@pytest.mark.deep
def test_every_16_bit_operand(compiler: str, build: Any, call: Any) -> None:
    chosen = [
        atom
        for atom in atom_drivers.computed()
        if len(atom.slots) == 2 and atom.slots[1].carriers[0].bits == 16 and atom.types[-1] in ("f16", "bf16")
    ]
    assert chosen
    library = build(atom_drivers.cpu_source(chosen), compiler, "-O3", "-march=native")
    every = [np.arange(1 << 16, dtype=np.uint64)]
    for number, atom in enumerate(chosen):
        got = atom_drivers.run(library[f"run_{number}"], call, atom, every)
        assert not wrong(atom.spelling, every, got)


def vectors_of(spelling: str) -> tuple[list[np.ndarray[Any, Any]], list[dict[str, str]]]:
    rows = [row for row in VECTORS if row["type"] == spelling.rpartition(".")[2]]
    return [np.array([int(row[name], 16) for row in rows], np.uint64) for name in "abc"], rows


SPELLED = [f"fma.{mode}{modifier}.{type}" for type, modes in (("f32", "rn rz rm rp"), ("f64", "rn rz rm rp"),
           ("f16", "rn"), ("bf16", "rn")) for mode in modes.split() for modifier in ("", ".sat", ".relu")]  # fmt: skip


def test_vectors(compiler: str, build: Any, call: Any) -> None:
    """Computed elsewhere in several ways; .sat and .relu are given for the nearest alone."""
    table = {atom.spelling: atom for atom in atom_drivers.computed()}
    chosen = [table[text] for text in SPELLED if text in table]
    library = build(atom_drivers.cpu_source(chosen), compiler, "-O2", "-march=native")
    compared = 0
    for number, atom in enumerate(chosen):
        given, rows = vectors_of(atom.spelling)
        got = atom_drivers.run(library[f"run_{number}"], call, atom, given)
        key = "_".join([*sorted(atom.flags), str(atom.rounding)]) if atom.flags else str(atom.rounding)
        for row, have in zip(rows, got.tolist(), strict=True):
            if key in row:
                compared += 1
                digits = len(row[key])
                assert f"{have:0{digits}x}" == row[key] or is_payload(atom, row, key), (atom.spelling, row["name"])
    assert compared > 100


def is_payload(atom: Atom, row: dict[str, str], key: str) -> bool:
    """Which NaN an f64 result is stands in no vector."""
    return atom.types == ("f64",) and int(row[key], 16) & (1 << 63) - 1 > 0x7FF << 52


EACH_OF_THREE = "TK_API void {name}(const {type}* a, const {type}* b, const {type}* c, {type}* out, i64 n) {{ {body} }}"
NAIVE = {
    "muladd_f32": ("f32", "EACH { const volatile f32 p = a[i] * b[i]; out[i] = p + c[i]; }"),
    "via_f64": ("f32", "EACH out[i] = (f32)((f64)a[i] * (f64)b[i] + (f64)c[i]);"),
    "via_f32_f16": ("f16", "EACH out[i] = to_f16(fma_ieee(to_f32(a[i]), to_f32(b[i]), to_f32(c[i])));"),
    "via_f32_bf16": ("bf16", "EACH out[i] = to_bf16(fma_ieee(to_f32(a[i]), to_f32(b[i]), to_f32(c[i])));"),
    "via_f64_bf16": ("bf16", "EACH out[i] = to_bf16(to_f64(a[i]) * to_f64(b[i]) + to_f64(c[i]));"),
}
CONTROLS = [
    ("muladd_f32", "f32", "V1"), ("muladd_f32", "f32", "V4"), ("via_f64", "f32", "V7"),
    ("via_f32_f16", "f16", "V7"), ("via_f32_bf16", "bf16", "V9"), ("via_f64_bf16", "bf16", "V9"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "type", "vector"), CONTROLS, ids=lambda value: value)
def test_the_vectors_tell_naive_ways_apart(
    name: str, type: str, vector: str, compiler: str, build: Any, call: Any
) -> None:
    """Each way to fake one rounding is wrong on a vector made for it: otherwise the vectors would show nothing."""
    held, body = NAIVE[name]
    code = f'#include "scalar.h"\nusing namespace tk;\n{EACH}' + EACH_OF_THREE.format(name=name, type=held, body=body)
    library = build(code, compiler, "-O2", "-march=native")
    given, rows = vectors_of(f"fma.rn.{type}")
    atom = next(atom for atom in atoms(f"fma.rn.{type}"))
    got = atom_drivers.run(library[name], call, atom, given)
    wrong_on = [
        row["name"].split()[0] for row, have in zip(rows, got.tolist(), strict=True) if have != int(row["rn"], 16)
    ]
    assert vector in wrong_on


STATE = """
#if defined(__x86_64__)
TK_API u32 read_state() { return __builtin_ia32_stmxcsr(); }
TK_API void write_state(u32 value) { __builtin_ia32_ldmxcsr(value); }
#endif
"""
STATES = {"upwards": 0x1F80 | 2 << 13, "to zero": 0x1F80 | 3 << 13, "flushing": 0x1F80 | 0x8040}


@pytest.mark.parametrize("state", STATES)
def test_whatever_state_the_host_is_in(state: str, compiler: str, build: Any, call: Any) -> None:
    chosen = [atom for atom in atom_drivers.computed() if atom.types in (("f32",), ("f64",)) and not atom.flags]
    library = build(atom_drivers.cpu_source(chosen) + STATE, compiler, "-O1", "-march=native")
    if not hasattr(library, "read_state"):
        return  # another processor than the state is of
    given = [operands_of([slot.ptx_type for slot in atom.slots[1:]], 60) for atom in chosen]
    outer = library.read_state()
    for number, atom in enumerate(chosen):
        library.write_state(STATES[state])
        try:
            got = atom_drivers.run(library[f"run_{number}"], call, atom, given[number])
            after = library.read_state()
        finally:
            library.write_state(outer)
        assert after & ~0x3F == STATES[state], "left as it was found, but for the flags of what happened"
        assert not wrong(atom.spelling, given[number], got)


def test_flushing_by_the_processor_is_another_rule(compiler: str, build: Any, call: Any) -> None:
    """x86 decides after rounding: a product that rounds up to the least normal number is kept where PTX flushes it."""
    code = '#include "base.h"\nusing namespace tk;\n' + EACH + STATE
    code += "TK_API void run(const f32* a, const f32* b, f32* out, i64 n) { EACH out[i] = a[i] * b[i]; }\n"
    library = build(code, compiler, "-O1", "-march=native")
    atom = next(iter(atoms("mul.rn.ftz.f32")))
    given = [np.array([0x3A800400], np.uint64), np.array([0x057FF800], np.uint64)]  # 2^-126 (1 - 2^-26)
    ours = build(atom_drivers.cpu_source([atom]), compiler, "-O1", "-march=native")
    assert not wrong(atom.spelling, given, atom_drivers.run(ours.run_0, call, atom, given))
    if hasattr(library, "read_state"):
        outer = library.read_state()
        library.write_state(STATES["flushing"])
        try:
            got = atom_drivers.run(library.run, call, atom, given)
        finally:
            library.write_state(outer)
        assert wrong(atom.spelling, given, got)


@pytest.mark.gpu
def test_a_gpu_computes_the_same() -> None:
    """Every exact form that it has, by the instruction itself."""
    assert probe_atoms.compare_forms(probe_atoms.architecture(), 200) == 0


@pytest.mark.gpu
def test_approximations_of_a_gpu() -> None:
    chosen = [atom for atom in atom_bounds.bounded() if atom.runs_on(probe_atoms.architecture())]
    given = [atom_bounds.operands_of(atom) for atom in chosen]
    for atom, operands, got in zip(chosen, given, probe_atoms.results(chosen, given), strict=True):
        assert 0 < atom_bounds.error_of(atom.spelling, operands, got), atom
        assert atom_bounds.within_a_gpus_bound(atom.spelling, operands, got), atom


@pytest.mark.gpu
@pytest.mark.parametrize("type", list(probe_atoms.FTZ))
def test_a_gpu_flushes_what_is_tiny_once_rounded(type: str) -> None:
    """Other triples than those that the rule was found with."""
    chosen = [find_atom(f"fma.{mode}.ftz.{type}") for mode in probe_atoms.FTZ[type]]
    for family, triples in ftz_triples.families(type, 20_000, seed=11).items():
        results = probe_atoms.results(chosen, [list(triples)] * len(chosen))
        for atom, got in zip(chosen, results, strict=True):
            assert np.array_equal(got, atom_values_cases.computed(atom, list(triples))), (atom, family)


@pytest.mark.gpu
def test_a_gpu_gives_what_is_kept_of_another_one() -> None:
    kept = {find_atom(text): rows for text, rows in measured_atoms.kept().items()}
    chosen = [atom for atom in kept if atom.runs_on(probe_atoms.architecture())]
    given = [kept[atom][1:] for atom in chosen]
    for atom, got in zip(chosen, probe_atoms.results(chosen, given), strict=True):
        assert np.array_equal(got, kept[atom][0]), atom


@pytest.mark.parametrize("exact", [True, False])
def test_the_kernels_for_a_gpu_compile(exact: bool) -> None:
    """So that a run on one is not spent on finding out."""
    chosen = [atom for atom in atom_drivers.computed(exact) if atom.runs_on(90)][::11]
    code = cuda_driver.compile_cubin(atom_drivers.gpu_source(chosen), "90")
    assert code.startswith(b"\x7fELF")


def test_triples_for_ftz_are_where_rules_differ() -> None:
    for type in ("f32", "f16"):
        for family, triples in ftz_triples.families(type, 300).items():
            found = [ftz_triples.rules(type, "rn", *row) for row in zip(*(v.tolist() for v in triples), strict=True)]
            assert len({tuple(rules.values()) for rules in found}) >= 4, family


def test_fma_keeps_what_is_rounded_up_to_the_least_normal_number(compiler: str, build: Any, call: Any) -> None:
    """mul flushes it; and a multiply-add that is the least normal number only because it is subnormal is flushed."""
    chosen = [find_atom(text) for text in ("fma.rn.ftz.f32", "mul.rn.ftz.f32")]
    library = build(atom_drivers.cpu_source(chosen), compiler, "-O1", "-march=native")
    fused, product = (partial(atom_drivers.run, library[f"run_{i}"], call, atom) for i, atom in enumerate(chosen))
    given = np.array([[0x04F9659D, 0xB1282000, 0x0080000A], [0x3F7FFFFF, 0x00800000, 0]], np.uint64).T
    assert [f"{bits:08x}" for bits in fused(list(given)).tolist()] == ["00800000", "00000000"]
    nearly = np.array([[0x3A800400], [0x057FF800], [0]], np.uint64)  # 2^-126 (1 - 2^-26)
    assert (fused(list(nearly)).tolist(), product(list(nearly[:2])).tolist()) == ([0x00800000], [0])


def test_what_a_gpu_was_measured_to_give(compiler: str, build: Any, call: Any) -> None:
    """Each compiler on one path and half of the forms; the others are the interpreter's rules, by the oracle."""
    kept = {find_atom(text): rows for text, rows in measured_atoms.kept().items()}
    chosen = [atom for atom in kept if atom.exact]
    chosen = chosen[::2] if compiler == "g++" else chosen[1::2]
    flags = PATHS["instructions" if compiler == "g++" else "without"]
    library = build(atom_drivers.cpu_source(chosen), compiler, *flags_for(compiler, flags))
    for number, atom in enumerate(chosen):
        got = atom_drivers.run(library[f"run_{number}"], call, atom, kept[atom][1:])
        assert np.array_equal(got, kept[atom][0]), atom
