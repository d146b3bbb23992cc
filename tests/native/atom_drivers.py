"""Functions of the native headers, one for each atom, over arrays of registers: on the CPU, and by PTX on a GPU."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np

from tests.builtins import atom_cases
from tests.native.cuda_driver import EACH
from tilekit.builtins.atom_values import cpu_expression
from tilekit.builtins.atoms import Atom, atoms
from tilekit.codegen.headers import includes

Array = np.ndarray[Any, Any]
_LETTERS = {"f32": "f", "f64": "d", "u64": "l", "u32": "r", "u16": "h"}


@cache
def computed(exact: bool = True) -> list[Atom]:
    """The atoms of the table that the CPU computes from registers of one lane."""
    return [
        atom
        for atom in atoms()
        if atom.exact == exact and atom.cpu not in ("", "mov") and all(slot.lanes == 1 for slot in atom.slots)
    ]


def sample() -> list[Atom]:
    """Exact atoms of every kind but those of two 16-bit floats: a third, and fewer of the many conversions."""
    conversions = [atom for atom in computed() if atom.mnemonic == "cvt"]
    others = [atom for atom in computed() if atom.mnemonic != "cvt" and atom.types[0] not in ("f16x2", "bf16x2")]
    return [*others[::3], *conversions[::13]]


def cpp_type(type: str) -> str:
    """The C++ type that holds a register of a PTX type."""
    name = atom_cases.registers(np.zeros(0, np.uint64), type).dtype
    return f"{name.kind}{8 * name.itemsize}"


def cpu_source(of: Sequence[Atom]) -> str:
    """``run_<number>(operands..., out, n)`` for each atom, entered as kernels are."""
    functions = [_function(number, atom, _guarded(atom)) for number, atom in enumerate(of)]
    code = "".join(functions)
    return f"{includes(code + 'tk::FloatState')}\nusing namespace tk;\n{EACH}{code}"


def _guarded(atom: Atom) -> str:
    call = cpu_expression(atom, [f"p{place}[i]" for place in range(len(atom.slots) - 1)])
    return f"const FloatState ieee; EACH out[i] = {call};"


def _function(number: int, atom: Atom, body: str) -> str:
    types = [cpp_type(slot.ptx_type) for slot in atom.slots]
    given = "".join(f"const {type}* TK_RESTRICT p{place}, " for place, type in enumerate(types[1:]))
    return f"TK_API void run_{number}({given}{types[0]}* TK_RESTRICT out, i64 n)\n{{ {body} }}\n"


def gpu_source(of: Sequence[Atom]) -> str:
    """The same functions as kernels that are the instruction itself."""
    functions = [_function(number, atom, _instruction(atom)) for number, atom in enumerate(of)]
    return (
        '#include "base.h"\nusing namespace tk;\n#define EACH for (i64 i = blockIdx.x * blockDim.x + threadIdx.x;'
        + (" i < n; i += gridDim.x * blockDim.x)\n" + "".join(functions))
    )


def _instruction(atom: Atom) -> str:
    types = [
        "u16" if "8" in t else f"u{t[1:]}" if t[0] == "i" else t for t in (cpp_type(s.ptx_type) for s in atom.slots)
    ]
    texts = ", ".join(f"%{place}" for place in range(len(types)))
    given = ", ".join(f'"{_LETTERS[type]}"(({type})p{place}[i])' for place, type in enumerate(types[1:]))
    return (
        f'EACH {{ {types[0]} d; asm("{atom.spelling} {texts};" : "={_LETTERS[types[0]]}"(d) : {given}); out[i] = d; }}'
    )


def run(function: Any, call: Callable[..., None], atom: Atom, given: Sequence[Array], **launch: Any) -> Array:
    """The bits of the results for bits of operands."""
    types = [slot.ptx_type for slot in atom.slots]
    held = [atom_cases.registers(bits, type) for bits, type in zip(given, types[1:], strict=True)]
    out = atom_cases.registers(np.zeros(len(given[0]), np.uint64), types[0])
    if launch:
        function(*held, out, len(out), **launch)
    else:
        call(function, *held, out, len(out))
    return atom_cases.bits_of(out)
