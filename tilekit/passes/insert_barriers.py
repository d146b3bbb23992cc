"""Let the threads of a block wait where one of them would meet what another may still be reading or writing."""

from __future__ import annotations

from collections.abc import Iterable

from tilekit.builtins.together import barrier
from tilekit.codegen.barriers import ARRAYS, Access, Pending, Place
from tilekit.codegen.storage import Storage
from tilekit.codegen.target import Target
from tilekit.errors import Location
from tilekit.ir.core import Block, Function, Op, Value, make_op, walk
from tilekit.ir.regions import emitted, emitted_params, repeats
from tilekit.ir.types import TileType


def insert_barriers(fn: Function, storage: Storage, target: Target) -> Function:
    """The function with barriers, as what its ops say of their effects asks for them.

    Threads that run points of the launch each for itself, or alone, do not wait.
    """
    if target.is_cpu or target.threads == 1 or target.runs_points(fn):
        return fn
    return fn.with_body(_Waits(fn, storage, target).block(fn.body))


class _Waits:
    """What has been done since the threads last waited, while a function is gone through."""

    def __init__(self, fn: Function, storage: Storage, target: Target) -> None:
        self.storage = storage
        self.checked = target.checked
        self.pending = Pending()
        self._views = {op.results[0]: next(op.inputs()) for op in walk(fn.body) if op.builtin.view}

    def block(self, block: Block, owner: Op | None = None) -> Block:
        """The block with its barriers; an op that owns it may run it any number of times, or not at all."""
        entry, ops = self.pending.copy(), list[Op]()
        for op in block.ops:
            if op.builtin.carries and op.builtin.by_element:
                ops.append(op.with_(blocks=tuple(self.block(inner, op) for inner in op.blocks)))
                continue
            access = self.access(op)
            if self.pending.conflicts(access):
                ops.append(self._wait(op.location))
            self.pending.add(access)
            ops.append(op)
        if owner is not None:
            if repeats(owner) and self.pending:  # the next iteration begins with nothing pending
                ops.append(self._wait(owner.location))
            self.pending.merge(entry)  # where the block did not run
        return Block(block.params, tuple(ops), block.results)

    def _wait(self, location: Location | None) -> Op:
        self.pending.clear()
        return make_op(barrier, {}, {}, location=location)

    def access(self, op: Op) -> Access:
        """What an op, and all ops inside it, read and write that threads share."""
        reads, writes = list[Place](), list[Place]()
        for each in emitted(Block((), (op,))):
            own = each.builtin
            reads += [ARRAYS] if own.reads else []
            writes += [ARRAYS] if own.writes or own.atomics else []
            if not own.view:
                reads += self._memory(each.inputs())
                writes += [] if own.uninitialized and not self.checked else self._memory(each.results)
            writes += self._memory(emitted_params(each))
        return Access(tuple(dict.fromkeys(reads)), tuple(dict.fromkeys(writes)))

    def _memory(self, values: Iterable[Value]) -> list[Place]:
        """The memory of tiles, or of the tiles that views show."""
        found: list[Place] = []
        for value in values:
            while value in self._views:
                value = self._views[value]
            if isinstance(value.type, TileType) and self.storage.buffers[value].layout is None:
                found.append(self.storage.buffers[value])
        return found
