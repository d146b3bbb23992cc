"""Drop ops that have no effect and whose results nothing uses, and carried values that only carry themselves.

What may report that an index is outside stays: a kernel that reads there is wrong whether or not it uses what it read.
"""

from __future__ import annotations

from tilekit.ir.core import Block, Function, Op, Value, leaves, walk


def has_effect(op: Op) -> bool:
    """Whether an op, or one inside it, does more than yield its results."""
    own = op.builtin
    if own.side_effect or own.writes or own.atomics:
        return True
    return any(has_effect(inner) for block in op.blocks for inner in block.ops)


def runs_anyway(op: Op) -> bool:
    """Whether an op, or one inside it, must run although nothing uses its results."""
    if has_effect(op) or op.builtin.may_fail:
        return True
    return any(runs_anyway(inner) for block in op.blocks for inner in block.ops)


def eliminate_dead_code(fn: Function) -> Function:
    """The function without dead ops and dead carries."""
    while True:
        live = _used(fn.body)
        body = _clean(fn.body, live)
        if body is fn.body:
            return fn
        fn = fn.with_body(body)


def _used(block: Block) -> set[Value]:
    """Every value that an op reads or a block yields to a result that is used; the carries of a loop by fixpoint."""
    ops = list(walk(block))
    live: set[Value] = set(leaves(block.results))
    changed = True
    while changed:
        before = len(live)
        for op in reversed(ops):
            if runs_anyway(op) or any(result in live for result in op.results):
                live.update(op.inputs() if not op.blocks else _region_inputs(op, live))
        changed = len(live) != before
    return live


def _region_inputs(op: Op, live: set[Value]) -> set[Value]:
    if not op.builtin.carries:  # its blocks stay whole
        return {*op.inputs(), *(value for block in op.blocks for value in leaves(block.results))}
    found: set[Value] = set()
    for name, operand in op.operands.items():
        if name != "init" or not isinstance(operand, tuple):
            found.update(leaves(operand))
    kept = _kept(op, live)
    for block in op.blocks:
        lead = len(block.results) - len(op.results)
        yielded = [r for i, r in enumerate(block.results) if i < lead or (i - lead) in kept]
        found.update(leaves(tuple(yielded)))
    init = op.operands.get("init", ())
    assert isinstance(init, tuple)
    found.update(value for i, item in enumerate(init) if i in kept for value in leaves(item))
    if "init" not in op.operands:
        found.update(op.inputs())
    return found


def _kept(op: Op, live: set[Value]) -> set[int]:
    """Which results of a region op are used after it or, where carried, inside it."""
    kept = {i for i, result in enumerate(op.results) if result in live}
    if "init" in op.operands:
        for block in op.blocks:
            params = block.params[len(block.params) - len(op.results) :]
            kept |= {i for i, param in enumerate(params) if param in live}
    return kept


def _clean(block: Block, live: set[Value]) -> Block:
    ops: list[Op] = []
    changed = False
    for op in block.ops:
        if not runs_anyway(op) and not any(result in live for result in op.results):
            changed = True
            continue
        cleaned = _clean_region(op, live) if op.blocks else op
        changed = changed or cleaned is not op
        ops.append(cleaned)
    return Block(block.params, tuple(ops), block.results) if changed else block


def _clean_region(op: Op, live: set[Value]) -> Op:
    kept = _kept(op, live)
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
