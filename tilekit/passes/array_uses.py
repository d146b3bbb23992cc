"""Which arrays a kernel reads and writes, and that those it does both to can be differentiated."""

from __future__ import annotations

from typing import Any

from tilekit.errors import KernelNotImplementedError
from tilekit.ir.affine import definitions
from tilekit.ir.array_parts import ArrayRoots
from tilekit.ir.core import Block, Function, Op, Value, leaves, walk
from tilekit.ir.operands import Kind
from tilekit.ir.regions import repeats
from tilekit.ir.types import ArrayType, TileType
from tilekit.passes.activity import written_arrays
from tilekit.passes.eliminate_common import reads_memory
from tilekit.passes.fingerprints import Fingerprints


def origins(fn: Function) -> dict[Value, Value]:
    """For each array and part of one, the parameter that it is a part of.

    Raises:
        KernelNotImplementedError: that is only known at run time.
    """
    for op in walk(fn.body):
        if op.builtin.carries and any(isinstance(result.type, ArrayType) for result in op.results):
            text = f"cannot differentiate {fn.name!r}: which array is used is only known at run time"
            raise KernelNotImplementedError(text, op.location)
    roots = ArrayRoots(fn.body)
    made = (result for op in walk(fn.body) for result in op.results if isinstance(result.type, ArrayType))
    return {array: root for array in (*fn.params.values(), *made) for root in roots.of(array)}


def refuse_mixed_arrays(fn: Function) -> None:
    """Refuse a kernel that reads an array and writes it, unless all its blocks read and write the same part of it.

    A part that another block writes has contents that depend on the order in which blocks run.

    Raises:
        KernelNotImplementedError: with the lines of both.
    """
    origin = origins(fn)
    prints = Fingerprints(definitions(fn.body), {}, lambda op: op.has_effect or reads_memory(op))
    read: dict[Value, list[tuple[Op, Value]]] = {}
    written: dict[Value, list[tuple[Op, Value]]] = {}
    for op in walk(fn.body):
        for array in written_arrays(op):
            written.setdefault(origin[array], []).append((op, array))
        for name in op.builtin.reads:
            for array in leaves(op.operands[name]):
                read.setdefault(origin[array], []).append((op, array))
    names = {value: name for name, value in fn.params.items()}
    for array in read.keys() & written.keys():
        for reader, part in read[array]:
            for writer, other in written[array]:
                if writer.builtin.atomics or not _same_place(reader, part, writer, other, prints):
                    raise _mixed(fn.name, names[array], reader, writer)


def uses_one_place(fn: Function) -> bool:
    """Whether what :func:`refuse_mixed_arrays` refuses is not there."""
    try:
        refuse_mixed_arrays(fn)
    except KernelNotImplementedError:
        return False
    return True


def reads_first(fn: Function, name: str) -> bool:
    """Whether no block reads an array after it has written it."""
    try:
        origin = origins(fn)
    except KernelNotImplementedError:
        return False
    return not _reads_late(fn.body, {value for value, own in origin.items() if own is fn.params[name]}, False)[0]


def _reads_late(block: Block, arrays: set[Value], written: bool) -> tuple[bool, bool]:
    """Whether a block reads one of the arrays after a write, and whether there is one before its end; ``written`` says
    whether there is one before its start."""
    late = False
    for op in block.ops:
        late |= written and any(not arrays.isdisjoint(leaves(op.operands[name])) for name in op.builtin.reads)
        before, loop = written, repeats(op)
        for inner in op.blocks * (2 if loop else 1):
            own = _reads_late(inner, arrays, written if loop else before)
            late, written = late or own[0], written or own[1]
        written |= not arrays.isdisjoint(written_arrays(op))
    return late, written


def _mixed(kernel: str, name: str, reader: Op, writer: Op) -> KernelNotImplementedError:
    lines = [op.location.line if op.location else 0 for op in (reader, writer)]
    how = f"written at line {lines[1]}, perhaps in another place"
    if writer.builtin.atomics:
        how = f"updated atomically at line {lines[1]}, which other blocks may do as well"
    return KernelNotImplementedError(
        f"cannot differentiate {kernel!r}: array {name!r} is read at line {lines[0]} and {how}, so its old contents "
        "may be gone; write to another array",
        writer.location,
    )


def _same_place(one: Op, part: Value, two: Op, other: Value, prints: Fingerprints) -> bool:
    """Whether two ops use the same elements of an array, whatever the indices are."""
    same = prints.of(part) == prints.of(other) and prints.of(_indices(one)) == prints.of(_indices(two))
    return same and _extent(one) == _extent(two)


def _extent(op: Op) -> tuple[int, ...]:
    return next((v.type.shape for v in (*op.results, *op.inputs()) if isinstance(v.type, TileType)), ())


def _indices(op: Op) -> tuple[Any, ...]:
    return tuple(operand for name, operand in op.operands.items() if op.builtin.kinds[name] is Kind.INDEX)
