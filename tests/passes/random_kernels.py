"""Random kernels as source text: loads, products, maps, reductions, loops, branches, views and updates in place.

Each statement is written twice: for tilekit, and for PyTorch as functions without side effects. Matrices are 4 x 4,
``x``, ``y`` and ``z``; ``u`` is a vector, ``s`` a number, and all of them are bound before the first statement, so
that every statement may stand in a branch or a loop.
"""

from __future__ import annotations

import linecache
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from hypothesis import strategies as st

NUMBERS = count()
MATRICES = ("x", "y", "z")
HEAD = """
import tilekit as tk


def bent(p, q):
    if p > q:
        return p * q
    return p - 0.5 * q


def raised(p, n):
    r = p
    for _ in range(n):
        r = r * tk.sin(p) + 0.5
    return r


@tk.kernel
def drawn(
    a: tk.array2d[tk.float64],
    w: tk.array2d[tk.float64],
    c: tk.array1d[tk.float64],
    g: tk.array2d[tk.float64],
    h: tk.array2d[tk.float64],
    n: int,
    out: tk.array2d[tk.float64],
):
    i = tk.tid()
    x = tk.tile_load(a, shape=(4, 4), offset=(i * 4, 0))
    y = tk.tile_load(w, shape=(4, 4), offset=(0, 1))
    z = tk.tile_load(a, shape=(4, 4), offset=(i * 4, 7))
    u = tk.tile_load(c, shape=4, offset=3 * i)
    s = c[i]
"""
TORCH_HEAD = """
import torch

COLUMNS = slice(None), slice(1, 3)


def load(array, extents, offset):
    found = torch.zeros(extents, dtype=array.dtype)
    ends = [min(o + e, n) for o, e, n in zip(offset, extents, array.shape)]
    inside = [max(end - o, 0) for end, o in zip(ends, offset)]
    found[tuple(slice(e) for e in inside)] = array[tuple(slice(o, o + e) for o, e in zip(offset, inside))]
    return found


def put(tile, index, value):
    tile = tile.clone()
    tile[index] = value
    return tile


def bent(p, q):
    return torch.where(p > q, p * q, p - 0.5 * q)


def raised(p, n):
    r = p
    for _ in range(n):
        r = r * torch.sin(p) + 0.5
    return r


def drawn(a, w, c, g, h, n, i, stored):
    x = load(a, (4, 4), (i * 4, 0))
    y = load(w, (4, 4), (0, 1))
    z = load(a, (4, 4), (i * 4, 7))
    u = load(c, (4,), (3 * i,))
    s = c[i]
"""

Text = tuple[str, str]
"""The same for tilekit and for PyTorch."""


@dataclass(frozen=True)
class Program:
    """A kernel in both spellings."""

    tilekit: str
    torch: str

    @property
    def text(self) -> str:
        return self.tilekit.partition("    s = c[i]\n")[2]

    def kernel(self) -> Any:
        """The kernel, compiled from a file of its own that tracebacks and errors can show."""
        file = f"<random kernel {next(NUMBERS)}>"
        linecache.cache[file] = (len(self.tilekit), None, self.tilekit.splitlines(True), file)
        names: dict[str, Any] = {}
        exec(compile(self.tilekit, file, "exec"), names)
        return names["drawn"]

    def function(self) -> Any:
        names: dict[str, Any] = {}
        exec(compile(self.torch, "<for torch>", "exec"), names)
        return names["drawn"]


