"""Captured constants: what a kernel reads from outside is read again at every launch."""

import enum
import types
import warnings
from dataclasses import dataclass

import numpy as np
import pytest

import tilekit as tk

cfg = types.SimpleNamespace(TILE=2, nested=types.SimpleNamespace(scale=1.0))
opts = {"bias": 1.0, "list": [1.0]}
SIZE = 2
PAIR = (1.0, 2.0)
NAMES = ["a"]
TABLE = np.array([1.0, 2.0], np.float32)
LOOKUP = {"x": 1.0}


class Mode(enum.Enum):
    ADD = 1
    MUL = 2


class Limits:
    HIGH = 3.0


@dataclass
class Settings:
    gain: float = 1.0


settings = Settings()
mode = Mode.ADD
dtype = tk.float32
OFFSET = 0.5


@tk.kernel
def uses_attributes(out: tk.array1d[float]):
    tk.tile_store(out, tk.tile_full(shape=cfg.TILE, value=cfg.nested.scale * Limits.HIGH))


@tk.kernel
def uses_items(out: tk.array1d[float]):
    tk.tile_store(out, tk.tile_full(shape=2, value=opts["bias"] + PAIR[1] + TABLE[0]))


@tk.kernel
def uses_enum(out: tk.array1d[float]):
    t = tk.tile_full(shape=2, value=3.0)
    if mode is Mode.ADD:
        t = t + 4.0
    else:
        t = t * 4.0
    tk.tile_store(out, t)


@tk.kernel
def uses_dtype(out: tk.array1d[float]):
    tk.tile_store(out, tk.tile_astype(tk.tile_astype(tk.tile_full(shape=2, value=1.75), dtype), tk.float32))


def helper_constant():
    return OFFSET


def helper(x):
    return x + helper_constant()


@tk.kernel
def uses_helper(out: tk.array1d[float]):
    tk.tile_store(out, tk.tile_full(shape=2, value=helper(1.0)))


def with_settings(s):
    return s.gain


@tk.kernel
def uses_object(out: tk.array1d[float]):
    tk.tile_store(out, tk.tile_full(shape=2, value=with_settings(settings)))


@tk.kernel
def shadows_builtin(out: tk.array1d[float]):
    tk.tile_store(out, tk.tile_full(shape=2, value=abs(-2.0)))


def launched(kernel):
    out = np.zeros(4, np.float32)
    tk.launch_tiled(kernel, dim=1, outputs=[out])
    return out.tolist()


@pytest.fixture(autouse=True)
def restore():
    kept = dict(globals())
    yield
    globals().update({name: kept[name] for name in ("mode", "dtype", "OFFSET", "helper_constant", "PAIR", "settings")})
    cfg.TILE, cfg.nested.scale, opts["bias"], Limits.HIGH, TABLE[0], settings.gain = 2, 1.0, 1.0, 3.0, 1.0, 1.0
    globals().pop("abs", None)


def test_attributes():
    assert launched(uses_attributes) == [3, 3, 0, 0]
    cfg.TILE = 3
    assert launched(uses_attributes) == [3, 3, 3, 0]
    cfg.nested.scale = 2.0
    assert launched(uses_attributes) == [6, 6, 6, 0]
    Limits.HIGH = 1.0
    assert launched(uses_attributes) == [2, 2, 2, 0]
    cfg.TILE, cfg.nested.scale, Limits.HIGH = 2, 1.0, 3.0
    compiled = len(uses_attributes.cache)
    assert launched(uses_attributes) == [3, 3, 0, 0]
    assert len(uses_attributes.cache) == compiled


def test_items_of_dicts_tuples_and_arrays():
    global PAIR
    assert launched(uses_items) == [4, 4, 0, 0]
    opts["bias"] = 2.0
    assert launched(uses_items) == [5, 5, 0, 0]
    PAIR = (0.0, 3.0)
    assert launched(uses_items) == [6, 6, 0, 0]
    TABLE[0] = 7.0
    assert launched(uses_items) == [12, 12, 0, 0]


def test_enums_and_dtypes():
    global mode, dtype
    assert launched(uses_enum) == [7, 7, 0, 0]
    mode = Mode.MUL
    assert launched(uses_enum) == [12, 12, 0, 0]
    assert launched(uses_dtype) == [1.75, 1.75, 0, 0]
    dtype = tk.int32
    assert launched(uses_dtype) == [1, 1, 0, 0]


def test_what_helpers_of_helpers_read():
    global OFFSET, helper_constant
    assert launched(uses_helper) == [1.5, 1.5, 0, 0]
    OFFSET = 2.0
    assert launched(uses_helper) == [3, 3, 0, 0]

    def replaced():
        return OFFSET * 10.0

    helper_constant = replaced
    assert launched(uses_helper) == [21, 21, 0, 0]
    OFFSET = 1.0
    assert launched(uses_helper) == [11, 11, 0, 0]


