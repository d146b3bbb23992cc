"""The rules of ``atoms.json``: forms of spellings, and the atoms that each form stands for."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from tilekit.builtins.atom_records import Atom, Slot
from tilekit.ir.types import DTYPES, DType

_DATA = Path(__file__).with_name("atoms.json")
ROUNDINGS = ("rn", "rz", "rm", "rp", "rna", "rni", "rzi", "rmi", "rpi")
_LONG = 4
_NO_FLAG = {"global", "v2", "v4", "v8", *ROUNDINGS}
_WITHOUT_GRADIENT = {"rni", "rzi", "rmi", "rpi", "oob", "satfinite", "xorsign", "abs"}
"""Modifiers with which the result is a step, or not what the gradient's rule takes it for."""
_PART = re.compile(r"<([^>]+)>|\[([^\]]+)\]|\{([^=]+)=([^}]+)\}")
_OPERAND = re.compile(r"(\w+):(\[?)(\w+)\]?(?:\*(\w+))?")


@dataclass(frozen=True)
class Part:
    """One place of a spelling: what may stand there, and what is meant where nothing does."""

    choices: tuple[str, ...]
    optional: bool = False
    default: str | None = None
    short: str = ""
    """The choices by the names that the data has for long lists of them."""

    @property
    def required(self) -> bool:
        return not self.optional and self.default is None

    @property
    def tokens(self) -> frozenset[str]:
        return frozenset(token for choice in self.choices for token in choice.split("."))

    def text(self, short: bool = False) -> str:
        """As a piece of a spelling: ``.<rn|rz>``, ``[.ftz]``."""
        choices = self.short.split("|") if short else [*self.choices]
        if not self.required:
            return f"[{'|'.join(f'.{choice}' for choice in choices)}]"
        return f".{choices[0]}" if len(self.choices) == 1 else f".<{'|'.join(choices)}>"


@dataclass(frozen=True)
class Form:
    """Spellings of one mnemonic that share operands and rules."""

    mnemonic: str
    family: str
    modifiers: tuple[Part, ...]
    types: tuple[Part, ...]
    rule: Mapping[str, Any]
    """What the data says of it."""

    def text(self, types: tuple[str, ...] | None = None) -> str:
        """The spellings in one line, with these types or all that it takes."""
        return self.mnemonic + self.ending(types)

    def ending(self, types: tuple[str, ...] | None = None, short: bool = False) -> str:
        """The text of the spellings without the mnemonic."""
        kinds = [part.text(short) for part in self.types] if types is None else [f".{name}" for name in types]
        return "".join([*(part.text(short) for part in self.modifiers), *kinds])

    @property
    def refused(self) -> str | None:
        """Why these spellings are refused, or None."""
        why: str | None = self.rule.get("why")
        return why

    def every_types(self) -> Iterator[tuple[str, ...]]:
        """The types of every spelling."""
        return itertools.product(*(part.choices for part in self.types))

    def every_modifiers(self) -> Iterator[tuple[str, ...]]:
        """The modifiers of every spelling, defaults filled in."""
        axes = [((*part.choices, "") if part.optional else part.choices) for part in self.modifiers]
        for chosen in itertools.product(*axes):
            yield tuple(token for choice in chosen if choice for token in choice.split("."))

    def takes(self, types: tuple[str, ...]) -> bool:
        return len(types) == len(self.types) and all(
            given in part.choices for given, part in zip(types, self.types, strict=True)
        )

    def atom(self, modifiers: tuple[str, ...], types: tuple[str, ...]) -> Atom:
        slots = tuple(_slots(self.rule["operands"], modifiers, types))
        sm, ptx = self.minimum({*modifiers, *types})
        floats = all(DTYPES[s.carriers[0].name].is_float for s in slots if s.kind == "register")
        return Atom(
            spelling=".".join((self.mnemonic, *modifiers, *types)),
            mnemonic=self.mnemonic,
            family=self.family,
            modifiers=modifiers,
            rounding=next((token for token in modifiers if token in ROUNDINGS), None),
            flags=frozenset(modifiers) - _NO_FLAG,
            types=types,
            slots=slots,
            min_sm=sm,
            min_ptx=ptx,
            exact="error" not in self.rule,
            error=self.rule.get("error", ""),
            cpu=self.rule["cpu"],
            # What a gradient flows through are floats; packed ones are integers to the language.
            adjoint=self.rule["adjoint"] if floats and not _WITHOUT_GRADIENT & set(modifiers) else None,
        )

    def minimum(self, tokens: Set[str] = frozenset()) -> tuple[str, tuple[int, int]]:
        """The oldest sm and PTX that have the form, with these tokens in its spelling."""
        # "L1" stands for every token that begins with "L1::".
        begun = tokens | {token.partition("::")[0] for token in tokens}
        found = [self.rule["from"], *(since for token, since in self.rule.get("later", {}).items() if token in begun)]
        sm = max((sm for sm, _ in found), key=lambda name: int(name.rstrip("a")))
        return sm, max(_version(ptx) for _, ptx in found)


