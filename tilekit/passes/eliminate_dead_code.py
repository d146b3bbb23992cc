"""Drop ops that have no effect and whose results nothing uses, and carried values that only carry themselves.

What may report that an index is outside stays: a kernel that reads there is wrong whether or not it uses what it read.
"""

from __future__ import annotations

from collections.abc import Iterable

from tilekit.ir.core import Block, Function, Op, Operand, Value, leaves, walk


def eliminate_dead_code(fn: Function) -> Function:
    """The function without dead ops and dead carries."""
    body = _clean(fn.body, _Live(fn.body))
    return fn if body is fn.body else fn.with_body(body)


class _Live:
    """What is used, found from what must run on backwards. Each op and each carried value is looked at once."""

    def __init__(self, body: Block) -> None:
        self.values: set[Value] = set()
        self._needed: set[Op] = set()
        self._kept: dict[Op, set[int]] = {}
        self._makers: dict[Value, tuple[Op, int | None]] = {}
        """Of each value the op that yields it, or whose blocks have it as a parameter, and which of the op's results it
        is or passes on; None of those that it yields to no one."""
        self._pending: list[Value] = []
        ops = list(walk(body))
        for op in ops:
            self._makers.update((result, (op, number)) for number, result in enumerate(op.results))
            for block in op.blocks:
                first = len(block.params) - len(op.results) if "init" in op.operands else len(block.params)
                self._makers.update((p, (op, i - first if i >= first else None)) for i, p in enumerate(block.params))
        self._use(body.results)
        for op in ops:
            if op.runs_anyway:
                self._need(op)
        while self._pending:
            value = self._pending.pop()
            if value in self._makers:
                maker, number = self._makers[value]
                if value in maker.results:
                    self._need(maker)
                if number is not None and maker.builtin.carries:
                    self._keep(maker, number)

    def kept(self, op: Op) -> set[int]:
        """Which results of a region op are used after it or, where carried, inside it."""
        return self._kept.get(op, set())

    def needs(self, op: Op) -> bool:
        return op in self._needed

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
        self._use(operand for name, operand in op.operands.items() if name != "init")
        for block in op.blocks:
            self._use(block.results[: len(block.results) - len(op.results)])

    def _keep(self, op: Op, number: int) -> None:
        kept = self._kept.setdefault(op, set())
        if number in kept:
            return
        kept.add(number)
        for block in op.blocks:
            self._use((block.results[len(block.results) - len(op.results) + number],))
        init = op.operands.get("init")
        if isinstance(init, tuple):
            self._use((init[number],))


def _clean(block: Block, live: _Live) -> Block:
    ops: list[Op] = []
    changed = False
    for op in block.ops:
        if not live.needs(op):
            changed = True
            continue
        cleaned = _clean_region(op, live) if op.blocks else op
        changed = changed or cleaned is not op
        ops.append(cleaned)
    return Block(block.params, tuple(ops), block.results) if changed else block


def _clean_region(op: Op, live: _Live) -> Op:
    kept = live.kept(op)
    blocks = tuple(_clean(block, live) for block in op.blocks)
    prunable = bool(op.results) and (op.builtin.carries)
    if not prunable or len(kept) == len(op.results):
        return op if all(a is b for a, b in zip(blocks, op.blocks, strict=True)) else op.with_(blocks=blocks)
    pruned = tuple(_prune(block, len(op.results), kept, "init" in op.operands) for block in blocks)
    operands = dict(op.operands)
    if "init" in operands:
        init = operands["init"]
        assert isinstance(init, tuple)
        operands["init"] = tuple(item for i, item in enumerate(init) if i in kept)
    results = tuple(result for i, result in enumerate(op.results) if i in kept)
    return op.with_(operands=operands, blocks=pruned, results=results)


def _prune(block: Block, count: int, kept: set[int], params_too: bool) -> Block:
    lead = len(block.results) - count
    results = tuple(r for i, r in enumerate(block.results) if i < lead or (i - lead) in kept)
    first = len(block.params) - count
    params = block.params
    if params_too:
        params = tuple(p for i, p in enumerate(block.params) if i < first or (i - first) in kept)
    return Block(params, block.ops, results)
