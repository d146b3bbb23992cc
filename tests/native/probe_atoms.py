"""What a GPU makes of atoms where the PTX ISA is silent: ``python -m tests.native.probe_atoms FOLDER``.

Writes ``ftz_f32.npz`` and ``ftz_f16.npz`` (for each family of triples the bits of a, b, c and of the results), and
``others.npz``, ``nans.npz`` and ``half_approx.npz`` (by spelling and place the bits of results and operands: NaNs in
f64, .ftz at the ends of the range, conversions of NaNs, integers divided by zero, and every 16-bit operand), and prints
how far rules and the CPU's bits fit. Of these it makes ``measured_atoms.npz.xz``, which the tests keep.
``--forms`` also compares every exact form that the GPU has with the oracle.
"""

from __future__ import annotations

import argparse
import itertools
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from tests.builtins import atom_bounds, atom_cases, atom_values_cases, measured_atoms
from tests.builtins.exact_numbers import FORMATS
from tests.native import atom_drivers, ftz_triples
from tests.native.cuda_driver import CudaLibrary, checked
from tilekit.builtins.atoms import Atom, find_atom

Array = np.ndarray[Any, Any]
FTZ = {"f32": ("rn", "rz", "rm", "rp"), "f16": ("rn",)}
LAUNCH = {"blocks": 128, "threads": 256}
AT_ONCE = 150
"""Kernels compiled together."""
SAMPLE = 4000
"""Triples of each family that the rules are tried on here; the file has all of them."""


def results(of: list[Atom], operands: list[list[Array]]) -> list[Array]:
    """The bits of what the GPU computes."""
    found = []
    for start in range(0, len(of), AT_ONCE):
        library = CudaLibrary(atom_drivers.gpu_source(of[start : start + AT_ONCE]))
        for number, atom in enumerate(of[start : start + AT_ONCE]):
            given = operands[start + number]
            found.append(atom_drivers.run(library[f"run_{number}"], lambda *_: None, atom, given, **LAUNCH))
    return found


def architecture() -> str:
    """The first GPU's, as ``90``."""
    from cuda.bindings import driver

    checked(driver.cuInit(0))
    device, kinds = checked(driver.cuDeviceGet(0)), driver.CUdevice_attribute
    major, minor = (
        checked(driver.cuDeviceGetAttribute(kind, device))
        for kind in (
            kinds.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR,
            kinds.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR,
        )
    )
    return f"{major}{minor}"


def probe_ftz(type: str, folder: Path, count: int) -> None:
    """Write the triples with their results, and print how often each rule is wrong."""
    chosen = [find_atom(f"fma.{mode}.ftz.{type}") for mode in FTZ[type]]
    kept: dict[str, Array] = {}
    width = f"u{FORMATS[type].width // 8}"
    for family, triples in ftz_triples.families(type, count).items():
        found = results(chosen, [list(triples)] * len(chosen))
        kept |= {f"{family}/{name}": v.astype(width) for name, v in zip("abc", triples, strict=True)}
        for mode, got in zip(FTZ[type], found, strict=True):
            kept[f"{family}/{mode}"] = got.astype(width)
            print(f"{type} {mode} {family}: {tried(type, mode, triples, got)}", flush=True)
    np.savez_compressed(folder / f"ftz_{type}.npz", **kept)


def tried(type: str, mode: str, triples: tuple[Array, ...], got: Array) -> str:
    """How many of a sample each rule is wrong on."""
    of, wrong, total = FORMATS[type], Counter[str](), 0
    for a, b, c, have in zip(*(v[:SAMPLE].tolist() for v in (*triples, got)), strict=True):
        total += 1
        for rule, flushes in ftz_triples.rules(type, mode, a, b, c).items():
            wrong[rule] += flushes != (have & (of.sign - 1) == 0)
    return ", ".join(f"{rule}: {wrong[rule]}" for rule in ftz_triples.rules(type, mode, 0, 0, 0)) + f" of {total}"


def special_operands(atom: Atom) -> list[Array]:
    """All combinations of NaNs with payloads, infinities, zeros and ordinary numbers."""
    axes = []
    for slot in atom.slots[1:]:
        of = FORMATS[slot.ptx_type]
        quiet, signs = of.infinity | 1 << (of.digits - 2), (0, of.sign)
        nans = [n | s for n in (quiet, quiet | 5, of.infinity | 9, of.nan) for s in signs]
        axes.append([*nans, *(n | s for n in (0, 1, of.one, of.infinity) for s in signs)])
    columns = zip(*itertools.product(*axes), strict=True)
    return [np.array(column, np.uint64) for column in columns]


def boundary_operands(atom: Atom) -> list[Array]:
    """For .ftz of quotients and conversions: results about the least normal number."""
    rng, n = np.random.default_rng(5), 20000
    b = (2.0 ** rng.uniform(-40, 40, n)).astype(np.float32)
    if atom.mnemonic == "cvt":
        x = 2.0**-126 * (1 + rng.choice([-1, 1], n) * 2.0 ** -rng.uniform(20, 54, n))
        return [(x * rng.choice([-1.0, 1.0], n)).view(np.uint64)]
    if atom.mnemonic == "rcp":
        x = (2.0**126 * (1 + rng.integers(-8, 9, n) * 2.0**-23)).astype(np.float32)
        return [x.view(np.uint32).astype(np.uint64)]
    a = (b.astype(np.float64) * 2.0**-126).astype(np.float32).view(np.uint32) + rng.integers(-3, 4, n).astype(np.uint32)
    return [a.astype(np.uint64), b.view(np.uint32).astype(np.uint64)]


