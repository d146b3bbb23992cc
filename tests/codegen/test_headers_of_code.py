"""Code includes the headers that it needs and no others, found by what it names."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import tilekit as tk
from tests.conftest import GOLDEN
from tilekit.codegen.headers import NATIVE, declared_names, includes
from tilekit.runtime.program import compile_kernel


def test_every_name_that_kernels_use_is_found_in_a_header() -> None:
    """Otherwise all headers are included, which is right but slow."""
    emitted = [path.read_text(encoding="utf-8") for path in Path(GOLDEN).rglob("*.txt")]
    used = {name for text in emitted for name in re.findall(r"\btk::((?:atom::)?\w+)", text)}
    assert len(used) > 100
    assert used <= declared_names().keys()


def test_functions_of_the_headers_are_found() -> None:
    declared = declared_names()
    for path in NATIVE.glob("*.h"):
        text = path.read_text(encoding="utf-8")
        inner = "atom::" if path.name.startswith("atom_") else ""
        for name in re.findall(r"^TK_(?:FN|TILE|COLD) [\w:]+ (\w+)\(", text, re.MULTILINE):
            assert path.name in declared[inner + name], name


@tk.kernel
def axpy(x: tk.array1d[float], y: tk.array1d[float], a: float):
    i = tk.tid()
    y[i] = a * x[i] + y[i]


@tk.kernel
def product(a: tk.array2d[float], b: tk.array2d[float], out: tk.array2d[float]):
    tk.tile_store(out, tk.tile_load(a, shape=(4, 4)) @ tk.tile_load(b, shape=(4, 4)))


@pytest.mark.parametrize(
    ("kernel", "has", "has_not"),
    [
        (axpy, "scalar.h", "array.h gemm.h tile.h math.h reduce.h"),
        (product, "gemm.h tile.h", "math.h reduce.h atomic.h"),
    ],
    ids=["axpy", "product"],
)
def test_a_kernel_includes_what_it_names(kernel: tk.Kernel, has: str, has_not: str) -> None:
    compiled = compile_kernel(kernel)
    found = set(re.findall(r'^#include "(.*)"', compiled.source, re.MULTILINE))
    assert {"base.h", "launch.h", *has.split()} <= found
    assert found.isdisjoint(has_not.split())
    assert compiled.library.is_file()


def test_a_name_that_no_header_has_brings_all_of_them() -> None:
    every = {path.name for path in NATIVE.glob("*.h")} - {"vector.h", "math_cpu.h", "math_gpu.h"}
    assert set(re.findall(r'"(.*)"', includes("tk::nowhere(x);"))) == every


@tk.kernel
def exponential(a: tk.array1d[tk.float16]):
    i = tk.tid()
    a[i] = tk.exp(a[i])


def test_forms_that_a_macro_declares_are_found() -> None:
    assert {"math.h", "math_exp.h"} <= set(declared_names()["exp"])
    assert compile_kernel(exponential).library.is_file()
