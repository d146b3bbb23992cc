"""Fused multiply-add with a rounding of choice, and pairs of numbers in one register."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilekit.builtins.atom_code import Instruction, Source, emit_instruction
from tilekit.builtins.atom_gradients import gated
from tilekit.builtins.atom_registers import computed, data_from_register, data_to_register
from tilekit.builtins.atoms import Atom, ptx
from tilekit.builtins.slopes import times
from tilekit.errors import KernelTypeError, KernelValueError, TilekitError
from tilekit.ir.builtin import builtin
from tilekit.ir.context import fail
from tilekit.ir.float_state import in_ieee_state
from tilekit.ir.handles import Scalar, Tile
from tilekit.ir.interpret import to_memory
from tilekit.ir.operands import DTypeLike, constant, describe, with_article
from tilekit.ir.types import (
    DType,
    ScalarType,
    as_dtype,
    bfloat16,
    float16,
    float32,
    float64,
    to_numpy_scalar,
    uint32,
    uint64,
)

__all__ = ["pack2", "tile_fma"]
GROUP = "PTX atoms"
Number = Scalar | Tile
_ROUNDINGS = ("rn", "rz", "rm", "rp")
_PTX = {float16: "f16", bfloat16: "bf16", float32: "f32", float64: "f64"}


@builtin(group=GROUP, elementwise=True, unify=("a", "b", "c"))
def fma(a: Number, b: Number, c: Number, rounding: str = "rn", ftz: bool = False, sat: bool = False) -> Number:
    """Compute ``a * b + c`` with one rounding: one instruction on a GPU, the same bits on the CPU.

    Args:
        a: A float16, bfloat16, float32 or float64 number or tile.
        b: Another of its dtype, with as many axes where both are tiles.
        c: Another of its dtype and shape.
        rounding: ``"rn"`` to nearest even, ``"rz"`` to zero, ``"rm"`` to minus and ``"rp"`` to plus infinity; a
            compile-time constant. 16-bit floats have ``"rn"`` only.
        ftz: Operands and results that are subnormal become zero.
        sat: The result is clamped to [0, 1], NaN becomes 0.

    Returns:
        A number of that dtype, or a tile where one operand is.

    Raises:
        KernelTypeError: an operand is no float, or of another dtype than the first.
        KernelValueError: the dtype does not have that rounding or modifier; the message says what it has.

    Example:
        >>> import tilekit as tk
        >>> third = tk.float32(1.0) / tk.float32(3.0)
        >>> tk.fma(third, third, 0.0, rounding="rm") < tk.fma(third, third, 0.0, rounding="rp")
        True
    """


def atom_of(dtype: DType, rounding: Any, ftz: Any, sat: Any) -> Atom:
    """The atom that computes it.

    Raises:
        KernelTypeError: the dtype is no float; an option is no constant of its kind.
        KernelValueError: there is no such rounding or atom.
    """
    if not isinstance(rounding, str) or rounding not in _ROUNDINGS:  # a modifier here would escape the gradient rule
        wrong = KernelValueError if isinstance(rounding, str) else KernelTypeError
        raise wrong(f"fma(): rounding must be 'rn', 'rz', 'rm' or 'rp', got {describe(rounding)}")
    for name, value in (("ftz", ftz), ("sat", sat)):
        if not isinstance(value, bool):
            raise KernelTypeError(f"fma(): {name} must be True or False, got {describe(value)}")
    if dtype not in _PTX:
        raise KernelTypeError(f"fma() needs floats, got {with_article(dtype.name)}")
    try:
        return ptx[f"fma.{rounding}{'.ftz' * ftz}{'.sat' * sat}.{_PTX[dtype]}"]
    except TilekitError as error:
        raise KernelValueError(f"no instruction computes this: {error.message}") from None


@fma.result
def _result(a: ScalarType, rounding: str, ftz: bool, sat: bool) -> ScalarType:
    atom_of(a.dtype, rounding, ftz, sat)
    return a


@fma.reference
def _reference(a: Any, b: Any, c: Any, rounding: str, ftz: bool, sat: bool, types: Any) -> Any:
    dtype = types[0].dtype
    atom = atom_of(dtype, rounding, ftz, sat)
    given = [
        data_to_register(np.asarray(x, dtype.numpy), dtype, slot)
        for x, slot in zip((a, b, c), atom.slots[1:], strict=True)
    ]
    return data_from_register(computed(atom, given), dtype)


@fma.emit
def _emit(cx: Any, a: str, b: str, c: str, rounding: str, ftz: bool, sat: bool, types: Any) -> str:
    dtype = types["a"].dtype
    atom = atom_of(dtype, rounding, ftz, sat)
    given = [[Source(text, dtype, cx.op.operands[name])] for name, text in (("a", a), ("b", b), ("c", c))]
    (found,) = emit_instruction(cx, Instruction(atom, given, dtype))
    return found


@fma.adjoint
def _adjoint(cx: Any, grad: Any, value: Any, result: Any, sat: bool) -> dict[str, Any]:
    def flowing(given: Any) -> Any:
        return gated(cx, given, result, {"sat"} if sat else ())

    return {
        "a": lambda: flowing(times(grad, cx.widen(value("b")))),
        "b": lambda: flowing(times(grad, cx.widen(value("a")))),
        "c": lambda: flowing(grad),
    }


def tile_fma(a: Any, b: Any, c: Any, rounding: str = "rn", ftz: bool = False, sat: bool = False) -> Tile:
    """Compute ``a * b + c`` with one rounding, element by element.

    Args:
        a: A tile of floats, or a number that is the same for all elements.
        b: Another of its dtype, with as many axes where both are tiles.
        c: Another; as for :func:`fma`.
        rounding: ``"rn"``, ``"rz"``, ``"rm"`` or ``"rp"``, as for :func:`fma`.
        ftz: Operands and results that are subnormal become zero.
        sat: The result is clamped to [0, 1], NaN becomes 0.

    Returns:
        A new tile of that dtype.

    Raises:
        KernelTypeError: none of the operands is a tile, or their dtypes differ.
        KernelValueError: the shapes differ, or the dtype does not have that rounding or modifier.

    Example:
        >>> import tilekit as tk
        >>> tk.tile_fma(tk.tile_full(2, 3.0), 2.0, tk.tile_ones(2))
        tile<2xf32>
        [7. 7.]
    """
    if not any(isinstance(item, Tile) for item in (a, b, c)):
        shown = ", ".join(describe(item) for item in (a, b, c))
        raise KernelTypeError(f"tile_fma(): none of a, b and c is a tile: got {shown}; use tk.fma for numbers")
    return fma(a, b, c, rounding, ftz, sat)  # type: ignore[no-any-return]


# Pairs.


@builtin(group="internal", elementwise=True, unify=("low", "high"))
def pack_pair(low: Number, high: Number, dtype: DTypeLike) -> Number:
    """Two numbers of a dtype in one of twice its bits, the first in the lower half."""


@pack_pair.coerce
def _pack_coerce(low: ScalarType, high: ScalarType, dtype: DType) -> dict[str, ScalarType]:
    return {"low": ScalarType(dtype), "high": ScalarType(dtype)}


@pack_pair.result
def _pack_result(low: ScalarType, dtype: DType) -> ScalarType:
    return ScalarType(uint64 if dtype == float32 else uint32)


@pack_pair.reference
def _pack_reference(low: Any, high: Any, dtype: DType) -> Any:
    wide = _pack_result(ScalarType(dtype), dtype).dtype.numpy
    return _bits(low, dtype).astype(wide) | _bits(high, dtype).astype(wide) << wide.type(dtype.bits)


def _bits(number: Any, dtype: DType) -> Any:
    held = np.asarray(number, dtype.numpy)
    return to_memory(held, dtype, np.dtype(np.uint16)) if dtype is bfloat16 else held.view(f"u{dtype.itemsize}")


@pack_pair.emit
def _pack_emit(cx: Any, low: str, high: str, dtype: DType) -> str:
    if dtype == float32:
        return f"(tk::u64)tk::bit_cast<tk::u32>({high}) << 32 | tk::bit_cast<tk::u32>({low})"
    return f"(tk::u32){high}.bits << 16 | {low}.bits"


pack_pair.has_no_adjoint("it reads the bits of numbers")


@in_ieee_state
def pack2(low: Any, high: Any, dtype: Any) -> Any:
    """Two floats as one operand of a packed atom, such as ``fma.rn.f16x2``.

    Args:
        low: The first one, in the lower half: a number, or a tile of ``dtype``.
        high: The second one.
        dtype: What they are: float16, bfloat16 or float32, to which constants are rounded.

    Returns:
        A uint32, or for float32 a uint64; a tile where one of them is.

    Raises:
        KernelTypeError: another dtype, or a run-time number or tile that is not of it.

    Example:
        >>> import tilekit as tk
        >>> hex(tk.pack2(1.0, 2.0, tk.float16)), hex(tk.pack2(1.0, 1.0, tk.float32))
        ('0x40003c00', '0x3f8000003f800000')
    """
    try:
        found = as_dtype(dtype)
        if found not in (float16, bfloat16, float32):
            raise KernelTypeError(f"pack2(): dtype must be float16, bfloat16 or float32, got {found.name}")
        numbers = [constant(part) for part in (low, high)]
        if all(number is not None for number in numbers):
            first, second = (to_numpy_scalar(number.value, found) for number in numbers if number is not None)
            return _pack_reference(first, second, found)[()]
        for name, part, number in zip(("low", "high"), (low, high), numbers, strict=True):
            if number is None and not isinstance(part, Scalar | Tile):
                raise KernelTypeError(f"pack2(): {name} must be a number or a tile, got {describe(part)}")
            if number is None and part.dtype != found:
                raise KernelTypeError(f"pack2(): {name} is {describe(part)}; it must be {found.name}, so cast it first")
        return pack_pair(low, high, found)
    except TilekitError as error:
        raise fail(error) from None
