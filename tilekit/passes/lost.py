"""Values that the adjoint of a kernel cannot compute again: what atomics gave, and what arrays held before a write."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tilekit.errors import KernelNotImplementedError
from tilekit.ir.core import Block, Function, Op, Value, leaves, walk
from tilekit.ir.regions import again, carried, decides, inputs_of, repeats, runs_once
from tilekit.passes.activity import written_arrays
from tilekit.passes.array_uses import origins

NOT_TWICE = (
    "running that twice would change memory; read it from an array that an earlier launch has written, or have it "
    "computed otherwise by @tk.func_replay"
)


@dataclass(frozen=True)
class Lost:
    """Why a value cannot be computed again."""

    cause: Op
    """What gave the number that is gone."""
    writer: Op | None = None
    """What has written to the array that ``cause`` reads."""
    array: str = ""
    loop: Op | None = None
    """The loop that carries the value."""

    def refuse(self, value: Value) -> KernelNotImplementedError:
        """The error for a gradient that needs the value."""
        text = "cannot differentiate this loop: the gradient needs" if self.loop is not None else "the gradient needs"
        if value.hint:
            after = ", which the loop carries" if self.loop is not None else " again"
            text += f" {value.hint!r}{after}; it depends on"
        place = self.loop or self.writer or self.cause
        return KernelNotImplementedError(f"{text} {self._why()}", place.location)

    def refuse_count(self, loop: Op) -> KernelNotImplementedError:
        """The error for a loop whose condition is such a value, so that its iterations cannot be counted again."""
        text = f"cannot differentiate this loop: whether it goes on depends on {self._why()}"
        return KernelNotImplementedError(text, loop.location)

    def _why(self) -> str:
        if self.writer is None:
            return f"the result of {self.cause.written}, and {NOT_TWICE}"
        return (
            f"what array {self.array!r} held when line {_line(self.cause)} read it, but line {_line(self.writer)} "
            "writes it; write to another array"
        )


def _line(op: Op) -> int:
    return op.location.line if op.location is not None else 0


def lost_values(fn: Function) -> Mapping[Value, Lost]:
    """The values of a function that cannot be computed again after it has run."""
    found: dict[Value, Lost] = dict(_sources(fn))
    size = -1
    while size != len(found):
        size = len(found)
        _spread(fn.body, found)
    return found


def _sources(fn: Function) -> Iterator[tuple[Value, Lost]]:
    names = {value: name for name, value in fn.params.items()}
    origin, order = origins(fn), dict(_placed(fn.body, ()))
    written = [(origin[array], op) for op in walk(fn.body) for array in written_arrays(op)]
    numbers = {op: number for number, op in enumerate(walk(fn.body))}
    replays = {inner for op in walk(fn.body) if again(op) is not op for inner in walk(op.blocks[-1])}
    for op in walk(fn.body):
        if op in replays:  # which know what there is to read
            continue
        if not op.blocks and op.has_effect:
            yield from ((result, Lost(op)) for result in op.results)
        for name in op.builtin.reads:
            for array in leaves(op.operands[name]):
                for root, writer in written:
                    together = order[op] & order[writer]
                    if root is origin[array] and (numbers[writer] > numbers[op] or together):
                        yield from ((result, Lost(op, writer, names[root])) for result in op.results)


def _placed(block: Block, loops: tuple[Op, ...]) -> Iterator[tuple[Op, frozenset[Op]]]:
    """Each op with the loops around it."""
    for op in block.ops:
        yield op, frozenset(loops)
        inside = (*loops, op) if repeats(op) else loops
        for inner in op.blocks:
            yield from _placed(inner, inside)


def _first(items: Any, found: Mapping[Value, Lost]) -> Lost | None:
    return next((found[value] for value in items if value in found), None)


def _spread(block: Block, found: dict[Value, Lost]) -> None:
    for op in block.ops:
        if op.builtin.carries:
            _spread_region(op, found)
            continue
        if runs_once(op):
            for block in op.blocks:
                _spread(block, found)
            pairs = zip(op.results, op.blocks[-1].results, strict=True)
            found.update((r, found[y]) for r, y in pairs if isinstance(y, Value) and y in found and r not in found)
            continue
        why = _first(inputs_of(op), found)
        if why is not None:
            found.update((result, why) for result in op.results if result not in found)


def _spread_region(op: Op, found: dict[Value, Lost]) -> None:
    loop = op if repeats(op) else None
    whole = _first(decides(op), found)
    for each in carried(op):
        why = whole or _first((*each.sources, *each.names), found)
        if why is not None:
            own = Lost(why.cause, why.writer, why.array, loop or why.loop)
            for value in each.names:
                found.setdefault(value, own)
    for block in op.blocks:
        _spread(block, found)