def _version(text: str) -> tuple[int, int]:
    major, minor = text.split(".")
    return int(major), int(minor)


def operand_parts(operands: str) -> Iterator[tuple[str, str, str, bool]]:
    """Name, type or number of a spelled type, registers (a number, ``v`` or nothing), and whether it is memory."""
    for text in operands.split():
        match = _OPERAND.fullmatch(text)
        assert match, text
        name, memory, kind, lanes = match.groups()
        yield name, kind, lanes or "", bool(memory)


def _slots(operands: str, modifiers: tuple[str, ...], types: tuple[str, ...]) -> Iterator[Slot]:
    width = next((int(token[1:]) for token in modifiers if re.fullmatch(r"v\d", token)), 1)
    for index, (name, kind, lanes, memory) in enumerate(operand_parts(operands)):
        named = types[int(kind)] if kind.isdigit() else kind
        count = width if lanes == "v" or memory else int(lanes or 1)
        yield Slot(name, "r" if index else "w", named, carriers(named), count, "memory" if memory else "register")


@cache
def _data() -> Any:
    return json.loads(_DATA.read_text(encoding="utf-8"))


@cache
def carriers(ptx_type: str) -> tuple[DType, ...]:
    """The dtypes whose values a register of that type takes, the natural one first."""
    named = _data()["types"][ptx_type]
    if named != "any":
        return tuple(DTYPES[name] for name in named)
    width = int(ptx_type[1:])
    return tuple(sorted((d for d in DTYPES.values() if d.bits == width), key=lambda d: d.name != f"uint{width}"))


def type_names() -> frozenset[str]:
    return frozenset(_data()["types"])


@cache
def families() -> dict[str, str]:
    """The families with what each computes."""
    return {name: str(family["about"]) for name, family in _data()["families"].items()}


@cache
def forms(mnemonic: str | None = None) -> tuple[Form, ...]:
    """The forms of one mnemonic, or all of them, the refused ones too."""
    if mnemonic is not None:
        return tuple(form for form in forms() if form.mnemonic == mnemonic)
    return tuple(
        form
        for name, family in _data()["families"].items()
        for own, about in family["mnemonics"].items()
        for rule in (*family["forms"], *family.get("refused", ()))
        if own in rule.get("of", own).split()
        for form in [_form(own, name, about, {**family, **rule})]
    )


def _form(mnemonic: str, family: str, about: Mapping[str, Any], rule: Mapping[str, Any]) -> Form:
    parts = [_part(text) for text in rule["form"].split()]
    kinds = [part for part in parts if part.tokens <= type_names()]
    others = [part for part in parts if part not in kinds]
    return Form(mnemonic, family, tuple(others), tuple(kinds), {**about, **rule})


@cache
def long_names() -> dict[str, str]:
    """The names that the data has for more choices than a line should list."""
    return {name: listed for name, listed in _data()["names"].items() if listed.count("|") >= _LONG}


def _part(text: str) -> Part:
    match = _PART.fullmatch(text)
    assert match, text
    one, some, defaulted, default = match.groups()
    names = (one or some or defaulted).split("|")
    listed = [_data()["names"].get(name, name) for name in names]
    short = "|".join(name if name in long_names() else of for name, of in zip(names, listed, strict=True))
    return Part(tuple("|".join(listed).split("|")), some is not None, default, short)
