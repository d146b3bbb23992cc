from __future__ import annotations

import contextlib
import ctypes
import logging
import os
import shutil
import signal
import stat
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.timing import allowed
from tilekit.config import config
from tilekit.errors import CompileError, FallbackWarning
from tilekit.runtime import cpus, probe, process, store, toolchain
from tilekit.runtime.toolchain import Toolchain, candidates, find_toolchain, library_suffix

POSIX = pytest.mark.skipif(os.name != "posix", reason="compilers made of shell scripts, and signals")
SOURCE = '#include "add.h"\nextern "C" float add(float a, float b) { return tilekit_add(a, b); }\n'
HEADER = "inline float tilekit_add(float a, float b) { return a + b; }\n"


@pytest.fixture
def fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """No verdict is known, neither in this process nor on disk."""
    monkeypatch.setattr(toolchain, "_chosen", {})
    with config.scoped(cache_dir=tmp_path / "cache", cxx=None):
        yield tmp_path


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> list[Toolchain]:
    with config.scoped(cache_dir=tmp_path_factory.mktemp("cache")):
        return [c.toolchain for c in candidates() if c.toolchain]


def script(folder: Path, text: str, name: str = "compiler") -> str:
    path = folder / name
    path.write_text("#!/bin/sh\n" + textwrap.dedent(text))
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


def fake(command: str) -> Toolchain:
    return Toolchain("fake", (command,), "fake 1.0", command, (), "0", "gcc")


def compile_add(chain: Toolchain, folder: Path, **options: bool) -> Path:
    (folder / "include").mkdir(exist_ok=True)
    (folder / "include" / "add.h").write_text(HEADER)
    (folder / "add.cpp").write_text(SOURCE)
    library = folder / f"add{library_suffix()}"
    chain.compile(folder / "add.cpp", library, [folder / "include"], **options)
    return library


