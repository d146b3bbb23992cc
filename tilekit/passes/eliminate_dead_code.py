"""Drop ops that have no effect and whose results nothing uses, and carried values that only carry themselves.

What may report that an index is outside stays: a kernel that reads there is wrong whether or not it uses what it read.
"""

from __future__ import annotations

from collections.abc import Iterable

from tilekit.ir.core import Block, Function, Op, Operand, Value, leaves, walk
from tilekit.ir.regions import Carried, carried, carried_params, decides, keep_carried
from tilekit.ir.rewrite import Rewriter


def eliminate_dead_code(fn: Function) -> Function:
    """The function without dead ops and dead carries."""
    body = clean_block(fn.body)
    return fn if body is fn.body else fn.with_body(body)


def clean_block(block: Block, checks: bool = True) -> Block:
    """A block without dead ops and carries; without ``checks``, also without what only reports an index outside."""
    return Rewriter(change=_Live(block, checks).clean).block(block)


class _Live:
    """What is used, found from what must run on backwards. Each op and each carried value is looked at once."""

    def __init__(self, body: Block, checks: bool) -> None:
        self.values: set[Value] = set()
        self._needed: set[Op] = set()
        self._kept: dict[Op, set[int]] = {}
        """Which results of a loop or branch are used after it or, where carried, inside it."""
        self._carried: dict[Op, tuple[Carried, ...]] = {}
        self._makers: dict[Value, tuple[Op, int | None]] = {}
        """Of each value the op that yields it, or whose blocks have it as a parameter, and which of the op's results it
        is or passes on; None of those that it yields to no one."""
        self._pending: list[Value] = []
        ops = list(walk(body))
        for op in ops:
            self._makers.update((result, (op, number)) for number, result in enumerate(op.results))
            for block in op.blocks:
                self._makers.update((param, (op, None)) for param in block.params)
            if op.builtin.carries:
                self._carried[op] = carried(op)
                self._makers.update((param, (op, number)) for number, param in enumerate(carried_params(op)))
        self._use(body.results)
        for op in ops:
            if op.runs_anyway if checks else op.has_effect:
                self._need(op)
        while self._pending:
            value = self._pending.pop()
            if value in self._makers:
                maker, number = self._makers[value]
                if value in maker.results:
                    self._need(maker)
                if number is not None and maker.builtin.carries:
                    self._keep(maker, number)

    def clean(self, op: Op, rewriter: Rewriter) -> Iterable[Op]:
        """What is left of an op."""
        if op not in self._needed:
            return ()
        kept, cleaned = self._kept.get(op, set()), rewriter.rebuilt(op)
        return (keep_carried(cleaned, kept) if op.builtin.carries and len(kept) < len(op.results) else cleaned,)

    def _use(self, operands: Iterable[Operand]) -> None:
        for operand in operands:
            for value in leaves(operand):
                if value not in self.values:
                    self.values.add(value)
                    self._pending.append(value)

    def _need(self, op: Op) -> None:
        if op in self._needed:
            return
        self._needed.add(op)
        if not op.builtin.carries:  # its blocks stay whole
            self._use(op.operands.values())
            for block in op.blocks:
                self._use(block.results)
            return
        self._use(decides(op))

    def _keep(self, op: Op, number: int) -> None:
        kept = self._kept.setdefault(op, set())
        if number in kept:
            return
        kept.add(number)
        self._use(self._carried[op][number].sources)
