"""Adds to gradients in place, without atomics, where each element belongs to one point of the grid.

What is only added to by one point, or block, has one order already: that of the point's code. So the additions become
reads, sums and writes, in the kernel that they stand in. Tiles are gathered where that is possible
(``gather_gradients``): a block that gathers adds up all that an element gets before it touches the array, and turns
loops into products; here every addition reads and writes the array.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any

from tilekit.ir.context import LaunchForm
from tilekit.ir.core import Function, Op, Value, walk
from tilekit.ir.program import Launch, Limit, Program, Summed
from tilekit.ir.rewrite import Rewriter
from tilekit.ir.sizes import MAX_BLOCK_DIM, Dim, Size
from tilekit.passes.contributions import Grid, Scattered, additions
from tilekit.passes.lowering import lowered
from tilekit.passes.ownership import Coordinate, Lane, Ownership
from tilekit.passes.uniformity import runs_lanes
from tilekit.passes.wraparound import tightest


def own_gradients(program: Program, form: LaunchForm) -> Program:
    """The program with atomic updates of arrays made plain ones, where each element belongs to one point.

    Args:
        program: As ``gather_gradients`` gives it.
        form: Of the user's launch, with its dimensions.

    Returns:
        A program that gives the same sums. ``sums`` says of each array that is added to how that is done; of one that
        could not have been gathered anyhow, it says why it does not belong to points either.
    """
    sums = {(summed.launch, summed.array): summed for summed in program.sums}
    launches, limits = [], list(program.limits)
    for launch in program.launches:
        owned, found, more = _owned(launch, form)
        limits += more
        for summed in found:
            key = (summed.launch, summed.array)
            sums[key] = summed if key not in sums or summed.form != "scattered" else sums[key]
        launches.append(replace(launch, function=_in_place(launch.function, owned)) if owned else launch)
    return replace(program, launches=tuple(launches), sums=tuple(sums.values()), limits=tightest(limits))


def _owned(launch: Launch, users: LaunchForm) -> tuple[set[Op], list[Summed], list[Limit]]:
    """The updates of a launch that need no atomics, how each array is summed that it adds to, and up to which sizes."""
    fn, form = launch.function, launch.form(users)
    updates: dict[Value, set[Op]] = {}
    if not any(op.builtin.atomics for op in walk(fn.body)):
        return set(), [], []
    ownership = Ownership(fn, _sizes(launch, form), form.tiled)
    for array, each in ownership.touched.items():
        updates[array] = {op for op, _ in each if op.builtin.atomics}
    added, names = additions(fn), {value: name for name, value in fn.params.items()}
    found, owned, limits = [], set[Op](), list[Limit]()
    for array, ops in updates.items():
        name = names.get(array, "an array")
        try:
            owner, needed = ownership.check(array)
            owned |= ops
            limits += needed if ops else ()
            summed = Summed(name, "added in place", f"by the {owner} that it belongs to", fn.name)
        except Scattered as why:
            summed = why.of(name, fn.name)
        found += [summed] if array in added else []
    return owned, found, limits


def _sizes(launch: Launch, form: LaunchForm) -> dict[Coordinate, Size]:
    """The coordinates of a launch, and how many values each takes."""
    grid = launch.grid or tuple(map(Dim, range(form.ndim or 1)))
    sizes: dict[Coordinate, Size] = {Grid(axis): size for axis, size in enumerate(grid)}
    has_lanes = form.tiled and runs_lanes(launch.function, form.tiled)
    return {**sizes, Lane(): form.block_dim or MAX_BLOCK_DIM} if has_lanes else sizes


def _in_place(fn: Function, owned: Collection[Op]) -> Function:
    def change(op: Op, rewriter: Rewriter) -> Any:
        if op not in owned:
            return None
        operands = {name: rewriter.operand(operand) for name, operand in op.operands.items()}
        ops, data = lowered(op, operands, "alone")
        rewriter.known.update(zip(op.results, data, strict=True))
        return ops

    return fn.with_body(Rewriter(change=change).block(fn.body))
