"""The program itself: how it is called, what it prints where, how it ends."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import tilekit.cli
from tilekit.cli import commands, main
from tilekit.cli.installed import version
from tilekit.errors import KernelTypeError

ROOT = Path(__file__).parents[2]
COMMANDS = sorted(path.stem for path in Path(commands.__path__[0]).glob("[a-z]*.py"))


def program(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tilekit", *arguments]
    variables = {**os.environ, **environment}
    return subprocess.run(command, cwd=ROOT, env=variables, capture_output=True, text=True, timeout=300, check=False)


def test_commands_are_those_of_the_issue() -> None:
    assert {"demo", "doctor", "inspect", "builtins", "cache"} <= set(COMMANDS)


def test_without_a_command_help_lists_each() -> None:
    done = program()
    assert done.returncode == 0
    assert [name for name in COMMANDS if f"\n    {name} " not in done.stdout] == []


@pytest.mark.parametrize("name", COMMANDS)
def test_help_of_each(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main([name, "--help"])
    assert ended.value.code == 0
    assert f"usage: tilekit {name}" in capsys.readouterr().out


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    assert ended.value.code == 0
    assert capsys.readouterr().out == f"tilekit {version()}\n"


def test_a_wrong_command_is_status_2_and_goes_to_stderr() -> None:
    done = program("dmeo")
    assert done.returncode == 2
    assert done.stdout == ""
    assert "dmeo" in done.stderr


def test_an_error_is_one_line_on_stderr_and_no_traceback() -> None:
    done = program("builtins", "tile_matml")
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.startswith("tilekit: no builtin is called 'tile_matml'; did you mean tile_matmul")
    assert done.stderr.count("\n") == 1


def test_a_closed_pipe_is_no_traceback() -> None:
    command = f'"{sys.executable}" -m tilekit builtins | true'
    done = subprocess.run(command, shell=True, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert done.stderr == ""


def test_a_terminal_that_lacks_characters_gets_escapes(tmp_path: Path) -> None:
    file = tmp_path / "k\u00e4rnel.py"
    text = "import tilekit as tk\n\n\n@tk.kernel\ndef k(x: tk.array1d[float]):\n    tk.tile_store(x, tk.tile_ones(4))\n"
    file.write_text(text, encoding="utf-8")
    done = program("inspect", str(file), PYTHONIOENCODING="ascii", PYTHONUTF8="0")
    assert done.returncode == 0, done.stderr
    assert "k\\xe4rnel.py" in done.stdout


def test_interrupted_is_status_130(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted() -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(tilekit.cli, "main", interrupted)
    assert tilekit.cli.run_program() == 130


def test_errors_of_a_command_are_status_1(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def fails(arguments: object) -> int:
        raise KernelTypeError("as it happens")

    monkeypatch.setattr("tilekit.cli.commands.doctor.run", fails)
    assert main(["doctor"]) == 1
    assert capsys.readouterr() == ("", "tilekit: as it happens\n")
