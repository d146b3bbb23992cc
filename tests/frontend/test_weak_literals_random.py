"""Random programs of literals that meet float64 or int64 at the end: as with a cast around each literal."""

from __future__ import annotations

import importlib.util
import itertools
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

import tilekit as tk
from tests.frontend.running import interpreted

NAMES = ("p", "q", "r")
FLOATS = ("0.1", "0.3", "0.7", "1.1", "2.0", "-0.9", "3.5")
INTEGERS = ("1", "2", "7", "-3", "100000", "40000")


def expressions(literals: tuple[str, ...], integers: bool) -> st.SearchStrategy[str]:
    """Text in which each literal is marked by ``L(...)``."""
    leaf = st.one_of(st.sampled_from(NAMES), st.sampled_from(literals).map(lambda text: f"L({text})"))

    def larger(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
        pair = st.tuples(inner, inner)
        return st.one_of(
            pair.map(lambda two: f"({two[0]} + {two[1]})"),
            pair.map(lambda two: f"({two[0]} - {two[1]})"),
            pair.map(lambda two: f"tk.where(n > 2, {two[0]}, {two[1]})"),
            pair.map(lambda two: f"({two[0]} if n > 1 else {two[1]})"),
            pair.map(lambda two: f"min({two[0]}, {two[1]})"),
            pair.map(lambda two: f"({two[0]} // L(3))" if integers else f"({two[0]} * {two[1]})"),
            pair.map(lambda two: f"({two[0]} % L(5))" if integers else f"pick(n, {two[0]}, {two[1]})"),
        )

    return st.recursive(leaf, larger, max_leaves=5)


def statements(value: st.SearchStrategy[str]) -> st.SearchStrategy[list[str]]:
    assignment = st.tuples(st.sampled_from(NAMES), value).map(lambda two: [f"{two[0]} = {two[1]}"])
    swap = st.permutations(NAMES).map(lambda order: [f"{', '.join(NAMES)} = {', '.join(order)}"])

    def larger(inner: st.SearchStrategy[list[str]]) -> st.SearchStrategy[list[str]]:
        body = st.lists(inner, min_size=1, max_size=3).map(lambda parts: list(itertools.chain(*parts)))

        def block(head: str) -> Any:
            return lambda lines: [head, *(f"    {line}" for line in lines)]

        return st.one_of(
            body.map(block("if n > 2:")),
            st.tuples(body, body).map(lambda two: [*block("if p < q:")(two[0]), *block("else:")(two[1])]),
            body.map(block("for _ in range(n):")),
            body.map(block("for _ in range(3):")),
            body.map(lambda lines: [*block("for i in range(4):")(lines), "    if i > n:", "        break"]),
        )

    tree = st.recursive(st.one_of(assignment, swap), larger, max_leaves=4)
    return st.lists(tree, min_size=1, max_size=4).map(lambda parts: list(itertools.chain(*parts)))


def source(lines: list[str], last: str, dtype: str, cast: bool) -> str:
    literal = f"tk.{dtype}" if cast else ""
    body = "\n".join(f"    {line}" for line in lines).replace("L(", f"{literal}(")
    start = ", ".join(f"{literal}({number})" for number in ((2, 3, 5) if dtype == "int64" else (2.0, 3.0, 5.0)))
    return f"""import tilekit as tk

def pick(n, a, b):
    if n > 2:
        return a
    return b

@tk.kernel
def k(n: int, x: tk.{dtype}, out: tk.array1d[tk.float64]):
    p, q, r = {start}
{body}
    out[0] = tk.float64(x {last} p)
    out[1] = tk.float64(x + q)
    out[2] = tk.float64(r - x)
"""


def loaded(text: str, path: Path) -> ModuleType:
    path.write_text(text, encoding="utf-8")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


count = itertools.count()


@pytest.mark.parametrize("dtype", ["float64", "int64"])
@settings(max_examples=20, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_the_same_as_with_casts(data, dtype, tmp_path_factory):
    integers = dtype == "int64"
    value = expressions(INTEGERS if integers else FLOATS, integers)
    lines, last = data.draw(statements(value)), data.draw(st.sampled_from("+-*"))
    folder = tmp_path_factory.getbasetemp()
    bare, cast = (
        loaded(source(lines, last, dtype, way), folder / f"random_{dtype}_{next(count)}.py").k for way in (False, True)
    )
    for unroll in (0, 16):
        with tk.config.scoped(max_unroll=unroll):
            for n in (0, 2, 4):
                arguments = np.int32(n), getattr(np, dtype)(3)
                wanted = interpreted(cast, arguments)
                assert interpreted(bare, arguments) == wanted
                out = np.full(3, np.nan)
                tk.launch_tiled(bare, dim=1, inputs=arguments, outputs=[out], block_dim=1, device="interpret")
                assert out[~np.isnan(out)].tolist() == wanted


def test_a_loop_may_pass_a_dtype_on_through_many_variables(tmp_path):
    names = [f"t{i}" for i in range(40)]
    moves = "\n".join(f"        {a} = {a} + {b}" for a, b in itertools.pairwise([*names, "x"]))
    start = "\n".join(f"    {name} = 0" for name in names)
    head = "import tilekit as tk\n\n@tk.kernel\ndef k(n: int, x: tk.float64, out: tk.array1d[tk.float64]):\n"
    text = f"{head}{start}\n    for _ in range(n):\n{moves}\n    out[0] = t39 + t38\n"
    assert interpreted(loaded(text, tmp_path / "many.py").k, (np.int32(3), np.float64(0.1))) == [0.1 + 0.1 + 0.1 + 0.3]