def test_objects_count_as_what_their_attributes_are():
    assert launched(uses_object) == [1, 1, 0, 0]
    settings.gain = 5.0
    assert launched(uses_object) == [5, 5, 0, 0]


def test_a_builtin_name_that_the_module_defines_later():
    global abs
    assert launched(shadows_builtin) == [2, 2, 0, 0]

    def mine(x):
        return x * 3.0

    abs = mine
    assert launched(shadows_builtin) == [-6, -6, 0, 0]


def test_numbers_that_compare_equal_differ():
    value: object = 1

    @tk.kernel
    def typed(out: tk.array1d[float]):
        tk.tile_store(out, tk.tile_astype(tk.tile_full(shape=2, value=value) / 2, tk.float32))

    assert launched(typed) == [0, 0, 0, 0]
    value = 1.0
    assert launched(typed) == [0.5, 0.5, 0, 0]


def scaled_by(factor):
    def scale(x):
        return x * factor

    return scale


def test_helpers_from_one_factory():
    double, triple = scaled_by(2.0), scaled_by(3.0)

    @tk.kernel
    def both(out: tk.array1d[float]):
        tk.tile_store(out, tk.tile_full(shape=2, value=double(1.0) + triple(1.0)))

    assert launched(both) == [5, 5, 0, 0]
    triple = scaled_by(4.0)
    assert launched(both) == [6, 6, 0, 0]


def made(size):
    @tk.kernel
    def sized(out: tk.array1d[float]):
        tk.tile_store(out, tk.tile_ones(shape=size))

    return sized


def test_kernels_from_one_factory():
    first, second = made(1), made(3)
    assert launched(first) == [1, 0, 0, 0]
    assert launched(second) == [1, 1, 1, 0]
    assert launched(first) == [1, 0, 0, 0]


@tk.kernel
def loops_over_list(out: tk.array1d[float]):
    for _name in NAMES:
        tk.tile_store(out, tk.tile_ones(shape=2))


@tk.kernel
def reads_dict(out: tk.array1d[float]):
    tk.tile_store(out, tk.tile_full(shape=2, value=LOOKUP.get("x")))


@tk.kernel
def reads_array(i: int, out: tk.array1d[float]):
    tk.tile_store(out, tk.tile_full(shape=2, value=TABLE[i]))


@tk.kernel
def reads_list_in_dict(out: tk.array1d[float]):
    tk.tile_store(out, tk.tile_full(shape=2, value=len(opts["list"])))


TUPLE = "put constants into a tuple, or pass an array of numbers to the kernel as an argument"


@pytest.mark.parametrize(
    ("kernel", "arguments", "line", "what", "instead"),
    [
        (loops_over_list, [], 1, "NAMES is a captured list", TUPLE),
        (reads_dict, [], 1, "LOOKUP.get is a captured dict", TUPLE),
        (reads_array, [1], 1, "TABLE is a captured ndarray", "pass it to the kernel as an argument instead"),
        (reads_list_in_dict, [], 1, "opts['list'] is a captured list", TUPLE),
    ],
)
def test_lists_dicts_and_arrays_are_refused(kernel, arguments, line, what, instead):
    for _ in range(2):
        with pytest.raises(TypeError) as caught:
            tk.launch_tiled(kernel, dim=1, inputs=arguments, outputs=[np.zeros(4, np.float32)])
        assert caught.value.message == f"{what}; {instead}"
        assert caught.value.location.line == kernel.function.__code__.co_firstlineno + 1 + line


def test_one_warning_names_a_value_that_changes_often():
    size = 0

    @tk.kernel
    def often(out: tk.array1d[float]):
        tk.tile_store(out, tk.tile_full(shape=2, value=float(size)))

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for size in range(7):
            launched(often)
        assert not caught
        for size in range(7, 12):
            launched(often)
    (warning,) = caught
    assert warning.category is tk.errors.RecompileWarning
    assert "kernel 'often' was specialised for 8 values of size, which it captures" in str(warning.message)
    assert warning.filename == __file__
    assert warning.lineno == often.function.__code__.co_firstlineno + 2


def test_a_warning_that_is_an_error_stops_the_launch():
    size = 0

    @tk.kernel
    def often(out: tk.array1d[float]):
        tk.tile_store(out, tk.tile_full(shape=2, value=float(size)))

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for size in range(7):
            launched(often)
        size = 7
        with pytest.raises(tk.errors.RecompileWarning, match="was specialised for 8 values of size"):
            launched(often)
