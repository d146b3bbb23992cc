"""Make one map of two of which one computes the elements that only the other reads: the tile between needs no memory.

The first map then runs where the second one stood, so what it reads is needed longer. Maps are fused where this takes
no more memory: where nothing between them makes a tile, or where what is needed longer is no larger than the tile that
is gone, and lies where it lay. A map has at most ``MOST_OPS`` ops then, and ``MOST_ARGS`` arguments.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tilekit.ir.core import Block, Function, Op, Value, walk
from tilekit.ir.regions import region_of
from tilekit.ir.rewrite import Rewriter
from tilekit.ir.types import TileType
from tilekit.passes.eliminate_common import reads_memory
from tilekit.passes.fold_constants import typed
from tilekit.passes.tile_lives import TileLives

MOST_OPS = 64
"""Of a fused map: compilers take their time over longer loops."""
MOST_ARGS = 12
"""Each of which takes registers."""


def fuse_maps(fn: Function) -> Function:
    """The function with maps that feed one other map as part of that."""
    if not any(map(is_map, walk(fn.body))):
        return fn
    body = _fused(fn.body, TileLives(fn))
    return fn if body is fn.body else fn.with_body(body)


def _fused(block: Block, lives: TileLives) -> Block:
    found = _Block(lives)
    changed = False
    for op in block.ops:
        new = op
        if op.builtin.carries:
            blocks = tuple(_fused(inner, lives) for inner in op.blocks)
            if any(a is not b for a, b in zip(blocks, op.blocks, strict=True)):
                new = op.with_(blocks=blocks)
        elif is_map(op):
            new = found.absorb(op)
        changed = changed or new is not op
        found.add(new, op)
    return Block(block.params, tuple(op for op in found.ops if op is not None), block.results) if changed else block


def is_map(op: Op) -> bool:
    """Whether an op computes each element of a tile from the same elements of others."""
    region = op.builtin.region
    return region is not None and region.runs == "elements" and isinstance(op.operands[region.args], tuple)


class _Block:
    """The ops of a block so far."""

    def __init__(self, lives: TileLives) -> None:
        self.lives = lives
        self.ops: list[Op | None] = []
        self.maps: dict[Value, int] = {}
        """The places of maps, by their results."""
        self.makers: dict[int, None] = {}
        """The places of ops that make tiles, in order."""

    def add(self, op: Op, original: Op) -> None:
        """Append an op, in whose place ``original`` stood."""
        self.lives.at[op] = self.lives.at[original]
        place = len(self.ops)
        self.ops.append(op)
        if is_map(op):
            self.maps[op.results[0]] = place
        if op.blocks or any(isinstance(result.type, TileType) and not op.builtin.view for result in op.results):
            self.makers[place] = None

    def absorb(self, op: Op) -> Op:
        """A map with those that only feed it as a part of it, the nearest ones first."""
        original = op
        tried: set[Value] = set()
        while True:
            args = [arg for arg in _args(op) if arg in self.maps and arg not in tried]
            if not args:
                return op
            tile = max(args, key=lambda arg: self.maps[arg])
            tried.add(tile)
            place = self.maps[tile]
            first = self.ops[place]
            if first is None or not self._may_fuse(first, original, place):
                continue
            fused = _one(first, op)
            if fused is None:
                continue
            op = fused
            self.ops[place] = None
            del self.maps[tile]
            del self.makers[place]
            for arg in _tiles(first):
                self.lives.need(arg, self.lives.at[original])

    def _may_fuse(self, first: Op, second: Op, place: int) -> bool:
        lives = self.lives
        (tile,) = first.results
        if any(user is not second for user in lives.users.get(tile, ())) or not _is_plain(first) or _is_paired(tile):
            return False
        if next(reversed(self.makers)) == place:
            return True
        ending = [arg for arg in _tiles(first) if lives.last[lives.base(arg)] <= lives.at[first]]
        near = all((lives.base(arg) in lives.in_memory) <= (tile in lives.in_memory) for arg in ending)
        return near and sum(map(_bytes, map(lives.base, ending))) <= _bytes(tile)


def _args(op: Op) -> tuple[Any, ...]:
    return op.operands[region_of(op).args]  # type: ignore[return-value]


def _tiles(op: Op) -> Iterable[Value]:
    return dict.fromkeys(arg for arg in _args(op) if isinstance(arg.type, TileType))


def _bytes(tile: Value) -> int:
    assert isinstance(tile.type, TileType)
    return tile.type.size * tile.type.dtype.itemsize


def _is_paired(tile: Value) -> bool:
    """Whether GPUs compute two neighbours at once, which assemblers see in maps of few steps only."""
    return tile.type.dtype.is_float and tile.type.dtype.bits == 16


def _is_plain(op: Op) -> bool:
    """Whether it does not matter when an op runs."""
    return not op.runs_anyway and not reads_memory(op)


def _one(first: Op, second: Op) -> Op | None:
    """Both maps as one; None where that is too much for one."""
    name = region_of(second).args
    (inner,), (outer,) = first.blocks, second.blocks
    (tile,) = first.results
    params: dict[Any, Value] = {}
    known: dict[Value, Any] = {}
    pairs = list(zip((*_args(first), *_args(second)), (*inner.params, *outer.params), strict=True))
    for arg, param in pairs:
        if arg is not tile:
            known[param] = params.setdefault(arg if isinstance(arg, Value) else param, param)
    given = {known[param]: arg for arg, param in pairs if arg is not tile}
    if len(inner.ops) + len(outer.ops) > MOST_OPS or len(params) > MOST_ARGS:
        return None
    rewriter = Rewriter(known)
    ops = rewriter.ops(inner.ops)
    (yielded,) = map(rewriter.look_up, inner.results)
    rewriter.known.update((param, typed(yielded, param.type)) for arg, param in pairs if arg is tile)
    body = Block(tuple(params.values()), (*ops, *rewriter.ops(outer.ops)), tuple(map(rewriter.look_up, outer.results)))
    attrs = {key: value or first.attrs[key] for key, value in second.attrs.items()}
    args = tuple(given[param] for param in params.values())
    return second.with_(operands={**second.operands, name: args}, attrs=attrs, blocks=(body,))
