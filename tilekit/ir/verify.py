"""Checks that hold between any two passes."""

from __future__ import annotations

from tilekit.errors import TilekitError, VerificationError
from tilekit.ir.core import Block, Function, Op, Value, leaves


def verify(fn: Function) -> None:
    """Check that values are defined once and before use, and that every type is what its ``result`` rule says.

    Raises:
        VerificationError: the IR is malformed; the message holds the function.
    """
    _Verifier(fn).block(fn.body, set(fn.params.values()))


class _Verifier:
    def __init__(self, fn: Function) -> None:
        self.fn = fn
        self.seen: set[Value] = set(fn.params.values())

    def fail(self, op: Op | None, message: str) -> VerificationError:
        where = f"{op.builtin.name} at {op.location}" if op is not None else self.fn.name
        return VerificationError(f"{where} {message} in:\n{self.fn}")

    def define(self, op: Op | None, values: tuple[Value, ...], visible: set[Value]) -> None:
        for value in values:
            if value in self.seen:
                raise self.fail(op, "defines a value a second time")
            self.seen.add(value)
            visible.add(value)

    def block(self, block: Block, visible: set[Value]) -> None:
        visible = set(visible)
        self.define(None, block.params, visible)
        for op in block.ops:
            self.op(op, visible)
        if any(value not in visible for value in leaves(block.results)):
            raise self.fail(None, "yields an undefined value")

    def op(self, op: Op, visible: set[Value]) -> None:
        if missing := [value for value in op.inputs() if value not in visible]:
            raise self.fail(op, f"uses {len(missing)} value(s) that are not defined here")
        try:
            expected = op.builtin.result_types(op.types(), op.attrs, op.blocks)
        except TilekitError as error:
            raise self.fail(op, f"is refused by its own type rule ({error.message})") from error
        found = tuple(value.type for value in op.results)
        if list(map(str, found)) != list(map(str, expected)):  # a weak number is one of its dtype
            raise self.fail(op, f"yields {', '.join(map(str, expected))}, not {', '.join(map(str, found))}")
        for inner in op.blocks:
            self.block(inner, visible)
        self.define(op, op.results, visible)
