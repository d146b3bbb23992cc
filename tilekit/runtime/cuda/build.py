"""From emitted CUDA C++ to a cubin: options, and the cache on disk."""

from __future__ import annotations

import contextvars
import functools
import hashlib
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from tilekit.codegen.target import Target
from tilekit.config import config
from tilekit.runtime import cache as disk
from tilekit.runtime.cpus import allowed_cpus
from tilekit.runtime.cuda import nvrtc
from tilekit.runtime.cuda.nvrtc import Cubin
from tilekit.runtime.keys import DIGITS, key_of
from tilekit.runtime.progress import progress
from tilekit.runtime.why import reason

T = TypeVar("T")
KIND = "cuda"
CUBIN = "kernel.cubin"
NATIVE = Path(__file__).parents[2] / "native"


@cache
def headers() -> Mapping[str, str]:
    """The native headers by the name that code includes them under."""
    return {path.relative_to(NATIVE).as_posix(): path.read_text(encoding="utf-8") for path in _header_paths()}


def _header_paths() -> list[Path]:
    return sorted(NATIVE.rglob("*.h"))


@cache
def _header_digest() -> str:
    digest = hashlib.sha256()
    for name, text in headers().items():
        digest.update(f"{name} {len(text)}\n{text}".encode())
    return digest.hexdigest()


def options_of(target: Target, options: Mapping[str, Any]) -> tuple[str, ...]:
    """What NVRTC is told; ``options`` are the kernel's own."""
    module = options.get("module_options") or {}
    found = [f"--gpu-architecture=sm_{target.arch}", "-std=c++17", "--ptxas-options=--verbose"]
    if module.get("fast_math", config.fast_math):
        found += ["--use_fast_math"]  # it contracts too
    else:
        found += ["--fmad=false"]
    if module.get("lineinfo", config.lineinfo):
        found += ["--generate-line-info"]
    if limit := options.get("cuda_max_registers"):
        found += [f"--maxrregcount={int(limit)}"]
    return tuple(found)


def build(source: str, name: str, target: Target, options: Mapping[str, Any]) -> tuple[Cubin, Path]:
    """The cubin of emitted code, from the cache or the compiler, and the folder where it and its source lie.

    Args:
        source: The code.
        name: The kernel's name.
        target: What it was emitted for.
        options: The kernel's own.

    Raises:
        CompileError: NVRTC refused the code, or knows no such architecture.
        MissingPackageError: NVRTC is not installed.
    """
    given = options_of(target, options)
    version = nvrtc.version()
    key = key_of(source=source, headers=_header_digest(), options=given, nvrtc=version, tilekit=disk.tilekit_version())
    describe = {
        "kernel": name,
        "compiler": "NVRTC {}.{}".format(*version),
        "architecture": f"sm_{target.arch}",
        "options": " ".join(given),
        "headers": _header_digest()[:DIGITS],
    }

    def compile_into(folder: Path) -> None:
        nvrtc.check_arch(target.arch)
        (folder / "kernel.cu").write_text(source, encoding="utf-8")
        what = "compiling kernel {!r} for sm_{} with NVRTC {}.{}".format(name, target.arch, *version)
        with progress(what, lambda: reason(KIND, describe)):
            found = nvrtc.compile_cubin(source, name, headers(), given)
        (folder / CUBIN).write_bytes(found.code)
        (folder / "ptxas.txt").write_text(found.log, encoding="utf-8")

    folder = disk.get_or_build(KIND, key, compile_into, describe)
    code, log = (folder / CUBIN).read_bytes(), (folder / "ptxas.txt").read_text(encoding="utf-8")
    return Cubin(code, log), folder


def in_parallel(jobs: Sequence[Callable[[], T]]) -> list[T]:
    """The results of jobs that compile, run on as many threads as there are CPUs, in order.

    The first error, in the order of the jobs, is raised once all are done.
    """
    results: list[Any] = [None] * len(jobs)
    errors: dict[int, BaseException] = {}
    waiting = iter(list(enumerate(jobs)))
    lock = threading.Lock()

    def work() -> None:
        while True:
            with lock:
                number, job = next(waiting, (-1, None))
            if job is None:
                return
            try:
                results[number] = job()
            except BaseException as error:
                errors[number] = error

    # In the options in force here, which are those of a context.
    works = [functools.partial(contextvars.copy_context().run, work) for _ in range(min(len(jobs), allowed_cpus()))]
    threads = [threading.Thread(target=run, daemon=True) for run in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        while thread.is_alive():
            thread.join(0.1)  # a join without limit would answer Ctrl-C on some systems only
    if errors:
        raise errors[min(errors)]
    return results
