"""Random small kernels that bind, swap and update tiles and views, and what each name holds by the rule of values."""

from __future__ import annotations

import linecache
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import numpy as np
from hypothesis import strategies as st

import tilekit as tk
from tests import on_gpu

TILES, HALVES = ("a", "b", "c"), ("v", "w")
NUMBERS = count()
HELPERS = """
import tilekit as tk


def bump(t):
    t += 1


def rebound(t):
    t = t + 5
    t += 1


def through(t):
    v = t[0:1]
    v += 3
    u = t
    u += 100


def chosen_or_not(t, n):
    if n > 2:
        t = t * 3
    t += 1


def same(t):
    return t


def first_or_second(t, u, n):
    if n > 2:
        return t
    return u


def counted(t, n):
    for _ in range(n):
        t += 1
        t = t * 2


@tk.kernel
def kernel(x: tk.array1d[int], n: int, m: int, out: tk.array2d[int]):
    a = tk.tile_load(x, shape=4)
    b = tk.tile_load(x, shape=4, offset=4)
    c = tk.tile_load(x, shape=4, offset=8)
    v = a[0:2]
    w = tk.tile_load(x, shape=2, offset=12)
"""
ENDING = """
    tk.tile_store(out[0], a)
    tk.tile_store(out[1], b)
    tk.tile_store(out[2], c)
    tk.tile_store(out[3], v)
    tk.tile_store(out[4], w)
"""


@dataclass(eq=False)
class Cell:
    """The storage of a tile."""

    data: Any


@dataclass
class Held:
    """What a name stands for: all of a cell, or a part."""

    cell: Cell
    part: slice = field(default_factory=lambda: slice(None))

    @property
    def value(self) -> Any:
        return self.cell.data[self.part].copy()

    def put(self, value: Any) -> None:
        data = self.cell.data.copy()
        data[self.part] = value
        self.cell.data = data


def fresh(value: Any) -> Held:
    return Held(Cell(np.array(value, np.int32)))


@dataclass
class Model:
    """Runs a program on NumPy's arrays."""

    names: dict[str, Held]
    n: int
    m: int

    def condition(self, test: tuple[str, int]) -> bool:
        return getattr(self, test[0]) > test[1]

    def evaluate(self, node: Any) -> Held:
        """What an expression gives; a name that is bound to it by itself gets a copy."""
        kind, *rest = node
        if kind == "name":
            return fresh(self.names[rest[0]].value)
        if kind == "same":
            return fresh(self.names[rest[0]].value)
        if kind == "plus":
            return fresh(self.names[rest[0]].value + np.int32(rest[1]))
        if kind == "full":
            return fresh(np.full(rest[0], rest[1]))
        if kind == "view":
            assert self.names[rest[0]].part == slice(None)
            return Held(self.names[rest[0]].cell, slice(rest[1], rest[1] + 2))
        test, first, second = rest
        return fresh(self.evaluate(first if self.condition(test) else second).value)

    def settle(self, bound: set[str]) -> None:
        for name in bound:
            self.names[name] = fresh(self.names[name].value)

    def run(self, body: list[Any]) -> None:
        for statement in body:
            getattr(self, statement[0])(*statement[1:])

    def bind(self, targets: list[str], values: list[Any]) -> None:
        self.names.update(dict(zip(targets, [self.evaluate(value) for value in values], strict=True)))

    def chain(self, first: str, second: str, value: Any) -> None:
        self.names[first] = self.evaluate(value)
        self.names[second] = fresh(self.names[first].value)

    def update(self, name: str, symbol: str, number: int) -> None:
        held = self.names[name]
        held.put(held.value + np.int32(number) if symbol == "+" else held.value * np.int32(number))

    def join(self, name: str, other: str) -> None:
        self.names[name].put(self.names[name].value + self.names[other].value)

    def element(self, name: str, index: int, number: int) -> None:
        value = self.names[name].value
        value[index] = number
        self.names[name].put(value)

    def part(self, name: str, start: int, number: int) -> None:
        value = self.names[name].value
        value[start : start + 2] += np.int32(number)
        self.names[name].put(value)

    def call(self, helper: str, name: str) -> None:
        held, value = self.names[name], self.names[name].value
        if helper == "bump":
            held.put(value + 1)
        elif helper == "through":
            value[0] += 3
            held.put(value)
        assert helper in ("bump", "through", "rebound", "chosen_or_not", "counted")

    def each(self, first: str, second: str) -> None:
        pass

    def branch(self, test: tuple[str, int], then: list[Any], orelse: list[Any]) -> None:
        self.run(then if self.condition(test) else orelse)
        self.settle(bound_in(then) | bound_in(orelse))

    def loop(self, trips: Any, body: list[Any]) -> None:
        for _ in range(self.m if trips == "m" else trips):
            self.settle(bound_in(body))
            self.run(body)
        self.settle(bound_in(body))


def bound_in(body: list[Any]) -> set[str]:
    found: set[str] = set()
    for kind, *rest in body:
        if kind == "bind":
            found.update(rest[0])
        elif kind == "chain":
            found.update(rest[:2])
        elif kind in ("branch", "loop"):
            found.update(*(bound_in(part) for part in rest[1:]))
    return found


# As text.


def shown(node: Any) -> str:
    kind, *rest = node
    if kind == "name":
        return str(rest[0])
    if kind == "same":
        return rest[1].format(*rest[:1] * 2)  # type: ignore[no-any-return]
    if kind == "plus":
        return f"{rest[0]} + {rest[1]}"
    if kind == "full":
        return f"tk.tile_full(shape={rest[0]}, value={rest[1]}, dtype=int)"
    if kind == "view":
        return f"{rest[0]}[{rest[1]}:{rest[1] + 2}]"
    (name, limit), first, second = rest
    return f"({shown(first)} if {name} > {limit} else {shown(second)})"


