"""Atoms in the interpreter, from bits to bits."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.builtins import atom_cases
from tilekit.builtins.atom_values import evaluate
from tilekit.builtins.atoms import Atom


def computed(atom: Atom, given: list[np.ndarray[Any, Any]]) -> np.ndarray[Any, Any]:
    """The bits of the results for bits of operands."""
    types = [slot.ptx_type for slot in atom.slots]
    registers = [atom_cases.registers(bits, type) for bits, type in zip(given, types[1:], strict=True)]
    out = evaluate(atom, registers)
    assert out.dtype == atom_cases.registers(given[0][:0], types[0]).dtype
    return atom_cases.bits_of(out)
