"""What libmathdx is asked for a unit, by a stand-in that writes it down."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import tilekit as tk
from tests.nvrtc import needs_nvrtc
from tests.runtime.mathdx.stand_in import write_wheel
from tilekit.codegen.gemm.units import Unit
from tilekit.errors import CompileError
from tilekit.runtime import cache
from tilekit.runtime.mathdx import libmathdx, providers, units, worker
from tilekit.runtime.mathdx.libmathdx import Library, compile_unit
from tilekit.runtime.toolchain import find_toolchain

RING = Unit(64, 32, 16, "F16", "F32", 90, 128, (True, False), (0, 0), (16, 16))
PART = Unit(64, 32, 16, "F64", "F64", 80, 64, (False, True), (72, 32), (16, 8))
WHOLE = dataclasses.replace(PART, leading=(64, 32))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    toolchain = find_toolchain()
    assert toolchain is not None, "the tests need a C++ compiler; the extra 'test' brings one"
    folder = tmp_path_factory.mktemp("site")
    write_wheel(folder, toolchain)
    return folder


def asked(site: Path, unit: Unit) -> list[str]:
    """What the library was asked, a call a line, in a process of its own: it is made for one unit."""
    code = (
        "import sys, json; from pathlib import Path; from tilekit.runtime.mathdx import libmathdx, worker\n"
        "root = Path(sys.argv[1]) / 'nvidia/cu13'\n"
        "library = libmathdx.Library(root / 'lib/libmathdx.so.0', root / 'include')\n"
        "made = libmathdx.compile_unit(worker.unit_of(sys.argv[2]), library)\n"
        "sys.stdout.write(made.code.decode() + json.dumps(made.facts))"
    )
    command = [sys.executable, "-c", code, str(site), json.dumps(dataclasses.asdict(unit))]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()


def test_what_is_asked_for_a_ring(site: Path) -> None:
    *calls, facts = asked(site, RING)
    name = RING.name
    assert calls == [
        "op 1 200",
        "op 2 101",
        "op 3 202",
        "op 4 203",
        "op 5 103 103 105",
        "op 6 900",
        "op 7 64 32 16",
        "op 8 128 1 1",
        "op 9 1",
        "op 10 205 204 205",  # row-major, column-major
        "op 11 16 16 16",
        "tensors 23 24 25",  # that lie as cuBLASDx wants
        "function 40 23 24 25",
        f"named 50 {name}_execute",
        "function 41 25",
        f"named 50 {name}_where",
        "function 42 25",
        f"named 50 {name}_active",
        "function 43 25",
        f"named 50 {name}_inside",
        "function 44 23",
        f"named 50 {name}_place_a",
        "function 44 24",
        f"named 50 {name}_place_b",
        "code 11 900 0",
        "code 14 --gen-opt-lto",
        "made 6",
    ]
    version = "libmathdx 0.4.2, cuBLASDx 0.8.0"
    assert json.loads(facts) == {"registers": 400, "bytes_a": 1472, "bytes_b": 1536, "version": version}


def test_what_is_asked_for_tiles(site: Path) -> None:
    calls = asked(site, PART)
    assert "op 5 106 106 106" in calls and "op 6 800" in calls
    assert "op 10 204 205 205" in calls and "op 11 16 8 16" in calls
    assert "op 12 72 32 32" in calls  # what lies apart has a leading dimension
    assert "tensors 20 21 22" in calls and "made 4" in calls  # of which it is known where they lie
    assert json.loads(calls[-1])["registers"] == 22 * 64 // 8
    assert not any(call.startswith("op 12") for call in asked(site, WHOLE))


@pytest.fixture
def library(site: Path) -> Library:
    root = site / "nvidia/cu13"
    return Library(root / "lib/libmathdx.so.0", root / "include")


@pytest.mark.parametrize(("fails", "where"), [("descriptor", "cublasdxCreateDescriptor"), ("code", "Finalize")])
def test_what_the_library_says_is_passed_on(
    library: Library, monkeypatch: pytest.MonkeyPatch, fails: str, where: str
) -> None:
    monkeypatch.setenv("STAND_IN_FAILS", fails)
    with pytest.raises(CompileError, match=rf"{where}.*COMMONDX_COMPILATION_ERROR\nno such product"):
        compile_unit(RING, library)


def test_a_constant_that_a_version_lacks_is_named(library: Library) -> None:
    with pytest.raises(CompileError, match="libmathdx has no CUBLASDX_TENSOR_TRAIT_COLOUR; another version is needed"):
        library.constant("CUBLASDX_TENSOR_TRAIT_COLOUR")
    assert "constants" not in library.constants


@pytest.fixture
def installed(site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The stand-in as what is installed, and an empty cache."""
    monkeypatch.syspath_prepend(str(site))
    found = providers.Found(providers.PROVIDERS[0], "0.4.2")
    monkeypatch.setattr(providers, "find", lambda: found)
    with tk.config.scoped(cache_dir=tmp_path / "cache"):
        yield


