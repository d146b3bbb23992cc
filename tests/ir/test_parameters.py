import collections.abc
import inspect
import re
import typing
from typing import Any, Optional

import numpy as np
import pytest

from tilekit.errors import KernelNameError, KernelNotImplementedError, KernelTypeError
from tilekit.ir import annotations as tk
from tilekit.ir.annotations import ArrayAnnotation, TileAnnotation, array, array2d, array3d
from tilekit.ir.parameters import parse_annotation, parse_parameters
from tilekit.ir.types import bool_, float32, float64, int8, int32

wp = pytest.importorskip("warp")

TYPE = float


def parse(annotation: Any, **options: Any) -> Any:
    return parse_annotation(annotation, globals(), {}, "x", "kernel 'k'", **options)


def _label(value: object) -> str:
    """A test id that is the same in every process."""
    return re.sub(r" at 0x[0-9a-f]+", "", str(value))


@pytest.mark.parametrize(
    ("annotation", "meaning"),
    [
        (array2d[float], ArrayAnnotation(float32, 2)),
        (array, ArrayAnnotation(Any, None)),
        (array3d, ArrayAnnotation(Any, 3)),
        (array2d[float] | None, ArrayAnnotation(float32, 2)),
        (TileAnnotation(float32, (2, 2)), TileAnnotation(float32, (2, 2))),
        (float, float32),
        (int, int32),
        (bool, bool_),
        (Any, Any),
        (np.float64, float64),
        (np.dtype("int8"), int8),
        (wp.float64, float64),
        (wp.bool, bool_),
        (wp.array(dtype=float), ArrayAnnotation(float32, 1)),
        (wp.array(dtype=float, ndim=3), ArrayAnnotation(float32, 3)),
        (wp.array[float], ArrayAnnotation(float32, 1)),
        (wp.array2d[wp.int8], ArrayAnnotation(int8, 2)),
        (wp.array2d(dtype=wp.float64), ArrayAnnotation(float64, 2)),
        (wp.array(dtype=Any), ArrayAnnotation(Any, 1)),
        (wp.array2d[Any], ArrayAnnotation(Any, 2)),
        (wp.array[float, Any], ArrayAnnotation(float32, None)),
        (wp.array[float, typing.Literal[2]], ArrayAnnotation(float32, 2)),
        (wp.array, ArrayAnnotation(Any, None)),
        (wp.array4d, ArrayAnnotation(Any, 4)),
        (Optional[wp.array2d[float]], ArrayAnnotation(float32, 2)),  # noqa: UP045
        (wp.tile[float, 4, 8], TileAnnotation(float32, (4, 8))),
        (wp.tile[float], TileAnnotation(float32, None)),
        (wp.tile(dtype=float, shape=(2,)), TileAnnotation(float32, (2,))),
        ("tk.array2d[TYPE]", ArrayAnnotation(float32, 2)),
        ("'tk.array2d[TYPE]'", ArrayAnnotation(float32, 2)),
        ("wp.array(dtype=float, ndim=2)", ArrayAnnotation(float32, 2)),
    ],
    ids=_label,
)
def test_meaning(annotation: Any, meaning: Any) -> None:
    assert parse(annotation) == meaning


@pytest.mark.parametrize(
    ("annotation", "error", "text"),
    [
        (
            inspect.Parameter.empty,
            KernelTypeError,
            "parameter 'x' of kernel 'k' has no type annotation; write, for example, x: tk.array2d[float]",
        ),
        (str, KernelTypeError, "parameter 'x' of kernel 'k' is annotated str, which is not a type for kernels"),
        (np.ndarray, KernelTypeError, "is annotated ndarray, which is not a type"),
        (3, KernelTypeError, "is annotated 3, which is not a type"),
        (int | float, KernelTypeError, "is annotated int | float, which is not a type"),
        (collections.abc.Callable, KernelTypeError, "is annotated Callable"),
        ("tk.array2d[Missing]", KernelNameError, "annotated 'tk.array2d[Missing]', but name 'Missing' is not defined"),
        ("1 / 0", KernelTypeError, "annotated '1 / 0', which fails with ZeroDivisionError: division by zero"),
        ("tk.array2d[", KernelTypeError, "which fails with SyntaxError"),
        ("tk.array(dtype=float, ndim=9)", ValueError, "parameter 'x' of kernel 'k': an array has 1 to 4 dimensions"),
        (
            wp.vec3,
            KernelNotImplementedError,
            "parameter 'x' of kernel 'k': vec3f parameters: this type comes in a later",
        ),
        (wp.array2d[wp.vec3], KernelNotImplementedError, "parameter 'x' of kernel 'k': vec3f elements"),
        (wp.indexedarray(dtype=float), KernelNotImplementedError, "Warp's indexedarray is not supported"),
        (wp.indexedarray[float], KernelNotImplementedError, "Warp's IndexedArrayAnnotation is not supported"),
        (wp.Float, KernelNotImplementedError, "write Any"),
    ],
    ids=_label,
)
def test_refused(annotation: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error) as caught:
        parse(annotation)
    assert text in str(caught.value)


def test_struct_is_refused_by_name() -> None:
    @wp.struct
    class Pair:
        x: float

    with pytest.raises(KernelNotImplementedError, match="struct Pair parameters"):
        parse(Pair)


def test_functions_may_lack_annotations() -> None:
    def scale(x, f: collections.abc.Callable, g: typing.Callable, n: int): ...

    assert parse_parameters(scale, "function") == {"x": Any, "f": Any, "g": Any, "n": int32}
    with pytest.raises(KernelTypeError, match="parameter 'x' of kernel 'scale' has no type annotation"):
        parse_parameters(scale)


def test_strings_see_closure_and_given_variables() -> None:
    kind, rank = float, 2

    def used(a: "tk.array(dtype=kind, ndim=rank)"):
        return kind, rank

    def unused(a: "tk.array(dtype=kind, ndim=rank)"): ...

    expected = {"a": ArrayAnnotation(float32, 2)}
    assert parse_parameters(used) == expected
    assert parse_parameters(unused, variables=locals()) == expected
    with pytest.raises(KernelNameError, match="variables of the functions around it"):
        parse_parameters(unused)


def test_star_parameters_are_refused() -> None:
    def rows(*a: float): ...
    def options(**a: float): ...

    for function, text in ((rows, r"\*a"), (options, r"\*\*a")):
        with pytest.raises(KernelTypeError, match=text):
            parse_parameters(function)


def test_unbound_closure_variable_is_skipped() -> None:
    def outer() -> Any:
        def inner(x: float):
            return later

        parsed = parse_parameters(inner)
        later = 1
        return parsed

    assert outer() == {"x": float32}
