"""What rewritten kernels call: decides between plain Python and recorded control flow."""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from types import ModuleType
from typing import Any

from tilekit.config import config
from tilekit.errors import KernelAssertionError, KernelTypeError
from tilekit.frontend import joins, unrolling
from tilekit.frontend.arithmetic import binary, div, mod, ordered
from tilekit.frontend.binding import assigned, each, name_arguments, own, returned, value_of
from tilekit.frontend.calls import resolve_call, warp_attribute
from tilekit.frontend.containers import KernelDict, KernelList
from tilekit.frontend.declarations import Declaration
from tilekit.frontend.joins import Site
from tilekit.frontend.product_loops import ProductLoop
from tilekit.frontend.ranges import Range, range_operands
from tilekit.frontend.reads import as_python, read
from tilekit.frontend.regions import Loop, as_operand, run_iteration, settle, trace_if
from tilekit.frontend.short_circuits import compared, conditions, negated, one_side, operands, truth
from tilekit.frontend.state import Body, Cells, Names
from tilekit.frontend.syntax import JUMP_FLAGS, RETURNED
from tilekit.ir.context import fail
from tilekit.ir.handles import OPERATORS, Array, Scalar, Tile
from tilekit.ir.operands import describe, plain_number


class Tracing:
    """The support object of traced kernels; of a helper that declares its types, one for each call."""

    def __init__(self, declaration: Declaration | None = None) -> None:
        self.declaration = declaration

    @staticmethod
    def fn(function: Any) -> Any:
        return resolve_call(function)

    @staticmethod
    def attr(value: Any, name: str) -> Any:
        """``value.name``."""
        if type(value) is ModuleType and value.__name__ == "warp":
            return plain_number(warp_attribute(value, name))
        return plain_number(getattr(value, name))

    outer = staticmethod(plain_number)
    """What an outer name means: Warp's numbers, which know no handles, become NumPy's."""

    read = staticmethod(read)
    plain = staticmethod(as_python)
    list_ = KernelList
    dict_ = KernelDict

    own = staticmethod(own)
    assigned = staticmethod(assigned)
    each = staticmethod(each)
    followed = staticmethod(joins.followed)
    arguments = staticmethod(name_arguments)

    # Branches.

    @staticmethod
    def if_(
        test: Any, then: Body, orelse: Body, names: Names, site: Site | None = None, flags: tuple[str, ...] = ()
    ) -> None:
        known = truth(test)
        if isinstance(known, bool):
            (then if known else orelse)()
            settle(Cells(names, then, orelse), site)
        else:
            trace_if(known, then, orelse, names, flags, site=site)

    def ifexp(self, test: Any, then: Callable[[], Any], orelse: Callable[[], Any], site: Site | None = None) -> Any:
        known = truth(test)
        if isinstance(known, bool):
            return value_of(then() if known else orelse())
        return one_side(known, then, orelse, site)

    @staticmethod
    def and_(*parts: Callable[[], Any]) -> Any:
        """``a and b`` of which only the truth is asked."""
        return conditions(parts, stop=False)

    @staticmethod
    def or_(*parts: Callable[[], Any]) -> Any:
        return conditions(parts, stop=True)

    @staticmethod
    def and_operand(site: Site, *parts: Callable[[], Any]) -> Any:
        """The operand that ``a and b`` returns."""
        return operands(parts, False, site)

    @staticmethod
    def or_operand(site: Site, *parts: Callable[[], Any]) -> Any:
        return operands(parts, True, site)

    not_ = staticmethod(negated)
    compare = staticmethod(compared)

    # Loops.

    def max_unroll(self) -> int:
        """Loops over constants of at most this length are unrolled."""
        return config.max_unroll

    def rolled(self, items: Any) -> bool:
        """Whether a loop stays a loop: one over a range with run-time bounds, or over a long one."""
        if not isinstance(items, Range):
            return False
        known = items.constant
        return known is None or (len(known) > self.max_unroll() and not items.unrolled)

    @staticmethod
    def unrolled(items: Any) -> Any:
        """What a loop goes through that is unrolled if its bounds are known: ``static`` names what it changes."""
        return replace(items, unrolled=True) if isinstance(items, Range) else items

    def for_(
        self, items: Any, body: Body, names: Names, stop: Callable[[], Any] | None, site: Site | None = None
    ) -> None:
        if self.rolled(items):
            return _for_range(items, body, names, stop, site)
        loop = ProductLoop(names, body) if ProductLoop.may_stay(items, stop) else None
        self._for_each(items, body, names, stop, site)
        if loop is not None:
            loop.keep(lambda: _for_range(items, body, names, stop, site))

    def _for_each(
        self, items: Any, body: Body, names: Names, stop: Callable[[], Any] | None, site: Site | None
    ) -> None:
        cells = Cells(names, body)
        for number, item in enumerate(items):
            gone = truth(stop()) if stop is not None else False
            if gone is True:
                break
            with joins.iteration(site, number):
                settle(cells, site)
                if isinstance(items, Range) and not items.unrolled:
                    unrolling.begin(cells, site)
                if gone is False:
                    run_iteration(cells, partial(body, item))
                else:
                    run_iteration(cells, partial(self._guarded, gone, body, item, names, site))
        settle(cells, site)

    @staticmethod
    def _guarded(gone: Scalar, body: Body, item: Any, names: Names, site: Site | None) -> None:
        """One unrolled iteration after a ``break`` or ``return`` that may have happened."""
        flags = tuple(name for name, _, _ in names if name.startswith(JUMP_FLAGS[1])) or (RETURNED,)
        names = tuple((name, plain, live or "later") for name, plain, live in names)  # the next iteration may read it
        go, each = OPERATORS["not"](gone), None if site is None else joins.each_of(site)
        trace_if(go, partial(body, item), lambda: None, names, flags, (body,), site=each)

    @staticmethod
    def while_(
        test: Callable[[], Any],
        body: Body,
        names: Names,
        stop: Callable[[], Any] | None,
        site: Site | None = None,
    ) -> None:
        def proceed() -> Any:
            if stop is None:
                return truth(test())
            go = negated(stop())
            return conditions((lambda: go, test), stop=False) if go is not False else False

        _while(proceed, body, names, body, site)

    # Statements.

    binary = staticmethod(binary)
    ordered = staticmethod(ordered)
    div = staticmethod(div)
    mod = staticmethod(mod)

    @classmethod
    def update(cls, symbol: str, old: Any, value: Any) -> Any:
        """``old += value`` and its kin."""
        if isinstance(old, Tile):
            return _IN_PLACE[symbol](old, value)
        division: dict[str, Callable[..., Any]] = {"/": cls.div, "%": cls.mod}
        return own(division.get(symbol, partial(cls.binary, symbol))(old, value))

    @classmethod
    def update_element(cls, target: Any, index: Any, symbol: str, value: Any) -> None:
        """``target[index] += value`` and its kin; those that the handle has an update for are atomic, as in Warp."""
        kind = "array" if isinstance(target, Array) else "tile" if isinstance(target, Tile) else ""
        if update := OPERATORS.get(f"{kind}[]{symbol}="):
            update(target, index, value)
            return
        old = target[index]
        if isinstance(old, Tile):
            cls.update(symbol, old, value)
        else:
            target[index] = cls.update(symbol, old, value)

    def result(self, value: Any) -> Any:
        """What a ``return`` gives."""
        return value if self.declaration is None else self.declaration.result(value)

    @staticmethod
    def returned(is_returned: Any, result: Any) -> Any:
        """What a function returns at its end."""
        if result is None or is_returned is True:
            return returned(result)
        raise fail(
            KernelTypeError(
                f"the function returns {describe(result)} on some paths and ends without 'return' on others; "
                "return a value on every path"
            )
        )

    @staticmethod
    def text(*parts: Any) -> Any:
        """An f-string."""
        return OPERATORS["f-string"](*parts)

    @staticmethod
    def assert_(test: Any, message: Callable[[], Any]) -> None:
        known = truth(test)
        if known is True:
            return
        text = message()
        if known is False:
            raise fail(KernelAssertionError("assertion failed" if text is None else str(text)))
        OPERATORS["assert"](known, text)


