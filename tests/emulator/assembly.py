"""Inline assembly of emitted CUDA, one instruction a statement, as the C++ that the CPU runs for the same atom."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tilekit.builtins.atom_registers import memory_type
from tilekit.builtins.atom_values import cpu_expression
from tilekit.builtins.atoms import Atom, Slot, find_atom
from tilekit.codegen.headers import includes

STATEMENT = re.compile(r'^(\s*)asm(?: volatile)?\("([^"]*)"(.*)\);$', re.MULTILINE)
PREDICATED = re.compile(r"\{\.reg \.pred p; setp\.ne\.u32 p, %(\d+), 0; @p (.*)\}")
BITS = {"f": ("u32", "f32"), "d": ("u64", "f64")}


def without_assembly(source: str) -> str:
    """The source with its instructions as C++, and with the headers that those need."""
    found = STATEMENT.sub(lambda match: match[1] + in_cpp(match[2], list(expressions(match[3]))), source)
    return f"{includes(found)}\n{found}" if found != source else source


def in_cpp(text: str, given: list[str]) -> str:
    """One instruction, whose operands ``%0``, ``%1``, ... are C++ expressions."""
    condition = ""
    if match := PREDICATED.fullmatch(text):
        condition, text = f"if ({given[int(match[1])]}) ", match[2]
    spelling, _, operands = text.rstrip(";").partition(" ")
    atom = find_atom(spelling)
    registers = [registers_of(operand, given) for operand in re.findall(r"\{[^}]*\}|[^,\s]+", operands)]
    assert len(registers) == len(atom.slots), text
    return condition + "{ " + " ".join(assignments(atom, registers)) + " }"


def assignments(atom: Atom, registers: list[list[str]]) -> Iterator[str]:
    """What an atom does to its destination's registers, or to memory."""
    slots, (to, *rest) = atom.slots, registers
    if slots[0].kind == "memory":
        for lane, text in enumerate(rest[0]):
            yield f"{memory_at(slots[0], slots[1], to[0], lane)} = ({memory_type(slots[1])}){text};"
    elif slots[1].kind == "memory":
        for lane, text in enumerate(to):
            yield f"{text} = {memory_at(slots[1], slots[0], rest[0][0], lane)};"
    elif len(to) > 1:  # a mov that takes a register apart: the first part has the lowest bits
        width = slots[0].carriers[0].bits // len(to)
        for lane, text in enumerate(to):
            yield f"{text} = (tk::u{width})({rest[0][0]} >> {lane * width});"
    elif len(rest[0]) > 1:  # one that puts several together
        bits = slots[0].carriers[0].bits
        width = bits // len(rest[0])
        parts = [f"((tk::u{bits}){text} << {lane * width})" for lane, text in enumerate(rest[0])]
        yield f"{to[0]} = {' | '.join(parts)};"
    else:
        yield f"{to[0]} = {cpu_expression(atom, [one for (one,) in rest])};"


def memory_at(memory: Slot, register: Slot, address: str, lane: int) -> str:
    assert memory.kind == "memory"
    return f"(({memory_type(register)}*)({address}))[{lane}]"


def registers_of(operand: str, given: list[str]) -> list[str]:
    """The registers of an operand: one, several in braces, or that of an address."""
    return [register_of(part.strip(), given) for part in operand.strip("{}[]").split(",")]


def register_of(text: str, given: list[str]) -> str:
    if text.startswith("%"):
        return f"({given[int(text[1:])]})"
    word, number = BITS[text[1]]
    return f"tk::bit_cast<tk::{number}>((tk::{word})0x{text[2:]})"


def expressions(operands: str) -> Iterator[str]:
    """The C++ expressions of constraints such as ``"=f"(x), "r"(f(y))``, in order."""
    for match in re.finditer(r'"[=+]?\w"\(', operands):
        depth, end = 1, match.end()
        while depth:
            depth += {"(": 1, ")": -1}.get(operands[end], 0)
            end += 1
        yield operands[match.end() : end - 1]
