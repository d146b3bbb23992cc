from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tilekit.cli import main
from tilekit.config import config
from tilekit.runtime import cache

KEYS = [f"{digit}" * 64 for digit in "ab"]


@pytest.fixture
def filled(tmp_path: Path) -> Iterator[Path]:
    """A cache with two entries."""
    with config.scoped(cache_dir=tmp_path / "cache"):
        for key in KEYS:
            describe = {"kernel": f"kernel_{key[0]}", "compiler": "g++ 12"}
            cache.get_or_build("cpu", key, lambda folder: (folder / "kernel.cpp").write_text("code"), describe)
        yield tmp_path / "cache"


def test_list(filled: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cache", "list"]) == 0
    head, _, *rows, total = capsys.readouterr().out.splitlines()
    assert head.split() == ["key", "kind", "created", "(UTC)", "size", "kernel", "compiler"]
    assert {row.split()[0] for row in rows} == {key[:12] for key in KEYS}
    assert {row.split()[-3] for row in rows} == {"kernel_a", "kernel_b"}
    assert total.startswith(f"2 entries in {filled} (cpu ")


def test_entries_for_gpus_name_the_architecture(filled: Path, capsys: pytest.CaptureFixture[str]) -> None:
    describe = {"kernel": "gemm", "compiler": "NVRTC 13.5", "architecture": "sm_90a"}
    cache.get_or_build("cuda", "c" * 64, lambda folder: (folder / "kernel.cu").write_text("code"), describe)
    assert main(["cache", "list"]) == 0
    row = capsys.readouterr().out.splitlines()[2]
    assert row.startswith("cccccccccccc  cuda")
    assert row.endswith("gemm      NVRTC 13.5, sm_90a")
    assert main(["cache", "clear", "--kind", "cuda"]) == 0
    assert capsys.readouterr().out.startswith("removed 1 entry, ")


def test_why(filled: Path, capsys: pytest.CaptureFixture[str]) -> None:
    describe = {"kernel": "kernel_a", "compiler": "g++ 13"}
    cache.get_or_build("cpu", "d" * 64, lambda folder: (folder / "kernel.cpp").write_text("code"), describe)
    assert main(["cache", "why", "kernel_a"]) == 0
    assert capsys.readouterr().out.splitlines()[1:] == ["  compiler: g++ 13, was g++ 12"]
    assert main(["cache", "why", "kernel_z"]) == 1
    assert "no entry of a kernel 'kernel_z'" in capsys.readouterr().err


def test_explain(filled: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cache", "explain", "aaaa"]) == 0
    printed = capsys.readouterr().out
    assert "kernel: kernel_a" in printed
    assert str(filled / "cpu" / "aa" / KEYS[0] / "kernel.cpp") in printed
    assert main(["cache", "explain", "0"]) == 1
    assert "no entry with a key that starts with '0'" in capsys.readouterr().err


def test_clear(filled: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cache", "clear", "--kind", "cuda"]) == 0
    assert capsys.readouterr().out.startswith("removed 0 entries, 0 B")
    assert main(["cache", "clear"]) == 0
    assert capsys.readouterr().out.startswith("removed 2 entries, ")
    assert main(["cache", "list"]) == 0
    assert capsys.readouterr().out == f"0 entries in {filled} (empty)\n"


def test_an_action_is_needed(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["cache"])
    assert ended.value.code == 2
