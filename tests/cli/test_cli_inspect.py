from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.cli.test_cli import program
from tests.nvrtc import needs_nvrtc
from tilekit.cli import main
from tilekit.cli.commands import inspect as inspect_command
from tilekit.runtime.compiled_part import CompiledPart

FILE = str(Path(__file__).with_name("inspected.py"))


def inspect(*arguments: str) -> int:
    return main(["inspect", *arguments])


def test_summary_and_ir(capsys: pytest.CaptureFixture[str]) -> None:
    assert inspect(f"{FILE}:scale") == 0
    printed = capsys.readouterr().out
    assert printed.startswith(f"kernel scale ({FILE}:")
    assert "launch_tiled, block_dim 256, device cpu\n  tile storage: 64 bytes a block\n" in printed
    assert "func scale(%x: array1d<f32>, %factor: f32) {" in printed
    assert "source" not in printed


def test_passes_and_source(capsys: pytest.CaptureFixture[str]) -> None:
    assert inspect(f"{FILE}:scale", "--passes", "--source", "--block-dim", "32") == 0
    printed = capsys.readouterr().out
    assert printed.index("== IR, trace") < printed.index("== IR, eliminate_dead_code") < printed.index("== source")
    assert f'#line 13 "{FILE}"' in printed
    assert "block_dim 32" in printed


def test_source_alone(capsys: pytest.CaptureFixture[str]) -> None:
    assert inspect(f"{FILE}:scale", "--source") == 0
    assert "== IR" not in capsys.readouterr().out


def test_cuda(capsys: pytest.CaptureFixture[str]) -> None:
    assert inspect(f"{FILE}:scale", "--arch", "80", "--cuda", "--source", "--ir") == 0
    printed = capsys.readouterr().out
    assert "launch_tiled, block_dim 256, device sm_80, 32 threads a block\n" in printed
    assert printed.index("== IR") < printed.index("== source")
    assert printed.count('extern "C" __global__ void') == 1
    assert inspect(f"{FILE}:scale", "--cuda") == 0
    assert "device sm_90," in capsys.readouterr().out


def test_explained(capsys: pytest.CaptureFixture[str]) -> None:
    assert inspect(f"{FILE}:scale", "--explain") == 0
    printed = capsys.readouterr().out
    assert "== explained\nkernel scale (" in printed
    assert "== IR" not in printed


def test_a_warning_is_a_line_with_its_place(capsys: pytest.CaptureFixture[str]) -> None:
    assert inspect(f"{FILE}:rounded") == 0
    line = 1 + Path(FILE).read_text().splitlines().index('    tk.tile_store(x, tk.tile_matmul(t, t, precision="tf32"))')
    (told,) = capsys.readouterr().err.splitlines()
    assert told.startswith(
        f"tilekit: {FILE}:{line}: PrecisionWarning: tile_matmul(): precision 'tf32' is not available"
    )


def test_machine_code(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inspect_command, "disassemble", lambda cubin: f"{cubin.decode()} IADD3 ;")
    monkeypatch.setattr(CompiledPart, "cubin", b"code:")
    assert inspect(f"{FILE}:scale", "--sass") == 0
    assert capsys.readouterr().out.endswith("== SASS\ncode: IADD3 ;\n")


@needs_nvrtc
def test_where_the_cubin_lies(capsys: pytest.CaptureFixture[str]) -> None:
    assert inspect(f"{FILE}:scale", "--arch", "90a", "--library") == 0
    printed = capsys.readouterr().out
    assert "== cubin\n" in printed
    assert Path(printed.splitlines()[-1]).read_bytes().startswith(b"\x7fELF")


def test_a_machine_without_a_disassembler(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CompiledPart, "cubin", b"code")
    monkeypatch.setattr("tilekit.runtime.cuda.disassemble.find_disassembler", lambda: None)
    assert inspect(f"{FILE}:scale", "--sass") == 1
    assert "no disassembler for GPU code is installed: install the package" in capsys.readouterr().err


def test_library_is_compiled_and_its_source_lies_beside_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert inspect(f"{FILE}:scale", "--library") == 0
    library = Path(capsys.readouterr().out.splitlines()[-1])
    assert library.is_file()
    assert "tile_store" not in library.with_name("kernel.cpp").read_text(encoding="utf-8")


