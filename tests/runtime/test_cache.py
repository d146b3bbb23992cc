from __future__ import annotations

import errno
import json
import logging
import multiprocessing
import os
import signal
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tilekit.config import config
from tilekit.errors import CompileError, KernelValueError
from tilekit.runtime import cache, locks, store
from tilekit.runtime.cache import Entry, clear, explain, get_or_build, key_of, list_entries, sizes

KEY = key_of(source="kernel")
POSIX = pytest.mark.skipif(os.name != "posix", reason="owners and modes of POSIX")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    for name in ("_trusted", "_private", "_warned", "_unwritable"):
        monkeypatch.setattr(store, name, type(getattr(store, name))())
    monkeypatch.setattr(cache, "_verified", {})
    with config.scoped(cache_dir=tmp_path / "cache"):
        yield tmp_path / "cache"


class Builder:
    """A build that counts its calls and can fail."""

    def __init__(self, text: str = "code", error: BaseException | None = None) -> None:
        self.calls: list[Path] = []
        self.text = text
        self.error = error

    def __call__(self, path: Path) -> None:
        self.calls.append(path)
        (path / "kernel.so").write_text(self.text)
        if self.error is not None:
            raise self.error


def get(build: Builder, key: str = KEY, kind: str = "cpu") -> Path:
    return get_or_build(kind, key, build, {"kernel": "gemm", "file": "a.py:3"})


def leftovers(folder: Path) -> list[str]:
    return [path.name for path in folder.rglob("*") if ".tmp-" in path.name or path.name.endswith(".lock")]


def test_built_once_then_found(folder: Path) -> None:
    build = Builder()
    path = get(build)
    assert path == folder / "cpu" / KEY[:2] / KEY == get(build)
    assert (path / "kernel.so").read_text() == "code"
    assert len(build.calls) == 1 and not leftovers(folder)
    cache._verified.clear()
    get(build)
    assert len(build.calls) == 1


@POSIX
def test_folders_are_private(folder: Path) -> None:
    umask = os.umask(0o002)
    path = get(Builder())
    os.umask(umask)
    while path != folder.parent:
        assert stat.S_IMODE(path.stat().st_mode) == 0o700
        path = path.parent


def test_kinds_and_keys_are_checked(folder: Path) -> None:
    for kind, key in (("../x", KEY), ("cpu", "../../etc"), ("cpu", "ab"), ("CPU", KEY)):
        with pytest.raises(KernelValueError, match="not a kind and a hexadecimal key"):
            get(Builder(), key, kind)


def _process(folder: str, start: float, marks: str, results: multiprocessing.Queue) -> None:  # type: ignore[type-arg]
    config.cache_dir = folder

    def build(path: Path) -> None:
        (Path(marks) / str(os.getpid())).touch()
        time.sleep(0.2)
        (path / "kernel.so").write_text("code")

    time.sleep(max(0.0, start - time.time()))
    results.put((get_or_build("cpu", KEY, build, {}) / "kernel.so").read_text())


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_sixteen_processes_build_once(folder: Path, tmp_path: Path) -> None:
    marks = tmp_path / "marks"
    marks.mkdir()
    context = multiprocessing.get_context("fork" if os.name == "posix" else "spawn")
    results = context.Queue()
    start = time.time() + 0.5
    arguments = (str(folder), start, str(marks), results)
    children = [context.Process(target=_process, args=arguments) for _ in range(16)]
    for child in children:
        child.start()
    assert [results.get(timeout=60) for _ in children] == ["code"] * 16
    for child in children:
        child.join()
    assert len(list(marks.iterdir())) == 1 and not leftovers(folder)


def test_sixteen_threads_build_once(folder: Path) -> None:
    barrier = threading.Barrier(16)
    calls: list[int] = []
    texts: list[str] = []

    def build(path: Path) -> None:
        calls.append(1)
        time.sleep(0.1)
        (path / "kernel.so").write_text("code")

    def work() -> None:
        with config.scoped(cache_dir=folder):
            barrier.wait()
            texts.append((get_or_build("cpu", KEY, build, {}) / "kernel.so").read_text())

    threads = [threading.Thread(target=work) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=30)
    assert texts == ["code"] * 16 and len(calls) == 1


