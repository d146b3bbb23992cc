"""Every overload that Warp has of a builtin that exists here: called by position and by Warp's keywords."""

from __future__ import annotations

import warnings
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pytest

import tilekit as tk
from tilekit.builtins import public_names
from tilekit.errors import KernelTypeError
from tilekit.ir.handles import Scalar, Tile

wp = pytest.importorskip("warp")
context = pytest.importorskip("warp._src.context")

ELSEWHERE = ("tid", "block_dim", "static", "printf")
"""Without parameters, or with such as are no values of a kernel."""
NOT_THERE = ("vec_t", "mat_t", "quat_t", "transform_t", "fabricarray", "indexedfabricarray")
"""Types that docs/from_warp.md lists as missing."""


class Overload(NamedTuple):
    name: str
    parameters: tuple[tuple[str, str], ...]
    """Names and what Warp calls their types."""
    required: int

    def __str__(self) -> str:
        return f"{self.name}({', '.join(map(':'.join, self.parameters))})"


def name_of(annotation: Any) -> str:
    return getattr(annotation, "__name__", None) or type(annotation).__name__


@cache
def overloads() -> list[Overload]:
    found = {}
    for name in sorted(set(context.builtin_functions) & set(public_names()) - set(ELSEWHERE)):
        function = context.builtin_functions[name]
        for overload in function.overloads or [function]:
            parameters = tuple((key, name_of(given)) for key, given in overload.input_types.items())
            words = {word for parameter in parameters for word in parameter}
            if not (overload.hidden or words.intersection(NOT_THERE)):
                found[name, parameters] = Overload(name, parameters, len(parameters) - len(overload.defaults))
    return list(found.values())


BY_NAME = {
    "storage": "shared", "bounds_check": False, "aligned": True, "precision": "tf32", "dtype": tk.float32,
    "preserve_type": True, "m": 2, "n": 1, "b": 1.5, "i": 1, "j": 0, "k": 2, "l": 1,
    "alpha": 3.0, "beta": 0.5, "tolerance": 0.5,
}  # fmt: skip


def argument(overload: Overload, key: str, kind: str) -> Any:
    """Something that fits a parameter."""
    name, keys = overload.name, [key for key, _ in overload.parameters]
    extent = 1 if name == "untile" else 3  # as many as a block has lanes outside kernels
    rank = 2 if name in ("tile_matmul", "tile_transpose") else max(sum(axis in keys for axis in "ijklmn"), 1)
    if kind in ("array", "tile"):
        dtype = np.int32 if name.startswith(("atomic", "bit")) else np.float32
        data = np.arange(1, 1 + extent**rank, dtype=dtype).reshape((extent,) * rank)
        return data if kind == "array" else tk.tile_load(data, shape=data.shape)
    if key == "op":
        return tk.neg if keys == ["op", "a"] and name == "tile_map" else tk.add
    if key in ("shape", "offset", "axis"):
        number = {"shape": 3 if name != "tile_view" else 2, "offset": 0 if name == "tile_assign" else 1, "axis": 0}[key]
        return number if kind == "int32" else () if name == "tile_squeeze" else (number,)
    if kind == "Int":
        return 2
    if kind == "Float" or (kind == "Any" and name.startswith("tile_")):
        return BY_NAME.get(key, 0.5)
    return BY_NAME.get(key, kind == "bool" or 2)


def plain(value: Any) -> Any:
    if isinstance(value, Tile) and not value.is_view and not value.base.written:
        return repr(value.type)
    return np.asarray(value).tolist() if isinstance(value, Tile | Scalar | np.ndarray) else value


def outcome(overload: Overload, keys: list[str], positional: int) -> Any:
    """What a call with these parameters gives, and what it leaves in them; the first ones by position."""
    given = {key: argument(overload, key, kind) for key, kind in overload.parameters if key in keys}
    values, more = list(given.values()), [key for key in given if key.startswith("*")]
    if more:  # these have no keywords, and what follows has no place
        positional = keys.index(more[0]) + 1
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = public_names()[overload.name](*values[:positional], **dict(list(given.items())[positional:]))
    return plain(result), [plain(value) for value in values if isinstance(value, Tile | np.ndarray)]


