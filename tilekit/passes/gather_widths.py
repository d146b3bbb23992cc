"""How many tiles of a gradient a block sums side by side, so that its products are as large as the forward's.

The gradient of a factor has as many columns as the forward multiplied at a time, such as 32. A product of so few is
slow: as much is read for a quarter of the sums. Where a factor is loaded from neighbouring places for neighbouring
tiles, one load and one product serve several of them.
"""

from __future__ import annotations

from tilekit.ir.affine import affine_of
from tilekit.ir.core import Op, Value, leaves
from tilekit.ir.types import TileType
from tilekit.passes.contributions import Contribution, Counter, Grid, Index, entries
from tilekit.passes.gather_nest import is_product, product_of, turned_of, unrounded

MOST = 256
"""Elements of a block along an axis."""


def widths_of(contributions: list[Contribution]) -> dict[int, int]:
    """The tiles of a block by the axis of the product, for the axes with more than one."""
    each = [dict(_of_one(contribution)) for contribution in contributions]
    return each[0] if all(found == each[0] for found in each) else {}


def _of_one(contribution: Contribution) -> list[tuple[int, int]]:
    source = contribution.source
    core, tail, swapped = product_of(source, contribution.value)
    if tail or not is_product(source, core) or len(contribution.type.shape) != 2:
        return []
    product = source.defined[core]
    left, right = (product.operands[name] for name in product.builtin.contraction[:2])
    assert isinstance(left, Value) and isinstance(right, Value) and isinstance(left.type, TileType)
    found = []
    for axis, extent in enumerate(contribution.type.shape):
        width = min(left.type.shape[1], MOST) // extent
        number = 1 - axis if swapped else axis
        if width > 1 and _is_wide(contribution, product, (left, right)[number], number, axis):
            found.append((axis, width))
    return [max(found, key=lambda each: each[1])] if found else []


def _is_wide(contribution: Contribution, product: Op, factor: Value, number: int, axis: int) -> bool:
    """Whether a factor of neighbouring tiles is loaded from neighbouring places, and all else is the same for them."""
    source = contribution.source
    position = contribution.positions[len(contribution.positions) - 2 + axis]
    index = position.index
    if index is None or position.step <= 0:
        return False
    others = [value for item in product.operands.values() if item is not factor for value in leaves(item)]
    if factor in others or any(_moves(contribution, value, index) for value in others):
        return False
    value, turned = turned_of(source, factor)
    load = source.defined.get(value)
    if load is None or not load.builtin.reads or "offset" not in load.operands or "shape" not in load.attrs:
        return False
    arrays = [value for name in load.builtin.reads for value in leaves(load.operands[name])]
    offsets, along = entries(load.operands["offset"]), 1 - number if turned else number
    if len(offsets) != 2 or any(_moves(contribution, value, index) for value in arrays):
        return False
    if any(_moves(contribution, value, index) for value in leaves(offsets[1 - along])):
        return False
    terms = affine_of(offsets[along], source.defined).terms
    step = sum(by for value, by in terms.items() if contribution.counter(value) == index)
    by = abs(index.step) if isinstance(index, Index) else 1
    return step * by == position.extent


def _moves(contribution: Contribution, value: Value, index: Counter) -> bool:
    key = index if isinstance(index, Grid) else index.value
    return key in contribution.source.depends[unrounded(contribution.source, value)]
