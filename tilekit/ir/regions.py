"""The blocks of an op: what goes in, what comes out, and which values belong together.

A builtin that owns blocks declares a :class:`Region`; passes ask the functions below and know no op by name.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, TypeVar

from tilekit.errors import VerificationError, counted as plural
from tilekit.ir.core import Block, Const, Op, Operand, Value, walk
from tilekit.ir.types import bool_

T = TypeVar("T")
Runs = Literal["loop", "branch", "elements", "once"]


@dataclass(frozen=True)
class Region:
    """How an op runs its blocks.

    A block takes ``leading`` parameters, then those that it carries, or the items of ``args``. It yields ``decides``
    conditions, then what it carries.
    """

    runs: Runs
    """``"loop"``: its one block any number of times, one after another. ``"branch"``: at most one of its blocks, once.
    ``"elements"``: its one block for each element, in any order; what that yields are elements of the result.
    ``"once"``: the first of its blocks, once; a pass puts what that does in the op's place."""
    init: str = ""
    """Of a loop: the operand with what is carried into the first iteration."""
    args: str = ""
    """The operand whose items the parameters take, one each; one that is no tuple is taken by all."""
    leading: int = 0
    """Parameters that the op itself counts, such as the index or the lane."""
    decides: int = 0
    """Conditions that the block yields first: whether the loop goes on."""
    whole: bool = False
    """The op's own code does all that its block says: ops inside get none, and their tiles lie nowhere. It may have
    results besides those that the block yields."""

    @property
    def carries(self) -> bool:
        """Whether the results are what the blocks yield, one by one, as code of the blocks leaves them."""
        return self.runs in ("loop", "branch") and not self.whole

    @property
    def repeats(self) -> bool:
        """Whether a block may run more than once."""
        return self.runs in ("loop", "elements")

    def params(self, block: Block) -> tuple[Value, ...]:
        """The parameters of a block after those that the op counts."""
        return block.params[self.leading :]

    def yields(self, block: Block) -> tuple[Value | Const, ...]:
        """What a block yields, without the conditions."""
        return block.results[self.decides :]


@dataclass(frozen=True)
class Carried:
    """A result of a loop or branch, with the values that become it."""

    result: Value
    yielded: tuple[Value | Const, ...]
    """What each block yields for it."""
    init: Value | Const | None = None
    """Of a loop: what it is before the first iteration."""
    param: Value | None = None
    """Of a loop: what it is at the start of an iteration."""

    @property
    def sources(self) -> tuple[Value | Const, ...]:
        """What the result, or the parameter, may be."""
        return self.yielded if self.init is None else (self.init, *self.yielded)

    @property
    def names(self) -> tuple[Value, ...]:
        """The values that stand for it: the result, and in a loop the parameter."""
        return (self.result,) if self.param is None else (self.result, self.param)


def items(operand: Operand) -> tuple[Value | Const, ...]:
    """The values and constants of an operand."""
    if isinstance(operand, tuple):
        return tuple(item for part in operand for item in items(part))
    return () if operand is None else (operand,)


def region_of(op: Op) -> Region:
    """How an op runs its blocks."""
    assert op.builtin.region is not None, f"{op.builtin.name} declares no region"
    return op.builtin.region


def emitted(block: Block) -> Iterator[Op]:
    """The ops of a block, and of the blocks inside it, that get code and places of their own, in order."""
    return walk(block, lambda op: not region_of(op).whole)


def emitted_params(op: Op) -> tuple[Value, ...]:
    """The parameters of an op's blocks that get places of their own."""
    return () if not op.blocks or region_of(op).whole else tuple(p for block in op.blocks for p in block.params)


def repeats(op: Op) -> bool:
    """Whether an op owns a block that it may run more than once."""
    return op.builtin.region is not None and op.builtin.region.repeats


def carried(op: Op) -> tuple[Carried, ...]:
    """Each result of a loop or branch with what belongs to it."""
    region = region_of(op)
    if not op.results:
        return ()
    yielded = zip(*(region.yields(block) for block in op.blocks), strict=True)
    if not region.init:
        return tuple(Carried(*each) for each in zip(op.results, yielded, strict=True))
    (body,) = op.blocks
    inits = items(op.operands[region.init])
    results = op.results[: len(inits)]
    return tuple(Carried(*each) for each in zip(results, yielded, inits, region.params(body), strict=True))


def carried_params(op: Op) -> tuple[Value, ...]:
    """The block parameters that a loop carries, one for each result; none of a branch."""
    return region_of(op).params(op.blocks[0]) if region_of(op).init else ()


