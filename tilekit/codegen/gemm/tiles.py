"""How the threads of a block share a product: warps over the tile, the ring in shared memory, registers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tilekit.codegen.architectures import shared_limit
from tilekit.codegen.gemm.kinds import AMPERE, Kind
from tilekit.codegen.gemm.product import Product, Situation
from tilekit.codegen.layouts import Layout
from tilekit.codegen.layouts.cores import fma_sums, mma_sums
from tilekit.codegen.text import cpp_type
from tilekit.ir.types import DType, float64

WARP = 32
WARP_COUNTS = (1, 2, 4, 8, 16, 32)
REGISTERS = 65536
"""Of a multiprocessor."""
MOST_REGISTERS = 255
"""Of a thread."""
OTHER_REGISTERS = 56
"""That a thread needs for addresses and bounds."""
SAVED_REGISTERS = 32
"""Of those that a thread of multiply-adds is said to need, those that the compiler does without."""
MOST_STAGES = 4
"""More have not made any product faster."""
STAGES_BY_HAND = 2
"""Of a ring that threads fill themselves: what more of them hold is not there sooner."""
SMALL_TILE = 64 * 64
"""Elements from which two warps are faster than one."""
SHARED_OF_OTHERS = 49152
"""Bytes of shared memory that a block of any architecture may have."""
RESERVED = 1024
"""Bytes of shared memory that the system takes for each block."""


def architecture(arch: str) -> int:
    """The number in an architecture's name.

    Example:
        >>> architecture("90a"), architecture("")
        (90, 0)
    """
    return int("".join(letter for letter in arch if letter.isdigit()) or 0)


def shared_of_block(arch: int) -> int:
    """Bytes of shared memory that a block may have at most, as far as that is known."""
    return shared_limit(str(arch)) or SHARED_OF_OTHERS


def _stages_of(arch: int, asked: int | None) -> int | None:
    """How many stages a ring must have: those asked for; without asynchronous copies, two. None where it may choose."""
    return asked or (None if arch >= AMPERE else STAGES_BY_HAND)


def _odd_part(number: int) -> int:
    return number >> _bits(number)


def _bits(number: int) -> int:
    """How often 2 divides a number."""
    return (number & -number).bit_length() - 1


def round_up(number: int, unit: int) -> int:
    """The least multiple of ``unit`` that is not less."""
    return -(-number // unit) * unit


@dataclass(frozen=True)
class Reading:
    """How a factor comes to the threads that multiply it."""

    dtype: DType
    k_major: bool
    """Whether its neighbours in memory lie along the sum."""
    how: str
    """An ``Access`` of ``native/operand.h``, or ``""`` for tiles in memory that are read element by element."""
    packed: bool = False
    """Whether 16 bytes are copied at once."""
    strides: tuple[int, int] = (0, 0)
    """Of a tile in memory, in elements: across the sum, and along it."""

    def operand(self, extent: int, across: int, depth: int, k: int) -> str:
        """Its C++ type, for ``extent`` rows (columns), ``across`` with the padding of the layout."""
        element = cpp_type(self.dtype)
        if not self.how:
            return f"tk::StridedOperand<{element}, {extent}, {k}, {self.strides[0]}, {self.strides[1]}>"
        length = f", {max(self.strides)}" if self.how == "kDense" else ""
        return f"tk::SharedOperand<{element}, {across}, {depth}, {str(self.k_major).lower()}, tk::{self.how}{length}>"

    def bytes(self, across: int, depth: int) -> int:
        """Of one step in a ring."""
        return round_up(across * depth * self.dtype.itemsize, 128)


@dataclass(frozen=True)
class Warps:
    """The warps of a block over a tile of ``m`` x ``n``."""

    kind: Kind
    m: int
    n: int
    down: int
    right: int
    lanes_m: int = 4
    """Lanes of a warp along the rows, of multiply-adds."""

    @property
    def threads(self) -> int:
        return WARP * self.down * self.right

    @property
    def unit(self) -> tuple[int, int]:
        return (4 * self.lanes_m, 4 * (WARP // self.lanes_m)) if self.kind.is_fma else self.kind.unit

    @property
    def tile(self) -> tuple[int, int]:
        """Rows and columns of a warp."""
        rows, cols = self.unit
        return round_up(self.m, rows * self.down) // self.down, round_up(self.n, cols * self.right) // self.right

    @property
    def rows(self) -> int:
        return self.tile[0] * self.down

    @property
    def cols(self) -> int:
        return self.tile[1] * self.right

    @property
    def sums(self) -> int:
        """That each thread holds."""
        return self.tile[0] * self.tile[1] // WARP

    @property
    def layout(self) -> Layout:
        """How the threads hold the sums."""
        odd = [_odd_part(count) for count in (self.down, self.right)]
        axis = next((axis for axis, part in enumerate(odd) if part > 1), None)
        down, right = _bits(self.down), _bits(self.right)
        own_m, own_n = (_bits(extent // unit) for extent, unit in zip(self.tile, self.unit, strict=True))
        if self.kind.is_fma:
            core = fma_sums(down, right, _bits(self.lanes_m), own_m, own_n, max(odd), axis)
        else:
            core = mma_sums(down, right, own_m, own_n, max(odd), axis)
        return Layout(core, (self.m, self.n))

    @property
    def ahead(self) -> bool:
        """Whether threads load the next registers before they multiply the last."""
        return self.kind.ahead and self.sum_registers <= (128 if self.kind.name.startswith("Tensor16") else 64)

    @property
    def sum_registers(self) -> int:
        """Registers of a thread that hold its sums."""
        return self.sums * (2 if self.kind.item is float64 else 1)

    def registers(self, depth: int) -> int:
        """About how many registers a thread needs, which may be more than it has."""
        rows, cols = self.tile
        if self.kind.is_fma:
            held = 4 * (rows // self.lanes_m + cols // (WARP // self.lanes_m))
        else:
            held = rows // 16 * 4 + cols // 8 * 2
        apart = 0
        if self.kind.name == "Tf32x3":  # sums_apart in native/mma.h
            apart = self.sums if self.sums <= 64 and self.threads <= 256 else cols // 2
        held *= (2 if self.kind.item is float64 else 1) * (2 if self.ahead or self.kind.name == "Tf32x3" else 1)
        deep = 48 if self.kind.name == "Tf32" and self.ahead and depth > 16 else 0
        return round_up(self.sum_registers + apart + held + deep + OTHER_REGISTERS, 8)

    @property
    def given(self) -> int:
        """The registers that a thread can have."""
        return min(REGISTERS // self.threads, MOST_REGISTERS)

    @property
    def spacious(self) -> bool:
        """Whether a thread has all the registers that it needs."""
        return self.registers(self.kind.depth) <= min(REGISTERS // self.threads, round_up(MOST_REGISTERS, 8))

    @property
    def lacking(self) -> int:
        """About how many registers a thread lacks. Multiply-adds, of which one needs few at once, find some to save."""
        saved = SAVED_REGISTERS if self.kind.is_fma else 0
        return max(self.registers(self.kind.depth) - saved - self.given, 0)


def warps_of(kind: Kind, m: int, n: int, threads: int | None, weights: tuple[int, int]) -> Warps | str:
    """The warps over a tile: of that many threads, or as many as are fastest; or why none can hold the sums.

    Args:
        kind: Of the product.
        m: Rows of the tile.
        n: Columns of the tile.
        threads: Of the block, where that is fixed; a multiple of 32.
        weights: What it costs to read a row of ``a`` and a column of ``b``, relative to each other.
    """
    counts = (threads // WARP,) if threads else WARP_COUNTS
    if threads:
        best = _shaped(kind, m, n, threads // WARP, weights)
    else:
        grids = [_shaped(kind, m, n, count, weights) for count in WARP_COUNTS]
        enough = (i for i, warps in enumerate(grids) if _is_small(warps) and (i or m * n < SMALL_TILE))
        chosen = next(enough, len(grids) - 1)
        best = grids[chosen]
        if not best.spacious and chosen and grids[chosen - 1].spacious:
            best = grids[chosen - 1]
    if best.lacking:
        others = [warps for count in counts for warps in _grids(kind, m, n, count)]
        best = min((best, *others), key=lambda warps: (not _holds(warps), warps.lacking, *_cost(warps, weights)))
    if _holds(best):
        return best
    other = warps_of(kind, m, n, None, weights) if threads else None
    instead = f"{other.threads} threads, or " if isinstance(other, Warps) else ""
    block = f"{threads} threads" if threads else "a block"
    return f"the registers of {block} do not hold {m} x {n} sums; use {instead}smaller tiles"


def _shaped(kind: Kind, m: int, n: int, count: int, weights: tuple[int, int]) -> Warps:
    return min(_grids(kind, m, n, count), key=lambda warps: _cost(warps, weights))


def _is_small(warps: Warps) -> bool:
    rows, cols = warps.tile
    return rows * cols <= warps.kind.warp[0] * warps.kind.warp[1]


def _holds(warps: Warps) -> bool:
    """Whether a thread's registers hold its sums, and something to multiply beside them."""
    return warps.sum_registers + OTHER_REGISTERS <= warps.given