@dataclass
class Writer:
    """Draws statements."""

    draw: Callable[[st.SearchStrategy[Any]], Any]
    lines: list[Text] = field(default_factory=list)
    indices: list[str] = field(default_factory=list)
    """Of the loops around."""
    counters: int = 0

    def one(self, *choices: Any) -> Any:
        return self.draw(st.sampled_from(choices))

    def line(self, tilekit: str, torch: str | None = None) -> None:
        indent = "    " * (1 + self.level)
        self.lines.append((indent + tilekit, indent + (tilekit if torch is None else torch)))

    level = 0

    # Expressions.

    def matrix(self, depth: int = 2) -> Text:
        if depth == 0:
            return (self.one(*MATRICES),) * 2
        kinds = [self._map, self._map, self._pair, self._pair, self._product, self._turned, self._spread, self._loaded]
        return self.one(*kinds)(depth - 1)

    def _map(self, depth: int) -> Text:
        p, q = self.matrix(depth)
        name = self.one("tanh", "sin", "cos", "gauss", "root", "scaled", "raised")
        if name == "gauss":
            return f"tk.exp(-({p}) * ({p}))", f"torch.exp(-({q}) * ({q}))"
        if name == "root":
            return f"tk.sqrt(({p}) * ({p}) + 1.0)", f"torch.sqrt(({q}) * ({q}) + 1.0)"
        if name == "scaled":
            return f"(s * ({p}))", f"(s * ({q}))"
        if name == "raised":
            return f"tk.tile_map(raised, {p}, n)", f"raised({q}, n)"
        return f"tk.{name}({p})", f"torch.{name}({q})"

    def _pair(self, depth: int) -> Text:
        (p, q), (v, w) = self.matrix(depth), self.matrix(0)
        kind = self.one("+", "-", "*", "/", "bent", "where")
        if kind == "*":
            return f"(0.5 * ({p}) * ({v}))", f"(0.5 * ({q}) * ({w}))"
        if kind == "/":
            return f"(({p}) / (({v}) * ({v}) + 2.0))", f"(({q}) / (({w}) * ({w}) + 2.0))"
        if kind == "bent":
            return f"tk.tile_map(bent, {p}, {v})", f"bent({q}, {w})"
        if kind == "where":
            return f"tk.where({v} > 0.3, {p}, 0.25 * ({v}))", f"torch.where({w} > 0.3, {q}, 0.25 * ({w}))"
        return f"(({p}) {kind} ({v}))", f"(({q}) {kind} ({w}))"

    def _product(self, depth: int) -> Text:
        (p, q), (v, w) = self.matrix(depth), self.matrix(0)
        return f"tk.tanh(0.5 * tk.tile_matmul({p}, {v}))", f"torch.tanh(0.5 * ({q}) @ ({w}))"

    def _turned(self, depth: int) -> Text:
        p, q = self.matrix(depth)
        return f"tk.tile_transpose({p})", f"({q}).T"

    def _spread(self, depth: int) -> Text:
        p, q = self.vector(depth)
        return f"tk.tile_broadcast({p}, shape=(4, 4))", f"({q}).expand(4, 4)"

    def _loaded(self, depth: int) -> Text:
        array, (row, column) = self.one("a", "w"), (self.offset(), self.offset())
        return (
            f"tk.tile_load({array}, shape=(4, 4), offset=({row}, {column}))",
            f"load({array}, (4, 4), ({row}, {column}))",
        )

    def offset(self) -> str:
        known = [f"4 * {index}" for index in self.indices] + [f"{index} + 1" for index in self.indices]
        return str(self.one("0", "2", "4", "i * 4", *known))

    def vector(self, depth: int) -> Text:
        kind = self.one("u", "sum", "max", "row", "tanh", "half")
        if kind == "u":
            return "u", "u"
        m, axis = self.one(*MATRICES), self.one(0, 1)
        if kind == "sum":
            p, q = self.matrix(depth)
            return f"(0.25 * tk.tile_sum({p}, axis={axis}))", f"(0.25 * ({q}).sum({axis}))"
        if kind == "max":
            return f"tk.tile_max({m}, axis={axis})", f"{m}.max({axis}).values"
        if kind == "row":
            row = self.one("0", "3", *(f"{index} % 4" for index in self.indices))
            return f"{m}[{row}]", f"{m}[{row}]"
        if kind == "half":
            return f"tk.tile_sum({m}[1:3], axis=0)", f"{m}[1:3].sum(0)"
        return f"tk.tanh(u * {m}[1])", f"torch.tanh(u * {m}[1])"

    def number(self) -> Text:
        m = self.one(*MATRICES)
        at = self.one("0", "2", *(f"{index} % 4" for index in self.indices))
        kind = self.one("element", "entry", "mean", "sin", "product")
        if kind == "element":
            return (f"{m}[1, {at}]",) * 2
        if kind == "entry":
            return (f"u[{at}]",) * 2
        if kind == "mean":
            return f"(0.1 * tk.tile_sum({m})[0])", f"(0.1 * {m}.sum())"
        if kind == "sin":
            return "tk.sin(s)", "torch.sin(s)"
        return (f"(0.5 * s * {m}[{at}, 0])",) * 2

    # Statements.

    def statement(self, depth: int) -> None:
        kinds = [
            self._bind,
            self._bind,
            self._update,
            self._accumulate,
            self._sum,
            self._assign,
            self._view,
            self._small,
        ]
        if depth:
            kinds += [self._loop, self._loop, self._while, self._branch]
        self.one(*kinds)(depth)

    def body(self, depth: int) -> None:
        self.level += 1
        for _ in range(self.one(1, 2, 3)):
            self.statement(depth - 1)
        self.level -= 1

    def _bind(self, depth: int) -> None:
        m, (p, q) = self.one(*MATRICES), self.matrix()
        self.line(f"{m} = tk.tanh({p})", f"{m} = torch.tanh({q})")

    def _update(self, depth: int) -> None:
        m, (p, q) = self.one(*MATRICES), self.matrix(1)
        kind = self.one("+", "-", "*")
        p, q = (f"tk.cos({p})", f"torch.cos({q})") if kind == "*" else (p, q)
        self.line(f"{m} {kind}= {p}", f"{m} = {m} {kind} ({q})")

    def _accumulate(self, depth: int) -> None:
        m, (p, q), (v, w) = self.one(*MATRICES), self.matrix(1), self.matrix(0)
        alpha, beta = self.one(("1.0", "1.0"), ("0.25", "1.0"), ("0.25", "0.5"), ("s", "0.5"), ("0.5", "0.0"))
        factors = f", alpha={alpha}, beta={beta}" if (alpha, beta) != ("1.0", "1.0") else ""
        self.line(f"tk.tile_matmul(0.5 * tk.tanh({p}), tk.tanh({v}), {m}{factors})",
                  f"{m} = {alpha} * ((0.5 * torch.tanh({q})) @ torch.tanh({w})) + {beta} * {m}")  # fmt: skip

    def _sum(self, depth: int) -> None:
        """Over k, of loads that each go on by a tile: the only ones of ``g`` and ``h``, whose gradients can gather."""
        m, other, k = self.one(*MATRICES), self.one(*MATRICES), f"k{len(self.indices)}"
        left, right = f"(4, 4), (i * 4, 4 * {k})", f"(4, 4), (4 * {k}, 0)"
        self.line(f"for {k} in range(n):")
        self.level += 1
        self.line(
            f"p, q = tk.tile_load(g, {left}), tk.tile_load(h, {right})", f"p, q = load(g, {left}), load(h, {right})"
        )
        first, second = self.one(("p", "q"), ("p", "q"), ("tk.tanh(p)", "q"), ("p", f"tk.cos({other})"), ("q", "p"))
        in_torch = [text.replace("tk.", "torch.") for text in (first, second)]
        self.line(f"tk.tile_matmul(0.5 * {first}, {second}, {m})", f"{m} = {m} + 0.5 * {in_torch[0]} @ {in_torch[1]}")
        self.level -= 1

    def _assign(self, depth: int) -> None:
        m, other = self.one(*MATRICES), self.one(*MATRICES)
        kind = self.one("rows", "slice", "row", "element", "through")
        if kind == "rows":
            self.line(f"tk.tile_assign({m}, tk.sin({other}[1:3]), offset=(2, 0))",
                      f"{m} = put({m}, slice(2, 4), torch.sin({other}[1:3]))")  # fmt: skip
        elif kind == "slice":
            self.line(f"{m}[0:2] += 0.5 * {other}[2:4]", f"{m} = put({m}, slice(0, 2), {m}[0:2] + 0.5 * {other}[2:4])")
        elif kind == "row":
            p, q = self.vector(0)
            self.line(f"{m}[1] = {p}", f"{m} = put({m}, 1, {q})")
        elif kind == "element":
            (p, q), row = self.number(), self.one("2", *(f"{index} % 4" for index in self.indices))
            self.line(f"{m}[{row}, 3] = {p}", f"{m} = put({m}, ({row}, 3), {q})")
        else:
            self.line(f"{m}[:, 1:3] *= tk.cos({other}[:, 0:2])",
                      f"{m} = put({m}, COLUMNS, {m}[COLUMNS] * torch.cos({other}[:, 0:2]))")  # fmt: skip

    def _view(self, depth: int) -> None:
        """A view that lives through an update of its base, and is written through."""
        m, (p, q), other = self.one(*MATRICES), self.matrix(1), self.one(*MATRICES)
        turned = self.one(True, False)
        self.line(f"v = {'tk.tile_transpose(' + m + ')' if turned else m}[1:3]", "pass")
        self.line(f"{m} += 0.5 * {p}", f"{m} = {m} + 0.5 * {q}")
        self.line("v *= 0.75", f"{m} = put({m}, {'COLUMNS' if turned else 'slice(1, 3)'}, "
                  f"0.75 * {m}{'[:, 1:3]' if turned else '[1:3]'})")  # fmt: skip
        if other != m:
            now = f"{m}.T[1:3]" if turned else f"{m}[1:3]"
            self.line(f"{other}[0:2] = tk.sin(v)", f"{other} = put({other}, slice(0, 2), torch.sin({now}))")

    def _small(self, depth: int) -> None:
        kind = self.one("u", "u+", "s", "s*", "s+")
        (p, q), (v, w) = self.vector(1), self.number()
        if kind == "u":
            self.line(f"u = tk.tanh({p})", f"u = torch.tanh({q})")
        elif kind == "u+":
            self.line(f"u += 0.5 * {p}", f"u = u + 0.5 * {q}")
        elif kind == "s":
            self.line(f"s = tk.tanh({v})", f"s = torch.tanh({w})")
        elif kind == "s*":
            self.line(f"s *= {v}", f"s = s * {w}")
        else:
            self.line(f"s += {v}", f"s = s + {w}")

    def _loop(self, depth: int) -> None:
        index = f"k{len(self.indices)}"
        self.line(f"for {index} in range({self.one('n', 'n', '2', '3', 'n + 1', '1, n', '0, 5, 2')}):")
        self.indices.append(index)
        if self.one(False, False, False, True):
            self.level += 1
            self.line(f"if {self.condition()}:")
            self.line(f"    {self.one('break', 'continue')}")
            self.level -= 1
        self.body(depth)
        self.indices.pop()

    def _while(self, depth: int) -> None:
        counter = f"m{self.counters}"
        self.counters += 1
        self.line(f"{counter} = 0")
        self.line(f"while {counter} < n{self.one('', ' and ' + self.condition())}:")
        self.indices.append(counter)
        self.body(depth)
        self.indices.pop()
        self.line(f"    {counter} += 1")

    def _branch(self, depth: int) -> None:
        self.line(f"if {self.condition()}:")
        self.body(depth)
        if self.one(True, False):
            self.line("else:")
            self.body(depth)

    def condition(self) -> str:
        known = [f"{index} == 1" for index in self.indices] + [f"{index} % 2 == 0" for index in self.indices]
        return str(self.one("n > 2", "s > 0.2", "x[0, 0] > 0.1", "y[2, 1] < z[1, 2]", "i == 1", *known))


