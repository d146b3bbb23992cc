"""Text form of the IR, the same for every op, so a new builtin needs no printer change."""

from __future__ import annotations

from enum import Enum
from typing import Any

from tilekit.ir.core import Block, Function, Op, Value
from tilekit.ir.nesting import nesting, room_for
from tilekit.ir.views import ViewMap


class Printer:
    """Names values in order of definition and writes one op a line."""

    def __init__(self) -> None:
        self.names: dict[Value, str] = {}
        self.lines: list[str] = []
        self._count = 0

    def name(self, value: Value) -> str:
        if value not in self.names:
            self.names[value] = f"%{self._count}"
            self._count += 1
        return self.names[value]

    def operand(self, operand: Any) -> str:
        if isinstance(operand, tuple):
            return f"({', '.join(self.operand(item) for item in operand)})"
        return self.name(operand) if isinstance(operand, Value) else str(operand)

    def block(self, block: Block, depth: int) -> None:
        for op in block.ops:
            self.op(op, depth)
        if block.results:
            self.lines.append(f"{'  ' * depth}yield {', '.join(self.operand(result) for result in block.results)}")

    def op(self, op: Op, depth: int) -> None:
        pad = "  " * depth
        operands = ", ".join(f"{name}={self.operand(v)}" for name, v in op.operands.items() if v not in (None, ()))
        results = ", ".join(f"{self.name(value)}: {value.type}" for value in op.results)
        attrs = ", ".join(f"{name}={attr_text(value)}" for name, value in op.attrs.items() if value is not None)
        head = f"{pad}{results + ' = ' if results else ''}{op.builtin.name}({operands})"
        head += f" {{{attrs}}}" if attrs else ""
        if not op.blocks:
            self.lines.append(head)
            return
        for index, block in enumerate(op.blocks):
            params = ", ".join(f"{self.name(value)}: {value.type}" for value in block.params)
            lead = head if index == 0 else f"{pad}}}"
            self.lines.append(f"{lead} {{{f' ({params})' if params else ''}")
            self.block(block, depth + 1)
        self.lines.append(f"{pad}}}")


def attr_text(value: Any) -> str:
    """An attribute as printed: nothing that differs from run to run."""
    if isinstance(value, Enum):
        return value.name.lower()
    if isinstance(value, ViewMap | str | int | float | tuple) or value is None:
        return str(value)
    return str(getattr(value, "__name__", value))


def print_function(fn: Function) -> str:
    printer = Printer()
    for name, value in fn.params.items():
        printer.names[value] = f"%{name}"
    params = ", ".join(f"%{name}: {value.type}" for name, value in fn.params.items())
    printer.lines.append(f"func {fn.name}({params}) {'with lanes ' if fn.has_lanes else ''}{{")
    with room_for(nesting(fn.body)):
        printer.block(fn.body, 1)
    printer.lines.append("}")
    return "\n".join(printer.lines) + "\n"