def test_the_gradient(capsys: pytest.CaptureFixture[str]) -> None:
    assert inspect(f"{FILE}:doubled", "--adjoint", "--ir", "--explain", "--library") == 0
    printed = capsys.readouterr().out
    assert printed.startswith(f"program doubled_adjoint ({FILE}:")
    assert "%adj_x: array1d<f32>" in printed and "== explained\nprogram doubled_adjoint (" in printed
    assert Path(printed.splitlines()[-1]).is_file()


def test_kernel_in_a_class(capsys: pytest.CaptureFixture[str]) -> None:
    assert inspect(f"{FILE}:Holder.wide") == 0
    assert "array1d<f64>" in capsys.readouterr().out


def test_types_of_a_generic_kernel(capsys: pytest.CaptureFixture[str]) -> None:
    assert inspect(f"{FILE}:generic", "--types", "x=array2d[float16]", "factor=float16") == 0
    assert "func generic(%x: array2d<f16>, %factor: f16)" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("{FILE}:generic",), "parameter 'x' of kernel 'generic' is generic; give its type"),
        (("{FILE}:generic", "--types", "x=array2d[foo]"), "name 'foo' is not defined"),
        (("{FILE}:generic", "--types", "x=array2d"), "--types x=array2d leaves the type open"),
        (("{FILE}:generic", "--types", "x"), "--types takes NAME=TYPE, for example a=array2d[float32], not 'x'"),
        (("{FILE}:generic", "--types", "x=float32"), "--types x=float32 contradicts the annotation of 'x'"),
        (("{FILE}:scale", "--types", "x=array1d[float64]"), "which is array[float32]"),
        (("{FILE}:scale", "--types", "factor=float64"), "which is float32"),
        (("{FILE}:scale", "--types", "z=float64"), "kernel 'scale' has no parameter 'z'; its parameters are x, factor"),
        (("{FILE}:scales",), "defines no kernel 'scales'; did you mean {FILE}:scale?"),
        (("{FILE}",), "defines several kernels; name one: {FILE}:scale, {FILE}:generic, {FILE}:Holder.wide, "),
        (("nothing.py:scale",), "there is no file nothing.py"),
        (("{FILE}:generic", "--types", "x=array2d[float]", "factor=float", "--ndim", "1"), "offset must be the same"),
        (("{FILE}:scale", "--arch", "hopper"), "arch must be a compute capability without its dot"),
    ],
)
def test_wrong_arguments(
    arguments: tuple[str, ...], message: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert inspect(*(argument.replace("{FILE}", FILE) for argument in arguments)) == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    assert message.replace("{FILE}", FILE) in printed.err


def test_a_wrong_kernel_is_tilekits_message_without_traceback() -> None:
    done = program("inspect", f"{FILE}:wrong", "--ir")
    assert done.returncode == 1
    assert done.stdout == ""
    line = next(n for n, text in enumerate(Path(FILE).read_text().splitlines(), 1) if "tile_matmul" in text)
    assert done.stderr.startswith(f"tilekit: {FILE}:{line}: tile_matmul(): K differs: a is a tile<4x3xf32>")
    assert "^^^^" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("import nothing_of_that_name\n", "ModuleNotFoundError: No module named 'nothing_of_that_name'"),
        ("x = 1\ny = x +\n", "SyntaxError: invalid syntax"),
        ("raise SystemExit('enough')\n", "SystemExit: enough"),
        ("import tilekit as tk\n@tk.kernel\ndef k(x): ...\n", "parameter 'x' of kernel 'k' has no type annotation"),
        ("import tilekit as tk\n", "defines no kernel at its top level"),
    ],
)
def test_files_that_cannot_be_used(text: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "user_file.py"
    file.write_text(text)
    path = list(sys.path)
    assert inspect(f"{file}:k") == 1
    assert message in capsys.readouterr().err
    assert sys.path == path


def test_a_file_may_import_its_neighbours(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "neighbour_of_kernel.py").write_text("WIDTH = 4\n")
    file = tmp_path / "with_neighbour.py"
    file.write_text(
        "import tilekit as tk\nfrom neighbour_of_kernel import WIDTH\n\n\n"
        "@tk.kernel\ndef k(x: tk.array1d[float]):\n    tk.tile_store(x, tk.tile_zeros(shape=WIDTH))\n"
    )
    assert inspect(str(file)) == 0
    assert "tile<4xf32>" in capsys.readouterr().out