def contents(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


@pytest.mark.parametrize("options", [{}, {"debug": True}, {"fast_math": True}])
def test_every_compiler_compiles(found: list[Toolchain], tmp_path: Path, options: dict[str, bool]) -> None:
    assert found, "no host compiler: the extra `cpu` brings one"
    for chain in found:
        folder = tmp_path / chain.name
        folder.mkdir()
        function = ctypes.CDLL(str(compile_add(chain, folder, **options))).add
        function.argtypes, function.restype = [ctypes.c_float] * 2, ctypes.c_float
        assert function(1.5, 2.25) == 3.75
        assert contents(folder) == {"include", "add.cpp", f"add{library_suffix()}"}


def test_flags(found: list[Toolchain]) -> None:
    for chain in found:
        assert {"-std=c++17", "-O3", "-ffp-contract=off", "-fwrapv"} <= set(chain.flags)
        assert not {"-ffast-math", "-frounding-math", "-Ofast"} & set(chain.flags_of(True, True))
        assert "-O1" in chain.flags_of(debug=True) and "-g" in chain.flags_of(debug=True)
        assert "-ffp-contract=fast" in chain.flags_of(fast_math=True)
        assert ("-nostdlib" in chain.flags) == (chain.family == "zig")
        assert ("-ffloat16-excess-precision=none" in chain.flags) == (chain.family != "gcc")


def test_the_fingerprint_is_stable_and_tells_compilers_apart(fresh: Path, found: list[Toolchain]) -> None:
    assert len({chain.fingerprint for chain in found}) == len(found)
    code = "from tilekit.runtime.toolchain import find_toolchain; print(find_toolchain().fingerprint)"
    environment = {**os.environ, "TILEKIT_CACHE_DIR": str(fresh / "cache"), "PYTHONHASHSEED": "7"}
    environment.pop("TILEKIT_CXX", None)
    run = subprocess.run([sys.executable, "-c", code], env=environment, check=True, capture_output=True, text=True)
    assert run.stdout.strip() == found[0].fingerprint
    assert "flags=" in cpus.cpu_identity() or "Features=" in cpus.cpu_identity() or sys.platform != "linux"


def test_an_error_names_compiler_command_and_line(found: list[Toolchain], tmp_path: Path) -> None:
    source = tmp_path / "wrong.cpp"
    source.write_text('#line 7 "user.py"\nint f() { return missing; }\n')
    for chain in found:
        with pytest.raises(CompileError) as caught:
            chain.compile(source, tmp_path / "wrong.so", [])
        message = str(caught.value)
        assert message.startswith(f"{chain.name} ({chain.version}) failed with exit code 1\n{chain.command[0]} ")
        assert "user.py:7" in message and "missing" in message
        assert contents(tmp_path) == {"wrong.cpp"}


def test_only_the_first_errors_are_shown() -> None:
    output = "a.cpp:1: warning: w\n  w\n" + "".join(
        f"a.cpp:{n}: error: e{n}\n   x{n}\na.cpp: note: n\n" for n in range(9)
    )
    assert process.first_errors(output).splitlines() == [
        f for n in range(5) for f in (f"a.cpp:{n}: error: e{n}", f"   x{n}")
    ]
    assert process.first_errors("plain\nwords") == "plain\nwords"


@POSIX
def test_a_killed_compiler(tmp_path: Path) -> None:
    chain = fake(script(tmp_path, "kill -KILL $$"))
    with pytest.raises(CompileError, match=r"fake \(fake 1.0\) was killed \(SIGKILL\); memory may have run out"):
        compile_add(chain, tmp_path)
    chain = fake(script(tmp_path, "echo 'g++: fatal error: Killed signal terminated program cc1plus'; exit 1"))
    with pytest.raises(CompileError, match="was killed"):
        compile_add(chain, tmp_path)


@POSIX
def test_a_compiler_that_writes_nothing(tmp_path: Path) -> None:
    with pytest.raises(CompileError, match="reported success and wrote nothing"):
        compile_add(fake(script(tmp_path, "exit 0")), tmp_path)


def test_a_compiler_that_is_gone(tmp_path: Path) -> None:
    with pytest.raises(CompileError, match="fake cannot be started: No such file"):
        compile_add(fake(str(tmp_path / "gone")), tmp_path)


@POSIX
def test_a_time_limit(tmp_path: Path) -> None:
    chain = fake(script(tmp_path, f"echo $$ > {tmp_path}/pid\nsleep 60 & echo $! > {tmp_path}/child\nwait"))
    start = time.perf_counter()
    with (
        config.scoped(compile_timeout=2),
        pytest.raises(CompileError, match=r"did not finish in 2 s \(option compile_"),
    ):
        compile_add(chain, tmp_path)
    assert time.perf_counter() - start < 30
    assert not any(_runs(int((tmp_path / name).read_text())) for name in ("pid", "child"))
    assert contents(tmp_path) == {"include", "add.cpp", "compiler", "pid", "child"}


def _runs(pid: int) -> bool:
    for _ in range(50):
        status = Path(f"/proc/{pid}/stat")
        if not status.exists() or status.read_text().rpartition(")")[2].split()[0] == "Z":
            return False
        time.sleep(0.02)
    return True


@POSIX
@pytest.mark.usefixtures("interruptible")
def test_ctrl_c_stops_the_compiler(tmp_path: Path) -> None:
    compiler = script(tmp_path, f'sleep 60 & echo $! > {tmp_path}/child; echo half > "$4"; echo started >&3; wait')
    (tmp_path / "a.cpp").write_text("")
    code = (
        "import sys; from pathlib import Path; from tilekit.runtime.toolchain import Toolchain\n"
        "c, folder = sys.argv[1], Path(sys.argv[2])\n"
        "Toolchain('fake', (c, ), '1', c, (), '0', 'gcc').compile(folder / 'a.cpp', folder / 'a.so', [])\n"
    )
    # The child says that it runs by a named pipe: its standard output belongs to the toolchain.
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    Path(compiler).write_text(Path(compiler).read_text().replace(">&3", f"> {pipe}"))
    child = subprocess.Popen([sys.executable, "-c", code, compiler, str(tmp_path)], stderr=subprocess.PIPE)
    assert pipe.read_text() == "started\n"
    start = time.perf_counter()
    child.send_signal(signal.SIGINT)
    _, errors = child.communicate(timeout=20)
    assert time.perf_counter() - start < allowed(1) and b"KeyboardInterrupt" in errors
    assert not _runs(int((tmp_path / "child").read_text()))
    assert contents(tmp_path) == {"a.cpp", "compiler", "child", "pipe"}


@POSIX
def test_ctrl_c_while_a_compiler_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = f"61.{os.getpid():010}"  # a command that no other process has

    def interrupted(*args: int) -> bytes:  # subprocess reads what the start says once the child exists
        time.sleep(0.2)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(os, "read", interrupted)
        with pytest.raises(KeyboardInterrupt):
            process.run(["sleep", seconds], 60.0)
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):  # that process has ended
            assert seconds.encode() not in path.read_bytes()


def test_the_verdict_is_kept_on_disk(fresh: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = find_toolchain()
    assert first is not None and find_toolchain() is first
    monkeypatch.setattr(process, "run", lambda *args: pytest.fail("a compiler was started"))
    took = []
    for _ in range(5):
        monkeypatch.setattr(toolchain, "_chosen", {})
        start = time.perf_counter()
        assert find_toolchain() == first
        took.append(time.perf_counter() - start)
    assert min(took) < 0.05  # about 1 ms


@POSIX
def test_a_named_compiler_is_used(fresh: Path, found: list[Toolchain]) -> None:
    real = found[-1]
    words = " ".join(f"'{word}'" for word in real.command)
    wrapper = script(fresh, f'exec {words} "$@"', "my compiler")
    for command in (wrapper, f"'{wrapper}'", f"'{wrapper}' -DSOME=1"):
        with config.scoped(cxx=command):
            chain = find_toolchain()
        assert chain is not None and chain.name == "TILEKIT_CXX" and chain.path == wrapper
    assert chain.command == (wrapper, "-DSOME=1") and chain.family == real.family
    system = find_toolchain()
    assert system is not None and system.name != "TILEKIT_CXX"


@POSIX
@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("exit 3", "its version cannot be read: .* failed with exit code 3"),
        ('[ "$1" = --version ] && echo "clang 1.0" && exit; echo "a.c: error: no" >&2; exit 1', "error: no"),
        ('[ "$1" = --version ] && echo "g++ 1.0" && exit; for a; do o=$a; done; echo x > "$o"', "cannot be run"),
    ],
)
def test_a_broken_named_compiler_is_passed_over(fresh: Path, text: str, reason: str) -> None:
    with (
        config.scoped(cxx=script(fresh, text)),
        pytest.warns(FallbackWarning, match=rf"(?s)\(TILEKIT_CXX\) is not used: .*{reason}"),
    ):
        chain = find_toolchain()
    assert chain is not None and chain.name != "TILEKIT_CXX"