def _grids(kind: Kind, m: int, n: int, count: int) -> Iterator[Warps]:
    for down in range(1, count + 1):
        odd = _odd_part(down), _odd_part(count // down)
        if count % down == 0 and 1 in odd:  # groups of warps follow each other along one axis
            for lanes in (4, 8) if kind.is_fma else (4,):
                yield Warps(kind, m, n, down, count // down, lanes)


def _cost(warps: Warps, weights: tuple[int, int]) -> tuple[int, int, int]:
    """What is computed, then what is read from shared memory, then how far the warps are from the favoured shape."""
    rows, cols = warps.tile
    read = warps.down * warps.right * (rows * weights[0] + cols * weights[1])
    return warps.rows * warps.cols, read, abs(rows - warps.kind.warp[0]) + abs(cols - warps.kind.warp[1])


@dataclass(frozen=True)
class Ring:
    """Steps of a loop over k that are in shared memory at once."""

    k: int
    """Elements along the sum that one step adds."""
    depth: int
    """With the padding to whole instructions."""
    stages: int
    bytes: int
    blocks: int
    """Blocks that a multiprocessor has room for."""


def ring_of(product: Product, situation: Situation, warps: Warps, a: Reading, b: Reading) -> Ring | str:
    """The ring of a loop over K, or why there is none.

    Args:
        product: Of one iteration.
        situation: The architecture, what else is in shared memory, and how many stages are asked for.
        warps: Over the tile.
        a: How the left factor is read.
        b: How the right factor is read.
    """
    arch, kind = architecture(situation.arch), warps.kind
    room, stages = shared_of_block(arch) - situation.shared, _stages_of(arch, situation.stages)
    for length in _lengths(kind, product):
        depth = round_up(length, max(kind.k, *(16 // factor.dtype.itemsize for factor in (a, b))))
        step = a.bytes(warps.rows, depth) + b.bytes(warps.cols, depth)
        if step * (stages or 1) > room:
            continue
        blocks = _blocks(warps, depth)
        fitting = (room + RESERVED) // blocks - RESERVED
        fits = fitting // step if fitting >= 2 * step else room // step
        count = stages or max(1, min(_most_stages(product, length), fits))
        blocks = min(blocks, max(1, (room + RESERVED) // (count * step + RESERVED)))
        return Ring(length, depth, count, count * step, blocks)
    return f"the factors of a step do not fit in {room} bytes of shared memory; use smaller tiles"


def _most_stages(product: Product, length: int) -> int:
    """The stages with which all steps of a short loop are under way at once: one more than there are, or one."""
    steps = -(-product.total // length)
    return min(MOST_STAGES, steps + 1 if steps != 1 else 1) if steps else MOST_STAGES


def _lengths(kind: Kind, product: Product) -> Iterator[int]:
    """What a step of the ring may add, best first: any length where iterations follow each other without a gap."""
    length = kind.depth if product.joined else product.k
    while True:
        more = product.joined and length > kind.k
        if not (more and product.total and length >= 2 * product.total):  # else half of it would be zeros
            yield length
        if not more:
            return
        length //= 2


def _blocks(warps: Warps, depth: int) -> int:
    """Blocks for which a multiprocessor has registers and threads."""
    return max(
        1, min(REGISTERS // (warps.threads * min(warps.registers(depth), MOST_REGISTERS)), 2048 // warps.threads, 6)
    )