def carried_yields(op: Op, block: Block) -> tuple[Value | Const, ...]:
    """What a block of a loop or branch yields, one for each result of the op."""
    return region_of(op).yields(block)


def counted(op: Op) -> tuple[Value, ...]:
    """The block parameters that the op itself counts, such as a loop's index."""
    return tuple(param for block in op.blocks for param in block.params[: region_of(op).leading])


def next_conditions(op: Op) -> tuple[Value | Const, ...]:
    """What the blocks yield to decide whether a loop goes on."""
    return tuple(result for block in op.blocks for result in block.results[: region_of(op).decides])


def decides(op: Op) -> tuple[Value | Const, ...]:
    """What decides which block runs, or how often: conditions, bounds, and what the blocks yield for that."""
    region = region_of(op)
    names = (name for name in op.operands if name not in (region.init, region.args))
    return (*(item for name in names for item in items(op.operands[name])), *next_conditions(op))


def captured(op: Op) -> tuple[Value, ...]:
    """The values from outside that an op's blocks use, in order of first use."""
    return tuple(dict.fromkeys(value for block in op.blocks for value in block.free))


def inputs_of(op: Op) -> tuple[Value, ...]:
    """The values from outside that an op or its blocks read."""
    return tuple(dict.fromkeys((*op.inputs(), *captured(op))))


def runs_once(op: Op) -> bool:
    """Whether a pass will put what the op's first block does in its place."""
    return op.builtin.region is not None and op.builtin.region.runs == "once"


def again(op: Op) -> Op:
    """The op as it computes its results again: of one that runs once, with the last of its blocks alone."""
    return op.with_(blocks=op.blocks[-1:]) if runs_once(op) and len(op.blocks) > 1 else op


def arguments(op: Op) -> Iterator[tuple[Value, tuple[Value | Const, ...]]]:
    """Of an op that runs a block for each element: the block's parameters, and what each takes elements of."""
    region = region_of(op)
    if not region.args:
        return
    given, params = op.operands[region.args], region.params(op.blocks[0])
    if isinstance(given, tuple):
        yield from ((param, items(item)) for param, item in zip(params, given, strict=True))
    else:
        yield from ((param, items(given)) for param in params)


def keep_carried(op: Op, kept: set[int]) -> Op:
    """The op without the results, and all that belongs to them, whose numbers are not ``kept``."""
    region, operands = region_of(op), dict(op.operands)
    if region.init:
        operands[region.init] = _kept(items(operands[region.init]), kept)
    blocks = tuple(keep_in_block(region, block, kept) for block in op.blocks)
    return op.with_(operands=operands, blocks=blocks, results=_kept(op.results, kept))


def keep_in_block(region: Region, block: Block, kept: set[int]) -> Block:
    """The block of a loop or branch without the carried values whose numbers are not ``kept``."""
    params = (*block.params[: region.leading], *_kept(region.params(block), kept))
    return Block(params, block.ops, (*block.results[: region.decides], *_kept(region.yields(block), kept)))


def _kept(values: tuple[T, ...], kept: set[int]) -> tuple[T, ...]:
    return tuple(value for number, value in enumerate(values) if number in kept)


def check_blocks(op: Op) -> None:
    """Check that an op has the blocks that it declares, and that what belongs together has one type.

    Raises:
        VerificationError: it has others.
    """
    region = op.builtin.region
    if region is None:
        _demand(not op.blocks, "owns blocks, but declares no region")
        return
    count = len(op.blocks)
    _demand(count == 1 if region.repeats else count > 0, f"owns {plural(count, 'block')}")
    args = op.operands[region.args] if region.args else None
    number = len(items(op.operands[region.init])) if region.init else len(op.results)
    taken = number if region.init else 0 if args is None else len(args) if isinstance(args, tuple) else None
    _demand(
        number == len(op.results) or (region.whole and number < len(op.results)), "has results that no block yields"
    )
    for block in op.blocks:
        given, yielded = region.params(block), region.yields(block)
        _demand(taken is None or len(given) == taken, f"has a block of {len(given)} parameters, not {taken}")
        _demand(len(yielded) == number, f"has a block that yields {len(yielded)} values, not {number}")
    _demand(all(item.type.dtype == bool_ for item in next_conditions(op)), "yields a condition that is no bool")
    for each in carried(op) if region.runs != "elements" else ():
        types = {str(value.type) for value in (*each.names, *each.sources)}
        _demand(len(types) == 1, f"carries one value as {' and '.join(sorted(types))}")


def _demand(holds: bool, message: str) -> None:
    if not holds:
        raise VerificationError(message)