def written(lines: Sequence[Text], one: bool = False) -> Program:
    """The kernel of some statements, which stores all variables, or ``one`` tile that depends on all of them."""
    tilekit, torch = ("\n".join(each) for each in zip(*lines, strict=True))
    if one:
        store = "    tk.tile_store(out, x * y + s * z, offset=(i * 4, 0))\n"
        return Program(
            f"{HEAD}{tilekit}\n{store}", f"{TORCH_HEAD}{torch}\n    stored.append((x * y + s * z, (i * 4, 0)))\n"
        )
    stores = ""
    stored = ""
    for place, value in enumerate(("x", "y", "z")):
        stores += f"    tk.tile_store(out, {value}, offset=(i * 4, {4 * place}))\n"
        stored += f"    stored.append(({value}, (i * 4, {4 * place})))\n"
    rest = "    tk.tile_store(out, s * tk.tile_broadcast(u, shape=(1, 4)), offset=(i, 12))\n"
    stored += "    stored.append((s * u.expand(1, 4), (i, 12)))\n"
    return Program(f"{HEAD}{tilekit}\n{stores}{rest}", f"{TORCH_HEAD}{torch}\n{stored}")


@st.composite
def programs(draw: Any, least: int = 2, most: int = 6) -> Program:
    """Kernels of some statements."""
    writer = Writer(draw)
    for _ in range(draw(st.integers(least, most))):
        writer.statement(2)
    return written(writer.lines)


@st.composite
def layers(draw: Any, most: int = 4) -> Program:
    """Kernels of sums over k with maps and products between them."""
    writer = Writer(draw)
    for _ in range(draw(st.integers(1, most))):
        writer.one(writer._sum, writer._bind, writer._update)(0)
    writer._sum(0)
    return written(writer.lines, one=True)
