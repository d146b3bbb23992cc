"""Scalar arithmetic with Warp's rules; on tiles it works element by element."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tilekit.builtins.slopes import over, times
from tilekit.errors import KernelTypeError
from tilekit.ir.builtin import REGISTRY, Builtin, builtin
from tilekit.ir.handles import Scalar, Tile
from tilekit.ir.interpret import conform_elements
from tilekit.ir.operands import parameter_names, with_article
from tilekit.ir.types import ScalarType

Number = Scalar | Tile

GROUP = "Scalar math"


def elementwise(
    operator: str | None = None, unify: tuple[str, ...] = (), group: str = GROUP, **properties: Any
) -> Callable[..., Builtin]:
    """Declare scalar arithmetic that the native header of the same name computes."""

    def declare(signature: Callable[..., Any]) -> Builtin:
        found = builtin(group=group, elementwise=True, operator=operator, unify=unify, **properties)(signature)

        @found.emit
        def _emit(cx: Any) -> str:
            return cx.native_call()  # type: ignore[no-any-return]

        return found

    return declare


def need(type: ScalarType, kinds: str, name: str) -> ScalarType:
    """The type, where its dtype is of one of the kinds.

    Raises:
        KernelTypeError: it is of another kind.
    """
    if type.dtype.kind not in kinds:
        names = {"b": "bools", "i": "integers", "u": "integers", "f": "floats"}
        wanted = "numbers" if kinds == "iuf" else " or ".join(dict.fromkeys(names[kind] for kind in kinds))
        hint = "; convert it with int(...)" if type.dtype.kind == "b" else ""
        raise KernelTypeError(f"{name} needs {wanted}, got {with_article(type.dtype.name)}{hint}")
    return type


def same_type(declared: Builtin, kinds: str = "iuf") -> None:
    """Give a builtin the result rule "the type of the first operand, which must be of these kinds"."""
    first = parameter_names(declared.__wrapped__)[0]

    def rule(**types: ScalarType) -> ScalarType:
        return need(types[first], kinds, declared.spelled)

    declared.result(rule, (first,))


@elementwise("+", unify=("a", "b"), quiets=True, units={"a": -0.0, "b": -0.0})
def add(a: Number, b: Number) -> Number:
    """Add two numbers or tiles: integers wrap around, floats round to nearest.

    Args:
        a: A number or tile.
        b: Another of its dtype, with as many axes where both are tiles.

    Returns:
        A number of that dtype, or a tile where one of them is.

    Example:
        >>> import tilekit as tk
        >>> tk.add(2, 3)
        5
    """


@elementwise("-", unify=("a", "b"), quiets=True, units={"b": 0.0})
def sub(a: Number, b: Number) -> Number:
    """Subtract ``b`` from ``a``.

    Args:
        a: A number or tile.
        b: Another of its dtype, with as many axes where both are tiles.

    Returns:
        A number of that dtype, or a tile where one of them is.

    Example:
        >>> import tilekit as tk
        >>> tk.sub(2, 3)
        -1
    """


@elementwise("*", unify=("a", "b"), quiets=True, units={"a": 1.0, "b": 1.0})
def mul(a: Number, b: Number) -> Number:
    """Multiply two numbers or tiles: integers wrap around, floats round to nearest.

    Args:
        a: A number or tile.
        b: Another of its dtype, with as many axes where both are tiles.

    Returns:
        A number of that dtype, or a tile where one of them is.

    Example:
        >>> import tilekit as tk
        >>> tk.mul(2, 3)
        6
    """


@elementwise("/", unify=("a", "b"), quiets=True, units={"b": 1.0}, divisor="b")
def div(a: Number, b: Number) -> Number:
    """Divide: integers truncate toward zero (and give 0 for a divisor of 0), floats follow IEEE.

    Args:
        a: A number or tile.
        b: Another of its dtype, with as many axes where both are tiles.

    Returns:
        A number of that dtype, or a tile where one of them is.

    Example:
        >>> import tilekit as tk
        >>> tk.div(-7, 2), tk.div(-7.0, 2.0)
        (-3, -3.5)
    """


@elementwise("//", unify=("a", "b"))
def floordiv(a: Number, b: Number) -> Number:
    """Divide and round toward minus infinity. The gradient is zero.

    Args:
        a: A number or tile.
        b: Another of its dtype, with as many axes where both are tiles.

    Returns:
        A number of that dtype, or a tile where one of them is.

    Example:
        >>> import tilekit as tk
        >>> tk.floordiv(-7, 2)
        -4
    """


@elementwise("%", unify=("a", "b"))
def mod(a: Number, b: Number) -> Number:
    """The remainder of truncating division: it has the sign of ``a``.

    The gradient of ``a`` is that of the result, the gradient of ``b`` that times minus the truncated quotient.

    Args:
        a: A number or tile.
        b: Another of its dtype, with as many axes where both are tiles.

    Returns:
        A number of that dtype, or a tile where one of them is.

    Example:
        >>> import tilekit as tk
        >>> tk.mod(-7, 2)
        -1
    """


for _declared in (add, sub, mul, div, floordiv, mod):
    same_type(_declared)


def truncated_quotient(a: Any, b: Any) -> Any:
    """Integers divided as everywhere on the CPU: towards zero, by zero 0; the least number by -1 wraps."""
    zero = np.equal(b, 0)
    safe = np.where(zero, np.ones_like(b), b)
    quotient = np.floor_divide(a, safe)
    off = (np.multiply(quotient, safe) != a) & ((np.less(a, 0)) != (np.less(safe, 0)))
    return np.where(zero, np.zeros_like(quotient), quotient + off.astype(quotient.dtype))


def _is_integer(*values: Any) -> bool:
    return all(np.asarray(value).dtype.kind in "iu" for value in values)


add.reference(lambda a, b: np.add(a, b))
sub.reference(lambda a, b: np.subtract(a, b))
mul.reference(lambda a, b: np.multiply(a, b))


@div.reference
def _div(a: Any, b: Any) -> Any:
    return truncated_quotient(a, b) if _is_integer(a, b) else np.divide(a, b)


@floordiv.reference
def _floordiv(a: Any, b: Any, types: Any) -> Any:
    if _is_integer(a, b):
        return np.where(np.equal(b, 0), 0, np.floor_divide(a, np.where(np.equal(b, 0), np.ones_like(b), b)))
    return np.floor(conform_elements(np.divide(a, b), types[0].dtype))  # the quotient is rounded first


@mod.reference
def _mod(a: Any, b: Any) -> Any:
    if _is_integer(a, b):
        return np.where(np.equal(b, 0), np.zeros_like(a), np.subtract(a, np.multiply(truncated_quotient(a, b), b)))
    return np.fmod(a, b)


add.adjoint(lambda grad: {"a": grad, "b": grad})
sub.adjoint(lambda grad: {"a": grad, "b": lambda: -grad})


@mul.adjoint
def _mul_adjoint(cx: Any, grad: Any, value: Any) -> dict[str, Any]:
    return {"a": lambda: times(grad, cx.widen(value("b"))), "b": lambda: times(grad, cx.widen(value("a")))}


@div.adjoint
def _div_adjoint(cx: Any, grad: Any, value: Any) -> dict[str, Any]:
    def second() -> Any:
        a, b = cx.widen(value("a")), cx.widen(value("b"))
        return times(grad, -(a / b) / b)

    return {"a": lambda: over(grad, cx.widen(value("b"))), "b": second}


floordiv.adjoint(lambda: {"a": 0, "b": 0})


@mod.adjoint
def _mod_adjoint(cx: Any, grad: Any, value: Any) -> dict[str, Any]:
    def second() -> Any:
        a, b = cx.widen(value("a")), cx.widen(value("b"))
        return times(grad, REGISTRY["rint"]((mod(a, b) - a) / b))  # minus the quotient, without its fraction

    return {"a": grad, "b": second}


@elementwise("neg")
def neg(x: Number) -> Number:
    """Change the sign.

    Args:
        x: A number or tile.

    Returns:
        Its dtype and shape.

    Example:
        >>> import tilekit as tk
        >>> tk.neg(2)
        -2
    """


@elementwise("pos")
def pos(x: Number) -> Number:
    """The number itself.

    Args:
        x: A number or tile.

    Returns:
        Its dtype and shape.

    Example:
        >>> import tilekit as tk
        >>> tk.pos(2)
        2
    """


same_type(neg)
same_type(pos)
neg.reference(lambda x: np.negative(x))
pos.reference(lambda x: x)
pos.emit(lambda x: x)
neg.adjoint(lambda grad: {"x": lambda: -grad})
pos.adjoint(lambda grad: {"x": grad})
