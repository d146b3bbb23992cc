"""The table of atoms as text: a row for each form of spellings, and all that is known of one atom."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from tilekit.builtins.atom_forms import Form, forms, long_names, operand_parts
from tilekit.builtins.atom_records import Atom, needs_text


@dataclass(frozen=True)
class Row:
    """One form: every spelling that it stands for takes these operands."""

    family: str
    mnemonics: tuple[str, ...]
    spelling: str
    operands: str
    needs: str
    notes: str


def rows(refused: bool = False) -> list[Row]:
    """The forms of all families, those that differ in the mnemonic only as one.

    Args:
        refused: List what is refused, with the reason as its notes, in place of what is legal.

    Returns:
        A row a form, in the order of the table.

    Example:
        >>> row = rows()[0]
        >>> row.spelling, row.operands, row.needs
        ('fma.<rn|rz|rm|rp>[.ftz][.sat].f32', 'd, a, b, c: f32', 'sm_20, PTX 2.0')
        >>> [row.spelling for row in rows(refused=True)]
        ['fma.<rz|rm|rp>[.relu].<bf16|bf16x2>', 'fma.rn.oob.sat.<f16|f16x2>']
    """
    same: dict[Row, list[Form]] = {}
    for form in forms():
        if (form.refused is not None) == refused:
            same.setdefault(replace(_row([form]), mnemonics=(), spelling=form.ending(short=True)), []).append(form)
    return [_row(found) for found in same.values()]


def legend() -> list[tuple[str, str]]:
    """The names that rows have for long lists.

    Returns:
        Names with what each stands for.

    Example:
        >>> dict(legend())["COP"]
        'ca|cg|cs|lu|cv'
    """
    return list(long_names().items())


def _row(same: list[Form]) -> Row:
    form = same[0]
    names = tuple(each.mnemonic for each in same)
    one_of = names[0] if len(names) == 1 else f"<{'|'.join(names)}>"
    return Row(
        form.family,
        names,
        one_of + form.ending(short=True),
        _operands(form),
        "; ".join(_needs(form)),
        form.refused or _notes(form),
    )


def _operands(form: Form) -> str:
    """Operands by type: ``d, c: f32; a, b: f16|bf16``."""
    by_type: dict[str, list[str]] = {}
    for name, of, registers, memory in operand_parts(form.rule["operands"]):
        kind = form.types[int(of)].short if of.isdigit() else of
        count = " x width" if registers == "v" and _widths(form) else f" x {registers}" if registers.isdigit() else ""
        by_type.setdefault(kind + count, []).append(f"[{name}]" if memory else name)
    return "; ".join(f"{', '.join(names)}: {kind}" for kind, names in by_type.items())


def _widths(form: Form) -> bool:
    return any(part.tokens & {"v2", "v4", "v8"} for part in form.modifiers)


def _needs(form: Form) -> Iterator[str]:
    """The minimum, and what modifiers make of it."""
    shortest: tuple[str, ...] = min(form.every_modifiers(), key=len)
    always = set(shortest)
    base = form.minimum(always)
    yield needs_text(*base)
    later: dict[str, list[str]] = {}
    for name in (name for part in form.modifiers for name in part.short.split("|")):
        # What a name stands for has one minimum; the modifiers that it lists do not differ in it.
        token = long_names().get(name, name).partition("|")[0].partition(".")[0]
        if (since := form.minimum({*always, token})) != base:
            later.setdefault(needs_text(*since), []).append(f".{name}")
    yield from (f"{', '.join(names)}: {since}" for since, names in later.items())


def _notes(form: Form) -> str:
    found = [form.atom(modifiers, types) for types in form.every_types() for modifiers in form.every_modifiers()]
    notes = [
        "" if found[0].exact else f"error: {found[0].error}",
        "differentiable" if any(atom.adjoint for atom in found) else "",
    ]
    return "; ".join(note for note in notes if note)


def describe(atom: Atom) -> list[tuple[str, str]]:
    """All that is known of an atom.

    Args:
        atom: An atom.

    Returns:
        Names with what they are.

    Example:
        >>> import tilekit as tk
        >>> describe(tk.ptx["mov.b32"])[0]
        ('spelling', 'mov.b32')
    """
    facts = [
        ("spelling", atom.spelling),
        ("operands", "\n".join(one.operands for one in (atom, *atom.variants))),
        ("dtypes", "\n".join(_dtypes(atom))),
        ("needs", "\n".join(dict.fromkeys(one.needs for one in (atom, *atom.variants)))),
        ("result", "the same bits on every device" if atom.exact else f"not exact; the error by the ISA: {atom.error}"),
        ("gradient", "yes" if atom.adjoint else "none"),
    ]
    return facts


def _dtypes(atom: Atom) -> Iterator[str]:
    slots = {slot.ptx_type: slot.carriers for one in (atom, *atom.variants) for slot in one.slots}
    for kind, carriers in slots.items():
        yield f"{kind}: {' or '.join(dtype.name for dtype in carriers)}"
