"""Integers as affine sums: no op of integers stops the search, and what is found is what the op computes."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import numpy as np
import pytest

import tilekit as tk
from tilekit.errors import TilekitError
from tilekit.ir.affine import affine_of
from tilekit.ir.builtin import REGISTRY, Builtin
from tilekit.ir.core import Const, Op, Value, make_op
from tilekit.ir.types import DType, ScalarType

KERNEL = tk.kernel  # whose import declares all builtins
INTEGERS = (tk.int8, tk.uint8, tk.int16, tk.uint16, tk.int32, tk.uint32, tk.int64, tk.uint64)
NUMBERS = (0, 1, 3, 5, 100, 30_000)
"""Three times the greatest that 8 or 16 bits hold is more than they hold; int32 holds the product of any two."""


def operations(builtin: Builtin, dtype: DType) -> Iterator[Op]:
    """The builtin with all ways to give it values, and constants, of a dtype."""
    choices = {"dtype": INTEGERS, "rounding": ("rn",), "ftz": (False,), "sat": (False,)}
    names = [name for name in builtin.kinds if name not in builtin.operand_names]
    for chosen in product(*(choices[name] for name in names)):
        for known in product((False, True), repeat=len(builtin.operand_names)):
            type = ScalarType(dtype)
            operands = {
                name: Const(type, 3) if constant else Value(type, name)
                for name, constant in zip(builtin.operand_names, known, strict=True)
            }
            attrs = dict(zip(names, chosen, strict=True))
            try:
                types = builtin.result_types({name: type for name in operands}, attrs)
            except TilekitError:
                continue
            yield make_op(builtin, operands, attrs, tuple(map(Value, types)))


def number_of(op: Op, numbers: dict[Value, int]) -> int:
    """What an op computes of numbers."""
    given = {}
    for name, operand in op.operands.items():
        value = operand.value if isinstance(operand, Const) else numbers[operand]  # type: ignore[index, union-attr]
        given[name] = np.asarray(value).astype(operand.type.dtype.numpy)  # type: ignore[union-attr]
    with np.errstate(all="ignore"):
        found = op.builtin.apply("reference", given, op.attrs, types=tuple(result.type for result in op.results))
    return int(np.asarray(found))


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
@pytest.mark.parametrize("name", [name for name, each in REGISTRY.items() if each.elementwise])
def test_a_sum_is_what_the_op_computes(name: str, dtype: DType) -> None:
    for op in operations(REGISTRY[name], dtype):
        (result,) = op.results
        found = affine_of(result, {result: op})
        values = list(op.inputs())
        for numbers in product(filter(dtype.holds, NUMBERS), repeat=len(values)):
            given = dict(zip(values, numbers, strict=True))
            if found.terms.keys() <= given.keys():
                total = found.constant + sum(by * given[value] for value, by in found.terms.items())
                assert total == number_of(op, given), f"{op}: {found}"


@pytest.mark.parametrize(
    ("given", "made", "kept"),
    [
        (tk.int32, tk.int64, True),
        (tk.int32, tk.int32, True),
        (tk.uint8, tk.int32, True),
        (tk.uint32, tk.int64, True),
        (tk.int64, tk.int32, False),
        (tk.int32, tk.int8, False),
        (tk.int32, tk.uint32, False),
        (tk.uint32, tk.int32, False),
        (tk.float32, tk.int32, False),
    ],
    ids=str,
)
def test_casts_that_cut_nothing_off_are_sums(given: DType, made: DType, kept: bool) -> None:
    value, result = Value(ScalarType(given)), Value(ScalarType(made))
    op = make_op(REGISTRY["cast"], {"a": value}, {"dtype": made}, (result,))
    assert affine_of(result, {result: op}).terms == {value if kept else result: 1}
