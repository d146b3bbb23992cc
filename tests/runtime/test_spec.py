from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilekit as tk
from tilekit.codegen.target import ArrayClass
from tilekit.errors import KernelTypeError, KernelValueError
from tilekit.ir.types import ArrayType, ScalarType
from tilekit.runtime.spec import Spec, assumption, class_of, dense_class, state


@tk.kernel
def generic(x: tk.array(dtype=Any, ndim=2), y: tk.array1d[float], factor: Any, count: int):
    tk.tile_store(x, tk.tile_load(x, shape=(2, 2)) * factor)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (tk.spec(float, 2), ArrayClass(1, True, (False, False), False, True)),
        (tk.spec(float, 2, align=8), ArrayClass(1, False, (False, False), False)),
        (tk.spec(float, 2, align=32), ArrayClass(1, True, (False, False), False, True)),
        (tk.spec(tk.float16, 3), ArrayClass(2, True, (False,) * 3, False, True)),
        (tk.spec(float, shape=(8, 33)), ArrayClass(1, False, (False, False), False)),
        (tk.spec(float, shape=(8, 36)), ArrayClass(1, True, (False, False), False, True)),
        (tk.spec(float, shape=(8, 4, 5)), ArrayClass(2, False, (False,) * 3, False)),
        (tk.spec(tk.float64, shape=(1 << 20, 1 << 10)), ArrayClass(1, True, (False, False), True, True)),
        (tk.spec(float, strides=(4, 64)), ArrayClass(0, True, (False, False), False, True)),
        (tk.spec(float, strides=(0, 4)), ArrayClass(1, True, (True, False), False, True)),
        (tk.spec(float, strides=(8,)), ArrayClass(-1, False, (False,), False)),
        (tk.spec(float, shape=(2,), strides=(-4,)), ArrayClass(-1, False, (False,), False)),
    ],
)
def test_the_class_of_a_described_array(given: Spec, expected: ArrayClass) -> None:
    assert class_of(given.view()) == expected


@pytest.mark.parametrize("ndim", [1, 2, 3, 4])
def test_a_description_without_more_is_what_is_assumed(ndim: int) -> None:
    assert class_of(tk.spec(float, ndim).view()) == dense_class(ndim)


def test_a_described_array_has_the_class_of_the_array() -> None:
    array = np.zeros((6, 32), np.float32)[::2, 4:]
    described = tk.spec(array.dtype, shape=array.shape, strides=array.strides)
    stated = state(generic, None, {"x": array})
    assert stated.types["x"] == ArrayType(tk.float32, 2)
    if array.ctypes.data % 16 == 0:
        assert class_of(stated.views["x"]) == class_of(described.view())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"dtype": float}, "needs ndim, shape or strides"),
        ({"dtype": float, "ndim": 2, "shape": (3,)}, "of different length"),
        ({"dtype": float, "ndim": 5}, "1 to 4 dimensions, not 5"),
        ({"dtype": float, "shape": ()}, "1 to 4 dimensions, not 0"),
        ({"dtype": float, "ndim": 1, "align": 2}, "at least the 4 bytes of float32"),
        ({"dtype": float, "ndim": 1, "align": 12}, "power of two"),
        ({"dtype": float, "shape": (3, -1)}, "must not be negative"),
        ({"dtype": float, "strides": (3,)}, "strides are in bytes, multiples of the 4 of float32"),
    ],
)
def test_descriptions_that_fit_no_array(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(KernelValueError, match=message):
        tk.spec(**arguments)


def test_descriptions_of_the_wrong_kind() -> None:
    with pytest.raises(KernelTypeError, match="is not a dtype"):
        tk.spec("float32", 1)
    with pytest.raises(KernelTypeError, match="shape as integers"):
        tk.spec(float, shape=(2.5,))


def test_arguments_state_types() -> None:
    stated = state(generic, [tk.spec(tk.float16, 2), None, 2.5, np.int32(3)], {"y": np.zeros(3, np.float32)})
    f32 = ArrayType(tk.float32, 1)
    expected = {
        "x": ArrayType(tk.float16, 2),
        "y": f32,
        "factor": ScalarType(tk.float32),
        "count": ScalarType(tk.int32),
    }
    assert stated.types == expected
    assert set(stated.views) == {"x", "y"}
    assert state(generic, [None, None, tk.float16, int], None).types["factor"] == ScalarType(tk.float16)
    assert state(generic, None, {"x": tk.array2d[tk.float64]}).types == {"x": ArrayType(tk.float64, 2)}
    assert not state(generic, None, {"x": tk.array2d[tk.float64]}).views


@pytest.mark.parametrize(
    ("arguments", "arrays", "message"),
    [
        ([None], None, r"one entry for each of the 4 parameters of kernel 'generic' \(x, y, factor, count\), got 1"),
        (None, {"z": None}, "has no parameter 'z'; its parameters are x, y, factor, count"),
        (
            None,
            {"x": np.zeros(3, np.float32)},
            "argument 'x' of kernel 'generic': .* give it 2 dimensions, or .*1d.Any.",
        ),
        (
            None,
            {"y": np.zeros(3)},
            "expects array.float32., got .* 1 dimension; convert its elements to float32",
        ),
        (None, {"y": tk.spec(tk.float16, 1)}, "float16 with 1 dimension; convert its elements to float32, or"),
        (None, {"y": 3.0}, "expects array.float32., got 3.0; give an array, or tk.spec"),
        (None, {"y": np.zeros((2, 2))}, "give it 1 dimension and convert its elements to float32, or .*2d.tk.float"),
        (None, [np.zeros(3)], r"a dict of what stands for parameters .* \(x, y, factor, count\).*, got a list; a list"),
        (None, {"y": tk.array2d[float]}, "expects array.float32., got array2d.float32."),
        (None, {"x": tk.array[Any]}, "leaves dtype or rank open"),
        (None, {"count": 2.5}, "expects int32, got 2.5"),
        (None, {"count": float}, "expects int32, got the dtype float32"),
        (None, {"count": None}, "expects int32, got None"),
        (None, {"count": np.zeros(2)}, "expects int32, got an array"),
        (None, {"count": tk.array1d[float]}, "expects int32, got array.float32."),
    ],
)
def test_arguments_that_do_not_fit(arguments: Any, arrays: Any, message: str) -> None:
    with pytest.raises(KernelTypeError, match=message):
        state(generic, arguments, arrays)


def test_assumptions_in_words() -> None:
    type = ArrayType(tk.float32, 2)
    assert assumption("a", type, dense_class(2), False) == (
        "a: array2d<f32>, row-major, base and other strides multiples of 16 bytes, whole multiples along axis 1, "
        "at most 2 GiB (assumed)"
    )
    odd = ArrayClass(0, False, (False, True), True)
    expected = "side by side along axis 0, any alignment, stride 0 on axis 1, more than 2 GiB (given)"
    assert assumption("a", type, odd, True).endswith(expected)
    assert "apart on every axis" in assumption("a", type, ArrayClass(-1, False, (False, False), False), True)
