"""The record of the last run on a GPU: when it is stale, and the tool that writes it."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import pytest

from tests import gpu_record, record_gpu
from tests.record_gpu import PYTEST, Stage

RUN = {"code": "a" * 64, "gpus": ["NVIDIA H200"], "date": "2026-11-30", "stages": {"tests": {"result": "passed"}}}


def test_the_notice() -> None:
    assert "no run on a GPU is recorded" in (gpu_record.notice({}, "a" * 64) or "")
    assert gpu_record.notice(RUN, "a" * 64) is None
    stale = gpu_record.notice(RUN, "b" * 64)
    assert stale is not None and "has changed since the last run on a GPU (NVIDIA H200, 2026-11-30)" in stale
    failed = gpu_record.notice({**RUN, "stages": {"tests": {"result": "out of time"}}}, "a" * 64)
    assert failed is not None and failed.endswith("tests out of time")


def test_the_digest_is_of_what_decides_a_gpus_code(tmp_path: Path) -> None:
    for folder in (*gpu_record.SOURCES, "cli"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "a.py").write_text("x = 1\n")
    first = gpu_record.digest(tmp_path)
    (tmp_path / "cli" / "a.py").write_text("x = 2\n")
    assert gpu_record.digest(tmp_path) == first
    assert {"builtins", "codegen", "native", "passes"} == set(gpu_record.SOURCES)
    for folder in gpu_record.SOURCES:
        before = gpu_record.digest(tmp_path)
        (tmp_path / folder / "a.py").write_text("x = 2\n")
        assert gpu_record.digest(tmp_path) != before
    (tmp_path / "codegen" / "a.py").rename(tmp_path / "codegen" / "b.py")
    assert gpu_record.digest(tmp_path) not in (first, "")


TESTS = """
import pytest
def test_good(): pass
def test_bad(): assert 1 == 2, "so it is"
def test_left_out(): pytest.skip("no reason")
def test_other(): pass
"""


@pytest.fixture
def recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """``recorded(*stages)``: the record after a run of those stages, as on a machine with one GPU."""
    monkeypatch.setenv("TILEKIT_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(gpu_record, "RECORD", tmp_path / "none" / "gpu_record.json")
    head = {name: value for name, value in RUN.items() if name != "stages"}

    def run(*stages: Stage, limit: float = 60.0) -> dict[str, Any]:
        monkeypatch.setattr(record_gpu, "stages", lambda workers: list(stages))
        names = [stage.name for stage in stages]
        asked = argparse.Namespace(folder=tmp_path / "out", stages=names, limit=limit, workers=1)
        record_gpu.record(asked, head, 1)
        return gpu_record.read(tmp_path / "out" / "gpu_record.json")

    return run


def test_a_record_of_stages(recorded: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "test_few.py").write_text(TESTS)
    where = ("--rootdir", str(tmp_path), "-c", "/dev/null", str(tmp_path / "test_few.py"))
    found = recorded(
        Stage("good", ("-c", "import sys; print(sys.argv[1])", "{folder}"), 20),
        Stage("slow", ("-c", "import time; print('begun'); time.sleep(60)"), 1),
        Stage("lacking", ("-c", "1"), 20, needs=("nobody_has_this",)),
        Stage("two", ("-c", "1"), 20, gpus=2),
        Stage("skipped", (*PYTEST, *where, "-k", "left_out"), 60),
        Stage("tests", (*PYTEST, *where), 60),
    )
    assert {name: stage["result"] for name, stage in found["stages"].items()} == {
        "good": "passed",
        "slow": "out of time",
        "skipped": "nothing ran",
        "tests": "failed (exit status 1)",
    }
    assert found["stages"]["good"]["last line"] == str(tmp_path / "out")
    assert found["stages"]["tests"]["counts"] == {"passed": 2, "failed": 1, "skipped": 1, "xfailed": 0}
    assert "so it is" in (tmp_path / "out" / "failures.txt").read_text()
    assert "begun" in (tmp_path / "out" / "log.txt").read_text()
    shown = capsys.readouterr().out
    assert "lacking: left out, no nobody_has_this" in shown and "two: left out, 1 of 2 GPUs" in shown
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["failures.txt", "gpu_record.json", "log.txt"]


def test_runs_of_the_same_code_add_up(recorded: Any, tmp_path: Path) -> None:
    recorded(Stage("first", ("-c", "1"), 20))
    found = recorded(Stage("second", ("-c", "raise SystemExit(3)"), 20))
    assert {name: stage["result"] for name, stage in found["stages"].items()} == {
        "first": "passed",
        "second": "failed (exit status 3)",
    }
    path = tmp_path / "out" / "gpu_record.json"
    path.write_text(json.dumps({**found, "code": "other"}))
    assert list(recorded(Stage("third", ("-c", "1"), 20))["stages"]) == ["third"]


def test_a_run_without_a_gpu_records_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tilekit.runtime import nvidia

    monkeypatch.setattr(nvidia, "LIBRARY", "libthat-nobody-has.so.1")
    assert record_gpu.main([str(tmp_path / "out")]) == 2
    assert not (tmp_path / "out").exists()


def test_the_stages_are_of_this_project() -> None:
    """Modules and files that stages name are there."""
    root = Path(gpu_record.__file__).parents[1]
    for stage in record_gpu.stages(4):
        words = iter(stage.command)
        for word in words:
            named = word.removeprefix("--ignore=")
            if named.startswith("tests/"):
                assert (root / named).exists(), named
            elif word == "-m" and (module := next(words)).startswith(("tilekit.", "tests.")):
                assert root.joinpath(*module.split(".")).with_suffix(".py").exists(), module
