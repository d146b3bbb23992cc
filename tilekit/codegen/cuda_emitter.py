"""How the ops of a block are shared out among its threads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from tilekit.codegen.barriers import ARRAYS, Access, Place, Steps, verify_barriers
from tilekit.codegen.divisions import Divisions
from tilekit.codegen.emitter import Emitter
from tilekit.codegen.gemm.products import products_in
from tilekit.codegen.layouts import AnyLayout, Layout, OpaqueLayout
from tilekit.codegen.orders import PACK_BYTES
from tilekit.codegen.refs import ElementIndex, TileRef, coordinates
from tilekit.codegen.register_loops import Chunk, each_opaque, each_register
from tilekit.codegen.repeats import MOST_SPELLED, MOST_UNROLLED, unrolled
from tilekit.codegen.storage import Buffer, Storage
from tilekit.codegen.target import Target
from tilekit.codegen.text import cpp_type
from tilekit.ir.affine import affine_of, definitions
from tilekit.ir.core import Block, Function, Op, Value, walk
from tilekit.ir.regions import carried_params, counted, emitted, emitted_params, region_of, repeats
from tilekit.ir.types import DType, TileType
from tilekit.ir.views import ViewMap


class CudaEmitter(Divisions):
    """Code that every thread of a block runs.

    Numbers that are the same for all lanes are computed by every thread. Cooperative ops deal their elements to the
    threads; what must happen once for the block is done by one of them. In a loop over lanes, and where each thread is
    a point of the launch, a thread runs alone.
    """

    def __init__(self, fn: Function, storage: Storage, target: Target, alone: bool) -> None:
        super().__init__(fn, storage, target)
        self.alone = alone
        """Whether the current op is run by each thread for itself."""
        self.products = products_in(fn)
        self.kept: list[DType] | None = None
        """Of a thread with several points: what it writes once it has computed all of them; else None."""
        self.steps = Steps()
        self._inside = False
        """Whether an op is being written, of which those inside it are parts."""
        self._touched: list[TileRef] = []
        """The tiles that its code was given."""
        self._registers: dict[Buffer, str] = {}
        self._layouts: dict[AnyLayout, str] = {}
        """What the code calls them."""
        self._bases = {op.results[0]: next(op.inputs()) for op in walk(fn.body) if op.builtin.view}
        self._defined = definitions(fn.body)
        self.exchanged = 0
        """Bytes of shared memory that warps need at most to exchange what they reduce."""
        self._spelled = 0
        """Repeats of instructions that are written out."""
        self.chunk: Chunk | None = None
        """The registers that the running loop over chunks of them is at."""

    def buffer_name(self, buffer: Buffer) -> str:
        if buffer.layout is None:
            return super().buffer_name(buffer)
        return self._registers.setdefault(buffer, f"r{len(self._registers)}")

    def declare_buffers(self) -> None:
        super().declare_buffers()
        held = [buffer for buffer in dict.fromkeys(self.storage.buffers.values()) if buffer.layout is not None]
        plans = [op.attrs["plan"] for op in emitted(self.fn.body) if "plan" in op.attrs]
        sums = [plan.layout for plan in plans if plan.warps is not None]
        for layout in dict.fromkeys((*(buffer.layout for buffer in held), *sums)):
            assert layout is not None
            self._layouts[layout] = f"L{len(self._layouts)}"
            self.line(f"typedef {layout.cpp} {self._layouts[layout]};")
        for buffer in held:
            assert buffer.layout is not None
            self.declare_registers(cpp_type(buffer.type.dtype), self.buffer_name(buffer), buffer.layout)

    def layout_name(self, layout: AnyLayout) -> str:
        """The C++ type of a layout."""
        return self._layouts.get(layout) or layout.cpp

    def declare_registers(self, element: str, name: str, layout: AnyLayout, value: str = "") -> None:
        """Declare an array of a thread's registers; a unit of cuBLASDx wants it aligned."""
        aligned = "alignas(16) " if isinstance(layout, OpaqueLayout) else ""
        self.line(f"{aligned}{element} {name}[{layout.registers}]{value};")

    # Waiting.

    def count_breath(self) -> None:
        """A GPU's blocks run to their end."""

    def sync(self) -> None:
        """The threads of the block wait for each other."""
        self.line("team.sync();")
        self.steps.items.append(None)

    def tile(self, value: Value) -> TileRef:
        found = super().tile(value)
        self._touched.append(found)
        return found

    def _accessed(self, op: Op) -> Access:
        """What the code of an op touches, by the tiles that it was given, and the arrays of all ops in it."""
        inner = list(walk(Block((), (op,))))
        makers = [each for each in inner if not each.builtin.view]
        made = [value for each in makers for value in (*each.results, *emitted_params(each))]
        written = {self.tiles[value].buffer for value in made if value in self.tiles}
        memory = {tile.buffer for tile in self._touched if tile.layout is None}
        reads: set[Place] = {buffer for buffer in memory if buffer not in written}
        writes: set[Place] = {buffer for buffer in memory if buffer in written}
        if any(each.builtin.reads for each in inner):
            reads.add(ARRAYS)
        if any(each.builtin.writes or each.builtin.atomics for each in inner):
            writes.add(ARRAYS)
        return Access(tuple(reads), tuple(writes))

    # Ops.

    def emit(self, op: Op) -> None:
        if self.alone or self._inside or (op.builtin.carries and op.builtin.by_element):
            super().emit(op)
            return
        self._inside, self._touched, count = True, [], len(self.lines)
        super().emit(op)
        self._inside = False
        if len(self.lines) > count and not op.builtin.view:  # else it only gives something a name
            self.steps.items.append(self._accessed(op))

    def emit_op(self, op: Op, operands: dict[str, Any]) -> None:
        if self.alone:
            super().emit_op(op, operands)
        elif op.builtin.carries and not op.builtin.by_element:
            self._lanes(op, operands)
        elif (op.builtin.writes or op.builtin.atomics) and not op.builtin.cooperative:
            self._once(op, operands)
        else:
            super().emit_op(op, operands)

    def element(self, array: str, index: Sequence[str], dtype: DType) -> str:
        return f"tk::element({', '.join((array, *index))})"

    def write(self, pointer: str, value: str, dtype: DType) -> None:
        if self.kept is None:
            super().write(pointer, value, dtype)
        else:
            number = len(self.kept)
            self.line(f"place{number}[q] = {pointer};")
            self.line(f"kept{number}[q] = {value};")
            self.kept.append(dtype)

    def _lanes(self, op: Op, operands: dict[str, Any]) -> None:
        """A loop over lanes: a thread is a lane."""
        (body,) = op.blocks
        params = carried_params(op)
        self.carry(op.results, params, operands[region_of(op).init])
        (lane,) = map(self.define, counted(op))
        with self.in_lane(lane), self.braces():
            self.line(f"const tk::i32 {lane} = team.rank();")
            self.alone = True
            if self.target.ragged:
                with self.braces(f"if ({lane} < tk::present(launch, block, {op.attrs['lanes']}))"):
                    self.block(body, params)
            else:
                self.block(body, params)
            self.alone = False

    def block(self, block: Block, targets: Sequence[Value | str]) -> None:
        if self.alone or self._inside or block is self.fn.body:
            super().block(block, targets)
            return
        assert self.op is not None
        outer = self.steps
        self.steps = Steps(kind="loop" if repeats(self.op) else "branch")
        super().block(block, targets)
        outer.items.append(self.steps)
        self.steps = outer

    def _once(self, op: Op, operands: dict[str, Any]) -> None:
        """What happens once for the block: one thread does it, and alone has what it finds."""
        for result in op.results:
            self.line(f"[[maybe_unused]] {self.cpp(result.type)} {self.define(result)}{{}};")
        with self.leader():
            found = self.written(op, operands)
            if isinstance(found, str):
                self.line(f"{self.scalars[op.results[0]]} = {found};" if op.results else f"{found};")

    def packs_of(self, array: str, offset: str) -> tuple[int, bool]:
        """The axis along which an array's elements lie side by side, or -1, and whether a tile's packs of 16 bytes
        along it are aligned, each inside the array or outside."""
        assert self.op is not None
        value, given = self.op.operands[array], self.op.operands[offset]
        assert isinstance(value, Value)
        known = self.target.class_of(value, self.fn, self._defined)
        offsets = given if isinstance(given, tuple) else (given,)
        axis = known.unit_axis
        first = affine_of(offsets[axis], self._defined).divisor if 0 <= axis < len(offsets) else 0
        return axis, known.aligned and known.whole and first * value.type.dtype.itemsize % PACK_BYTES == 0

    # Tiles.

    def copy(self, to: TileRef, source: TileRef) -> None:
        assert not self.alone, "a lane copies no tile that all lanes share"
        super().copy(to, source)

    @contextmanager
    def leader(self) -> Iterator[None]:
        with self.braces("" if self.alone else "if (team.rank() == 0)"):
            yield

    def shared(self, dtype: str, name: str, count: str) -> None:
        self.line(f"__shared__ {dtype} {name}[{count}];")

    def exchange(self, size: int) -> str:
        """Shared memory for a moment, of at least so many bytes; who has used it waits for the block afterwards."""
        self.exchanged = max(self.exchanged, size)
        return "exchange"

    def update(self, element: str, value: str, atomic: str) -> None:
        if self.alone:
            self.line(f"{atomic};")
        else:
            super().update(element, value, atomic)

    def report(self, site: int, pointers: Sequence[str], extents: Sequence[tuple[int, int]]) -> None:
        pieces = [f"{{(const char*)({p}) + {at}, {size}}}" for p, (at, size) in zip(pointers, extents, strict=True)]
        with self.leader():
            self.line(f"const tk::Piece pieces[] = {{{', '.join(pieces) or '{0, 0}'}}};")
            self.line(f"tk::post(launch, {site}, block, pieces, {len(pieces)});")

    @contextmanager
    def each_element(self, out: TileRef, *others: TileRef) -> Iterator[ElementIndex]:
        if self.alone:
            with super().each_element(out, *others) as index:
                yield index
            return
        layout = next((tile.layout for tile in (out, *others, *self._tiles()) if tile.layout is not None), None)
        with self.own_elements(layout, out) as index:
            yield index

    def _tiles(self) -> Iterator[TileRef]:
        """The tiles of the current op."""
        op = self.op
        for value in (*op.inputs(), *op.results) if op is not None and not op.builtin.carries else ():
            if isinstance(value.type, TileType):
                yield self.tile(value)

    @contextmanager
    def _dealt(self, out: TileRef, layout: AnyLayout | None) -> Iterator[ElementIndex]:
        """A loop over the thread's own elements."""
        e, size, threads = self.fresh("e"), out.type.size, self.target.threads
        if isinstance(layout, OpaqueLayout):
            with each_opaque(self, layout, self.layout_name(layout)) as index:
                yield index
        elif layout is not None:
            with each_register(self, layout, self.layout_name(layout), out.shape) as index:
                yield index
        elif size == 1:
            with self.braces("if (team.rank() == 0)"):
                yield ElementIndex("0" for _ in out.shape)
        else:
            with self.braces(f"for (int {e} = team.rank(); {e} < {size}; {e} += {threads})"):
                yield ElementIndex(coordinates(e, out.shape))

    def repeats(self, of: TileType, lanes: int = 1, everyone: bool = False) -> Iterator[ElementIndex]:
        out = TileRef("", of, ViewMap.identity(of.shape), Buffer(of, -1))
        if self.target.threads == 1 and of.size <= min(MOST_UNROLLED, MOST_SPELLED - self._spelled):
            self._spelled += of.size
            yield from unrolled(of.shape)
        elif everyone:
            with Emitter.each_element(self, out) as index:
                yield index
        else:
            layout = next((tile.layout for tile in self._tiles() if tile.layout is not None), None)
            if isinstance(layout, Layout):
                layout = layout.runs(layout.rank - 1, lanes)
            with self.own_elements(layout, out) as index:
                yield index

    @contextmanager
    def own_elements(self, layout: AnyLayout | None, out: TileRef) -> Iterator[ElementIndex]:
        """A loop over the elements that each thread holds by a layout, wherever those of the tile are."""
        outer, self.alone = self.alone, True
        with self._dealt(out, layout) as index:
            yield index
        self.alone = outer

    def verify(self) -> None:
        """Prove that no barrier is missing."""
        if self.target.threads > 1:
            verify_barriers(self.steps)
