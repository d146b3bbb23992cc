"""``tile_apply``: one PTX instruction for each element of tiles."""

from __future__ import annotations

from typing import Any

from tilekit.builtins.atom_memory import load_atom, store_atom
from tilekit.builtins.atom_operands import Operands, matched, predicate
from tilekit.builtins.atom_ops import apply_atom, apply_atom_apart
from tilekit.builtins.atoms import Atom, Spelling, ptx
from tilekit.builtins.memory import full_offset
from tilekit.errors import KernelTypeError, KernelValueError, TilekitError
from tilekit.ir.context import fail
from tilekit.ir.handles import Tile
from tilekit.ir.operands import describe, index_operand
from tilekit.ir.types import bool_
from tilekit.ir.views import ViewMap

__all__ = ["tile_apply"]
GROUP = "PTX atoms"
SCOPES = ("block", "thread")


def tile_apply(
    atom: Any,
    *operands: Any,
    pred: Any = None,
    preserve_dst: bool = False,
    offset: Any = None,
    scope: str = "block",
) -> None:
    """Apply a PTX instruction to tiles: one instruction for each repeat, exactly as it is spelled.

    Args:
        atom: An atom, such as ``tk.ptx["fma.rn.f32"]``, or its spelling.
        operands: In the order of PTX, the destination first: tiles whose shapes are the repeats, numbers that are the
            same for all repeats, and for the memory of loads and stores an array. Nothing is converted.
        pred: A bool, or a tile of bools with one a repeat: where it is false, the instruction does nothing.
        preserve_dst: Where ``pred`` is false, the destination keeps what it holds; else that is undefined there.
        offset: Of loads and stores, the index in the array of the tile's first element: run time or constant, 0 by
            default.
        scope: ``"block"``: the threads of the block share the repeats. ``"thread"``: each thread executes all of them.

    Raises:
        KernelTypeError: too many or too few operands, one of another dtype than the instruction takes, a number as the
            destination.
        KernelValueError: shapes that differ, a destination that overlaps a source in part, ``preserve_dst`` without
            ``pred``, a GPU that does not have the instruction.
        KernelIndexError: a repeat is outside the array; raised by the launch.

    Example:
        >>> import tilekit as tk
        >>> x, out = tk.tile_full(3, 3.0), tk.tile_empty(3)
        >>> tk.tile_apply(tk.ptx["fma.rn.f32"], out, x, 2.0, 1.0)
        >>> out
        tile<3xf32>
        [7. 7. 7.]
    """
    try:
        found = ptx[str(atom)] if isinstance(atom, str | Spelling) else atom
        if not isinstance(found, Atom):
            raise KernelTypeError(f'tile_apply(): atom must be one such as tk.ptx["fma.rn.f32"], got {describe(atom)}')
        _check_options(found, pred, preserve_dst, offset, scope)
        given = matched(found, operands)
        _record(given, predicate(given.atom, pred, given.repeats), preserve_dst, offset, scope == "thread")
    except TilekitError as error:
        raise fail(error) from None


def _check_options(atom: Atom, pred: Any, preserve: Any, offset: Any, scope: Any) -> None:
    in_memory = [slot for slot in atom.slots if slot.kind == "memory"]
    if not isinstance(preserve, bool):
        raise KernelTypeError(f"{atom}: preserve_dst must be True or False, got {describe(preserve)}")
    if scope not in SCOPES:
        hint = "; a block of tilekit is a CTA" if scope == "cta" else ""
        raise KernelValueError(f"{atom}: scope must be 'block' or 'thread', got {describe(scope)}{hint}")
    if preserve and pred is None:
        raise KernelValueError(f"{atom}: preserve_dst=True needs pred=..., without which every repeat is written")
    if preserve and atom.slots[0].kind == "memory":
        raise KernelValueError(f"{atom}: memory is unchanged where pred is false; leave preserve_dst out")
    if offset is not None and not in_memory:
        raise KernelValueError(f"{atom}: offset is for loads and stores; take a part of a tile with tk.tile_view")


def _record(given: Operands, pred: Any, preserve: bool, offset: Any, everyone: bool) -> None:
    """Record the op, and write its result to the destination."""
    atom, (to, *others) = given.atom, given.given
    wide = max(slot.lanes for slot in atom.slots)
    alike = all(slot.lanes == wide for slot in atom.slots)
    run = wide if alike and not everyone and (wide == 1 or not isinstance(pred, Tile)) else 0
    if not isinstance(to, Tile):
        a, tile = _placed(to, others[0], atom)
        store_atom(a, (tile,), _offset(a, offset, atom), pred, atom, run, everyone, a.name)
        return
    dst = to if preserve else None
    if atom.slots[1].kind == "memory":
        a, tile = _placed(others[0], to, atom)
        dst = tile if preserve else None
        at = _offset(a, offset, atom)
        found = load_atom(dst, a, at, pred, atom, tile.shape, tile.dtype, run, everyone, a.name)
        tile.assign(found.read())
        return
    apply = apply_atom if alike and not everyone else apply_atom_apart
    to.assign(apply(dst, tuple(others), pred, atom, to.shape, to.dtype, run, everyone).read())


def _placed(a: Any, tile: Any, atom: Atom) -> tuple[Any, Tile]:
    """An array and a tile of as many axes: a last extent of 1 that the array has not is left out."""
    if not isinstance(tile, Tile):
        raise KernelTypeError(f"{atom} needs a tile, whose shape gives the number of repeats; got {describe(tile)}")
    if tile.ndim == a.ndim + 1 and tile.shape[-1] == 1 and atom.slots[0].lanes == 1:
        tile = Tile.view(tile, ViewMap.identity(tile.shape[:-1]))
    if tile.ndim != a.ndim:
        raise KernelValueError(
            f"{atom}: {describe(tile)} does not fit {describe(a)}; they need the same number of dimensions"
        )
    if (a.dtype == bool_) != (tile.dtype == bool_):
        raise KernelTypeError(
            f"{atom}: {describe(tile)} does not fit {describe(a)}: a bool is 0 or 1, but a byte may hold more; "
            "convert the tile with tk.tile_astype"
        )
    return a, tile


def _offset(a: Any, offset: Any, atom: Atom) -> tuple[Any, ...]:
    found = index_operand(0 if offset is None else offset, f"{atom}: offset")
    full_offset(found, a.ndim, str(atom))
    return found
