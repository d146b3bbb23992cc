"""Every error and warning tilekit raises.

Each error is a :class:`TilekitError` and also the built-in class a Python user would catch, so both
``except TilekitError`` and ``except TypeError`` work. Inside a kernel an error carries the place in the user's source.
"""

from __future__ import annotations

import linecache
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_OPERAND = re.compile("\x01(.*?)\x02")
_SHOWN_CALLS = 8
_LONGEST = 128
"""Bits of the longest integers that messages show in full."""


def operand(name: str) -> str:
    """A builtin's operand in a message; in a kernel, the text that the call has for it takes its place.

    Example:
        >>> str(KernelTypeError(f"{operand('a')} is too large"))
        'a is too large'
    """
    return f"\x01{name}\x02"


_BEFORE_S = {"is": "e", "ex": "ice", "y": "ie"}
"""What stands before the plural's s, by how a noun ends."""


def counted(count: int, noun: str) -> str:
    """A number of things in a message.

    Example:
        >>> counted(1, "axis"), counted(2, "axis"), counted(0, "entry"), counted(3, "dimension"), counted(2, "index")
        ('1 axis', '2 axes', '0 entries', '3 dimensions', '2 indices')
    """
    if count == 1:
        return f"1 {noun}"
    return f"{count} {re.sub('(is|ex|y)$', lambda end: _BEFORE_S[end[0]], noun)}s"


def shown(value: object) -> str:
    """A value in a message: its ``repr``, except of integers too long to be read.

    Example:
        >>> shown("a"), shown(2**64), shown((1, -(10**5000)))
        ("'a'", '18446744073709551616', '(1, ~-1.000e+5000)')
    """
    if isinstance(value, int) and value.bit_length() > _LONGEST:
        exponent, rest = divmod(math.log10(abs(value)), 1.0)
        return f"~{'-' if value < 0 else ''}{10**rest:.3f}e+{exponent:.0f}"
    if type(value) in (tuple, list):
        items = ", ".join(map(shown, value))  # type: ignore[call-overload]
        return f"[{items}]" if isinstance(value, list) else f"({items},)" if len(value) == 1 else f"({items})"  # type: ignore[arg-type]
    return repr(value)


@dataclass(frozen=True)
class Location:
    """A place in the user's source: a range of columns on one line, and the calls that led there."""

    file: str
    line: int
    column: int = 0
    end_column: int = 0
    function: str = ""
    caller: Location | None = None

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"

    def source_line(self) -> str:
        return linecache.getline(self.file, self.line).rstrip("\n")

    def excerpt(self) -> str:
        """The source line with a caret under the range, or an empty string where there is no source."""
        text = self.source_line()
        stripped = text.lstrip()
        if not stripped:
            return ""
        indent = len(text) - len(stripped)
        start = max(self.column - indent, 0)
        width = min(self.end_column, len(text)) - self.column if self.end_column > self.column else 1
        return f"    {stripped}\n    {' ' * start}{'^' * max(width, 1)}"


class TilekitError(Exception):
    """Base of all tilekit errors; ``location`` is the place in a kernel's source, where there is one."""

    def __init__(self, message: str, location: Location | None = None) -> None:
        self.template = message
        """The message with the operands that a rule has marked."""
        self.message = _OPERAND.sub(r"\1", message)
        super().__init__(self.message)
        self.location = location
        self.builtin: Any = None
        """The builtin whose call raised."""
        self.variable = ""
        """The variable that has no one value after a branch or an iteration."""
        self.note = ""

    def rename(self, subject: str) -> None:
        """Let the message speak of something else than the variable with which it begins."""
        self.message = self.template = subject + self.message.removeprefix(repr(self.variable))
        self.variable = ""
        self.args = (self.message,)

    def use_names(self, names: Mapping[str, str]) -> None:
        """Name the operands that the message marks as their source does."""
        self.message = _OPERAND.sub(lambda match: names.get(match[1], match[1]), self.template)
        self.args = (self.message,)

    def at(self, location: Location | None) -> TilekitError:
        """Attach a location unless a more exact one is known already."""
        if self.location is None:
            self.location = location
        return self

    def __str__(self) -> str:
        if self.location is None:
            return self.message
        parts = [f"{self.location}: {self.message}", self.location.excerpt(), f"    {self.note}" if self.note else ""]
        callers = []
        caller = self.location.caller
        while caller is not None:
            callers.append(f"  called from {caller}" + (f" in {caller.function}" if caller.function else ""))
            caller = caller.caller
        if len(callers) > _SHOWN_CALLS:
            callers[3:-1] = [f"  ... {len(callers) - 4} more calls ..."]
        parts += callers
        return "\n".join(part for part in parts if part)


class KernelSyntaxError(TilekitError, SyntaxError):
    """A kernel uses Python syntax that kernels do not support."""

    def __init__(self, message: str, location: Location | None = None) -> None:
        super().__init__(message, location)
        self.msg = self.message

    __str__ = TilekitError.__str__


class KernelTypeError(TilekitError, TypeError):
    """Wrong kinds, dtypes or ranks of operands or arguments."""

    undecided = False
    """Python asked for a number that is only known at run time."""


class KernelValueError(TilekitError, ValueError):
    """Operands or arguments of the right kind with values or shapes that do not fit."""


class KernelNameError(TilekitError, NameError):
    """A name that is not defined, or not on every path that leads to its use."""


class KernelAttributeError(TilekitError, AttributeError):
    """An attribute or builtin that does not exist."""


class KernelIndexError(TilekitError, IndexError):
    """An element access outside its array or tile."""


class KernelAssertionError(TilekitError, AssertionError):
    """An ``assert`` in a kernel that failed."""


class KernelNotImplementedError(TilekitError, NotImplementedError):
    """Something that tilekit refuses because it could not do it right, with the reason."""


class UninitializedError(TilekitError, ValueError):
    """A tile or element that was read before anything was written to it."""


class CompileError(TilekitError, RuntimeError):
    """The host compiler or NVRTC refused generated code, or none could be found."""


class DeviceError(TilekitError, RuntimeError):
    """A GPU that is not there, or what its driver reported: a call that failed, or an illegal access by a kernel."""


class MissingPackageError(TilekitError, ImportError):
    """An optional package that is needed for what was asked; the message says how to install it."""


class VerificationError(TilekitError, AssertionError):
    """The IR is malformed: a fault in tilekit, never in the user's kernel."""


class TilekitWarning(UserWarning):
    """Base of all tilekit warnings."""


class PrecisionWarning(TilekitWarning):
    """A requested reduced precision is not available here; the full one is computed."""


class FallbackWarning(TilekitWarning):
    """A slower way than the one asked for is used, with the reason."""


class PerformanceWarning(TilekitWarning):
    """What a kernel asks for leaves most of what the machine does unused, with what to write instead."""


class RecompileWarning(TilekitWarning):
    """A kernel was specialised often over one captured value."""
