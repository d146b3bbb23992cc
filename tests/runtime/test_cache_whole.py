"""The cache with real kernels and compilers: many processes and threads, a killed compile, a full disk, other users."""

from __future__ import annotations

import errno
import json
import logging
import os
import signal
import subprocess
import sys
import textwrap
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilekit as tk
from tests.nvrtc import needs_nvrtc
from tests.runtime.test_cache import folder as folder
from tilekit.config import config
from tilekit.runtime import cache, store
from tilekit.runtime.cuda import build

ROOT = Path(__file__).parents[2]
POSIX = pytest.mark.skipif(os.name != "posix", reason="forks, signals and owners of POSIX")


@tk.func
def shared(x: float, y: float):
    return x * y + 1.0


def kernel_of(value: float) -> Any:
    @tk.kernel
    def made(a: tk.array1d[float], out: tk.array1d[float]):
        tk.tile_store(out, tk.tile_map(shared, tk.tile_load(a, shape=4), value))

    return made


def run(kernel: Any) -> list[float]:
    out = np.zeros(4, np.float32)
    tk.launch_tiled(kernel, dim=1, inputs=[np.ones(4, np.float32)], outputs=[out], block_dim=32)
    return out.tolist()


def code_for_gpu(kernel: Any) -> bytes:
    return tk.compile(kernel, dim=1, arch="90a", block_dim=32).cubin


def leftovers(folder: Path) -> list[str]:
    return [path.name for path in folder.rglob("*") if ".tmp-" in path.name or path.name.endswith(".lock")]


def in_process(code: str, folder: Path, **environment: str) -> subprocess.Popen[str]:
    """Python code that may use this module, on a cache of its own."""
    environment = {**os.environ, "TILEKIT_CACHE_DIR": str(folder), "PYTHONPATH": str(ROOT), **environment}
    command = [sys.executable, "-c", textwrap.dedent(code)]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)


@POSIX
@pytest.mark.parametrize("compiler", ["cpu", pytest.param("nvrtc", marks=needs_nvrtc)])
def test_sixteen_processes_on_an_empty_cache(tmp_path: Path, compiler: str) -> None:
    """They are forked from one that has compiled nothing, so that all begin at once."""
    code = f"""
        import os, sys
        from tests.runtime import test_cache_whole as here
        from tilekit.runtime.cuda import nvrtc
        from tilekit.runtime.toolchain import Toolchain, find_toolchain
        find_toolchain()
        owner, name, go = {{
            "cpu": (Toolchain, "compile", here.run),
            "nvrtc": (nvrtc, "compile_cubin", here.code_for_gpu),
        }}[{compiler!r}]
        real = getattr(owner, name)
        setattr(owner, name, lambda *given, **named: (print("compiled", flush=True), real(*given, **named))[1])
        kernel, children = here.kernel_of(3.0), []
        for _ in range(16):
            child = os.fork()
            if child == 0:
                try:
                    found = go(kernel)
                    assert found == [4.0] * 4 or found[:4] == b"\\x7fELF"
                    os._exit(0)
                finally:
                    os._exit(1)
            children.append(child)
        print([os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children])
    """
    with in_process(code, tmp_path) as child:
        shown, _ = child.communicate(timeout=120)
    assert shown.splitlines() == ["compiled", str([0] * 16)]
    assert not leftovers(tmp_path)


@needs_nvrtc
def test_sixteen_threads_compile_kernels_that_share_a_function(folder: Path) -> None:
    """For the CPU and for a GPU at once; four values, so that some are wanted by several threads."""
    values = [float(n % 4) for n in range(16)]

    def work(value: float) -> tuple[list[float], bytes]:
        with config.scoped(cache_dir=folder):
            kernel = kernel_of(value)
            return run(kernel), code_for_gpu(kernel)

    with ThreadPoolExecutor(16) as pool:
        found = list(pool.map(work, values))
    assert [numbers for numbers, _ in found] == [[value + 1] * 4 for value in values]
    for value, (_, cubin) in zip(values, found, strict=True):
        assert cubin == found[int(value)][1]
    assert len({cubin for _, cubin in found}) == 4
    kinds = [entry.kind for entry in cache.list_entries()]
    assert (kinds.count("cpu"), kinds.count("cuda")) == (4, 4) and not leftovers(folder)


