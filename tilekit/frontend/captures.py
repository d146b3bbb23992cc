"""The outer values that a kernel's text names: read again at every launch, part of its specialisation."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterable
from types import FunctionType
from typing import Any

from tilekit.errors import RecompileWarning, TilekitError
from tilekit.forks import Lock
from tilekit.frontend.capture_keys import content_key, is_changing, key_of_value
from tilekit.frontend.outer_names import Capture, captures_by, checker_of, helpers_in, run_by_python


class Captures:
    """The outer values of one kernel, numbered: the same number at two launches means that they mean the same."""

    def __init__(self, function: FunctionType) -> None:
        self.function = function
        self._lock = Lock()
        self._state: tuple[Callable[[], bool], int] | None = None
        self._found: tuple[list[Capture], tuple[Any, ...]] = ([], ())
        self._codes: list[Any] = []
        """Those of the captured functions."""
        self._numbers: dict[Any, int] = {}
        self._seen: dict[str, set[Any]] = {}

    def number(self) -> int:
        """The number of the values as they are now; compared by identity with the last launch first.

        Raises:
            KernelTypeError: one of them is a list, dict or array.
        """
        state = self._state
        if state is not None:
            unchanged, number = state
            try:
                if unchanged():
                    return number
            except Exception:  # a name or attribute is gone: the slow path reports it
                pass
        with self._lock:
            return self._look_again()

    def _look_again(self) -> int:
        captures, values = self._read()
        keys = tuple(map(checked_key, captures, values))
        named = tuple(zip(map(str, captures), keys, strict=True))
        number = self._numbers.get(named)
        if number is None:
            number = self._numbers[named] = len(self._numbers)
            for capture, key in zip(captures, keys, strict=True):
                self.count(capture, key)
        settled = not any(map(is_changing, values))
        self._state = (checker_of(zip(captures, values, strict=True)), number) if settled else None
        return number

    def known(self) -> dict[Any, Capture]:
        """The captures as last read, by identity."""
        return {capture.identity: capture for capture in self._found[0]}

    def _read(self) -> tuple[list[Capture], tuple[Any, ...]]:
        """The captures and their values; what helpers read is looked up again where another helper is named."""
        old_captures, old_values = self._found
        values = tuple(capture.read() for capture in old_captures)
        changed = [item for pair in zip(old_values, values, strict=True) if pair[0] is not pair[1] for item in pair]
        if not old_captures or _codes_of(values) != self._codes or any(map(_leads_on, changed)):
            old_captures = list(captures_by((self.function,)).values())
            values = tuple(capture.read() for capture in old_captures)
            self._codes = _codes_of(values)
        self._found = old_captures, values
        return self._found

    def count(self, capture: Any, key: Any) -> None:
        """Warn where a value that is captured changes often."""
        seen = self._seen.setdefault(str(capture), set())
        if key in seen:
            return
        seen.add(key)
        if len(seen) == MANY:
            message = (
                f"kernel {self.function.__name__!r} was specialised for {MANY} values of {capture}, which it captures; "
                "each one is compiled anew, so pass it as an argument if it changes often"
            )
            file, line = (capture.location.file, capture.location.line) if capture.location else ("", 0)
            warnings.warn_explicit(message, RecompileWarning, file, line)


MANY = 8
"""Values of one capture after which a warning says that each of them is compiled."""


def _codes_of(values: Iterable[Any]) -> list[Any]:
    return [value.__code__ for value in values if isinstance(value, FunctionType)]


def _leads_on(value: Any) -> bool:
    """Whether functions are reached through a value."""
    return any(True for found in (helpers_in(value), run_by_python(value, whole=True)) for _ in found)


def checked_key(capture: Capture, value: Any) -> Any:
    """What of a captured value counts.

    Raises:
        KernelTypeError: it is a list, dict or array that a kernel names, or an array that cannot be read.
    """
    try:
        return key_of_value(value) if capture.strict else content_key(value)
    except TilekitError as error:
        if (capture.function.__module__ or "").partition(".")[0] in sys.stdlib_module_names - {"__main__"}:
            return id(value)
        raise type(error)(f"{capture} {error.message}", capture.location) from None
