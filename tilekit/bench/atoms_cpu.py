"""Exact atoms on one core: elements a second of the code that kernels run for them on the CPU.

Run it with ``python -m tilekit.bench.atoms_cpu``. Each atom is the loop ``out[i] = atom(a[i], b[i], c[i])`` over arrays
that stay in the processor's caches, compiled as kernels are, and checked against the interpreter. Times are CPU times.
"""

from __future__ import annotations

import argparse
import ctypes
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tilekit.builtins.atom_values import cpu_expression, evaluate
from tilekit.builtins.atoms import Atom, find_atom
from tilekit.cli.text import table
from tilekit.codegen.headers import NATIVE, whole
from tilekit.errors import TilekitError
from tilekit.runtime.cpus import cpu_name
from tilekit.runtime.toolchain import REMEDY, find_toolchain

ELEMENTS = 8192
REPEATS = 400
TARGETS = {"rn": 1.0, "rz": 0.3, "rm": 0.3, "rp": 0.3}
"""What fma of float32 is to reach, in thousand million elements a second."""
DEFAULT = [
    *(f"fma.{mode}.f32" for mode in TARGETS),
    *(f"{name}.{mode}.f32" for name in ("add", "mul", "div") for mode in ("rn", "rz")),
    "mul.rn.ftz.f32",
    *(f"fma.{mode}.ftz.f32" for mode in ("rn", "rz")),
    *(f"fma.{mode}.f64" for mode in ("rn", "rz")),
    "fma.rn.f16",
    "fma.rn.bf16",
    "fma.rn.f16x2",
    "cvt.rn.f16.f32",
    "cvt.rz.bf16.f32",
]
_FORMAT = {"f32": "f32", "f64": "f64", "f16": "u16", "bf16": "u16", "f16x2": "u32", "bf16x2": "u32", "f32x2": "u64"}
_NUMPY = {"f32": "f4", "f64": "f8", "u16": "u2", "u32": "u4", "u64": "u8"}


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print.

    Args:
        argv: Arguments; by default those of this process.

    Returns:
        0, or 1 where a result is wrong.
    """
    parser = argparse.ArgumentParser(
        "python -m tilekit.bench.atoms_cpu", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("atoms", nargs="*", default=DEFAULT, help="spellings; some of each kind by default")
    parser.add_argument("--rounds", type=int, default=9, help="rounds, of which the best counts (9)")
    arguments = parser.parse_args(argv)
    chosen = [find_atom(spelling) for spelling in arguments.atoms]
    with tempfile.TemporaryDirectory(prefix="tilekit-bench-") as folder:
        library, version = _build(chosen, Path(folder))
        print(f"{cpu_name()}, one thread, {version}, {ELEMENTS} elements")
        rows, correct = [], True
        for number, atom in enumerate(chosen):
            speed, right = measure(library[f"run_{number}"], atom, arguments.rounds)
            correct &= right
            rows.append([atom.spelling, f"{speed / 1e9:.2f}", _target(atom), "right" if right else "WRONG"])
        print(table(["atom", "G elements/s", "wanted", ""], rows))
    return 0 if correct else 1


def _target(atom: Atom) -> str:
    wanted = TARGETS.get(atom.rounding or "") if atom.mnemonic == "fma" and atom.types == ("f32",) else None
    return "-" if wanted is None else f"{wanted:.1f}"


def _build(chosen: Sequence[Atom], folder: Path) -> tuple[Any, str]:
    toolchain = find_toolchain()
    if toolchain is None:
        raise TilekitError(f"there is no C++ compiler to measure: {REMEDY}")
    code = "\n".join(_function(number, atom) for number, atom in enumerate(chosen))
    source, output = folder / "atoms.cpp", folder / "atoms.so"
    source.write_text(whole("atoms", code), encoding="utf-8")
    toolchain.compile(source, output, [NATIVE])
    return ctypes.CDLL(str(output)), toolchain.version


def _function(number: int, atom: Atom) -> str:
    types = [_FORMAT[slot.ptx_type] for slot in atom.slots]
    given = ", ".join(f"const tk::{type}* TK_RESTRICT p{place}" for place, type in enumerate(types[1:]))
    value = cpu_expression(atom, [f"p{place}[i]" for place in range(len(types) - 1)])
    return f"""TK_API void run_{number}({given}, tk::{types[0]}* TK_RESTRICT out, tk::i64 n)
{{
    const tk::FloatState ieee;
    for (tk::i64 i = 0; i < n; ++i) out[i] = {value};
}}"""


def measure(function: Any, atom: Atom, rounds: int) -> tuple[float, bool]:
    """Elements a second in the best round, and whether the results are the interpreter's.

    Args:
        function: What computes it from pointers to operands and results, and a count.
        atom: An atom of floats.
        rounds: How often to measure.

    Returns:
        The speed, and whether every bit is right.

    Raises:
        KeyError: the atom has other operands than floats.

    Example:
        >>> import tilekit as tk
        >>> speed, right = measure(lambda *pointers: None, tk.ptx["fma.rn.f32"], rounds=1)
        >>> right  # nothing was computed
        False
    """
    rng = np.random.default_rng(0)
    operands = [_numbers(rng, slot.ptx_type) for slot in atom.slots[1:]]
    out = np.zeros(ELEMENTS, _NUMPY[_FORMAT[atom.slots[0].ptx_type]])
    arguments = (*(ctypes.c_void_p(x.ctypes.data) for x in (*operands, out)), ctypes.c_longlong(ELEMENTS))
    best = float("inf")
    for _ in range(rounds):
        start = time.process_time()
        for _ in range(REPEATS):
            function(*arguments)
        best = min(best, (time.process_time() - start) / REPEATS)
    want = evaluate(atom, operands)
    return ELEMENTS / best, bool((out.view(f"u{out.itemsize}") == want.view(f"u{out.itemsize}")).all())


def _numbers(rng: np.random.Generator, ptx_type: str) -> np.ndarray[Any, Any]:
    count = 2 * ELEMENTS if ptx_type.endswith("x2") else ELEMENTS
    x = rng.standard_normal(count).astype(np.float64 if ptx_type == "f64" else np.float32)
    kind = ptx_type.removesuffix("x2")
    if kind == "f16":
        return x.astype(np.float16).view(_NUMPY[_FORMAT[ptx_type]])
    if kind == "bf16":
        return (x.view(np.uint32) >> np.uint32(16)).astype(np.uint16).view(_NUMPY[_FORMAT[ptx_type]])
    return x.view(_NUMPY[_FORMAT[ptx_type]])


if __name__ == "__main__":
    try:
        sys.exit(main())
    except TilekitError as error:
        sys.exit(f"tilekit: {error}")