@POSIX
def test_a_killed_builder_frees_its_lock(folder: Path) -> None:
    code = (
        "import sys, time; from tilekit.config import config; from tilekit.runtime.cache import get_or_build\n"
        "config.cache_dir = sys.argv[1]\n"
        "def build(path):\n"
        "    (path / 'kernel.so').write_text('half'); print('building', flush=True); time.sleep(60)\n"
        "get_or_build('cpu', sys.argv[2], build, {})"
    )
    child = subprocess.Popen([sys.executable, "-c", code, str(folder), KEY], stdout=subprocess.PIPE)
    assert child.stdout is not None and child.stdout.readline() == b"building\n"
    assert leftovers(folder)
    threading.Timer(0.3, child.kill).start()
    start = time.perf_counter()
    path = get(Builder())
    assert time.perf_counter() - start < 30
    assert (path / "kernel.so").read_text() == "code" and not leftovers(folder)
    assert child.wait() == -signal.SIGKILL
    child.stdout.close()


@pytest.mark.parametrize("error", [CompileError("no"), ValueError("no"), KeyboardInterrupt()])
def test_a_failed_build_leaves_nothing(folder: Path, error: BaseException) -> None:
    with pytest.raises(type(error)):
        get(Builder(error=error))
    assert not leftovers(folder) and list_entries() == []
    assert get(Builder()).is_dir()


def test_a_build_without_files_is_an_error(folder: Path) -> None:
    with pytest.raises(CompileError, match="wrote no file"):
        get_or_build("cpu", KEY, lambda path: None, {})
    assert list_entries() == []


@pytest.mark.parametrize("damage", ["truncated", "changed", "missing", "no record", "broken record", "empty record"])
def test_a_damaged_entry_is_built_anew(folder: Path, damage: str) -> None:
    path = get(Builder())
    library, record = path / "kernel.so", path / "entry.json"
    cache._verified.clear()
    if damage == "truncated":
        library.write_text("co")
    elif damage == "changed":
        library.write_text("edoc")
    elif damage == "missing":
        library.unlink()
    elif damage == "no record":
        record.unlink()
    elif damage == "broken record":
        record.write_text(record.read_text()[:50])
    else:
        record.write_text(json.dumps(json.loads(record.read_text()) | {"files": {}}))
    build = Builder("new")
    assert (get(build) / "kernel.so").read_text() == "new"
    assert len(build.calls) == 1 and not leftovers(folder)


def test_truncation_is_seen_in_a_running_process(folder: Path) -> None:
    path = get(Builder())
    (path / "kernel.so").write_text("")
    assert (get(Builder("new")) / "kernel.so").read_text() == "new"


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.ENOSPC, "No space left on device"),
        OSError(errno.EROFS, "Read-only file system"),
        PermissionError(errno.EACCES, "Permission denied"),
        CompileError("g++ failed: fatal error: error writing to x.s: No space left on device"),
    ],
)
def test_a_full_disk_is_no_failure(folder: Path, caplog: pytest.LogCaptureFixture, error: Exception) -> None:
    build = Builder()

    def fails_in_the_cache(path: Path) -> None:
        build(path)
        if folder in path.parents:
            raise error

    with caplog.at_level(logging.WARNING, "tilekit"):
        paths = [get_or_build("cpu", key_of(i=i), fails_in_the_cache, {}) for i in (1, 2, 2)]
    assert all((path / "kernel.so").read_text() == "code" and folder not in path.parents for path in paths)
    assert len(build.calls) == 3  # the cache is tried for the first only, and the third is found
    assert [record.message.split("(")[0] for record in caplog.records] == [
        f"the cache folder {folder} cannot be written "
    ]
    assert not leftovers(folder)


def test_no_place_to_write_at_all(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*args: object, **options: object) -> str:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("tempfile.mkdtemp", full)
    with pytest.raises(CompileError, match="set TILEKIT_CACHE_DIR"):
        get(Builder())


