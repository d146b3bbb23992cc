"""PTX atoms: the forms of all, the spellings that match a pattern, or all that is known of one.

python -m tilekit atoms
python -m tilekit atoms 'fma.rn*.f16'
python -m tilekit atoms fma.rn.f32
"""

from __future__ import annotations

import argparse

from tilekit.builtins.atom_listing import describe, legend, rows
from tilekit.builtins.atoms import Atom, atoms, find_atom
from tilekit.cli.text import table
from tilekit.errors import KernelValueError


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("pattern", nargs="?", help="a spelling, with * for any characters, or a mnemonic")


def run(arguments: argparse.Namespace) -> int:
    pattern = arguments.pattern
    if pattern is None:
        print(_forms())
        return 0
    found = atoms(pattern)
    if not found and "*" in pattern:
        raise KernelValueError(f"no atom matches {pattern!r}; `python -m tilekit atoms` lists the forms of all")
    if len(found) > 1:
        print(_spellings(found))
    else:
        print(table((), describe(found[0] if found else find_atom(pattern))))
    return 0


def _forms() -> str:
    listed = [[row.spelling, row.operands, row.needs, row.notes] for row in rows()]
    refused = [[row.spelling, row.operands, row.needs, f"refused: {row.notes}"] for row in rows(refused=True)]
    return f"{table(['spelling', 'operands', 'needs', 'notes'], listed + refused)}\n\n{table((), legend())}"


def _spellings(found: list[Atom]) -> str:
    listed = [
        [one.spelling, one.operands, one.needs, one.error and f"error: {one.error}"]
        for atom in found
        for one in (atom, *atom.variants)
    ]
    return table(["spelling", "operands", "needs", "notes"], listed)
