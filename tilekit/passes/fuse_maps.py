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
from tilekit.ir.rewrite import Rewriter, replace_ops
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
    replaced: dict[Op, tuple[Op, ...]] = {}
    _fuse(fn.body, TileLives(fn), replaced)
    return fn.with_body(replace_ops(fn.body, replaced)) if replaced else fn


def _fuse(block: Block, lives: TileLives, replaced: dict[Op, tuple[Op, ...]]) -> None:
    """Note what stands for the maps of a block and of the blocks inside it."""
    found = _Block(lives, replaced)
    for op in block.ops:
        if op.builtin.carries:
            for inner in op.blocks:
                _fuse(inner, lives, replaced)
        found.add(op)


def is_map(op: Op) -> bool:
    """Whether an op computes each element of a tile from the same elements of others."""
    region = op.builtin.region
    return region is not None and region.runs == "elements" and isinstance(op.operands[region.args], tuple)


class _Block:
    """The ops of a block so far."""

    def __init__(self, lives: TileLives, replaced: dict[Op, tuple[Op, ...]]) -> None:
        self.lives = lives
        self.replaced = replaced
        """What stands for maps."""
        self.maps: dict[Value, Op] = {}
        """Those that no other one has taken in, by their results."""
        self.makers: dict[Op, None] = {}
        """The ops that make tiles, in order."""

    def add(self, op: Op) -> None:
        """Go on to an op, and take those maps into it that only feed it."""
        if is_map(op):
            self._absorb(op)
            self.maps[op.results[0]] = op
        if op.blocks or any(isinstance(result.type, TileType) and not op.builtin.view for result in op.results):
            self.makers[op] = None

    def _absorb(self, op: Op) -> None:
        """Make maps a part of the map that alone reads them, the nearest ones first."""
        made = op
        tried: set[Value] = set()
        while args := [arg for arg in _args(made) if arg in self.maps and arg not in tried]:
            tile = max(args, key=lambda arg: self.lives.at[self.maps[arg]])
            tried.add(tile)
            first = self.maps[tile]
            (feeding,) = self.replaced.get(first, (first,))
            fused = _one(feeding, made) if self._may_fuse(feeding, first, op) else None
            if fused is None:
                continue
            for arg in _tiles(feeding):
                self.lives.need(arg, self.lives.at[op])
            made = fused
            self.replaced |= {first: (), op: (made,)}
            del self.maps[tile]
            del self.makers[first]

    def _may_fuse(self, feeding: Op, first: Op, second: Op) -> bool:
        """Whether what stands for a map may become a part of another; ``first`` and ``second`` stand in the text."""
        lives = self.lives
        (tile,) = first.results
        if any(user is not second for user in lives.users.get(tile, ())) or not _is_plain(feeding) or _is_paired(tile):
            return False
        if next(reversed(self.makers)) is first:
            return True
        ending = [arg for arg in _tiles(feeding) if lives.last[lives.base(arg)] <= lives.at[first]]
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