_IN_PLACE: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.iadd, "-": operator.isub, "*": operator.imul, "/": operator.itruediv, "//": operator.ifloordiv,
    "%": operator.imod, "**": operator.ipow, "<<": operator.ilshift, ">>": operator.irshift, "|": operator.ior,
    "^": operator.ixor, "&": operator.iand, "@": operator.imatmul,
}  # fmt: skip


def _for_range(
    items: Range, body: Body, names: Names, stop: Callable[[], Any] | None, site: Site | None = None
) -> None:
    """A loop that stays a loop."""
    if stop is not None:
        return _for_while(items, body, names, stop, site)
    start, last, step = range_operands(items)
    loop = Loop(names, body, runs=bool(items.constant), site=site)

    def iteration(lead: list[Any]) -> list[Any]:
        body(items.at(Scalar(lead[0])))
        return []

    block, inits, slots = loop.trace(iteration, [start])
    operands = {"start": start, "stop": last, "step": step}
    loop.finish("for_range", operands, block, inits, slots)


def _for_while(items: Range, body: Body, names: Names, stop: Callable[[], Any], site: Site | None = None) -> None:
    """A range loop that a ``break`` or ``return`` may leave: a ``while`` that carries the index."""
    start, last, step = items.bounds()
    __index: Any = start
    before: Any = None

    def ahead(a: Any, b: Any) -> Any:
        """Whether the steps lead from ``a`` to ``b``."""
        if not isinstance(a, Scalar) and not isinstance(b, Scalar):
            up, down = bool(a < b), bool(a > b)
        else:
            up, down = OPERATORS["<"](a, b), OPERATORS[">"](a, b)
        if isinstance(step, int):
            return up if step > 0 else down
        falls = OPERATORS["and"](OPERATORS["<"](step, 0), down)
        return OPERATORS["where"](OPERATORS[">"](step, 0), up, falls)

    def proceed() -> Any:
        go = truth(ahead(__index, last))
        if before is not None and not (isinstance(step, int) and abs(step) == 1):  # else the index may have wrapped
            go = truth(OPERATORS["and"](go, ahead(before, __index)))
        return conditions((lambda: go, lambda: negated(stop())), stop=False)

    def iteration() -> None:
        nonlocal __index, before
        body(items.at(__index))
        before = __index
        __index = OPERATORS["+"](__index, step)

    _while(proceed, iteration, (*names, ("__index", True, True)), body, site)


def _while(proceed: Callable[[], Any], body: Body, names: Names, source: Body, site: Site | None = None) -> None:
    first = truth(proceed())
    if first is False:
        return settle(Cells(names, body, source), site)
    loop = Loop(names, body, source, runs=first is True, site=site)
    start = as_operand(first)

    def iteration(lead: list[Any]) -> list[Any]:
        body()
        return [as_operand(truth(proceed()))]

    block, inits, slots = loop.trace(iteration, [])
    loop.finish("while_loop", {"test": start}, block, inits, slots)


OPERATORS["resolve"] = resolve_call
