"""``and``, ``or`` and comparisons in chains, of operands that may be known at run time only.

Each operand is traced once, apart from what surrounds it: only then it shows whether it merely computes, so that it may
stand before the decision, or must be a branch of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, reduce
from typing import Any

from tilekit.errors import KernelTypeError
from tilekit.frontend import joins
from tilekit.frontend.arithmetic import ordered
from tilekit.frontend.expressions import COMPARISONS
from tilekit.frontend.joins import Site
from tilekit.frontend.merge import NumberSlot, Unmergeable, is_number
from tilekit.frontend.regions import trace_if
from tilekit.frontend.state import Snapshot, current_builder
from tilekit.ir.context import Concrete, building, fail
from tilekit.ir.handles import OPERATORS, Scalar
from tilekit.ir.operands import describe
from tilekit.ir.types import bool_

Thunk = Callable[[], Any]


def truth(value: Any) -> Any:
    """A condition: a Python bool where it is known, else a traced bool."""
    if isinstance(value, Scalar) and not isinstance(value.datum, Concrete):
        return value if value.dtype.kind == "b" else OPERATORS["!="](value, 0)
    return bool(value)


class Recorded:
    """An expression that is traced now and put where it turns out to belong."""

    def __init__(self, run: Thunk) -> None:
        self.tiles = Snapshot.take()
        with building() as builder:
            self.value = run()
        self.ops = builder.ops
        self.computes = all(op.builtin.elementwise for op in self.ops) and not self.tiles.changed()
        self.after = self.tiles.values()
        live = current_builder().live
        self.made = live[self.tiles.count :]
        del live[self.tiles.count :]
        self.tiles.restore()

    def put(self) -> Any:
        """Let its ops stand here; its value."""
        builder = current_builder()
        builder.ops.extend(self.ops)
        builder.live.extend(self.made)
        for (tile, _), datum in zip(self.tiles.tiles, self.after, strict=True):
            tile.rebind(datum)
        return self.value


def conditions(parts: tuple[Thunk, ...], stop: bool) -> Any:
    """Whether all of ``parts`` hold, or any where ``stop`` is True: none is computed after one that decides."""
    found = truth(parts[0]())
    for part in parts[1:]:
        if found is stop:
            return found
        found = truth(part()) if isinstance(found, bool) else _joined(found, Recorded(part), stop)
    return found


def _joined(left: Scalar, right: Recorded, stop: bool) -> Any:
    """A run-time condition and another one, which is computed only where the first does not decide."""
    if not right.computes:
        taken, other = lambda: truth(right.put()), lambda: stop
        return one_side(left, *((other, taken) if stop else (taken, other)))
    value = truth(right.put())
    if isinstance(value, bool):
        return stop if value is stop else left
    return OPERATORS["or" if stop else "and"](left, value)


def operands(parts: tuple[Thunk, ...], stop: bool, site: Site) -> Any:
    """The first of ``parts`` whose truth is ``stop``, or the last."""
    found = parts[0]()
    for part in parts[1:]:
        known = truth(found)
        if known is stop:
            return found
        found = part() if isinstance(known, bool) else _operand(known, found, Recorded(part), stop, site)
    return found


def _operand(test: Scalar, left: Scalar, right: Recorded, stop: bool, site: Site) -> Any:
    """``left`` where its truth is ``stop``, else ``right``."""
    values = [left, right.value] if stop else [right.value, left]
    try:
        slot = NumberSlot(values, (site, "chosen")) if is_number(right.value) else None
    except Unmergeable:
        slot = None
    if slot is None:
        raise fail(_of_two_types(left, right.value, "or" if stop else "and"))
    if left.dtype is bool_:
        return _joined(left, right, stop)
    if not right.computes:
        return one_side(test, lambda: left, right.put, site) if stop else one_side(test, right.put, lambda: left, site)
    right.put()
    joins.record(site, "chosen", slot, values)
    return OPERATORS["where"](test, *values)


def _of_two_types(left: Any, right: Any, word: str) -> KernelTypeError:
    instead = f"cast them to one dtype, or compare each if you mean a bool, as in 'x != 0 {word} y != 0'"
    if not is_number(right):
        instead = "it can choose between numbers alone; use 'if' and 'else'"
    return KernelTypeError(
        f"'{word}' returns one of its operands, here {describe(left)} or {describe(right)}, depending on the path "
        f"taken; {instead}"
    )


def one_side(test: Scalar, then: Thunk, orelse: Thunk, site: Site | None = None) -> Any:
    """The value of the side that a run-time condition takes."""
    chosen: Any = None

    def first() -> None:
        nonlocal chosen
        chosen = then()

    def second() -> None:
        nonlocal chosen
        chosen = orelse()

    try:
        trace_if(test, first, second, (("chosen", True, True),), site=site)
    except KernelTypeError as error:
        if error.variable == "chosen":
            error.rename("the value of this expression")
        raise
    return chosen


def compared(left: Any, symbol: str, right: Thunk, *more: Any) -> Any:
    """``left < right < ...``: each operand is computed once, and only where those before it hold."""
    value = right()
    found = COMPARED[symbol](left, value)
    if not more:
        return found
    known = truth(found)
    if isinstance(known, bool):
        return compared(value, *more) if known else found
    return _joined(known, Recorded(lambda: compared(value, *more)), stop=False)


def negated(value: Any) -> Any:
    """``not value``."""
    known = truth(value)
    return not known if isinstance(known, bool) else OPERATORS["not"](known)


def _contains(value: Any, items: Any) -> Any:
    """``value in items``."""
    if not isinstance(items, tuple | list) or not any(isinstance(item, Scalar) for item in (value, *items)):
        return value in items
    return reduce(OPERATORS["or"], [OPERATORS["=="](value, item) for item in items], False)


def _is_same(value: Any, other: Any) -> bool:
    """``value is other``."""
    if any(isinstance(item, Scalar) for item in (value, other)) and any(isinstance(x, int) for x in (value, other)):
        raise fail(
            KernelTypeError(
                "'is' compares Python objects, and a run-time value is not one; write == or the condition alone"
            )
        )
    return value is other


COMPARED: dict[str, Callable[[Any, Any], Any]] = {
    **{name: partial(ordered, symbol) for name, symbol in COMPARISONS.items()},
    "In": _contains, "NotIn": lambda a, b: negated(_contains(a, b)),
    "Is": _is_same, "IsNot": lambda a, b: not _is_same(a, b),
}  # fmt: skip
