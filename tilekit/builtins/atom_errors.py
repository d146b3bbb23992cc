"""Why a spelling is no atom, and which are, in one message for each kind of fault."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence

from tilekit.builtins.atom_forms import ROUNDINGS, Form, forms, type_names
from tilekit.errors import KernelNameError, KernelValueError, TilekitError

_SHOWN = 8


def explain(mnemonic: str, tokens: Sequence[str]) -> TilekitError:
    """The error for a spelling that is none of the legal ones."""
    known = forms(mnemonic)
    if not known:
        return _unknown_opcode(mnemonic)
    text = ".".join((mnemonic, *tokens))
    modifiers = [token for token in tokens if token not in type_names()]
    types = tuple(token for token in tokens if token in type_names())
    message = (
        _unknown_modifier(mnemonic, modifiers, known)
        or _refused(modifiers, types, known)
        or _types(mnemonic, types, known)
    )
    if message is None:
        fitting = [form for form in known if form.refused is None and form.takes(types)]
        message = _rounding(modifiers, types, fitting) or _modifiers(modifiers, types, fitting)
    return KernelValueError(f"{text}{message}")


def _unknown_opcode(mnemonic: str) -> TilekitError:
    known = list(dict.fromkeys(form.mnemonic for form in forms()))
    low = mnemonic.lower()
    close = [low] if low in known else sorted(difflib.get_close_matches(low, known, 2), key=known.index)
    hint = f"did you mean {' or '.join(map(repr, close))}? " if close else ""
    return KernelNameError(f"no PTX instruction {mnemonic!r} is known; {hint}tk.ptx has {', '.join(known)}")


def _unknown_modifier(mnemonic: str, modifiers: list[str], known: Sequence[Form]) -> str | None:
    legal = list(dict.fromkeys(token for form in known for part in form.modifiers for token in sorted(part.tokens)))
    types = list(dict.fromkeys(token for form in known for part in form.types for token in part.choices))
    for token in modifiers:
        if modifiers.count(token) > 1:
            return f" has .{token} twice"
        if token not in legal:
            close = difflib.get_close_matches(token, [*legal, *types], 1, 0.5)
            hint = f"did you mean .{close[0]}? " if close else ""
            return f": {mnemonic} has no .{token}; {hint}it takes {_dotted(legal)} and the types {_dotted(types)}"
    return None


def _refused(modifiers: list[str], types: tuple[str, ...], known: Sequence[Form]) -> str | None:
    for form in known:
        if form.refused and form.takes(types) and set(modifiers) in map(set, form.every_modifiers()):
            return f" is refused: {form.refused}; use {form.rule['instead']}"
    return None


def _types(mnemonic: str, types: tuple[str, ...], known: Sequence[Form]) -> str | None:
    legal = [form for form in known if form.refused is None]
    if any(form.takes(types) for form in legal):
        return None
    if not types:
        return f" lacks its type; the legal spellings are {_listed(legal)}"
    longer = [
        form
        for form in legal
        if len(form.types) > len(types)
        and all(given in part.choices for given, part in zip(types, form.types, strict=False))
    ]
    if longer:
        return f" lacks a type after .{types[-1]}; the legal spellings are {_listed(longer)}"
    what = f"type .{types[0]}" if len(types) == 1 else f"types {'.'.join(('', *types))}"
    return f": {mnemonic} has no {what}; the legal spellings are {_listed(legal)}"


def _rounding(modifiers: list[str], types: tuple[str, ...], fitting: Sequence[Form]) -> str | None:
    """The rounding is there twice, or is none of those that the types take."""
    legal = list(
        dict.fromkeys(
            token for form in fitting for part in form.modifiers for token in part.choices if token in ROUNDINGS
        )
    )
    given = [token for token in modifiers if token in ROUNDINGS]
    if len(given) > 1:
        return f" has two roundings, {_dotted(given)}; write one"
    if not given or given[0] in legal:
        return None
    if not legal:
        return f": with {_shown(types)} there is no rounding; the legal spellings are {_listed(fitting, types)}"
    return f": rounding .{given[0]} is illegal with {_shown(types)}; legal is {_or([f'.{name}' for name in legal])}"


def _modifiers(modifiers: list[str], types: tuple[str, ...], fitting: Sequence[Form]) -> str:
    """A modifier is illegal with the types, or missing, or several do not go together."""
    legal = {token for form in fitting for part in form.modifiers for token in part.tokens}
    listed = f"the legal spellings are {_listed(fitting, types)}"
    for token in modifiers:
        if token not in legal:
            others = _dotted(sorted(legal - set(ROUNDINGS))) or "no modifier"
            return f": .{token} is illegal with {_shown(types)}, which takes {others}; {listed}"
    longer = [(form, chosen) for form in fitting for chosen in form.every_modifiers() if set(chosen) > set(modifiers)]
    if not longer:
        return f": {_dotted(modifiers)} do not go together with {_shown(types)}; {listed}"
    fewest = min(len(chosen) for _, chosen in longer)
    nearest = [(form, chosen) for form, chosen in longer if len(chosen) == fewest]
    missing = {token for _, chosen in nearest for token in set(chosen) - set(modifiers)}
    what = "its rounding" if missing <= set(ROUNDINGS) else "a modifier"
    written = [".".join((form.mnemonic, *chosen, *types)) for form, chosen in nearest]
    return f" lacks {what}; write {_or(written)}"


def _shown(types: tuple[str, ...]) -> str:
    return "".join(f".{name}" for name in types)


def _listed(found: Sequence[Form], types: tuple[str, ...] | None = None) -> str:
    texts = list(dict.fromkeys(form.text(types) for form in found))
    more = f" and {len(texts) - _SHOWN} more forms" if len(texts) > _SHOWN else ""
    return ", ".join(texts[:_SHOWN]) + more


def _dotted(tokens: Iterable[str]) -> str:
    return ", ".join(f".{token}" for token in tokens)


def _or(texts: Sequence[str]) -> str:
    return texts[0] if len(texts) == 1 else f"{', '.join(texts[:-1])} or {texts[-1]}"