def test_a_folder_that_cannot_be_made(tmp_path: Path, folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "file").write_text("")
    with config.scoped(cache_dir=tmp_path / "file" / "cache"), caplog.at_level(logging.WARNING, "tilekit"):
        path = get(Builder())
        get(Builder(), key_of(i=2))
    assert path.is_dir() and len(caplog.records) == 1
    assert "is not used: it cannot be made (Not a directory)" in caplog.text


@POSIX
@pytest.mark.parametrize("mode", [0o770, 0o707, 0o777])
def test_a_folder_that_others_write_to(folder: Path, caplog: pytest.LogCaptureFixture, mode: int) -> None:
    folder.mkdir()
    folder.chmod(mode)
    with caplog.at_level(logging.WARNING, "tilekit"):
        path = get(Builder())
    assert folder not in path.parents and not list(folder.iterdir())
    assert f"other users can write to it (mode {mode:03o}); run chmod 700 on it" in caplog.text


@POSIX
def test_a_folder_of_another_user(
    folder: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    get(Builder("planted"))
    store._trusted.clear()
    owner = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    with caplog.at_level(logging.WARNING, "tilekit"):
        path = store.root()
    assert path != folder
    assert f"it belongs to user id {owner}, not to {owner + 1}" in caplog.text


def test_the_private_folder_goes_with_the_process(tmp_path: Path) -> None:
    code = "from tilekit.runtime import store; print(store.private())"
    shown = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    assert "tilekit-" in shown and not Path(shown.strip()).exists()


def test_file_systems_without_locks(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locks, "_lock", lambda descriptor: False)
    path = get(Builder())

    def overtaken(temporary: Path) -> None:
        (temporary / "kernel.so").write_text("second")
        get(Builder("first"), key_of(i=3))

    other = get_or_build("cpu", key_of(i=3), overtaken, {})
    assert path.is_dir() and (other / "kernel.so").read_text() == "first" and not leftovers(folder)


def test_list_explain_clear(folder: Path) -> None:
    keys = [key_of(i=i) for i in range(3)]
    for key, kind in zip(keys, ("cpu", "cpu", "cuda"), strict=True):
        get(Builder("x" * 100), key, kind)
    entries = list_entries()
    assert {(e.kind, e.key) for e in entries} == set(zip(("cpu", "cpu", "cuda"), keys, strict=True))
    assert isinstance(entries[0], Entry) and entries[0].size == 100
    text = explain(keys[0][:12])
    assert text.startswith(f"cpu {keys[0]}\n  created: ") and "\n  kernel: gemm\n  file: a.py:3\n" in text
    assert text.endswith("kernel.so (100 bytes)")
    with pytest.raises(KernelValueError, match="no entry with a key that starts with 'xyz'"):
        explain("xyz")
    with pytest.raises(KernelValueError, match="3 entries with a key"):
        explain("")
    assert set(sizes()) == {"cpu", "cuda"} and sizes()["cpu"] > 200
    count, size = clear("cpu")
    assert count == 2 and size > 200
    assert [e.key for e in list_entries()] == [keys[2]]
    store.subfolder("zig").joinpath("object.o").write_text("zig")
    assert clear()[0] == 1
    assert list_entries() == [] and sizes().get("zig") is None
    assert get(Builder()).is_dir()


def test_clear_leaves_what_is_not_tilekits(folder: Path) -> None:
    get(Builder())
    others = ["Documents/letter.txt", "objects/ab/" + "0" * 38, "cpu/notes.txt", "cpu/ab/" + "0" * 64 + "/x", "file"]
    for name in others:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("mine")
    assert clear()[0] == 1
    assert all((folder / name).read_text() == "mine" for name in others)


def test_clear_while_others_build(folder: Path) -> None:
    def build(path: Path) -> None:
        (path / "kernel.so").write_text("code")
        assert clear() == (0, 0)

    assert get_or_build("cpu", KEY, build, {}).joinpath("kernel.so").read_text() == "code"


def test_a_found_entry_costs_little(folder: Path) -> None:
    get(Builder())
    took = []
    for _ in range(20):
        start = time.perf_counter()
        get(Builder())
        took.append(time.perf_counter() - start)
    assert min(took) < 0.005