def probe_others(folder: Path, arch: str) -> None:
    """Write operands and results of what the PTX ISA leaves open, and print where the CPU's choice differs."""
    special = [atom for atom in atom_drivers.computed() if is_open(atom) and atom.runs_on(arch)]
    boundary = [atom for atom in atom_drivers.computed() if at_boundary(atom) and atom.runs_on(arch)]
    chosen = special + boundary
    given = [special_operands(atom) for atom in special] + [boundary_operands(atom) for atom in boundary]
    kept: dict[str, Array] = {}
    for atom, operands, got in zip(chosen, given, results(chosen, given), strict=True):
        kept |= {f"{atom}/{place}": bits for place, bits in enumerate([got, *operands])}
        here = atom_values_cases.computed(atom, operands)
        different = np.flatnonzero(here != got)
        examples = [
            f"({', '.join(f'{bits[i]:x}' for bits in operands)}) {got[i]:x} not {here[i]:x}" for i in different[:6]
        ]
        print(f"{atom}: {different.size} of {got.size} {examples}", flush=True)
    np.savez_compressed(folder / "others.npz", **kept)


def probe_nans(folder: Path, arch: str) -> None:
    """Write what conversions make of NaNs, and division of zero divisors."""
    chosen = [atom for atom in atom_drivers.computed() if takes_nans(atom) and atom.runs_on(arch)]
    given = [nan_operands(atom) for atom in chosen]
    kept: dict[str, Array] = {}
    for atom, operands, got in zip(chosen, given, results(chosen, given), strict=True):
        kept |= {f"{atom}/{place}": bits for place, bits in enumerate([got, *operands])}
    np.savez_compressed(folder / "nans.npz", **kept)


def takes_nans(atom: Atom) -> bool:
    """Whether it converts a single float, or divides integers."""
    if atom.mnemonic == "div":
        return atom.types[0] not in FORMATS
    return atom.mnemonic == "cvt" and len(atom.slots) == 2 and atom.types[1] in FORMATS and atom.types[0][-2:] != "x2"


def nan_operands(atom: Atom) -> list[Array]:
    """NaNs of both signs, quiet and not; pairs of integers with zero among the divisors."""
    type, rng = atom.types[-1], np.random.default_rng(17)
    if atom.mnemonic == "div":
        width = int(type[1:])
        ends = [0, 1, 2, 3, 7, (1 << (width - 1)) - 1, 1 << (width - 1), (1 << width) - 1, (1 << width) - 5]
        some = [*ends, *(rng.integers(0, 1 << min(width, 63), 16).tolist())]
        return [np.array(column, np.uint64) for column in zip(*itertools.product(some, some), strict=True)]
    of = FORMATS[type]
    quiet = 1 << (of.digits - 2)
    payloads = [1, 5, 9, quiet, quiet | 5, of.nan & ~of.infinity, quiet - 1]
    payloads += rng.integers(1, 2 * quiet, 60).tolist()
    return [np.array([of.infinity | payload | sign for payload in payloads for sign in (0, of.sign)], np.uint64)]


def probe_approximations(folder: Path, arch: str) -> None:
    """Write approximations of 16-bit floats, of every operand."""
    chosen = [atom for atom in atom_bounds.bounded() if FORMATS[atom.types[0]].width == 16 and atom.runs_on(arch)]
    every = [np.arange(1 << 16, dtype=np.uint64)]
    found = results(chosen, [every] * len(chosen))
    np.savez_compressed(folder / "half_approx.npz", **{str(a): got for a, got in zip(chosen, found, strict=True)})


def is_open(atom: Atom) -> bool:
    """Whether the ISA does not say what special operands lead to."""
    types = {slot.ptx_type for slot in atom.slots}
    floats = types <= {"f16", "bf16", "f32", "f64"}
    return floats and ("f64" in types or atom.mnemonic in ("min", "max", "cvt", "abs", "neg"))


def at_boundary(atom: Atom) -> bool:
    """Whether it divides or narrows with .ftz."""
    narrows = atom.mnemonic in ("div", "rcp") or atom.types == ("f32", "f64")
    return "ftz" in atom.flags and narrows


def compare_forms(arch: str, count: int) -> int:
    """Print where exact forms differ from the oracle; how many do."""
    chosen = [atom for atom in atom_drivers.computed() if atom.runs_on(arch)]
    given = [atom_cases.operands_of([slot.ptx_type for slot in atom.slots[1:]], count) for atom in chosen]
    bad = 0
    for atom, operands, got in zip(chosen, given, results(chosen, given), strict=True):
        found = atom_cases.wrong(atom.spelling, operands, got, by_gpu=True)
        bad += bool(found)
        if found:
            print(f"{len(found)} of {got.size}: {found[:4]}", flush=True)
    print(f"{len(chosen)} exact forms on sm_{arch}, {bad} differ from the oracle")
    return bad


def main() -> int:
    """Run what the arguments ask for; 1 where an exact form differs from the oracle."""
    parser = argparse.ArgumentParser("python -m tests.native.probe_atoms")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--count", type=int, default=60000, help="triples of each family")
    parser.add_argument("--forms", type=int, default=0, metavar="N", help="compare every exact form on N operands")
    arguments = parser.parse_args()
    arch = architecture()
    for type in FTZ:
        probe_ftz(type, arguments.folder, arguments.count)
    probe_others(arguments.folder, arch)
    probe_nans(arguments.folder, arch)
    probe_approximations(arguments.folder, arch)
    measured_atoms.keep(arguments.folder)
    return int(bool(arguments.forms and compare_forms(arch, arguments.forms)))


if __name__ == "__main__":
    raise SystemExit(main())
