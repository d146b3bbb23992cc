import pickle
from typing import Any

import numpy as np
import pytest

import tilekit as tk
from tilekit.errors import KernelNotImplementedError, KernelTypeError, KernelValueError
from tilekit.ir.annotations import (
    ArrayAnnotation,
    TileAnnotation,
    array,
    array1d,
    array2d,
    array3d,
    array4d,
    tile_annotation,
)
from tilekit.ir.types import bfloat16, float16, float32, float64, int32


@pytest.mark.parametrize(("factory", "ndim"), [(array1d, 1), (array2d, 2), (array3d, 3), (array4d, 4)])
def test_spellings_of_one_annotation_are_equal(factory: Any, ndim: int) -> None:
    spellings = [factory[float], factory(dtype=float), array(dtype=float, ndim=ndim), factory[np.float32]]
    spellings += [array[float, ndim], factory[float32], factory(dtype=np.dtype("float32"))]
    assert set(spellings) == {ArrayAnnotation(float32, ndim)}


def test_array_without_rank_is_one_dimensional() -> None:
    assert array[int] == array(dtype=int) == array1d[int] == ArrayAnnotation(int32, 1)


def test_generic_annotations() -> None:
    assert array(dtype=Any) == array[Any] == array() == ArrayAnnotation(Any, 1)
    assert array2d[Any].is_generic and array[float, Any].is_generic and not array2d[float].is_generic
    assert array[float, Any].ndim is None


def test_accepts() -> None:
    assert array2d[float].accepts(float32, 2)
    assert not array2d[float].accepts(float64, 2)
    assert not array2d[float].accepts(float32, 1)
    assert array[Any, Any].accepts(float16, 3)


def test_annotations_differ_by_dtype_and_rank() -> None:
    assert array2d[float] != array3d[float]
    assert array2d[float] != array2d[bfloat16]


def test_annotation_repr_pickle_and_optional() -> None:
    assert [repr(a) for a in (array[float], array4d[Any], array[int, Any])] == [
        "array[float32]",
        "array4d[Any]",
        "array[int32, Any]",
    ]
    assert pickle.loads(pickle.dumps(array2d[float])) == array2d[float]
    assert pickle.loads(pickle.dumps(array2d[Any])) == array2d[Any]
    assert (array2d[float] | None) == array2d[float]


def test_warp_and_numpy_dtypes_become_tilekits() -> None:
    import warp as wp

    assert array2d[wp.bfloat16] == array2d[bfloat16]
    assert array2d[wp.float64].dtype is float64


@pytest.mark.parametrize(
    ("make", "error", "text"),
    [
        (lambda: array["float"], KernelTypeError, "'float' is not a dtype"),
        (lambda: array[complex], KernelTypeError, "is not a dtype"),
        (lambda: array2d[float, 2], KernelTypeError, "array2d[...] takes one dtype, got 2 parameters"),
        (lambda: array(dtype=float, ndim=5), KernelValueError, "an array has 1 to 4 dimensions, not 5"),
        (lambda: array(dtype=float, ndim=0), KernelValueError, "an array has 1 to 4 dimensions, not 0"),
        (lambda: array(dtype=float, ndim=True), KernelValueError, "an array has 1 to 4 dimensions, not True"),
        (lambda: array2d(dtype=float, ndim=3), KernelValueError, "ndim=3 contradicts array2d"),
        (lambda: array(dtype=float, requires_grad=True), KernelTypeError, "array(requires_grad=...) needs data"),
        (lambda: array(dtype=float, device="cpu"), KernelTypeError, "array(device=...) needs data, shape or ptr"),
    ],
)
def test_wrong_annotations(make: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error) as caught:
        make()
    assert text in str(caught.value)


def test_compound_dtypes_come_later() -> None:
    import warp as wp

    @wp.struct
    class Pair:
        x: float

    for dtype, name in ((wp.vec3, "vec3f"), (wp.mat22, "mat22f"), (wp.quat, "quatf"), (Pair, "Pair")):
        with pytest.raises(KernelNotImplementedError, match=f"{name}.*later release"):
            array2d[dtype]
    with pytest.raises(KernelNotImplementedError, match="write Any"):
        array[wp.Float]


def test_tile_annotation() -> None:
    assert tile_annotation(float) == TileAnnotation(float32, None)
    assert tile_annotation((float, 4, 8)) == tile_annotation((float, (4, 8))) == TileAnnotation(float32, (4, 8))
    assert tile_annotation((Any, 4)).dtype is Any
    assert tk.tile[float, 4, 8] == tk.tile(dtype=float, shape=(4, 8)) == tk.tile(tk.float32, (4, 8))
    with pytest.raises(KernelTypeError, match="positive integers, not -1"):
        tile_annotation((float, -1))
