"""No name that a user may choose reaches a compiler or a terminal raw."""

# ruff: noqa: RUF001

from __future__ import annotations

import importlib.util
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilekit as tk
from tests.nvrtc import needs_nvrtc
from tilekit.cli import main
from tilekit.codegen.text import comment, member, string
from tilekit.config import config

SOURCE = """
import tilekit as tk

@tk.kernel
def named(α: tk.array1d[tk.float32], _Complex: tk.array1d[tk.float32], _Bool: tk.float32, uceb1_: tk.float32, µs: int):
    i = tk.tid()
    _Complex[i] = α[i] * _Bool + uceb1_ + tk.float32(µs)
"""
FILES = [b"plain.py", "schön.py".encode(), *([b'new\nline\xff\xfe "q\\.py'] if os.name == "posix" else [])]


def load(folder: Path, name: bytes) -> Any:
    path = os.path.join(os.fsencode(folder), name)
    with open(path, "wb") as file:
        file.write(SOURCE.encode())
    spec = importlib.util.spec_from_file_location("named_module", os.fsdecode(path))
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.named


@pytest.mark.parametrize("name", FILES, ids=["plain", "umlaut", "no text"])
def test_parameters_and_files(tmp_path: Path, name: bytes) -> None:
    kernel = load(tmp_path, name)
    a, out = np.ones(4, np.float32), np.zeros(4, np.float32)
    tk.launch(kernel, dim=4, inputs=[a, out, 2.0, 3.0, 4], device="cpu")
    assert out.tolist() == [9.0] * 4


@needs_nvrtc
@pytest.mark.parametrize("name", FILES, ids=["plain", "umlaut", "no text"])
def test_parameters_and_files_on_cuda(tmp_path: Path, name: bytes) -> None:
    arrays = [tk.array1d[tk.float32]] * 2
    assert tk.compile(load(tmp_path, name), args=[*arrays, 2.0, 3.0, 4]).cubin[:4] == b"\x7fELF"


NAMES = ["\0x", "\ud800", "a\nb\\", "\x1b[31mred\x1b[0m", "*/ #error", "τ"]


def kernel_called(name: str) -> tk.Kernel:
    def body(out: tk.array1d[tk.float32]) -> None:
        out[tk.tid()] = 2.0

    body.__name__ = name
    return tk.kernel(body)


@pytest.mark.parametrize("name", NAMES, ids=ascii)
def test_kernels(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with config.scoped(cache_dir=tmp_path / "cache"):
        out = np.zeros(2, np.float32)
        tk.launch(kernel_called(name), dim=2, inputs=[out], device="cpu")
        assert out.tolist() == [2.0, 2.0]
        main(["cache", "list"])
    shown = capsys.readouterr().out
    assert shown.replace("\n", "").isprintable()
    assert ascii(name)[1:-1].replace("\\\\", "\\") in shown or name in shown


@needs_nvrtc
@pytest.mark.parametrize("name", NAMES, ids=ascii)
def test_kernels_on_cuda(name: str) -> None:
    assert tk.compile(kernel_called(name)).cubin[:4] == b"\x7fELF"


def test_different_names_stay_different() -> None:
    names = [
        "α",
        "uceb1",
        "uceb1_",
        "ucεb1",
        "_Complex",
        "_Complex_",
        "Complex_",
        "NULL",
        "NULL_",
        "int",
        "int_",
        "a_α",
    ]
    assert len({member(name) for name in names}) == len(names)
    assert all(member(name).isascii() and not member(name).startswith("__") for name in names)


def test_text_in_sources() -> None:
    assert string('a"b\\c') == '"a\\"b\\\\c"'
    assert string("ä") == '"ä"'
    assert string("a\nb\udcff") == '"a\\012b\\377"'
    assert string("\ud800") == '"\\134ud800"'
    assert comment("a\nb\x00\\") == "a b\\x00"
