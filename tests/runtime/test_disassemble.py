from __future__ import annotations

import shutil
import stat
from pathlib import Path

import pytest

from tests.nvrtc import needs_nvrtc
from tests.runtime.test_compile import point
from tilekit.errors import CompileError, MissingPackageError
from tilekit.runtime.compile import prepare
from tilekit.runtime.cuda import disassemble


@pytest.fixture
def nowhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """No disassembler anywhere but in the folder given."""
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    monkeypatch.delenv("CUDA_HOME", raising=False)
    monkeypatch.delenv("CUDA_PATH", raising=False)
    monkeypatch.setattr(disassemble, "_packages", lambda: iter([tmp_path / "packages"]))
    return tmp_path


def put(folder: Path, name: str, text: str) -> Path:
    folder.mkdir(exist_ok=True, parents=True)
    file = folder / name
    file.write_text(f"#!{shutil.which('sh', path='/bin:/usr/bin')}\n{text}\n")
    file.chmod(file.stat().st_mode | stat.S_IXUSR)
    return file


def test_none_is_installed(nowhere: Path) -> None:
    assert disassemble.find_disassembler() is None
    with pytest.raises(MissingPackageError, match="install the package nvidia-cuda-nvdisasm"):
        disassemble.disassemble(b"code")


def test_where_it_is_looked_for(nowhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    packaged = put(nowhere / "packages", "cuobjdump", "exit 0")
    assert disassemble.find_disassembler() == (str(packaged), "-sass")
    monkeypatch.setenv("CUDA_HOME", str(nowhere / "toolkit"))
    toolkit = put(nowhere / "toolkit" / "bin", "nvdisasm", "exit 0")
    assert disassemble.find_disassembler() == (str(toolkit), "--print-code")
    on_path = put(nowhere / "path", "nvdisasm", "exit 0")
    assert disassemble.find_disassembler() == (str(on_path), "--print-code")


def test_it_gets_the_cubin_and_its_output_is_returned(nowhere: Path) -> None:
    put(nowhere / "path", "nvdisasm", 'read -r line < "$2"; echo "$1 $line"')
    assert disassemble.disassemble(b"the code\n") == "--print-code the code\n"


def test_it_fails(nowhere: Path) -> None:
    put(nowhere / "path", "nvdisasm", "echo 'nvdisasm fatal: bad file'; exit 3")
    with pytest.raises(CompileError, match=r"nvdisasm failed with exit code 3\n.*\n.*bad file"):
        disassemble.disassemble(b"")


@needs_nvrtc
@pytest.mark.skipif(disassemble.find_disassembler() is None, reason="needs nvdisasm or cuobjdump")
def test_a_kernel() -> None:
    assert "EXIT" in disassemble.disassemble(prepare(point, tiled=False, arch=80).cubin)
