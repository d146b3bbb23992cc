"""Whether each element of an array belongs to one point of a launch's grid, which alone reads and writes it.

Take the coordinates of the grid in some order, and suppose that for each of them there is an axis of the array such
that, in every access of the launch to the array, the first index touched on that axis is ``step * coordinate + base``:

- ``step`` is the same for all accesses, and not zero;
- ``base`` is made of what is the same in the whole launch, and of coordinates that come earlier in the order, alike in
  all accesses; and of a part that differs between accesses, which lies between two numbers known when compiling, such
  as a constant, or the index of a loop with constant bounds;
- what lies between the smallest of these numbers and the largest, plus the extent of the tile, fits in ``step``;
- the coordinate takes so few values that the index does not wrap around onto what it has left (``wraparound.py``).

Then different points touch different elements. *Proof.* Let ``p`` and ``q`` be two points, and ``c`` the first
coordinate in the order in which they differ. Leave aside the parts that differ between accesses. Then where an access
of ``p`` and one of ``q`` begin on the axis of ``c`` differs by ``step * (c(p) - c(q))``, at least ``step`` either way,
as earlier coordinates are the same in both points, and so are their multiples. Counted from there, both touch only what
lies in one range of at most ``step`` elements. So on this axis they have no element in common: not among the sums that
the kernel writes, nor modulo the power of two that its integers wrap around at, which is proved in ``wraparound.py``. ∎

Nothing is asked of other axes, nor of conditions and loops around: they choose which accesses a point makes, and when.
One thread or block makes them one after another, so that what one point adds to an element has one order, that of its
code. Blocks wait between reading and writing arrays (``codegen/barriers.py``).

Coordinates are those of blocks, or of points under ``launch``; where lanes of a block run by themselves, the lane is
one more. A coordinate that takes one value only needs no axis.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from tilekit.builtins.grid import coordinate, lane_index, point
from tilekit.ir.affine import affine_of
from tilekit.ir.core import Const, Function, Op, Value, leaves, walk
from tilekit.ir.program import Limit
from tilekit.ir.regions import region_of
from tilekit.ir.sizes import Size
from tilekit.ir.types import TileType
from tilekit.passes.contributions import Grid, Scattered, Source, entries
from tilekit.passes.wraparound import Move

CONDITION = 5


@dataclass(frozen=True)
class Lane:
    """The number of a lane in its block."""

    def __str__(self) -> str:
        return "the lane"


Coordinate = Grid | Lane


@dataclass
class Along:
    """What an access touches along one axis."""

    steps: dict[Coordinate, int] = field(default_factory=dict)
    """How far each coordinate moves it."""
    base: dict[Any, int] = field(default_factory=dict)
    """What is the same in the whole launch: the factor of each number, by its fingerprint."""
    low: int = 0
    """The smallest number that the rest may be."""
    high: int = 0
    """The first index after all that is touched, where the rest is the largest."""
    known: bool = True
    """Whether that is all."""
    bits: int = 64
    """Of the integers that it is computed in."""


@dataclass(frozen=True)
class Access:
    """One op that reads, writes or updates an array."""

    op: Op
    along: tuple[Along, ...]
    """Each axis of the array."""

    @property
    def line(self) -> int:
        return self.op.location.line if self.op.location else 0


@dataclass(frozen=True)
class Failure:
    """Why an axis does not tell points apart."""

    level: int
    """How near it comes."""
    why: Scattered


class Ownership:
    """Which points of a launch touch what of its arrays."""

    def __init__(self, fn: Function, sizes: Mapping[Coordinate, Size], tiled: bool) -> None:
        """``sizes``: how many values each coordinate takes; ``tiled``: whether each point of the grid is a block."""
        self.sizes = sizes
        self.tiled = tiled
        self.source = Source(fn, 0, {}, {})
        self.touched: dict[Value, list[tuple[Op, Value]]] = {}
        """For each array, or what stands for one that is only known at run time, the ops that touch a part of it."""
        for op in walk(fn.body):
            for name in dict.fromkeys((*op.builtin.reads, *op.builtin.writes, *op.builtin.atomics)):
                for part in leaves(op.operands[name]):
                    self.touched.setdefault(self.source.root(part)[0], []).append((op, part))
        self.written = {
            array
            for array, each in self.touched.items()
            if any(op.builtin.writes or op.builtin.atomics for op, _ in each)
        }

    def check(self, array: Value) -> tuple[str, tuple[Limit, ...]]:
        """Raise unless each element of an array belongs to one point; what such a point is, and up to which sizes.

        Raises:
            Scattered: several points may touch an element.
        """
        for other, ((first, _), *_) in self.touched.items():
            if other not in self.source.params:
                raise Scattered(CONDITION, "which array it is, is only known at run time", first.location)
        left, owner = self._coordinates(array)
        accesses, found = [self._access(op, part) for op, part in self.touched[array]], list[Limit]()
        name, location = self.source.params[array], accesses[0].op.location
        while left:
            tried = {each: self._best(each, left, accesses) for each in left}
            mover, best = next(((x, y) for x, y in tried.items() if isinstance(y, Move)), (None, None))
            if mover is None or best is None:
                raise max((each for each in tried.values() if isinstance(each, Failure)), key=lambda x: x.level).why
            found += best.limits(left.pop(mover), name, location)
        return owner, tuple(found)

    def _coordinates(self, array: Value) -> tuple[dict[Coordinate, Size], str]:
        """The coordinates that tell apart the points that touch an array, and what such a point is."""
        left = {each: size for each, size in self.sizes.items() if size != 1}
        ops = [op for op, _ in self.touched[array]]
        for op in ops:
            if any(region_of(outer).runs == "elements" for outer in self.source.around[op]):
                raise Scattered(CONDITION, "the elements of a tile add to it, in any order", op.location)
        together = [op for op in ops if op.builtin.cooperative]
        if together and not self.tiled:
            raise Scattered(CONDITION, "the points of a block add to it together", together[0].location)
        if together and Lane() in left and len(together) < len(ops):
            why = "lanes add to it both together and one by one"
            raise Scattered(CONDITION, why, together[0].location)
        if together:
            left.pop(Lane(), None)
        return left, "point" if not self.tiled else "lane" if Lane() in left else "block"

    def _best(self, mover: Coordinate, left: Mapping[Coordinate, Size], accesses: list[Access]) -> Move | Failure:
        """The axis that tells apart points that differ in a coordinate and in those that are left, for most values of
        that; else why there is none, by the axis that comes nearest."""
        axes = [self._along(mover, left, accesses, axis) for axis in range(len(accesses[0].along))]
        apart = [each for each in axes if isinstance(each, Move)]
        if apart:
            return max(apart, key=lambda each: each.most)
        return max((each for each in axes if isinstance(each, Failure)), key=lambda each: each.level)

    def _along(
        self, mover: Coordinate, left: Mapping[Coordinate, Size], accesses: list[Access], axis: int
    ) -> Move | Failure:
        first, lows, highs = accesses[0], list[int](), list[int]()
        bits = min(access.along[axis].bits for access in accesses)
        step = first.along[axis].steps.get(mover, 0)
        earlier = {each: by for each, by in first.along[axis].steps.items() if each not in left}
        for access in accesses:
            found = access.along[axis]
            low, high, known = found.low, found.high, found.known
            for other, by in found.steps.items():
                if other != mover and other in left:
                    size = left[other]
                    known = known and isinstance(size, int)
                    low, high = _widened(low, high, by, 0, (size if isinstance(size, int) and size else 1) - 1)
            why = ""
            if not known:
                level, why = 1, f"the index is no multiple of {mover} plus what is the same in the whole launch"
            elif not found.steps.get(mover):
                level, why = 0, f"{mover} does not move the index"
            elif step != found.steps[mover] or earlier != {x: by for x, by in found.steps.items() if x not in left}:
                level, why = 2, f"{mover} moves the index in another way than at line {first.line}"
            elif found.base != first.along[axis].base:
                level, why = 2, f"how far the index is from that of line {first.line} is only known at run time"
            if why:
                return Failure(level, Scattered(CONDITION, why, access.op.location))
            lows, highs = [*lows, low], [*highs, high]
        move = Move(mover, step, max(highs) - min(lows), bits)
        if move.reach > abs(step):
            why = f"{mover} moves the index by {abs(step)}, and a point reaches over {move.reach} elements"
        elif not move.may_hold(left[mover]):
            why = move.wraps
        return Failure(3, Scattered(CONDITION, why, accesses[-1].op.location)) if why else move

    def _access(self, op: Op, part: Value) -> Access:
        """What an op touches of a part of an array."""
        root, parts = self.source.root(part)
        items: list[tuple[Any, int]] = [(item, 1) for each in parts for item in entries(each.operands.get("index"))]
        tile = next((v.type for v in (*op.results, *op.inputs()) if isinstance(v.type, TileType)), None)
        given = entries(op.operands.get("offset" if op.builtin.cooperative else "index"))
        if tile is None:
            items += [(item, 1) for item in given]
        else:
            items += zip((*given, *(0,) * (len(tile.shape) - len(given))), tile.shape, strict=False)
        ndim = root.type.ndim  # type: ignore[union-attr]
        if len(items) != ndim:
            items = [(None, 1)] * ndim
        return Access(op, tuple(self._position(*item) for item in items))

    def _position(self, index: Any, extent: int) -> Along:
        if isinstance(index, int):
            return Along(low=index, high=index + extent)
        if index is None:
            return Along(known=False)
        sum = affine_of(index, self.source.defined)
        found = Along(low=sum.constant, high=sum.constant + extent, bits=sum.bits)
        for value, by in sum.terms.items():
            mover, bounds = self._coordinate(value), self._bounds(value)
            if mover is not None:
                found.steps[mover] = found.steps.get(mover, 0) + by
            elif bounds is not None:
                found.low, found.high = _widened(found.low, found.high, by, *bounds)
            elif self._is_uniform(value):
                key = self.source.prints.of(value)
                found.base[key] = found.base.get(key, 0) + by
            else:
                found.known = False
        found.steps = {mover: by for mover, by in found.steps.items() if by}
        found.base = {key: by for key, by in found.base.items() if by}
        return found

    def _coordinate(self, value: Value) -> Coordinate | None:
        op = self.source.defined.get(value)
        if op is not None and op.builtin is (coordinate if self.tiled else point):
            found: Coordinate = Grid(op.attrs["axis"])
        elif op is not None and op.builtin is lane_index and self.tiled:
            found = Lane()
        else:
            return None
        return found if found in self.sizes else None

    def _bounds(self, value: Value) -> tuple[int, int] | None:
        """The least and the greatest index of a loop, where they are known."""
        loop = self.source.indices.get(value)
        bounds = [loop.operands[name] for name in ("start", "stop", "step")] if loop is not None else [None]
        if not all(isinstance(bound, Const) for bound in bounds):
            return None
        start, stop, step = (int(bound.value) for bound in bounds)  # type: ignore[union-attr]
        found = range(start, stop, step) if step else ()
        return (min(found[0], found[-1]), max(found[0], found[-1])) if found else (0, 0)

    def _is_uniform(self, value: Value) -> bool:
        """Whether a number is the same for all points and at all times of the launch."""
        return all(op is not None and self._keeps_uniform(op) for op in self._slice(value))

    def _slice(self, value: Value) -> Iterator[Op | None]:
        """The ops that a number comes from; None for what is no parameter of the function and has no op."""
        seen, waiting = set[Value](), [value]
        while waiting:
            each = waiting.pop()
            if each in seen or each in self.source.params:
                continue
            seen.add(each)
            op = self.source.defined.get(each)
            yield op
            waiting += op.inputs() if op is not None else ()

    def _keeps_uniform(self, op: Op) -> bool:
        """Whether the results of an op are the same wherever its operands are."""
        if op.blocks or op.has_effect or op.builtin.lane or next(op.inputs(), None) is None:
            return False
        read = (self.source.root(array)[0] for name in op.builtin.reads for array in leaves(op.operands[name]))
        return self.written.isdisjoint(read)


def _widened(low: int, high: int, by: int, least: int, greatest: int) -> tuple[int, int]:
    """A range moved by ``by`` times what lies between two numbers."""
    return low + min(by * least, by * greatest), high + max(by * least, by * greatest)
