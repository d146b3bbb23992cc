"""Which values differ between the lanes of a block, and the checks that follow: what all lanes do together must not
depend on the lane."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from tilekit.errors import KernelValueError
from tilekit.ir.core import Block, Function, Op, Value, leaves, walk
from tilekit.ir.regions import carried, counted, decides, repeats
from tilekit.ir.types import TileType
from tilekit.passes.eliminate_dead_code import eliminate_dead_code
from tilekit.passes.liveness import Liveness


def is_cooperative(op: Op) -> bool:
    """Whether all lanes of the block take part in an op, or in one inside it."""
    return op.builtin.cooperative or any(is_cooperative(inner) for block in op.blocks for inner in block.ops)


def observes_lanes(fn: Function, tiled: bool) -> bool:
    """Whether the number of lanes of a block is part of what a function means."""
    if fn.has_lanes or any(op.builtin.observes_lanes for op in walk(fn.body)):
        return True
    return not tiled and any(op.builtin.cooperative for op in walk(fn.body))


def runs_lanes(fn: Function, tiled: bool) -> bool:
    """Whether a block of the function has lanes of its own; else it runs once for each block or point."""
    if tiled or fn.has_lanes:
        return observes_lanes(fn, tiled)
    return any(op.builtin.cooperative or (op.builtin.lane and op.builtin.observes_lanes) for op in walk(fn.body))


def keep_lanes(fn: Function, tiled: bool) -> Function:
    """The function, which has the lanes that it has now whatever ops it loses."""
    return replace(fn, has_lanes=True) if runs_lanes(fn, tiled) else fn


def is_update(op: Op) -> bool:
    """Whether an op writes elements of a tile without the other lanes."""
    own = op.builtin
    return bool(own.reuses) and not (own.cooperative or own.view or op.blocks) and writes_tile(op)


def writes_tile(op: Op) -> bool:
    return not op.builtin.view and any(isinstance(result.type, TileType) for result in op.results)


class Uniformity:
    """For each value that differs between lanes, an op that it depends on; found by going round until nothing changes.

    A scalar, an array element's place (``a[i]``) or a view may differ; the elements of tiles are shared by all lanes.
    """

    def __init__(self, fn: Function, whole: int = 0) -> None:
        """``whole``: leading coordinates of a point that all lanes of a block share."""
        self.whole = whole
        self.cause: dict[Value, Op] = {}
        self.divergent: dict[Op, Op] = {}
        """Region ops whose condition or trip count differs between lanes."""
        size = -1
        while size != len(self.cause) + len(self.divergent):
            size = len(self.cause) + len(self.divergent)
            self._block(fn.body)

    def of(self, items: Iterable[Any]) -> Op | None:
        """An op that one of the operands depends on, or None where all are uniform."""
        return next((self.cause[value] for item in items for value in leaves(item) if value in self.cause), None)

    def _mark(self, values: Iterable[Value], cause: Op | None) -> None:
        if cause is not None:
            for value in values:
                self.cause.setdefault(value, cause)

    def _block(self, block: Block) -> None:
        for op in block.ops:
            if op.builtin.carries:
                self._region(op)
            elif not op.builtin.cooperative:
                source = self._differs(op) or op.builtin.atomics  # each lane gets another old value
                cause = op if source else self.of(op.inputs())
                self._mark((r for r in op.results if op.builtin.view or not isinstance(r.type, TileType)), cause)
                for inner in op.blocks:
                    self._block(inner)

    def _differs(self, op: Op) -> bool:
        own = op.builtin
        return own.lane and not (own.has("shared") and own.apply("shared", {}, op.attrs, whole=self.whole))

    def _region(self, op: Op) -> None:
        cause = self.of(decides(op))
        if cause is not None:
            self.divergent.setdefault(op, cause)
        self._mark(counted(op), cause)
        for each in carried(op):
            if not isinstance(each.result.type, TileType):
                self._mark(each.names, cause or self.of(each.sources[::-1]))
        for block in op.blocks:
            self._block(block)


def updated_base(op: Op, position: int) -> Value | None:
    """The tile from outside a region op that all of its ways to a result update in place, or None."""
    inside = {value for block in op.blocks for value in _defined(block)}
    makers = {result: inner for block in op.blocks for inner in walk(block) for result in inner.results}
    each = carried(op)[position]
    found = {_base_of(value, inside, makers) for value in each.yielded}
    if each.param is not None:
        return each.init if found == {each.param} else None  # type: ignore[return-value]
    return found.pop() if len(found) == 1 else None


def _defined(block: Block) -> Iterator[Value]:
    yield from block.params
    for op in block.ops:
        yield from op.results
        for inner in op.blocks:
            yield from _defined(inner)


def _base_of(value: Any, inside: set[Value], makers: dict[Value, Op]) -> Value | None:
    while value in inside:
        maker = makers.get(value)
        if maker is None:
            return value  # type: ignore[no-any-return]
        if maker.builtin.carries:
            value = updated_base(maker, maker.results.index(value))
        elif is_update(maker):
            value = updated_operand(maker)
        else:
            return None
    return value  # type: ignore[no-any-return]


def updated_operand(op: Op) -> Value:
    """The tile that an op updates in place."""
    return next(leaves(op.operands[op.builtin.reuses[0]]))


def check_lanes(fn: Function, whole: int = 0) -> None:
    """Refuse what lanes cannot do together; the first ``whole`` coordinates of a point are the same for a block.

    Raises:
        KernelValueError: an op of all lanes under a condition that differs between them, or with an operand that
            does; a tile chosen by such a condition.
    """
    found = Uniformity(fn, whole)
    _check_block(fn.body, found, None)
    if found.cause:
        _check_tiles(fn, found)


def _check_tiles(fn: Function, found: Uniformity) -> None:
    """Refuse tiles of one lane: copies of a view at its own place, and copies that it would update by itself."""
    liveness = Liveness(fn)
    used = {value for op in walk(eliminate_dead_code(fn).body) for value in op.results}
    under = {inner for op in found.divergent for block in op.blocks for inner in walk(block)}
    for op in walk(fn.body):
        if is_update(op):
            base = updated_operand(op)
            if found.of([base]) is not None or (op in under and base in liveness.interferes[op.results[0]]):
                raise _own_copy(op)
        elif op.builtin.carries:
            for each in carried(op):
                result = each.result
                cause = found.of(each.sources[::-1]) if isinstance(result.type, TileType) and result in used else None
                if cause is not None:
                    raise KernelValueError(
                        f"a {result.type} is carried by the {_what(op)}{_line(op)}, but differs between lanes because "
                        f"of the value{_line(cause)}; lanes share their tiles, so carry the index of the part instead",
                        op.location,
                    )


def _own_copy(op: Op) -> KernelValueError:
    return KernelValueError(
        f"{op.written}: a lane cannot write to a copy of a tile by itself, as lanes share their tiles; bind the name "
        "where all lanes do, or write to the tile itself",
        op.location,
    )


def _check_block(block: Block, found: Uniformity, under: Op | None) -> None:
    for op in block.ops:
        if op.builtin.cooperative and under is not None:
            raise _under_condition(op, under, found.divergent[under])
        if op.builtin.cooperative:
            _check_own_blocks(op, found)
            for name, operand in op.operands.items():
                cause = found.of([operand]) if name not in op.builtin.per_lane else None
                if cause is not None:
                    raise _different_operand(op, name, cause)
        for inner in op.blocks:  # what stands in it says more than what it yields
            _check_block(inner, found, op if op in found.divergent else under)
        if op in found.divergent:
            _check_choice(op, found.divergent[op])


def _check_own_blocks(op: Op, found: Uniformity) -> None:
    """What runs for each element must not ask which lane does it."""
    for block in op.blocks:
        cause = found.of(block.free) or next((inner for inner in walk(block) if inner.builtin.lane), None)
        if cause is not None:
            raise _different_operand(op, "what its function uses", cause)


def _line(op: Op) -> str:
    if op.location is None:
        return ""
    text = op.location.source_line().strip()
    return f" at line {op.location.line}" + (f" ({text})" if text else "")


def _what(op: Op) -> str:
    return "loop" if repeats(op) else "condition"


def _under_condition(op: Op, under: Op, cause: Op) -> KernelValueError:
    advice = f"move it out, or make the {_what(under)} the same for all lanes"
    if "start" in under.operands:
        advice = (
            "let the index before the lane is added run, as in `for first in range(0, n, tk.block_dim()):`, and inside "
            "it let a lane whose own index is not below the end give what changes nothing, such as 0"
        )
    return KernelValueError(
        f"{op.written}: all lanes of the block take part, but it stands in the {_what(under)}{_line(under)}, "
        f"which differs between lanes because of the value{_line(cause)}; {advice}",
        op.location,
    )


def _different_operand(op: Op, name: str, cause: Op) -> KernelValueError:
    advice = "use tk.tile(x) to make a tile of one value a lane"
    if cause.builtin.has("shared"):
        advice = (
            "all lanes share it where the extents after it in dim make whole blocks: let their product be a multiple "
            "of block_dim, or use tk.launch_tiled"
        )
    return KernelValueError(
        f"{op.written}: {name} must be the same for all lanes of the block, but it depends on the value"
        f"{_line(cause)}; {advice}",
        op.location,
    )


def _check_choice(op: Op, cause: Op) -> None:
    for position, result in enumerate(op.results):
        if isinstance(result.type, TileType) and updated_base(op, position) is None:
            raise KernelValueError(
                f"a {result.type} is chosen in the {_what(op)}{_line(op)}, which differs between lanes because of the "
                f"value{_line(cause)}; lanes share their tiles, so choose elements instead",
                op.location,
            )
