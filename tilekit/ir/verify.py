"""Checks that hold between any two passes."""

from __future__ import annotations

from tilekit.errors import TilekitError, VerificationError
from tilekit.ir.core import Block, Function, Op, Value, leaves
from tilekit.ir.program import Program
from tilekit.ir.regions import check_blocks
from tilekit.ir.sizes import Extent, Scalar, Size
from tilekit.ir.types import ArrayType, ScalarType


def verify(fn: Function) -> None:
    """Check that values are defined once and before use, and that each op is what its own rules say.

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
            check_blocks(op)
        except VerificationError as error:
            raise self.fail(op, error.message) from error
        try:
            expected = op.builtin.result_types(op.types(), op.attrs, op.blocks)
            if op.builtin.has("verify"):
                op.builtin.apply("verify", op.operands, op.attrs, blocks=op.blocks, types=op.types())
        except TilekitError as error:
            raise self.fail(op, f"is refused by its own rule ({error.message})") from error
        found = tuple(value.type for value in op.results)
        if list(map(str, found)) != list(map(str, expected)):  # a weak number is one of its dtype
            raise self.fail(op, f"yields {', '.join(map(str, expected))}, not {', '.join(map(str, found))}")
        for inner in op.blocks:
            self.block(inner, visible)
        self.define(op, op.results, visible)


def verify_program(program: Program) -> None:
    """Check that launches fit their program: names, types, and what sizes name; and each function.

    Raises:
        VerificationError: the program or a function is malformed; the message holds it.
    """

    def fail(message: str) -> VerificationError:
        return VerificationError(f"program {program.name} {message} in:\n{program}")

    known = {**program.params, **program.added}
    if len(known) < len(program.params) + len(program.scratch) + len(program.computed):
        raise fail("gives two of its parameters, scratch arrays and numbers the same name")
    for name, scratch in program.scratch.items():
        if not isinstance(scratch.value.type, ArrayType) or scratch.value.type.ndim != len(scratch.shape):
            raise fail(f"gives the {scratch.value.type} {name!r} {len(scratch.shape)} extents")
    for name, number in program.computed.items():
        if not _is_integer(number.value):
            raise fail(f"computes the {number.value.type} {name!r}, which is no integer")
    names = [launch.function.name for launch in program.launches]
    if len(set(names)) < len(names):
        raise fail("has two launches of one name, so that a failure would not say of which it is,")
    for launch in program.launches:
        if launch.grid is not None and not 1 <= len(launch.grid) <= 4:
            raise fail(f"launches {launch.function.name!r} over {len(launch.grid)} dimensions")
        for name, value in launch.function.params.items():
            if name not in known or str(known[name].type) != str(value.type):
                raise fail(f"has no {value.type} {name!r} for {launch.function.name!r}")
        verify(launch.function)
    for size in program.sizes():
        if not _is_known(size, program):
            raise fail(f"has no parameter for the size {size}")


def _is_known(size: Size, program: Program) -> bool:
    if not isinstance(size, Extent | Scalar):
        return True
    value = program.params.get(size.param)
    if value is None:
        return False
    if isinstance(size, Extent):
        return isinstance(value.type, ArrayType) and size.axis < value.type.ndim
    return _is_integer(value)


def _is_integer(value: Value) -> bool:
    return isinstance(value.type, ScalarType) and value.type.dtype.is_integer
