"""One instruction in C++: inline PTX on a GPU, a function of the native headers on the CPU."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tilekit.builtins.atom_registers import (
    constraint,
    from_register,
    held_type,
    immediate,
    memory_type,
    read_slots,
    to_register,
)
from tilekit.builtins.atom_values import cpu_expression
from tilekit.builtins.atoms import Atom, Slot
from tilekit.errors import TilekitError
from tilekit.ir.types import DType


@dataclass(frozen=True)
class Source:
    """What one register of an operand is: an element as an expression, and the operand, which may be a constant."""

    text: str
    dtype: DType
    operand: Any = None


@dataclass(frozen=True)
class Instruction:
    """One repeat of an atom."""

    atom: Atom
    sources: Sequence[Sequence[Source]]
    """What it reads from registers: the elements of each operand, in order."""
    result: DType | None = None
    """The dtype of the destination's elements, where that is registers."""
    address: str = ""
    """A pointer to the memory that it reads or writes."""
    pred: str | None = None
    held: Sequence[str] | None = None
    """What the destination holds where ``pred`` is false; not given where that is undefined."""

    @property
    def target(self) -> Slot | None:
        """The destination, where that is registers."""
        slot = self.atom.slots[0]
        return slot if slot.kind == "register" else None


def emit_instruction(cx: Any, instruction: Instruction) -> list[str]:
    """Write an instruction; the elements of its destination as expressions.

    Raises:
        KernelValueError: the target does not have it.
    """
    try:
        return _on_cpu(cx, instruction) if cx.target.is_cpu else _on_gpu(cx, instruction)
    except TilekitError as error:
        raise error.at(cx.op.location) from None


# The CPU.


def _on_cpu(cx: Any, given: Instruction) -> list[str]:
    slots = read_slots(given.atom)
    registers = [
        [to_register(item.text, item.dtype, slot) for item in items]
        for slot, items in zip(slots, given.sources, strict=True)
    ]
    if given.target is None:
        memory = memory_type(slots[0])
        guard = f"if ({given.pred}) " if given.pred is not None else ""
        for lane, text in enumerate(registers[0]):
            cx.line(f"{guard}(({memory}*){given.address})[{lane}] = ({memory}){text};")
        return []
    return [_chosen(cx, given, lane, text) for lane, text in enumerate(_values(given, registers))]


def _values(given: Instruction, registers: Sequence[Sequence[str]]) -> list[str]:
    """The registers of the destination."""
    assert given.target is not None
    if given.address:
        memory = f"((const {memory_type(given.target)}*){given.address})"
        return [f"{memory}[{lane}]" for lane in range(given.target.lanes)]
    (first, *_) = registers
    if given.target.lanes > 1 or len(first) > 1:
        return _moved(given.target, read_slots(given.atom)[0], first)
    return [cpu_expression(given.atom, [items[0] for items in registers])]


def _moved(to: Slot, of: Slot, given: Sequence[str]) -> list[str]:
    """The registers of a ``mov`` that puts several together, or takes one apart: the first has the lowest bits."""
    if to.lanes == 1:
        width = of.carriers[0].bits
        return [" | ".join(f"(({held_type(to)}){text} << {lane * width})" for lane, text in enumerate(given))]
    width = to.carriers[0].bits
    return [f"({held_type(to)})({given[0]} >> {lane * width})" for lane in range(to.lanes)]


def _chosen(cx: Any, given: Instruction, lane: int, text: str) -> str:
    """One element of the destination, what it held before where the predicate is false."""
    slot, dtype = given.target, given.result
    assert slot is not None and dtype is not None
    if given.pred is not None and (given.held is not None or given.address):
        before = to_register(given.held[lane], dtype, slot) if given.held else f"{held_type(slot)}{{}}"
        text = f"{given.pred} ? {text} : {before}"
    name = cx.fresh()
    cx.line(f"const {held_type(slot)} {name} = {text};")
    return from_register(name, dtype, slot)


# A GPU.


def _on_gpu(cx: Any, given: Instruction) -> list[str]:
    given.atom.check_arch(cx.target.arch)
    slot, dtype = given.target, given.result
    names = [cx.fresh() for _ in range(slot.lanes)] if slot is not None else []
    outputs = []
    access = "+" if given.pred is not None and given.held is not None else "="
    for lane, name in enumerate(names):
        assert slot is not None and dtype is not None
        before = f" = {to_register(given.held[lane], dtype, slot)}" if given.held else ""
        cx.line(f"{held_type(slot)} {name}{before};")
        outputs.append(f'"{access}{constraint(slot)}"({name})')
    text, inputs = _assembly(given, len(names))
    volatile, clobbers = (" volatile", ' : "memory"') if given.address else ("", "")
    operands = f" : {', '.join(outputs)} : {', '.join(inputs)}".replace(" :  : ", " :: ")
    cx.line(f'asm{volatile}("{text}"{operands}{clobbers});')
    return [from_register(name, dtype, slot) for name in names] if slot is not None and dtype is not None else []


def _assembly(given: Instruction, first: int) -> tuple[str, list[str]]:
    """The instruction as text, and its inputs, which are numbered from ``first`` on."""
    inputs: list[str] = []

    def number(operand: str) -> str:
        inputs.append(operand)
        return f"%{first + len(inputs) - 1}"

    def register(slot: Slot, item: Source) -> str:
        literal = immediate(item.operand, slot) if not given.address else None
        return literal or number(f'"{constraint(slot)}"({to_register(item.text, item.dtype, slot)})')

    texts = [_braced([f"%{lane}" for lane in range(first)])] if first else []
    sources = iter(given.sources)
    for slot in given.atom.slots[1 if first else 0 :]:
        if slot.kind == "memory":
            pointer = f'"l"(__cvta_generic_to_global({given.address}))'
            texts.append(f"[{number(pointer)}]")
        else:
            texts.append(_braced([register(slot, item) for item in next(sources)]))
    text = f"{given.atom.spelling} {', '.join(texts)};"
    if given.pred is not None:
        pred = number(f'"r"((tk::u32)({given.pred}))')
        text = f"{{.reg .pred p; setp.ne.u32 p, {pred}, 0; @p {text}}}"
    return text, inputs


def _braced(registers: Sequence[str]) -> str:
    return registers[0] if len(registers) == 1 else f"{{{', '.join(registers)}}}"
