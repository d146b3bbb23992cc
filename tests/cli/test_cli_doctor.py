from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from tests.cli.test_cli import program
from tilekit.cli import installed, main
from tilekit.cli.commands import doctor
from tilekit.config import config
from tilekit.runtime import nvidia, toolchain
from tilekit.runtime.cuda import nvrtc

TITLES = ("tilekit", "machine", "C++ compilers", "cache", "GPU", "packages")
GPU = nvidia.Gpu(0, "NVIDIA H200", (9, 0), 150 << 30)


def test_as_a_program() -> None:
    done = program("doctor")
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert [title for title in TITLES if not any(line.startswith(title) for line in lines)] == []
    assert lines[-1] == "No problem was found."


def test_every_extra_has_a_purpose() -> None:
    extras = {requirement.extra for requirement in installed.requirements()}
    assert extras == set(doctor.NEEDED_FOR)


def test_a_broken_compiler_is_a_problem(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    with config.scoped(cxx="false", cache_dir=tmp_path):
        assert main(["doctor"]) == 1
    printed = capsys.readouterr().out
    assert "options changed  " in printed
    assert "cxx='false'" in printed
    assert "problem: the compiler TILEKIT_CXX" in printed


def test_no_compiler_is_none(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(toolchain, "_commands", lambda wanted: [("clang++", ()), ("g++", ()), ("zig", ())])
    assert main(["doctor"]) == 0
    printed = capsys.readouterr().out
    assert "install g++ or clang++, or run python -m pip install " in printed


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="folders of Windows have no mode")
def test_a_cache_that_others_may_write_is_a_problem(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    folder = tmp_path / "cache"
    folder.mkdir()
    folder.chmod(0o777)
    with config.scoped(cache_dir=folder):
        assert main(["doctor"]) == 1
    assert f"problem: the cache folder {folder} is not used: other users can write to it" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("driver", "text"),
    [
        (nvidia.Driver(None, (), "no NVIDIA driver is installed"), "driver no NVIDIA driver is installed"),
        (
            nvidia.Driver((13, 2), (), "the NVIDIA driver offers no device"),
            "devices the NVIDIA driver offers no device",
        ),
        (nvidia.Driver((13, 2), (GPU,), ""), "cuda:0 NVIDIA H200, compute capability 9.0, 150.0 GiB"),
    ],
)
def test_gpus(
    driver: nvidia.Driver, text: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nvidia, "find_driver", lambda: driver)
    assert main(["doctor"]) == 0
    assert text in re.sub(" +", " ", capsys.readouterr().out)


@pytest.mark.parametrize(
    ("absent", "version", "text", "status"),
    [
        (["nvidia-cuda-nvrtc"], (13, 5), "NVRTC missing: nvidia-cuda-nvrtc; for GPUs, run python -m pip install", 0),
        ([], (13, 5), "NVRTC 13.5, compiles sm_90a for cuda:0", 0),
        ([], (14, 0), "problem: kernels cannot be compiled for GPUs: NVRTC 14.0 makes code for CUDA 14, but the", 1),
    ],
)
def test_the_compiler_for_gpus(
    absent: list[str],
    version: tuple[int, int],
    text: str,
    status: int,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(nvidia, "find_driver", lambda: nvidia.Driver((13, 2), (GPU,), ""))
    monkeypatch.setattr(doctor, "missing", lambda extra: absent if extra == "cuda" else [])
    monkeypatch.setattr(nvrtc, "version", lambda: version)
    monkeypatch.setattr(nvrtc, "architectures", lambda: (80, 90))
    assert main(["doctor"]) == status
    assert text in re.sub(" +", " ", capsys.readouterr().out)


def test_a_missing_base_package_is_a_problem(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, "missing", lambda extra: ["" if extra else "warp-lang"])
    assert main(["doctor"]) == 1
    assert "problem: missing packages that tilekit needs: warp-lang" in capsys.readouterr().out


def test_packages_in_a_checkout_that_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installed, "DISTRIBUTION", "tilekit-lang")
    monkeypatch.setattr(installed.importlib.metadata, "requires", absent)
    monkeypatch.setattr(installed.importlib.metadata, "version", absent)
    found = installed.requirements()
    assert installed.Requirement("numpy", "") in found
    assert installed.Requirement("ziglang", "cpu") in found
    assert not [item for item in found if item.name == "tilekit-lang"]
    assert installed.missing("cpu") == ["ziglang"]
    assert installed.version().endswith("(not installed: run from its folder)")
    monkeypatch.setattr(installed, "CHECKOUT", Path(__file__).parent / "none.toml")
    assert installed.requirements() == []
    assert installed.install_command("cpu") == "python -m pip install 'tilekit-lang[cpu]'"


def absent(name: str) -> None:
    raise installed.importlib.metadata.PackageNotFoundError(name)
