"""``cache why``: what an entry has other than the one before."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import tilekit as tk
from tests.nvrtc import needs_nvrtc
from tilekit.config import config
from tilekit.errors import KernelValueError
from tilekit.runtime import cache
from tilekit.runtime.why import reason, why


@pytest.fixture(autouse=True)
def folder(tmp_path: Path) -> Iterator[Path]:
    with config.scoped(cache_dir=tmp_path / "cache"):
        yield tmp_path / "cache"


@tk.kernel
def scaled(x: tk.array1d[float], factor: float):
    tk.tile_store(x, tk.tile_load(x, shape=SIZE) * factor)


SIZE = 8


def put(key: str, source: str = "code", kind: str = "cpu", **describe: str) -> None:
    described = {"kernel": "gemm", "compiler": "g++ 12", **describe}
    cache.get_or_build(kind, key * 64, lambda path: (path / "kernel.cpp").write_text(source), described)


def reasons(name: str) -> list[str]:
    head, *found = why(name).splitlines()
    named = r"\w+ [0-9a-f]{12} of [0-9-]{10} [0-9:]{8}"
    assert re.fullmatch(f"{named}: not as {named}:", head)
    return found


def test_the_first_of_its_name() -> None:
    put("a", kernel="other")
    put("b")
    assert re.fullmatch(r"cpu bbbbbbbbbbbb of .*: the first of kernel 'gemm' in this cache", why("gemm"))
    assert why("gemm") == why("bbb")


def test_what_differs_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    put("a", flags="-O3")
    monkeypatch.setattr(cache, "tilekit_version", lambda: "9.0")
    put("b", compiler="g++ 13", flags="-O1")
    found = reasons("gemm")
    assert found[1:] == ["  compiler: g++ 13, was g++ 12", "  flags: -O1, was -O3"]
    assert found[0].startswith("  tilekit: 9.0, was ")


def test_the_most_similar_earlier_entry_is_compared() -> None:
    put("a", compiler="g++ 13")
    put("b", compiler="clang 14", flags="-O1", headers="123")
    put("c")
    assert reasons("gemm") == ["  compiler: g++ 12, was g++ 13"]
    assert reasons("bb")[0] == "  compiler: clang 14, was g++ 13"


def test_code_differs_with_the_line_of_the_kernel() -> None:
    put("a", '#line 3 "k.py"\na = 1;\n#line 4 "k.py"\nb = 2;\n')
    put("b", '#line 3 "k.py"\na = 1;\n#line 4 "k.py"\nb = 3;\n')
    assert reasons("gemm") == ["  the emitted code of k.py:4: 'b = 3;', was 'b = 2;'"]
    put("c", '#line 3 "k.py"\na = 1;\n')
    assert reasons("gemm") == ["  the emitted code of k.py:3: 'nothing', was '#line 4 \"k.py\"'"]


def test_an_entry_of_another_kind() -> None:
    put("a", kind="cuda")
    put("b")
    assert reasons("gemm") == ["  it is for 'cpu', that was for 'cuda'"]


def test_one_that_had_no_reason() -> None:
    put("a")
    put("b")
    assert reasons("gemm") == ["  nothing that is recorded differs: the earlier one was damaged"]


def test_reasons_in_a_few_words() -> None:
    described = {"kernel": "gemm", "compiler": "g++ 12", "flags": "-O3", "headers": "1"}
    assert reason("cpu", described) == "for the first time"
    put("a", flags="-O3", headers="1", kind="cuda")
    put("b", flags="-O3", headers="1", kernel="other")
    assert reason("cpu", described) == "for the first time"
    put("c", flags="-O1", headers="2")
    assert reason("cpu", described) == "changed: flags, headers"
    put("d", flags="-O3", headers="2")
    assert reason("cpu", described) == "changed: headers"
    put("e", flags="-O3", headers="1")
    assert reason("cpu", described) == "its code has changed"


def test_names_of_nothing() -> None:
    put("a", kernel="x")
    with pytest.raises(KernelValueError, match="no entry of a kernel 'gemm', or with a key that starts so, in "):
        why("gemm")


def compiled_twice(monkeypatch: pytest.MonkeyPatch, device: str) -> None:
    tk.compile(scaled, device=device)
    monkeypatch.setitem(globals(), "SIZE", 16)
    tk.compile(scaled, device=device)


def test_a_kernel_on_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled_twice(monkeypatch, "cpu")
    (reason,) = reasons("scaled")
    line = scaled.function.__code__.co_firstlineno + 2
    assert reason.startswith(f"  the emitted code of {__file__}:{line}: ")
    assert "16" in reason
    with config.scoped(fast_math=True):
        tk.compile(scaled, device="cpu")
    (reason,) = reasons("scaled")
    assert reason.startswith("  flags: ")
    assert "-ffp-contract=fast" in reason


@needs_nvrtc
def test_a_kernel_on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled_twice(monkeypatch, "cuda")
    (reason,) = reasons("scaled")
    assert reason.startswith("  the emitted code")
    tk.compile(scaled, arch=80)
    assert any(reason == "  architecture: sm_80, was sm_90" for reason in reasons("scaled"))


def test_with_every_fact_of_the_key_recorded() -> None:
    """A part of a key that an entry does not record could not be told as a reason."""
    tk.compile(scaled, device="cpu")
    (entry,) = cache.list_entries()
    assert {"kernel", "compiler", "flags", "headers"} <= set(entry.describe)
