"""How the ops of a block are shared out among its threads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from tilekit.codegen.barriers import ARRAYS, Access, Place, Steps, verify_barriers
from tilekit.codegen.deferred import deferred_loads
from tilekit.codegen.divisions import Divisions
from tilekit.codegen.emitter import Emitter
from tilekit.codegen.fragment import AnyLayout, Fragment
from tilekit.codegen.gemm import products_in
from tilekit.codegen.layouts import Layout
from tilekit.codegen.orders import PACK_BYTES
from tilekit.codegen.refs import ElementIndex, TileRef, coordinates
from tilekit.codegen.register_loops import each_register
from tilekit.codegen.repeats import MOST_SPELLED, MOST_UNROLLED, unrolled
from tilekit.codegen.storage import Buffer, Storage
from tilekit.codegen.target import Target
from tilekit.codegen.text import cpp_type
from tilekit.ir.affine import affine_of, definitions
from tilekit.ir.core import Block, Function, Op, Value, walk
from tilekit.ir.regions import carried_params, counted, emitted_params, region_of, repeats
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
        self._deferred = deferred_loads(fn, storage)
        self.exchanged = 0
        """Bytes of shared memory that warps need at most to exchange what they reduce."""
        self._spelled = 0
        """Repeats of instructions that are written out."""
        self._runs: dict[str, str] = {}
        """Of deferred tiles whose neighbours are loaded together, by what the code calls the part of the array: what it
        calls the thread's."""

    def buffer_name(self, buffer: Buffer) -> str:
        if buffer.layout is None:
            return super().buffer_name(buffer)
        return self._registers.setdefault(buffer, f"r{len(self._registers)}")

    def declare_buffers(self) -> None:
        super().declare_buffers()
        held = [buffer for buffer in dict.fromkeys(self.storage.buffers.values()) if buffer.layout is not None]
        for layout in dict.fromkeys(buffer.layout for buffer in held):
            if isinstance(layout, Layout):
                self._layouts[layout] = f"L{len(self._layouts)}"
                self.line(f"typedef {layout.cpp} {self._layouts[layout]};")
        for buffer in held:
            assert buffer.layout is not None
            self._declare_registers(cpp_type(buffer.type.dtype), self.buffer_name(buffer), buffer.layout)

    def layout_name(self, layout: AnyLayout) -> str:
        """The C++ type of a layout."""
        return self._layouts.get(layout) or layout.cpp

    def _declare_registers(self, element: str, name: str, layout: AnyLayout) -> None:
        aligned = layout.alignment if isinstance(layout, Fragment) else ""
        self.line(f"{aligned}{element} {name}[{layout.registers}];")

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
        made = [value for each in inner for value in (*each.results, *emitted_params(each))]
        written = {self.tiles[value].buffer for value in made if value in self.tiles}
        memory = {tile.buffer for tile in self._touched if tile.layout is None and not tile.plane}
        reads: set[Place] = {buffer for buffer in memory if buffer not in written}
        writes: set[Place] = {buffer for buffer in memory if buffer in written}
        if any(tile.plane for tile in self._touched) or any(each.builtin.reads for each in inner):
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

    def defers(self, value: Value) -> bool:
        return value in self._deferred

    def defer(self, value: Value, array: str, offset: Sequence[str]) -> None:
        """Name the part of an array under a tile, whose elements are read where the tile is used."""
        tile, at, plane = self.tile(value), self.fresh("at"), self.fresh("plane")
        if self.packed_axis("a", "offset") == 1:
            self._runs[plane] = self.fresh("run")
        self.line(f"const tk::i64 {at}[] = {{{', '.join(offset)}}};")
        rows, cols = tile.shape
        self.line(f"const tk::Plane {plane} = tk::plane<{rows}, {cols}, 0, 1>({array}, {at});")
        self.tiles[value] = replace(tile, plane=plane)

    def packed_axis(self, array: str, offset: str) -> int | None:
        """The array's axis along which elements lie side by side and a tile starts at a multiple of 16 bytes."""
        assert self.op is not None
        value, given = self.op.operands[array], self.op.operands[offset]
        assert isinstance(value, Value)
        known = self.target.class_of(value, self.fn, self._defined)
        offsets = given if isinstance(given, tuple) else (given,)
        if known.unit_axis < 0 or not known.aligned:
            return None
        axis = known.unit_axis
        first = affine_of(offsets[axis], self._defined).divisor if axis < len(offsets) else 0
        return axis if first * value.type.dtype.itemsize % PACK_BYTES == 0 else None

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
        if isinstance(layout, Fragment):
            with self._fragment(layout) as index:
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

    @contextmanager
    def _fragment(self, layout: Fragment) -> Iterator[ElementIndex]:
        """Loops over a thread's registers of a fragment that hold elements."""
        i, row, col = self.fresh("i"), self.fresh("row"), self.fresh("col")
        held = f"if (tk::is_held<{layout.cpp}>(team.rank(), {i}))"
        read = self._tiles() if layout.warps is not None else ()
        runs = {tile.plane: tile.element for tile in read if tile.plane in self._runs}
        with self._each_register(layout, i, runs) as loaded, self.braces(held):
            for name, what in ((row, "row"), (col, "col")):
                self.line(f"[[maybe_unused]] const int {name} = {layout.cpp}::{what}(team.rank(), {i});")
            index = ElementIndex((row, col))
            index.register, index.loaded = i, loaded
            yield index

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
    def _each_register(self, layout: Fragment, i: str, runs: Mapping[str, str]) -> Iterator[dict[str, str]]:
        """Loops over the registers of a fragment; where arrays are read, over those of neighbours, which are loaded
        together. Gives what the element of each such part of an array is."""
        self.line("TK_UNROLL")
        if not runs:
            with self.braces(f"for (int {i} = 0; {i} < {layout.registers}; ++{i})"):
                yield {}
            return
        x, y, j, held = self.fresh("x"), self.fresh("y"), self.fresh("j"), layout.cpp
        with self.braces(f"for (int {x} = 0; {x} < {held}::thread_rows; ++{x})"):
            self.line("TK_UNROLL")
            with self.braces(f"for (int {y} = 0; {y} < {held}::thread_cols; {y} += {held}::run)"):
                at = ", ".join(f"{held}::{what}(team.rank(), {held}::number({x}, {y}))" for what in ("row", "col"))
                for plane, element in runs.items():
                    self.line(f"{element} {self._runs[plane]}[{held}::run];")
                    self.line(f"tk::read_run<true>({self._runs[plane]}, {plane}, {at});")
                self.line("TK_UNROLL")
                with self.braces(f"for (int {j} = 0; {j} < {held}::run; ++{j})"):
                    self.line(f"const int {i} = {held}::number({x}, {y} + {j});")
                    yield {plane: f"{self._runs[plane]}[{j}]" for plane in runs}

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
