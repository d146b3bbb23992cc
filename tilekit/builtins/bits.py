"""Bit operations on integers; on tiles they work element by element."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilekit.builtins.arithmetic import Number, elementwise, need, same_type
from tilekit.ir.types import ScalarType, int32

GROUP = "Scalar math"


@elementwise("&", unify=("a", "b"))
def bit_and(a: Number, b: Number) -> Number:
    """The bits that both operands have.

    Args:
        a: An integer or bool number or tile.
        b: Another of its dtype.

    Returns:
        Their dtype and shape.

    Example:
        >>> import tilekit as tk
        >>> tk.bit_and(6, 3)
        2
    """


@elementwise("|", unify=("a", "b"))
def bit_or(a: Number, b: Number) -> Number:
    """The bits that at least one operand has.

    Args:
        a: An integer or bool number or tile.
        b: Another of its dtype.

    Returns:
        Their dtype and shape.

    Example:
        >>> import tilekit as tk
        >>> tk.bit_or(6, 3)
        7
    """


@elementwise("^", unify=("a", "b"))
def bit_xor(a: Number, b: Number) -> Number:
    """The bits that exactly one operand has.

    Args:
        a: An integer or bool number or tile.
        b: Another of its dtype.

    Returns:
        Their dtype and shape.

    Example:
        >>> import tilekit as tk
        >>> tk.bit_xor(6, 3)
        5
    """


@elementwise("~")
def invert(a: Number) -> Number:
    """Every bit flipped; of a bool, *not*.

    Args:
        a: An integer or bool number or tile.

    Returns:
        Its dtype and shape.

    Example:
        >>> import tilekit as tk
        >>> tk.invert(tk.uint8(1))
        254
    """


@elementwise("<<", unify=("a", "b"))
def lshift(a: Number, b: Number) -> Number:
    """The bits moved up by ``b``; by the width or more (or less than 0) gives 0.

    Args:
        a: An integer number or tile.
        b: How far, of its dtype.

    Returns:
        Their dtype and shape.

    Example:
        >>> import tilekit as tk
        >>> tk.lshift(3, 2)
        12
    """


@elementwise(">>", unify=("a", "b"))
def rshift(a: Number, b: Number) -> Number:
    """The bits moved down by ``b``, the sign kept; by the width or more (or less than 0) gives 0, or -1 if ``a < 0``.

    Args:
        a: An integer number or tile.
        b: How far, of its dtype.

    Returns:
        Their dtype and shape.

    Example:
        >>> import tilekit as tk
        >>> tk.rshift(-12, 2)
        -3
    """


@elementwise()
def bit_count(x: Number) -> Number:
    """How many bits are set, of a negative number in two's complement.

    Args:
        x: An integer number or tile.

    Returns:
        An int32.

    Example:
        >>> import tilekit as tk
        >>> tk.bit_count(tk.int32(7)), tk.bit_count(tk.int8(-1))
        (3, 8)
    """


same_type(bit_and, "biu")
same_type(bit_or, "biu")
same_type(bit_xor, "biu")
same_type(invert, "biu")
same_type(lshift, "iu")
same_type(rshift, "iu")


@bit_count.result
def _count_result(x: ScalarType) -> ScalarType:
    need(x, "iu", "bit_count")
    return ScalarType(int32)


bit_and.reference(lambda a, b: np.bitwise_and(a, b))
bit_or.reference(lambda a, b: np.bitwise_or(a, b))
bit_xor.reference(lambda a, b: np.bitwise_xor(a, b))
invert.reference(lambda a: np.invert(a))
lshift.reference(lambda a, b: np.left_shift(a, b))
rshift.reference(lambda a, b: np.right_shift(a, b))


@bit_count.reference
def _count(x: Any) -> Any:
    values = np.asarray(x)
    bits = np.unpackbits(np.ascontiguousarray(values)[..., None].view(np.uint8), axis=-1)
    return bits.sum(axis=-1).reshape(values.shape)
