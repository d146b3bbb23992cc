"""What must still hold for a traced kernel to be valid, beyond the names in its text: values that its trace has read on
ways that no text shows (an attribute of an argument of a helper, what a method called on it names)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

from tilekit.errors import Location, TilekitError
from tilekit.frontend.calls import is_traced
from tilekit.frontend.capture_keys import PLAIN, content_key, is_changing, is_users, key_of_value
from tilekit.frontend.captures import checked_key
from tilekit.frontend.outer_names import (
    Capture,
    captures_by,
    chain_expression,
    checker_of,
    follow_or_missing,
    helpers_in,
    names_in,
    run_by_python,
)
from tilekit.frontend.scopes import Chain
from tilekit.frontend.source import locate


class Read:
    """An attribute or element that a trace has read of an object; without a chain, all that the object holds."""

    __slots__ = ("chain", "holder", "location", "text")

    def __init__(self, holder: Any, chain: Chain, text: str, location: Location | None) -> None:
        self.holder = holder
        self.chain = chain
        self.text = text
        self.location = location

    def read(self) -> Any:
        return follow_or_missing(self.holder, self.chain)

    def expression(self, index: int, names: dict[str, Any]) -> str:
        """Python code that reads the value; ``names`` gets what it needs."""
        names[f"o{index}"] = self.holder
        return f"o{index}" + chain_expression(self.chain, index, names)

    def key(self, value: Any) -> Any:
        """What of a value counts.

        Raises:
            KernelTypeError: it is a list, dict or array of a module, or an array that cannot be read.
        """
        strict = isinstance(self.holder, ModuleType) and len(self.chain) == 1
        try:
            return key_of_value(value) if strict else content_key(value, whole=not self.chain)
        except TilekitError as error:
            raise type(error)(f"{self} {error.message}", self.location) from None

    def __str__(self) -> str:
        return self.text


Guarded = Capture | Read


class Reads:
    """Records one trace. ``known`` are captures that the kernel's key holds already, by identity."""

    def __init__(self, known: Mapping[tuple[Any, ...], Capture]) -> None:
        self._known = known
        self._found: dict[tuple[Any, ...], tuple[Guarded, Any, Any]] = {}
        self._seen: set[Any] = {capture.function for capture in known.values() if capture.strict}
        self._made: dict[int, Any] = {}

    def attribute(self, holder: Any, chain: Chain, value: Any, text: str) -> None:
        if id(holder) in self._made or _is_fixed(holder) or is_traced(value):
            return
        if isinstance(value, MethodType):  # a new object at each read
            owner = follow_or_missing(holder, chain[:-1])
            parts = ("__func__",) if value.__self__ is owner else ("__func__", "__self__")
            for part in parts:
                self.attribute(holder, (*chain, ("attr", part)), getattr(value, part), text)
        else:
            self._note((id(holder), chain), Read(holder, chain, text, locate()), value)
            self._running(run_by_python(value, whole=False))

    def inlines(self, function: FunctionType) -> None:
        if function not in self._seen:
            self._seen.add(function)
            self._names(function, strict=True)

    def runs(self, function: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        functions = [*helpers_in(function), *run_by_python(function, whole=True)]
        for item in _items((function, *args, *kwargs.values())):
            functions += [*helpers_in(item), *run_by_python(item, whole=True)]
            if is_users(type(item)) and not _is_fixed(item) and id(item) not in self._made:
                self._note((id(item), ()), Read(item, (), f"an object of {type(item).__name__}", locate()), item)
        codes = self._running(functions)
        for item in _items((*args, *kwargs.values())):
            if isinstance(item, ModuleType) and not _is_fixed(item):
                for name in sorted(names_in(codes) & vars(item).keys()):
                    text = f"{item.__name__}.{name}"
                    self._note((id(item), name), ModuleRead(item, (("attr", name),), text, locate()), vars(item)[name])

    def made(self, function: Any, result: Any) -> None:
        held = getattr(result, "__dict__", None)
        holds = isinstance(held, dict) and any(map(is_traced, held.values()))
        if isinstance(function, type) or holds or _computes(function, result):
            self._made[id(result)] = result

    def _running(self, functions: Iterator[FunctionType] | list[FunctionType]) -> list[FunctionType]:
        """Note what Python functions name; all functions among them that run."""
        codes = list(functions)
        for function in codes:
            if ("runs", function) not in self._seen:
                self._seen.add(("runs", function))
                self._names(function, strict=False)
        return codes

    def _names(self, function: FunctionType, strict: bool) -> None:
        for identity, capture in captures_by((function,), strict).items():
            if identity not in self._known:
                self._note(identity, capture, capture.read())

    def _note(self, identity: tuple[Any, ...], guarded: Guarded, value: Any) -> None:
        if identity not in self._found:
            self._found[identity] = guarded, value, key_of(guarded, value)

    def guards(self) -> Guards:
        """What must hold for what was traced."""
        return Guards(list(self._found.values()))


class ModuleRead(Read):
    """A name of a module that Python code may read."""

    def key(self, value: Any) -> Any:
        return content_key(value)


def key_of(guarded: Guarded, value: Any) -> Any:
    return checked_key(guarded, value) if isinstance(guarded, Capture) else guarded.key(value)


def _is_fixed(holder: Any) -> bool:
    """Whether nothing of an object can change."""
    if type(holder) in PLAIN:
        return True
    if isinstance(holder, ModuleType):
        return holder.__name__.partition(".")[0] in ("tilekit", "warp")
    return (type(holder).__module__ or "").partition(".")[0] == "tilekit"


def _computes(function: Any, result: Any) -> bool:
    """Whether NumPy made an array of what the trace has read already: a function of its own, or an array's method."""
    if not isinstance(result, np.ndarray):
        return False
    owner = getattr(function, "__self__", None)
    root = (getattr(function, "__module__", None) or type(function).__module__ or "").partition(".")[0]
    return result is not owner and (isinstance(owner, np.ndarray) or root == "numpy")


def _items(values: Sequence[Any]) -> Iterator[Any]:
    for value in values:
        yield value
        if isinstance(value, list | tuple):
            yield from _items(value)


class Guards:
    """Values with what they were when a kernel was traced."""

    def __init__(self, found: list[tuple[Guarded, Any, Any]]) -> None:
        self.found = [(guarded, key) for guarded, _, key in found]
        stable = [(guarded, value) for guarded, value, _ in found if not is_changing(value)]
        self._unchanged = checker_of(stable)
        self._changing = [(guarded, key) for guarded, value, key in found if is_changing(value)]

    def hold(self) -> bool:
        """Whether all are what they were; by identity first."""
        try:
            same = self._unchanged()
        except Exception:  # something is gone: the slow path reports it
            same = False
        left = self._changing if same else self.found
        try:
            return all(key_of(guarded, guarded.read()) == key for guarded, key in left)
        except TilekitError:
            return False


class GuardedForms:
    """The compiled forms of one specialisation that differ in what their traces have read."""

    def __init__(self) -> None:
        self.forms: tuple[tuple[Guards, Any], ...] = ()

    def current(self) -> Any:
        """The form that is valid now, or None."""
        for guards, form in self.forms:
            if guards.hold():
                return form
        return None
