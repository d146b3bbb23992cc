"""Python operators on handles: which builtin each one means."""

from __future__ import annotations

import builtins
from collections.abc import Callable
from typing import Any

OPERATORS: dict[str, Callable[..., Any]] = {}
"""Which builtin a Python operator or a step of the frontend means; filled by ``@builtin(operator=...)``."""


def _binary(symbol: str, swapped: bool = False) -> Any:
    def call(self: Any, other: Any) -> Any:
        if not isinstance(other, Arithmetic | int | float) and not hasattr(other, "dtype"):
            return NotImplemented
        return OPERATORS[symbol](other, self) if swapped else OPERATORS[symbol](self, other)

    return call


class Arithmetic:
    """Python operators on handles call the builtins declared for them."""

    __slots__ = ()
    __array_ufunc__ = None  # so that NumPy leaves its scalar's operator to the operand on the right
    __hash__ = object.__hash__

    def __neg__(self) -> Any:
        return OPERATORS["neg"](self)

    def __pos__(self) -> Any:
        return OPERATORS["pos"](self)

    def __invert__(self) -> Any:
        return OPERATORS["~"](self)

    def __abs__(self) -> Any:
        return OPERATORS["abs"](self)


for _symbol, _method in {
    "+": "add", "-": "sub", "*": "mul", "/": "truediv", "//": "floordiv", "%": "mod", "**": "pow",
    "&": "and", "|": "or", "^": "xor", "<<": "lshift", ">>": "rshift", "@": "matmul",
}.items():  # fmt: skip
    setattr(Arithmetic, f"__{_method}__", _binary(_symbol))
    setattr(Arithmetic, f"__r{_method}__", _binary(_symbol, swapped=True))
for _symbol, _method in {"<": "lt", "<=": "le", ">": "gt", ">=": "ge", "==": "eq", "!=": "ne"}.items():
    setattr(Arithmetic, f"__{_method}__", _binary(_symbol))

PYTHONS_OWN = {name: getattr(builtins, name) for name in ("print", "len", "breakpoint", "float", "int")}
"""Builtins of Warp that Python has under the same name."""