def lines(body: list[Any], depth: int) -> list[str]:
    pad, found = "    " * depth, []
    for kind, *rest in body:
        match kind:
            case "bind":
                found.append(f"{pad}{', '.join(rest[0])} = {', '.join(map(shown, rest[1]))}")
            case "chain":
                found.append(f"{pad}{rest[0]} = {rest[1]} = {shown(rest[2])}")
            case "update":
                found.append(f"{pad}{rest[0]} {rest[1]}= {rest[2]}")
            case "join":
                found.append(f"{pad}{rest[0]} += {rest[1]}")
            case "element":
                found.append(f"{pad}{rest[0]}[{rest[1]}] = {rest[2]}")
            case "part":
                found.append(f"{pad}{rest[0]}[{rest[1]}:{rest[1] + 2}] += {rest[2]}")
            case "call":
                more = ", n" if rest[0] in ("chosen_or_not", "counted") else ""
                found.append(f"{pad}{rest[0]}({rest[1]}{more})")
            case "each":
                item = "t" if rest[0] in TILES else "u"
                found += [f"{pad}for {item} in ({rest[0]}, {rest[1]}):", f"{pad}    {item} += 7"]
            case "branch":
                (name, limit), then, orelse = rest
                found += [f"{pad}if {name} > {limit}:", *lines(then, depth + 1)]
                found += [f"{pad}else:", *lines(orelse, depth + 1)] if orelse else []
            case "loop":
                found += [f"{pad}for _ in range({rest[0]}):", *lines(rest[1], depth + 1)]
    return found


def kernel_of(body: list[Any]) -> tuple[Any, str]:
    text = HELPERS + "\n".join(lines(body, 1)) + ENDING
    name = f"<program {next(NUMBERS)}>"
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    names: dict[str, Any] = {"__name__": f"program_{next(NUMBERS)}"}
    exec(compile(text, name, "exec"), names)
    return names["kernel"], text


X = np.arange(1, 15, dtype=np.int32) * 10


def expected(body: list[Any], n: int, m: int) -> Any:
    a, b, c, w = (fresh(X[start : start + size]) for start, size in ((0, 4), (4, 4), (8, 4), (12, 2)))
    model = Model({"a": a, "b": b, "c": c, "v": Held(a.cell, slice(0, 2)), "w": w}, n, m)
    with np.errstate(all="ignore"):
        model.run(body)
    out = np.zeros((5, 4), np.int32)
    for row, name in enumerate((*TILES, *HALVES)):
        value = model.names[name].value
        out[row, : len(value)] = value
    return out


def found(kernel: Any, n: int, m: int, device: str) -> Any:
    out = np.zeros((5, 4), np.int32)
    if device == "cuda":
        on_gpu.launch_tiled(kernel, 1, [X, n, m], [out])
    else:
        tk.launch_tiled(kernel, dim=1, inputs=[X, n, m], outputs=[out], block_dim=32, device=device)
    return out


# At random.

_test = st.tuples(st.sampled_from(("n", "m")), st.integers(0, 3))
_tile, _half, _small = st.sampled_from(TILES), st.sampled_from(HALVES), st.integers(1, 9)


def _simple(names: Any, size: int) -> Any:
    ways = st.sampled_from(
        ("same({})", "[{}][0]", "({}, 1)[0]", "first_or_second({}, {}, n)", "({} if True else None)")
    )
    given = [st.tuples(st.just("name"), names), st.tuples(st.just("same"), names, ways)]
    given += [st.tuples(st.just("plus"), names, _small), st.tuples(st.just("full"), st.just(size), _small)]
    if size == 2:
        given.append(st.tuples(st.just("view"), _tile, st.integers(0, 2)))
    return st.one_of(given)


def _value(names: Any, size: int) -> Any:
    simple = _simple(names, size)
    return st.one_of(simple, simple, st.tuples(st.just("choice"), _test, simple, simple))


def _binds(names: Any, size: int, count: int) -> Any:
    targets = st.lists(names, min_size=count, max_size=count, unique=True)
    return st.tuples(st.just("bind"), targets, st.lists(_value(names, size), min_size=count, max_size=count))


def _either(make: Any) -> Any:
    return st.one_of(make(_tile, 4), make(_half, 2))


_any = st.one_of(_tile, _half)
_statement = st.one_of(
    _either(lambda names, size: _binds(names, size, 1)),
    _either(lambda names, size: _binds(names, size, 2)),
    _either(lambda names, size: st.tuples(st.just("chain"), names, names, _value(names, size))).filter(
        lambda node: node[1] != node[2]
    ),
    st.tuples(st.just("update"), _any, st.sampled_from("+*"), st.integers(2, 3)),
    _either(lambda names, size: st.tuples(st.just("join"), names, names)),
    st.tuples(st.just("element"), _any, st.integers(0, 1), _small),
    st.tuples(st.just("part"), _tile, st.integers(0, 2), _small),
    st.tuples(st.just("call"), st.sampled_from(("bump", "through", "rebound", "chosen_or_not", "counted")), _any),
    _either(lambda names, size: st.tuples(st.just("each"), names, names)),
)


def _nested(inner: Any) -> Any:
    body = st.lists(inner, min_size=1, max_size=4)
    return st.one_of(
        inner,
        st.tuples(st.just("branch"), _test, body, st.one_of(st.just([]), body)),
        st.tuples(st.just("loop"), st.sampled_from(("m", 0, 2, 3)), body),
    )


PROGRAMS = st.lists(_nested(_nested(_statement)), min_size=2, max_size=8)