@POSIX
@needs_nvrtc
def test_a_process_that_is_killed_while_nvrtc_works(folder: Path) -> None:
    code = """
        import time
        from tests.runtime import test_cache_whole as here
        from tilekit.runtime.cuda import nvrtc
        real = nvrtc.compile_cubin

        def compile_cubin(*given):
            found = real(*given)
            print("half done", flush=True)
            time.sleep(60)
            return found

        nvrtc.compile_cubin = compile_cubin
        here.code_for_gpu(here.kernel_of(5.0))
    """
    with in_process(code, folder) as child:
        assert child.stdout is not None and child.stdout.readline() == "half done\n"
        assert leftovers(folder)
        child.send_signal(signal.SIGKILL)
        assert child.wait(20) == -signal.SIGKILL
    assert code_for_gpu(kernel_of(5.0))[:4] == b"\x7fELF"
    assert len(cache.list_entries()) == 1 and not leftovers(folder)


@needs_nvrtc
def test_a_disk_that_is_full_when_code_is_written(
    folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    real = Path.write_bytes

    def full(path: Path, data: Any) -> int:
        if folder in path.parents:
            real(path, data[: len(data) // 2])
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(path, data)

    monkeypatch.setattr(Path, "write_bytes", full)
    with caplog.at_level(logging.WARNING, "tilekit"):
        codes = {code_for_gpu(kernel_of(value)) for value in (6.0, 6.0, 7.0)}
    assert len(codes) == 2 and all(code[:4] == b"\x7fELF" for code in codes)
    assert [record.message.split(" (")[0] for record in caplog.records] == [
        f"the cache folder {folder} cannot be written"
    ]
    assert not cache.list_entries() and not leftovers(folder)


@needs_nvrtc
@pytest.mark.parametrize("damage", [b"", b"\x7fELF", b"\x7fELF" + bytes(5000)])
def test_damaged_code_is_compiled_anew(folder: Path, damage: bytes) -> None:
    sound = code_for_gpu(kernel_of(8.0))
    (entry,) = cache.list_entries()
    (entry.path / build.CUBIN).write_bytes(damage)
    cache._verified.clear()
    assert code_for_gpu(kernel_of(8.0)) == sound
    assert (entry.path / build.CUBIN).read_bytes() == sound


@needs_nvrtc
def test_hash_seeds_change_no_key(tmp_path: Path) -> None:
    """Three processes with other orders of sets and other hashes of strings: one entry of each kind."""
    code = """
        import json
        from tests.runtime import test_cache_whole as here
        from tilekit.runtime import cache
        kernel = here.kernel_of(9.0)
        here.run(kernel), here.code_for_gpu(kernel)
        print(json.dumps(sorted((entry.kind, entry.key) for entry in cache.list_entries())))
    """
    children = [in_process(code, tmp_path / seed, PYTHONHASHSEED=seed) for seed in ("0", "1", "4711")]
    shown = [json.loads(child.communicate(timeout=120)[0]) for child in children]
    assert [kind for kind, _ in shown[0]] == ["cpu", "cuda"]
    assert shown[1] == shown[0] == shown[2]


@POSIX
@pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="only root can give a folder away")
def test_a_folder_that_belongs_to_another_user(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    """What lies there is not loaded, and nothing is written there."""
    kernel = kernel_of(10.0)
    assert run(kernel) == [11.0] * 4
    (entry,) = cache.list_entries()
    (library,) = [path for path in entry.path.iterdir() if path.suffix in (".so", ".dylib", ".dll")]
    library.write_bytes(b"planted")
    for path in (folder, *folder.rglob("*")):
        os.chown(path, 12345, 12345)
    store._trusted.clear()
    cache._verified.clear()
    before = sorted(folder.rglob("*"))
    with caplog.at_level(logging.WARNING, "tilekit"):
        assert run(kernel_of(10.0)) == [11.0] * 4
    assert "it belongs to user id 12345" in caplog.text
    assert sorted(folder.rglob("*")) == before
