"""``tk.ptx``: PTX instructions by their spelling, and the table of all that are legal."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

from tilekit.builtins.atom_errors import explain
from tilekit.builtins.atom_forms import forms, type_names
from tilekit.builtins.atom_records import Atom as Atom, Slot as Slot
from tilekit.errors import KernelAttributeError, TilekitError

GROUP = "PTX atoms"
__all__ = ["ptx"]


def find_atom(spelling: str) -> Atom:
    """The atom of a spelling.

    Args:
        spelling: Mnemonic, modifiers in any order and types, with dots between.

    Returns:
        The atom, whose own ``spelling`` has the modifiers in the order of the PTX ISA.

    Raises:
        KernelNameError: there is no such instruction.
        KernelValueError: the spelling is incomplete, illegal for its types, or refused; the message says why, and
            what is legal.

    Example:
        >>> find_atom("fma.f32.ftz.rn")
        tk.ptx["fma.rn.ftz.f32"]
    """
    mnemonic, *tokens = str(spelling).strip().split(".")
    modifiers, types = _key(tokens)
    found = _index(mnemonic, types).get(modifiers)
    if found is None or _repeats(tokens):
        raise explain(mnemonic, tokens)
    return found


def atoms(pattern: str = "*") -> list[Atom]:
    """Every legal atom whose spelling matches.

    Args:
        pattern: A spelling with ``*`` for any characters; a mnemonic alone means all of its atoms.

    Returns:
        The atoms in the order of the table; one that has several operand lists (``variants``) once.

    Example:
        >>> atoms("fma.rn*.relu.f16")
        [tk.ptx["fma.rn.ftz.relu.f16"], tk.ptx["fma.rn.relu.f16"], tk.ptx["fma.rn.oob.relu.f16"]]
    """
    mnemonics = dict.fromkeys(form.mnemonic for form in forms())
    if pattern in mnemonics:
        pattern += ".*"
    every = (atom for mnemonic in mnemonics for types in _types(mnemonic) for atom in _legal(mnemonic, types))
    return [atom for atom in every if fnmatch.fnmatchcase(atom.spelling, pattern)]


def _types(mnemonic: str) -> list[tuple[str, ...]]:
    legal = [form for form in forms(mnemonic) if form.refused is None]
    return list(dict.fromkeys(types for form in legal for types in form.every_types()))


def _legal(mnemonic: str, types: tuple[str, ...]) -> Iterable[Atom]:
    return dict.fromkeys(_index(mnemonic, types).values())


def _key(tokens: Sequence[str]) -> tuple[frozenset[str], tuple[str, ...]]:
    types = type_names()
    return frozenset(tokens) - types, tuple(token for token in tokens if token in types)


def _repeats(tokens: Sequence[str]) -> bool:
    modifiers, types = _key(tokens)
    return len(modifiers) + len(types) < len(tokens)


@cache
def _index(mnemonic: str, types: tuple[str, ...]) -> dict[frozenset[str], Atom]:
    """The atoms of a mnemonic and types by their modifiers, also without those that go without saying."""
    same: dict[str, list[Atom]] = {}
    spelled: dict[frozenset[str], str] = {}
    for form in forms(mnemonic):
        if form.refused is None and form.takes(types):
            for modifiers in form.every_modifiers():
                atom = form.atom(modifiers, types)
                same.setdefault(atom.spelling, []).append(atom)
                defaults = {part.default for part in form.modifiers}
                spelled.update(dict.fromkeys((frozenset(modifiers), frozenset(modifiers) - defaults), atom.spelling))
    whole = {spelling: replace(first, variants=tuple(others)) for spelling, (first, *others) in same.items()}
    return {modifiers: whole[spelling] for modifiers, spelling in spelled.items()}


class Spelling:
    """The beginning of a spelling, such as ``tk.ptx.fma.rn``; an attribute more makes it longer."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"tk.ptx.{self.text} (not complete)"

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return ptx.extend(self.text, name)


class Ptx:
    """PTX instructions by their spelling: ``tk.ptx["fma.rn.f32"]``, or ``tk.ptx.fma.rn.f32``.

    Modifiers may come in any order. As attributes, Python's keywords get a trailing underscore, and ``::`` is written
    ``__``: ``tk.ptx.ld.global_.L2__128B.f32``. ``python -m tilekit atoms`` lists them all.

    Args:
        spelling: What stands in the brackets, as in PTX.

    Returns:
        An :class:`Atom`, which says operands, their types, the oldest GPU that has it, and more.

    Raises:
        KernelNameError: there is no such instruction.
        KernelValueError: the spelling is incomplete, illegal for its types, or refused; the message says why, and
            what is legal.

    Example:
        >>> import tilekit as tk
        >>> tk.ptx["fma.f32.ftz.rn"], tk.ptx.add.f32
        (tk.ptx["fma.rn.ftz.f32"], tk.ptx["add.rn.f32"])
        >>> tk.ptx["fma.rz.f16"]
        Traceback (most recent call last):
        tilekit.errors.KernelValueError: fma.rz.f16: rounding .rz is illegal with .f16; legal is .rn
    """

    def __getitem__(self, spelling: str) -> Atom:
        return find_atom(spelling)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return self.extend("", name)

    def __repr__(self) -> str:
        return "tk.ptx"

    def extend(self, spelled: str, name: str) -> Atom | Spelling:
        """The atom, or the beginning of one, that ``spelled`` and one token more are.

        Args:
            spelled: What is spelled so far, or an empty string.
            name: A token as an attribute: ``global_``, ``L2__128B``.

        Returns:
            An atom where the spelling is complete, which may still be extended.

        Raises:
            KernelAttributeError: no spelling goes on like this.

        Example:
            >>> Ptx().extend("fma.rn", "f64")
            tk.ptx["fma.rn.f64"]
        """
        token = name.removesuffix("_").replace("__", "::")
        text = f"{spelled}.{token}" if spelled else token
        try:
            return find_atom(text)
        except TilekitError as error:
            mnemonic, *tokens = text.split(".")
            modifiers, types = _key(tokens)
            going_on = any(
                modifiers <= known
                for whole in _types(mnemonic)
                if whole[: len(types)] == types
                for known in _index(mnemonic, whole)
            )
            if going_on and not _repeats(tokens):
                return Spelling(text)
            raise KernelAttributeError(error.message) from None


ptx = Ptx()