def test_a_named_compiler_that_is_not_there(fresh: Path) -> None:
    with config.scoped(cxx="no-such-compiler -x"), pytest.warns(FallbackWarning, match="no-such-compiler is not there"):
        assert find_toolchain() is not None


@POSIX
def test_a_compiler_that_contracts_is_passed_over(fresh: Path) -> None:
    real = shutil.which("g++") or shutil.which("clang++")
    if not real or "fma" not in cpus.cpu_identity():
        pytest.skip("needs g++ or clang++ and a processor with fma")
    wrapper = script(fresh, f'[ "$1" = --version ] && exec {real} "$@"; exec {real} "$@" -ffp-contract=fast')
    with config.scoped(cxx=wrapper):
        verdict = candidates()[0]
    assert not verdict.works and verdict.reason == "contracts a * b + c"


@POSIX
def test_a_broken_system_compiler_is_logged(
    fresh: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    script(fresh, "exit 1", "clang++")
    script(fresh, '[ "$1" = --version ] && echo "g++ 1" && exit; exit 1', "g++")
    monkeypatch.setenv("PATH", f"{fresh}:/bin")
    with caplog.at_level(logging.INFO, "tilekit"):
        chain = find_toolchain()
        said = [record for record in caplog.records if "is not used" in record.message]
        caplog.clear()
        monkeypatch.setattr(toolchain, "_chosen", {})  # as another process
        assert find_toolchain() == chain and not caplog.records
    assert chain is None or chain.family == "zig"
    assert {record.levelname for record in said} == {"INFO"}
    assert [record.message.split(":")[0] for record in said] == [
        f"the compiler {fresh / 'clang++'} is not used",
        f"the compiler {fresh / 'g++'} is not used",
    ]
    assert [(c.name, c.works) for c in candidates()][:2] == [("clang++", False), ("g++", False)]


def test_no_compiler_at_all(fresh: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(fresh / "empty"))
    monkeypatch.setattr(toolchain, "_zig_wheel", lambda: None)
    assert find_toolchain() is None
    reasons = {c.name: c.reason for c in candidates()}
    assert reasons["g++"] == "it is not installed" and "extra `cpu`" in reasons["zig"]


@POSIX
def test_what_works_is_used_without_trying_what_failed_again(fresh: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script(fresh, f'echo x >> {fresh}/calls; [ "$1" = --version ] && echo "clang 1" && exit; exit 1', "clang++")
    monkeypatch.setenv("PATH", f"{fresh}:{os.environ['PATH']}")
    monkeypatch.setattr(probe, "_RETRY_AFTER", 0.0)
    for _ in range(3):
        monkeypatch.setattr(toolchain, "_chosen", {})
        assert find_toolchain() is not None
        assert (fresh / "calls").read_text() == "x\nx\n"
    monkeypatch.setattr(toolchain, "_commands", lambda wanted: [("clang++", (str(fresh / "clang++"),))])
    monkeypatch.setattr(toolchain, "_chosen", {})
    assert find_toolchain() is None  # where nothing works, it is tried again
    assert (fresh / "calls").read_text() == "x\n" * 4
    assert toolchain.absence().startswith(
        "no C++ compiler works (clang++: clang++ (clang 1) failed with exit code 1); "
    )


@POSIX
def test_failures_are_remembered_for_a_while(fresh: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiler = script(fresh, f'echo x >> {fresh}/calls; [ "$1" = --version ] && echo "g++ 1" && exit; exit 1')

    def calls() -> int:
        with config.scoped(cxx=compiler):
            candidates()
        return len((fresh / "calls").read_text().split())

    assert (calls(), calls()) == (2, 2)
    with config.scoped(cxx=compiler):
        candidates(refresh=True)
    assert calls() == 4
    monkeypatch.setattr(probe, "_RETRY_AFTER", 0.0)
    assert calls() == 6


def test_ziglang_keeps_its_cache_inside_tilekits(fresh: Path) -> None:
    zig = next((c for c in candidates() if c.name == "zig"), None)
    if zig is None or zig.toolchain is None:
        pytest.skip("needs the ziglang wheel")
    assert zig.toolchain.family == "zig" and "ziglang" not in sys.modules
    assert any((store.root() / "zig").iterdir())
    with config.scoped(cxx=" ".join(zig.command)):
        named = find_toolchain()
    assert named is not None and replace(named, name="zig") == zig.toolchain
