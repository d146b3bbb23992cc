from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.inspected import generic, scale
from tilekit.config import config
from tilekit.ir.types import ArrayType, ScalarType, float32, float64
from tilekit.runtime import dump
from tilekit.runtime.program import compile_kernel


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setattr(dump, "_specialisations", {})
    with config.scoped(dump_dir=tmp_path / "dump"):
        yield tmp_path / "dump"


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_one_file_a_pass_and_the_source(folder: Path) -> None:
    with config.scoped(dump="ir,cpu"):
        compiled = compile_kernel(scale)
    expected = [f"{number:02}-scale-{stage}.ir" for number, stage in enumerate(compiled.stages)]
    assert names(folder) == [*expected, f"{len(expected):02}-scale-emit.cpp"]
    assert (folder / "00-scale-trace.ir").read_text() == compiled.stages["trace"]
    assert (folder / names(folder)[-1]).read_text() == compiled.source


@pytest.mark.parametrize(("kinds", "suffixes"), [("ir", {".ir"}), ("cpu", {".cpp"}), ("cuda", set())])
def test_only_what_is_asked_for(kinds: str, suffixes: set[str], folder: Path) -> None:
    with config.scoped(dump=kinds):
        compile_kernel(scale)
    assert {path.suffix for path in folder.glob("*")} == suffixes


def test_nothing_is_written_unasked(folder: Path) -> None:
    compile_kernel(scale)
    assert not folder.exists()


def test_specialisations_do_not_overwrite_each_other_and_repeated_compiles_do(folder: Path) -> None:
    for dtype in (float32, float64, float32):
        with config.scoped(dump="ir"):
            compile_kernel(generic, {"x": ArrayType(dtype, 2), "factor": ScalarType(dtype)})
    assert {name for name in names(folder) if "trace" in name} == {"00-generic-trace.ir", "00-generic.2-trace.ir"}
    assert "f64" in (folder / "00-generic.2-trace.ir").read_text()


def test_names_that_are_no_file_names(folder: Path) -> None:
    with config.scoped(dump="cpu"):
        dump.Dump("../a b/<lambda>").emitted("cpu", "cpp", "text")
    assert names(folder) == ["00-.._a_b_lambda_-emit.cpp"]


def test_a_folder_that_cannot_be_written_is_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "file").write_text("")
    with config.scoped(dump="ir", dump_dir=tmp_path / "file"), caplog.at_level(logging.WARNING, "tilekit"):
        assert compile_kernel(scale).source
    assert f"dumps cannot be written to {tmp_path / 'file'}" in caplog.text
