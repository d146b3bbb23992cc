"""What stands in a compiler's way without being its fault is named, and is not held against it."""

from __future__ import annotations

import contextlib
import logging
import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import tilekit as tk
from tests.runtime.test_toolchain import script
from tilekit.config import config
from tilekit.errors import CompileError
from tilekit.runtime import cache, process, store, toolchain
from tilekit.runtime.hindrances import HinderedError
from tilekit.runtime.toolchain import candidates, find_toolchain

pytestmark = pytest.mark.skipif(os.name != "posix", reason="compilers made of shell scripts, limits and file systems")
VERSION = '[ "$1" = --version ] && echo "g++ 1.0" && exit;'


@pytest.fixture
def fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A new process, as far as compilers and the cache are concerned."""
    for name in ("_trusted", "_private", "_warned", "_unwritable"):
        monkeypatch.setattr(store, name, type(getattr(store, name))())
    monkeypatch.setattr(cache, "_verified", {})
    monkeypatch.setattr(toolchain, "_chosen", {})
    with config.scoped(cache_dir=tmp_path / "cache", cxx=None):
        yield tmp_path


@tk.kernel
def doubled(a: tk.array1d[tk.float32], out: tk.array1d[tk.float32]):
    i = tk.tid()
    out[i] = a[i] * 2.0


def works() -> bool:
    a, out = np.ones(8, np.float32), np.zeros(8, np.float32)
    tk.launch(doubled, dim=8, inputs=[a, out], device="cpu")
    return bool((out == 2).all())


@pytest.mark.parametrize(
    ("said", "named"),
    [
        ("a.s: No space left on device", "the disk is full"),
        ("/usr/bin/ld: final link failed: Disk quota exceeded", "the disk quota is used up"),
        ("error: Read-only file system", "the file system is read-only"),
        ("cc1plus: fatal error: a.h: Too many open files", "this process has too many files open (ulimit -n)"),
        ("cc1plus: out of memory allocating 99 bytes", "memory has run out"),
        ("error: NoSpaceLeft", "the disk is full"),
    ],
)
def test_a_hindrance_is_named_and_not_remembered(fresh: Path, said: str, named: str) -> None:
    compiler = script(fresh, f'{VERSION} [ -e {fresh}/room ] && exec g++ "$@"; echo "{said}" >&2; exit 1')
    with config.scoped(cxx=compiler):
        (found, *_) = candidates()
        assert not found.works and f"(g++ 1.0) could not do its work: {named}\n" in found.reason
        assert said in found.reason and "set TILEKIT_CACHE_DIR" in found.reason
        (fresh / "room").touch()
        assert candidates()[0].works == (toolchain.shutil.which("g++") is not None)


@pytest.mark.parametrize("signal", ["KILL", "XFSZ", "TERM"])
def test_being_killed_is_not_remembered(fresh: Path, signal: str) -> None:
    compiler = script(fresh, f"{VERSION} echo x >> {fresh}/calls; kill -{signal} $$")
    with config.scoped(cxx=compiler):
        for calls in (1, 2):
            found = candidates()[0]
            assert not found.works and f"was killed (SIG{signal})" in found.reason
            assert len((fresh / "calls").read_text().split()) == calls


def test_no_compiler_is_missed_where_none_can_work(fresh: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiler = script(fresh, f'{VERSION} echo "x.s: No space left on device"; exit 1', "g++")
    monkeypatch.setattr(toolchain, "_commands", lambda wanted: [("g++", (compiler,))])
    for _ in range(2):
        with pytest.raises(HinderedError) as caught:
            works()
        kept = fresh / "cache"
        lines = str(caught.value).splitlines()
        assert lines[0].startswith(f"no folder for compiled kernels can be written: {kept} (the disk is full), ")
        assert lines[0].endswith("(the disk is full); set TILEKIT_CACHE_DIR to one that can")
        assert lines[1] == "g++ (g++ 1.0) could not do its work: the disk is full"
        assert lines[3] == "x.s: No space left on device"
        assert lines[4].startswith(f"the files lie in {store.private()}") and " KiB are free); make room" in lines[4]
    monkeypatch.undo()


def test_compilers_need_no_other_disk_than_the_caches(fresh: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = script(fresh, f'echo "$TMPDIR" >> {fresh}/folders; exec g++ "$@"')
    monkeypatch.setenv("TMPDIR", str(fresh / "missing"))
    with config.scoped(cxx=seen):
        if find_toolchain() is None or not toolchain.shutil.which("g++"):
            pytest.skip("needs g++")
        assert works()
    folders = (fresh / "folders").read_text().splitlines()[1:]
    assert folders and all(folder.startswith(str(fresh / "cache")) for folder in folders)


@pytest.mark.parametrize("name", ["cpu", "toolchains", "zig"])
def test_a_file_in_a_folders_place(fresh: Path, caplog: pytest.LogCaptureFixture, name: str) -> None:
    (fresh / "cache").mkdir(mode=0o700)
    (fresh / "cache" / name).touch()
    with caplog.at_level(logging.WARNING, "tilekit"):
        assert works()
    if name != "zig":
        assert [record.message for record in caplog.records] == [
            f"the cache folder {fresh / 'cache'} cannot be written (it is not a folder: {fresh / 'cache' / name}). "
            "Compiled kernels are not kept."
        ]


def test_a_file_in_the_caches_place(fresh: Path, caplog: pytest.LogCaptureFixture) -> None:
    (fresh / "cache").touch()
    with caplog.at_level(logging.WARNING, "tilekit"):
        assert works()
    assert "is not used: it is not a folder. Compiled" in caplog.text


def test_too_many_open_files(fresh: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    find_toolchain()
    taken: list[int] = []
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, hard))
    try:
        with contextlib.suppress(OSError):
            while True:
                taken.append(os.open(os.devnull, os.O_RDONLY))
        with pytest.raises(CompileError, match=r"this process has too many files open \(ulimit -n\)"):
            cache.get_or_build("cpu", cache.key_of(files="none"), lambda folder: None, {})
        with pytest.raises(CompileError, match=r"this process has too many files open \(ulimit -n\)"):
            probing = toolchain.candidates(refresh=True)
            raise next(found.hindrance for found in probing if found.hindrance is not None)
    finally:
        for descriptor in taken:
            os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert works()


def test_the_linkers_own_line_is_shown() -> None:
    linker = "/usr/bin/ld: final link failed: No space left on device\ncollect2: error: ld returned 1 exit status"
    output = f"a.cpp:1: warning: w\n    1 | case x: w\n{linker}"
    assert process.first_errors(output) == linker


def full_disk(folder: Path, kilobytes: int) -> bool:
    """Mount a file system of that size; only root can, and not everywhere."""
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={kilobytes}k,mode=700", "tmpfs", str(folder)]
    try:
        return subprocess.run(command, capture_output=True).returncode == 0
    except OSError:
        return False


@pytest.mark.parametrize("free", [0, 20])
def test_a_disk_that_is_really_full(fresh: Path, free: int) -> None:
    """Where nothing can be mounted, files that may not grow stand for it."""
    code = "from tests.runtime.test_hindrances import works; print(works())"
    disk = fresh / "disk"
    mounted = full_disk(disk, 64)
    try:
        if mounted:
            with contextlib.suppress(OSError):
                (disk / "filler").write_bytes(bytes((64 - free) << 10))
        environment = {**os.environ, "TILEKIT_CACHE_DIR": str(disk / "cache"), "TMPDIR": str(disk)}
        limit = None if mounted else lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (free << 10, free << 10))
        run = subprocess.run(
            [sys.executable, "-c", code], env=environment, capture_output=True, text=True, preexec_fn=limit
        )
    finally:
        if mounted:
            subprocess.run(["umount", "-l", str(disk)], check=True)
    assert run.returncode != 0 or run.stdout == "True\n"
    if run.returncode != 0:
        error = run.stderr[run.stderr.index("HinderedError: ") :]
        assert "the disk is full" in error or "may not grow so large" in error or "SIGXFSZ" in error, run.stderr
    assert "no C++ compiler was found" not in run.stderr
