"""What a trace reads from outside on ways that no function's text shows; the frontend tells whoever records it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from types import FunctionType
from typing import Any, Protocol

from tilekit.frontend.scopes import Chain
from tilekit.ir.handles import Array, Scalar, Tile


class Missing:
    """The value of a name or an attribute that is not there, or not yet."""


class Recorder(Protocol):
    """Hears what a trace does."""

    def attribute(self, holder: Any, chain: Chain, value: Any, text: str) -> None:
        """``value`` was read of ``holder``, whose text in the kernel is ``text``."""

    def inlines(self, function: FunctionType) -> None:
        """A function's rewritten form is about to run."""

    def runs(self, function: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        """Something is about to be called as Python."""

    def made(self, function: Any, result: Any) -> None:
        """What that call has returned."""


_recorder: ContextVar[Recorder | None] = ContextVar("tilekit_reads", default=None)


def recorder() -> Recorder | None:
    """Who records the running trace; None where nobody does, and where a kernel runs eagerly."""
    return _recorder.get()


@contextmanager
def recording(recorder: Recorder) -> Iterator[None]:
    token = _recorder.set(recorder)
    try:
        yield
    finally:
        _recorder.reset(token)


def read(holder: Any, chain: Chain, text: str = "") -> Any:
    """The attribute or element of ``holder`` at the end of a chain."""
    value = holder
    for kind, key in chain:
        value = getattr(value, key) if kind == "attr" else value[key]
    hears = _recorder.get()
    if hears is not None and not isinstance(holder, Tile | Array | Scalar):
        hears.attribute(holder, chain, value, text)
    return value


def read_by_name(holder: Any, name: str, *default: Any) -> Any:
    """``getattr`` in a kernel."""
    if not default:
        return read(holder, (("attr", name),), f"getattr(..., {name!r})")
    try:
        return read(holder, (("attr", name),), f"getattr(..., {name!r})")
    except AttributeError:
        _lacks(holder, name)
        return default[0]


def has_name(holder: Any, name: str) -> bool:
    """``hasattr`` in a kernel."""
    return read_by_name(holder, name, Missing) is not Missing


def _lacks(holder: Any, name: str) -> None:
    hears = _recorder.get()
    if hears is not None:
        hears.attribute(holder, (("attr", name),), Missing, f"getattr(..., {name!r})")


def as_python(function: Any) -> Callable[..., Any]:
    """What is called as Python while a kernel is traced, in the recorder's hearing."""
    if _recorder.get() is None:
        return function  # type: ignore[no-any-return]

    def call(*args: Any, **kwargs: Any) -> Any:
        hears = _recorder.get()
        if hears is None:
            return function(*args, **kwargs)
        hears.runs(function, args, kwargs)
        result = function(*args, **kwargs)
        hears.made(function, result)
        return result

    return call
