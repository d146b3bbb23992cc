"""Make neighbouring elementwise ops over tiles in registers one loop over the registers, loads where they are read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tilekit.builtins.fused_elements import CHUNK, fused_elements
from tilekit.codegen.layouts import AnyLayout, Layout
from tilekit.ir.core import Block, Function, Op, Value, leaves, make_op
from tilekit.ir.regions import inputs_of
from tilekit.ir.rewrite import Rewriter
from tilekit.passes.assign_layouts import tiles_of

Layouts = Mapping[Value, AnyLayout]


def fuse_elementwise(fn: Function, layouts: Layouts) -> tuple[Function, Layouts]:
    """The function with loops over registers in the place of ops that follow each other, and the layouts of its tiles.

    Only ops over tiles of which a thread holds more than ``CHUNK`` elements are fused: what is read, made and used
    within a loop then takes few registers. A load waits for its first reader, but for no longer than until something is
    written, and moves into no loop or branch.
    """
    fuser = _Fuser(layouts)
    body = fuser.block(fn.body)
    return (fn, layouts) if body is fn.body else (fn.with_body(body), fuser.layouts)


class _Fuser:
    def __init__(self, layouts: Layouts) -> None:
        self.layouts = dict(layouts)

    def block(self, block: Block) -> Block:
        """The block, and the blocks inside it, with groups of its ops as one op each."""
        order = _Order(self.layouts)
        for op in block.ops:
            order.add(op.with_(blocks=tuple(map(self.block, op.blocks))) if _holds_ops(op) else op)
        items = order.ordered()
        if all(isinstance(item, Op) for item in items) and tuple(items) == block.ops:
            return block
        used = _uses(items, block.results)
        ops = (item if isinstance(item, Op) else self._fused(item, used) for item in items)
        return Block(block.params, tuple(ops), block.results)

    def _fused(self, group: list[Op], used: Mapping[Value, int]) -> Op:
        """A group as one op; what is used outside of it is the op's result."""
        inside = _uses(group, ())
        results = [value for op in group for value in op.results if used[value] > inside.get(value, 0)]
        known: dict[Value, Value] = {value: Value(value.type, value.hint) for value in results}
        self.layouts.update((own, self.layouts[value]) for value, own in known.items())
        rewriter = Rewriter(dict(known))
        ops = tuple(
            rewriter.rebuilt(op, results=tuple(known.get(value, value) for value in op.results)) for op in group
        )
        body = Block((), ops, tuple(known.values()))
        return make_op(fused_elements, {}, {}, tuple(results), (body,), group[-1].location)


def _holds_ops(op: Op) -> bool:
    return op.builtin.carries and op.builtin.by_element


def _uses(items: Iterable[Op | list[Op]], results: Iterable[object]) -> dict[Value, int]:
    """How often ops read each value."""
    found: dict[Value, int] = {}
    for item in items:
        for op in [item] if isinstance(item, Op) else item:
            for value in (*op.inputs(), *(value for block in op.blocks for value in block.free)):
                found[value] = found.get(value, 0) + 1
    for value in leaves(tuple(results)):
        found[value] = found.get(value, 0) + 1
    return found


class _Order:
    """Ops in an order in which those that can be fused follow each other."""

    def __init__(self, layouts: Layouts) -> None:
        self.layouts = layouts
        self.done: list[Op | list[Op]] = []
        self.group: list[Op] = []
        self.layout: AnyLayout | None = None
        """Of the group's tiles."""
        self.made: set[Value] = set()
        """By the ops of the group."""
        self.waiting: dict[Value, Op] = {}
        """Loads, by what they load."""

    def add(self, op: Op) -> None:
        """The next op."""
        if self._is_load(op):
            self.waiting[op.results[0]] = op
            return
        read, layout = set(inputs_of(op)), self._fusible(op)
        loads = [load for value, load in self.waiting.items() if value in read]
        if layout is not None:
            if layout != self.layout:
                self._close()
            self.layout = layout
            self._join([*loads, op])
            return
        if op.has_effect or not read.isdisjoint(self.made):
            self._close()  # else the op comes before the group
        self._flush(self.waiting.values() if op.has_effect else loads)
        self.done.append(op)

    def ordered(self) -> list[Op | list[Op]]:
        """All ops; those of a group together."""
        self._close()
        self._flush(self.waiting.values())
        return self.done

    def _join(self, ops: list[Op]) -> None:
        for op in ops:
            self.group.append(op)
            self.made.update(op.results)
            self.waiting.pop(op.results[0], None)

    def _flush(self, loads: Iterable[Op]) -> None:
        for load in list(loads):
            self.done.append(load)
            del self.waiting[load.results[0]]

    def _close(self) -> None:
        """No op joins the group any more."""
        if self.group:
            self.done.append(self.group if len(self.group) > 1 else self.group[0])
        self.group, self.made, self.layout = [], set(), None

    def _fusible(self, op: Op) -> AnyLayout | None:
        """The layout of the tiles that an op reads and makes in registers, where a loop over them may do it."""
        own = op.builtin
        alone = own.carries or own.run or own.in_memory or own.scratch or "plan" in op.attrs or op.has_effect
        if not own.by_element or alone or not op.results:
            return None
        layouts = {self.layouts.get(value) for value in op.results}
        layouts |= {found for value in tiles_of(op) if (found := self.layouts.get(value)) is not None}
        layout = next(iter(layouts))
        large = len(layouts) == 1 and isinstance(layout, Layout) and layout.registers > CHUNK
        return layout if large else None

    def _is_load(self, op: Op) -> bool:
        return self._fusible(op) is not None and bool(op.builtin.reads)
