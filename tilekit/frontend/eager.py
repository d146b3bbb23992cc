"""Eager execution of kernels in Python: the support object and the context of the interpreter."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from types import FunctionType
from typing import Any

import numpy as np

from tilekit.config import config
from tilekit.errors import KernelSyntaxError
from tilekit.frontend.binding import Target, each, own, returned, value_of
from tilekit.frontend.calls import Rewritten, is_breakpoint, resolve_call, rewritten
from tilekit.frontend.eager_syntax import Place, rewrite_eagerly
from tilekit.frontend.joins import Joins, Path, Site, along, as_kind, call_step, each_of
from tilekit.frontend.merge import UNBOUND
from tilekit.frontend.ranges import Range, range_operands
from tilekit.frontend.short_circuits import truth
from tilekit.frontend.source import locate
from tilekit.frontend.support import Tracing
from tilekit.ir import shadow
from tilekit.ir.builtin import Builtin
from tilekit.ir.context import Concrete
from tilekit.ir.core import Block
from tilekit.ir.handles import Scalar
from tilekit.ir.interpret import Eager, Machine, data_of
from tilekit.ir.literals import Literals
from tilekit.ir.operands import BOOL
from tilekit.ir.types import Type


class Forms:
    """The eager forms of one kernel and its helpers, with the joins that tracing found.

    ``apart`` tells where lanes may take different ways; loops are unrolled as they were when the kernel was traced.
    """

    def __init__(self, joins: Joins, apart: frozenset[Place] = frozenset(), max_unroll: int | None = None) -> None:
        self.joins = joins
        self.max_unroll = config.max_unroll if max_unroll is None else max_unroll
        self.apart = apart
        self._forms: dict[tuple[int, int], Rewritten] = {}

    def of(self, function: FunctionType) -> Rewritten:
        key = id(function.__code__), id(function.__globals__)
        found = self._forms.get(key)
        if found is None:
            source = rewritten(function).source.again()
            found = self._forms[key] = Rewritten(
                function, source, partial(rewrite_eagerly, joins=self.joins, apart=self.apart)
            )
        return found


class Running(Tracing):
    """The support object of kernels that run eagerly."""

    unbound = UNBOUND

    def __init__(self, forms: Forms) -> None:
        super().__init__()
        self.forms = forms
        self.joins = forms.joins
        self._bound: dict[FunctionType, Callable[..., Any]] = {}
        self.literals = Literals(self.joins.decided, over=True)
        self.apart = 0
        """How many pieces of control flow the running lane is in that others may not be in."""
        self._base = 0
        self.step: Callable[[str], object] | None = None
        """Waits for the other lanes, where they take turns."""
        self.follows = bool(self.joins.needed or self.joins.decided or forms.apart)
        """Whether the path matters: some variable takes a dtype that its literals do not have, or lanes part."""

    @property
    def path(self) -> Path:
        return self.literals.path

    @path.setter
    def path(self, path: Path) -> None:
        self.literals.path = path

    def bind(self, function: FunctionType) -> Callable[..., Any]:
        """The eager form of a function; the function itself where it is compile-time Python only."""
        found = self._bound.get(function)
        if found is None:
            try:
                found = self.forms.of(function).bind(function, self)
            except (KernelSyntaxError, SyntaxError):
                found = function
            self._bound[function] = found
        return found

    # Overriding a static method, because what a call means depends on the running kernel.
    def fn(self, function: Any) -> Any:  # type: ignore[override]
        if is_breakpoint(function):
            return function
        found = resolve_call(function)
        helper = getattr(found, "inlines", None)
        return found if helper is None or self.follows else self.bind(helper)

    def inline(self, function: FunctionType, args: Any, kwargs: Any) -> Any:
        """Call a helper."""
        outer, apart, base = self.path, self.apart, self._base
        self.path, self._base = (*outer, call_step()), apart
        try:
            return self.bind(function)(*args, **kwargs)
        finally:
            self.path, self.apart, self._base = outer, apart, base

    def part(self, depth: int) -> None:
        """From here on the lane is in so many pieces of the function that other lanes may not be in."""
        self.apart = self._base + depth

    def meet(self) -> None:
        """Wait for the other lanes before they may take different ways."""
        if self.step is not None and not self.apart:
            self.step("a statement")

    # Tests.

    @staticmethod
    def truth(value: Any) -> bool:
        return bool(truth(value))

    def not_(self, value: Any) -> Any:
        return _bool(not truth(value)) if isinstance(value, Scalar) else not truth(value)

    # Loops.

    def max_unroll(self) -> int:
        return self.forms.max_unroll

    def iterate(self, items: Any, site: Site, target: Target) -> Iterator[Any]:
        """What a loop goes through."""
        if self.rolled(items):
            return _indices(items)
        found = each(items, target)
        return along(self.literals, found, site) if self.follows else found

    # Variables whose dtype the compiled form decides.

    def join(self, site: Site, name: str, value: Any) -> Any:
        return self._convert(self.path, site, name, value)

    def leave(self, steps: tuple[Site, ...], name: str, value: Any) -> Any:
        """A variable as a jump carries it past ``steps``."""
        path = self.path
        for step in steps:
            if step[0] == "loop" and path and path[-1][0] == step:
                value, path = self._leave_unrolled(path, step, name, value), path[:-1]
            else:
                value = self._convert(path, step, name, value)
        return value

    def _leave_unrolled(self, path: Path, loop: Site, name: str, value: Any) -> Any:
        outer, number = path[:-1], path[-1][1]
        for later in range(number, self.joins.rounds[outer, loop]):
            value = self._convert((*outer, (loop, later)), each_of(loop), name, value)
        return self._convert(outer, loop, name, value)

    def _convert(self, path: Path, site: Site, name: str, value: Any) -> Any:
        if (path, site, name) in self.joins.values:
            value = own(value_of(value))
        return as_kind(value, self.joins.kinds.get((path, site), {}).get(name))

    value = staticmethod(value_of)
    given = staticmethod(returned)


def _bool(value: Any) -> Scalar:
    return Scalar(Concrete(BOOL, np.bool_(value)))


def _indices(items: Range) -> Iterator[Scalar]:
    """The indices of a loop that stays a loop, in the type that they have in the compiled form."""
    start, stop, step = (int(data_of(operand)) for operand in range_operands(items))
    type = items.index_type
    number = type.dtype.numpy.type
    for index in range(start, stop, step) if step else ():
        yield items.at(Scalar(Concrete(type, number(index))))


class Interpreter(Eager):
    """The context of a kernel that runs eagerly, for one block and lane."""

    def __init__(self, forms: Forms, machine: Machine) -> None:
        super().__init__(machine, locate)
        self.support = Running(forms)
        self.literals = self.support.literals

    def inline(self, function: FunctionType, args: Any, kwargs: Any) -> Any:
        return self.support.inline(function, args, kwargs)

    def apply(
        self,
        builtin: Builtin,
        operands: Mapping[str, Any],
        attrs: Mapping[str, Any],
        types: tuple[Type, ...],
        blocks: tuple[Block, ...] = (),
    ) -> tuple[Concrete, ...]:
        partial = shadow.find_partial(operands)
        if partial and not builtin.moves:
            shadow.check_read(builtin, operands, attrs)
        results = super().apply(builtin, operands, attrs, types, blocks)
        if builtin.uninitialized:
            return tuple(shadow.fresh(result.type, result.data, self.location()) for result in results)
        if partial and (builtin.moves or shadow.is_part(attrs)):
            return tuple(shadow.moved(builtin, operands, attrs, result, self.machine) for result in results)
        return results