@needs_nvrtc
def test_units_are_made_at_once_each_by_a_process_of_its_own(installed: None) -> None:
    ready = units.make_units(dict.fromkeys([RING, PART]))
    assert [each.unit for each in ready] == [RING, PART]
    assert {bytes(each.code).count(b"tensors") for each in ready} == {1}  # what a process was asked is of one unit
    assert ready[0].options[0] == f"-D{RING.name}_registers=400"
    entries = cache.list_entries()
    assert {entry.kind for entry in entries} == {"mathdx"} and len(entries) == 2
    assert any(entry.describe["kernel"] == "64x32x16 F16 NT, 128 threads, sm_90" for entry in entries)


@needs_nvrtc
def test_a_unit_is_made_once(installed: None, monkeypatch: pytest.MonkeyPatch) -> None:
    first = units.make_units({RING: None})
    monkeypatch.setattr(units, "_work", lambda *given: pytest.fail("made again"))
    assert units.make_units({RING: None}) == first


@needs_nvrtc
def test_what_went_wrong_in_the_process_is_said(installed: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STAND_IN_FAILS", "code")
    with pytest.raises(CompileError) as raised:
        units.make_units({RING: None})
    for part in (
        "64x32x16 F16 NT, 128 threads, sm_90",
        "nvidia-libmathdx-cu13 0.4.2",
        "no such product",
        "enable_mathdx_gemm = False",
    ):
        assert part in raised.value.message
    assert not cache.list_entries()


@needs_nvrtc
def test_where_python_is_embedded_units_are_made_one_by_one(installed: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """The executable is then the host application, which must not be started again."""
    monkeypatch.setattr(sys, "executable", "/usr/bin/paint")
    monkeypatch.setattr(units.process, "run", lambda *given: pytest.fail("a process was started"))
    running: list[Path] = []

    def make(provider: str, folder: Path) -> None:
        running.append(folder)
        time.sleep(0.2)
        assert running == [folder] and provider == "libmathdx"
        (folder / worker.FACTS).write_text(json.dumps({"registers": 1, "bytes_a": 2, "bytes_b": 3}))
        running.clear()

    monkeypatch.setattr(worker, "make", make)
    assert [each.facts["bytes_b"] for each in units.make_units({RING: None, PART: None})] == [3, 3]

    def refuse(provider: str, folder: Path) -> None:
        raise CompileError("not this one")

    monkeypatch.setattr(worker, "make", refuse)
    with pytest.raises(CompileError, match=f"{WHOLE} could not be compiled: not this one\nwithout cuBLASDx"):
        units.make_units({WHOLE: None})


@needs_nvrtc
def test_the_process_finds_what_this_one_finds(
    installed: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where it was added to the path only, and never what just lies in the current folder."""
    (tmp_path / "json.py").write_text("raise SystemExit('the wrong module')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PYTHONPATH", raising=False)
    assert units.make_units({RING: None})[0].facts["registers"] == 400


@needs_nvrtc
def test_the_key_is_full(installed: None, monkeypatch: pytest.MonkeyPatch) -> None:
    def key(**change: Any) -> str:
        return units.key_of_unit(dataclasses.replace(RING, **change))

    keys = {key()}
    for change in (
        {"m": 32}, {"precision": "BF16"}, {"arch": 80}, {"threads": 64}, {"rows": (True, True)}, {"alignment": (8, 16)},
    ):  # fmt: skip
        keys.add(key(**change))
    monkeypatch.setattr(units, "_template", lambda module: "another")
    keys.add(key())
    monkeypatch.setattr(units.nvrtc, "version", lambda: (13, 0))
    keys.add(key())
    monkeypatch.setattr(providers, "find", lambda: providers.Found(providers.PROVIDERS[0], "0.4.3"))
    keys.add(key())
    assert len(keys) == 10


def test_the_program_refuses_in_words(
    site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / worker.ASKED).write_text(json.dumps(dataclasses.asdict(RING)))

    def refuse(unit: Unit) -> None:
        raise CompileError(f"not {unit.m}")

    monkeypatch.setattr(libmathdx, "compile_unit", refuse)
    assert worker.main(["libmathdx", str(tmp_path)]) == 1
    assert capsys.readouterr().err == "error: not 64\n"
    assert sorted(os.listdir(tmp_path)) == [worker.ASKED]
