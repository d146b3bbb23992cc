"""Objects and helpers of every kind that a kernel captures: what changes in them recompiles it."""

import functools
import itertools
from dataclasses import dataclass

import numpy as np
import pytest

import tilekit as tk

FACTOR = 2.0


class Settings:
    def __init__(self, value):
        self.value = value

    def __call__(self, x):
        return x * FACTOR if self.value else x


@dataclass(slots=True)
class Slotted:
    value: float


def scaled(y, x):
    return x * y * FACTOR


def made(factor):
    def keyword(x, *, by=factor):
        return x * by

    return keyword


in_tuple = (Settings(1.0), Settings(2.0))
slotted = Slotted(1.0)
nested = Settings(Settings(1.0))
in_list = Settings([1.0])
in_dict = Settings({"value": [1.0]})
cyclic = Settings(1.0)
cyclic.itself = cyclic
called = Settings(1.0)
bound = functools.partial(scaled, 1.0)
by_keyword = made(2.0)


class Defaults:
    value = 1.0


class Others:
    value = 1.0


others = Others()
first = itertools.count()
GAIN = 1.0


def meddle():
    """Changes a captured value while a kernel is traced, as another thread might."""
    if next(first) == 0:
        globals()["GAIN"] = 2.0
    return 0.0


def value_of(holder):
    return holder.value


@tk.kernel
def reads_a_tuple_of_objects(out: tk.array1d[float]):
    total = 0.0
    for item in in_tuple:
        total += item.value
    out[0] = total


@tk.kernel
def reads_slots(out: tk.array1d[float]):
    out[0] = value_of(slotted)


@tk.kernel
def reads_nested(out: tk.array1d[float]):
    out[0] = value_of(value_of(nested))


@tk.kernel
def reads_a_list_inside(out: tk.array1d[float]):
    out[0] = value_of(in_list)[0]


@tk.kernel
def reads_a_dict_inside(out: tk.array1d[float]):
    out[0] = value_of(in_dict)["value"][0]


@tk.kernel
def reads_a_cycle(out: tk.array1d[float]):
    out[0] = value_of(cyclic)


@tk.kernel
def reads_a_class(out: tk.array1d[float]):
    out[0] = value_of(Defaults)


@tk.kernel
def reads_the_class_of_an_object(out: tk.array1d[float]):
    out[0] = value_of(others)


@tk.kernel
def reads_while_it_changes(out: tk.array1d[float]):
    unchanged = tk.static(meddle())
    out[0] = GAIN + unchanged


@tk.kernel
def calls_a_partial(out: tk.array1d[float]):
    out[0] = bound(3.0)


@tk.kernel
def calls_an_object(out: tk.array1d[float]):
    out[0] = called(float(out.shape[0]))


@tk.kernel
def calls_with_defaults(out: tk.array1d[float]):
    out[0] = by_keyword(3.0)


def run(kernel):
    out = np.zeros(1, np.float32)
    tk.launch_tiled(kernel, dim=1, outputs=[out], block_dim=32)
    return out[0]


CHANGES = [
    (reads_a_tuple_of_objects, 3.0, lambda: setattr(in_tuple[0], "value", 5.0), 7.0),
    (reads_slots, 1.0, lambda: setattr(slotted, "value", 7.0), 7.0),
    (reads_nested, 1.0, lambda: setattr(nested.value, "value", 7.0), 7.0),
    (reads_a_list_inside, 1.0, lambda: in_list.value.__setitem__(0, 7.0), 7.0),
    (reads_a_dict_inside, 1.0, lambda: in_dict.value["value"].__setitem__(0, 7.0), 7.0),
    (reads_a_class, 1.0, lambda: setattr(Defaults, "value", 7.0), 7.0),
    (reads_the_class_of_an_object, 1.0, lambda: setattr(Others, "value", 7.0), 7.0),
    (reads_a_cycle, 1.0, lambda: setattr(cyclic, "value", 7.0), 7.0),
]


@pytest.mark.parametrize("kernel, before, change, after", CHANGES, ids=lambda value: getattr(value, "key", ""))
def test_what_is_inside_a_captured_object_counts(kernel, before, change, after):
    assert run(kernel) == before
    change()
    assert run(kernel) == after


@pytest.mark.parametrize("kernel, unit", [(calls_a_partial, 3.0), (calls_an_object, 1.0)])
def test_what_partials_and_callable_objects_read_counts(kernel, unit, monkeypatch):
    assert run(kernel) == 2.0 * unit
    monkeypatch.setitem(globals(), "FACTOR", 5.0)
    assert run(kernel) == 5.0 * unit


def test_a_helper_with_another_keyword_default_is_another_one(monkeypatch):
    assert run(calls_with_defaults) == 6.0
    monkeypatch.setitem(globals(), "by_keyword", made(5.0))
    assert run(calls_with_defaults) == 15.0


def test_a_value_that_changes_while_a_kernel_is_traced_is_read_again(monkeypatch):
    assert run(reads_while_it_changes) == 2.0
    monkeypatch.setitem(globals(), "GAIN", 1.0)
    assert run(reads_while_it_changes) == 1.0
