from __future__ import annotations

import enum
import itertools
import os
import subprocess
import sys
from dataclasses import dataclass

import pytest

from tilekit.errors import KernelTypeError
from tilekit.runtime.keys import key_of


class Color(enum.IntEnum):
    RED = 1


@dataclass(frozen=True)
class Point:
    x: object


DISTINCT = [
    None,
    True,
    1,
    1.0,
    "1",
    b"1",
    0,
    0.0,
    -0.0,
    -1,
    float("nan"),
    float("inf"),
    "",
    (),
    [],
    {},
    set(),
    (1,),
    [1],
    {1},
    {1: 1},
    (1, 2),
    ((1,), 2),
    (1, (2,)),
    ("ab", "c"),
    ("a", "bc"),
    ("abc",),
    {"a": 1, "b": 2},
    {"a": 2, "b": 1},
    Color.RED,
    Point(1),
    Point(Point(1)),
    "\ud800",
]


def test_different_parts_have_different_keys() -> None:
    keys = [key_of(part=value) for value in DISTINCT]
    assert len(set(keys)) == len(keys)
    assert all(len(key) == 64 and int(key, 16) >= 0 for key in keys)
    assert key_of(a=1) != key_of(b=1) != key_of()
    assert key_of(a="x", b="") != key_of(a="", b="x") != key_of(a="x")


def test_order_does_not_matter_where_it_has_no_meaning() -> None:
    parts = {"a": 1, "b": (2, 3), "c": {"x": 1, "y": 2}}
    keys = {key_of(**dict(order)) for order in itertools.permutations(parts.items())}
    assert keys == {key_of(a=1, b=(2, 3), c={"y": 2, "x": 1})}
    assert key_of(a={1, 2, 3}) == key_of(a=frozenset({3, 2, 1}))


@pytest.mark.parametrize("value", [object(), print, (1, [object()]), {"a": 1j}])
def test_values_without_an_encoding_are_refused(value: object) -> None:
    with pytest.raises(KernelTypeError, match=r"part 'source' of a cache key: a value of type .* has no canonical"):
        key_of(source=value)


def test_keys_do_not_depend_on_the_hash_seed() -> None:
    code = "from tilekit.runtime.keys import key_of; print(key_of(a={'x', 'y', 'z', 'u'}, b={'k': 1, 'l': (2.5, b'')}))"
    keys = set()
    for seed in ("0", "1", "12345", "random"):
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        run = subprocess.run([sys.executable, "-c", code], env=environment, check=True, capture_output=True, text=True)
        keys.add(run.stdout.strip())
    assert keys == {key_of(a={"u", "z", "y", "x"}, b={"l": (2.5, b""), "k": 1})}