@pytest.mark.parametrize("overload", overloads(), ids=str)
def test_calls_bind_as_in_warp(overload):
    names = [key for key, _ in overload.parameters]
    for count in range(overload.required, len(names) + 1):
        seen = [outcome(overload, names[:count], positional) for positional in range(count + 1)]
        assert all(repr(found) == repr(seen[0]) for found in seen)


def test_the_table_is_not_empty():
    assert len(overloads()) > 120
    assert sum(overload.name == "tile_matmul" for overload in overloads()) == 2


A = tk.tile_full((1, 2), 3.0)
B = tk.tile_full((2, 1), 5.0)


def test_a_number_in_the_place_of_out_is_alpha():
    assert plain(tk.tile_matmul(A, B, 2.0)) == [[60.0]]
    assert plain(tk.tile_matmul(A, B, tk.float32(0.5), "default")) == [[15.0]]
    assert plain(tk.tile_matmul(A, B, 2, precision="default")) == [[60.0]]


@tk.kernel
def given(a: tk.array1d[float], out: tk.array1d[int]):
    out[0] = tk.where(a, 1, 2)
    out[1] = tk.where(tk.unot(a), 1, 2)
    out[2] = tk.where(arr=a, value_if_true=1, value_if_false=2)


@pytest.mark.parametrize("device", ["cpu", "interpret"])
def test_where_and_not_of_an_array_ask_whether_it_was_given(device):
    out = np.zeros(3, np.int32)
    for a, wanted in ((np.zeros(1, np.float32), [1, 2, 1]), (None, [2, 1, 2])):
        tk.launch(given, dim=1, inputs=[a], outputs=[out], device=device)
        assert out.tolist() == wanted


@tk.kernel
def scaled(a: tk.array2d[float], s: float, out: tk.array2d[float]):
    t = tk.tile_load(a, shape=(2, 2))
    tk.tile_store(out, tk.tile_matmul(t, t, s))


@pytest.mark.parametrize("device", ["cpu", "interpret"])
def test_alpha_is_a_number_at_run_time(device):
    a = np.float32([[1, 2], [3, 4]])
    out = np.zeros((2, 2), np.float32)
    tk.launch_tiled(scaled, dim=1, inputs=[a, 0.5], outputs=[out], device=device)
    assert out.tolist() == (a @ a / 2).tolist()


NO_OUT = "tile_matmul(): beta scales out, but no out is given; pass out, or drop beta"


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda: tk.tile_matmul(A, B, beta=2.0), NO_OUT),
        (lambda: tk.tile_matmul(A, B, beta=1.0), NO_OUT),
        (lambda: tk.tile_matmul(A, B, None, 1.0, 2.0), NO_OUT),
        (
            lambda: tk.tile_matmul(A, B, 2.0, beta=2.0),
            "tile_matmul() has no parameter 'beta'; its signature is tile_matmul(a, b, alpha=1.0, precision='default')",
        ),
        (
            lambda: tk.tile_matmul(A, B, 2.0, "tf32", 1),
            "tile_matmul() takes 4 arguments, got 5; its signature is tile_matmul(a, b, alpha=1.0, "
            "precision='default')",
        ),
        (lambda: tk.tile_matmul(A, B, "x"), "tile_matmul(): out must be a tile, got 'x' (a string)"),
        (lambda: tk.tile_map(tk.neg, A, a=B), "tile_map() takes (op, a, b, ...), got 2 positional arguments and a"),
        (lambda: tk.tile_map(tk.neg, x=B), "tile_map() takes (op, a, b, ...), got 1 positional arguments and x"),
        (
            lambda: tk.tile_extract(A, 0, k=1),
            "tile_extract() of a tile<1x2xf32> takes (a, i, j), got 1 positional arguments and k",
        ),
    ],
)
def test_wrong_calls_say_what_is_right(wrong, message):
    with pytest.raises(KernelTypeError) as raised:
        wrong()
    assert raised.value.message == message
