"""The options in force at a launch, numbered so that they compare at once."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

from tilekit.config import config


class Options:
    """The options of launches that may change a kernel's code, with the same ``number`` where all are the same."""

    __slots__ = ("number", "values", "with_device")

    def __init__(self, values: Mapping[str, Any]) -> None:
        # Where and on how many threads a kernel runs is asked at every launch.
        self.values = {name: value for name, value in values.items() if name not in ("device", "num_threads")}
        self.number = _number(tuple(self.values.values()))
        self.with_device = _number((self.number, values["device"]))
        """The same number only where the option ``device`` is the same too."""


_by_version: dict[int, Options] = {}
_numbers: dict[tuple[Any, ...], int] = {}
_counter = itertools.count()


def _number(values: tuple[Any, ...]) -> int:
    return _numbers.setdefault(values, next(_counter))


def options_now() -> Options:
    """The options now. A launch asks once, as other threads may change them while it compiles."""
    found = _by_version.get(config.version)
    if found is None:
        if len(_by_version) > 1000:
            _by_version.clear()
        version, values = config.snapshot()
        found = _by_version[version] = Options(values)
    return found
