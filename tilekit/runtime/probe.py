"""Does a host compiler work? Compiles what kernels are made of, with the real flags and headers, runs it and keeps the
verdict on disk."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from pathlib import Path

from tilekit.codegen import headers
from tilekit.errors import CompileError
from tilekit.runtime import store
from tilekit.runtime.cpus import cpu_identity
from tilekit.runtime.hindrances import HinderedError
from tilekit.runtime.keys import key_of
from tilekit.runtime.process import interpreter

_RETRY_AFTER = 3600.0
"""Seconds that a failure is remembered."""

_RUN_TIMEOUT = 60.0

_SOURCE = Path(__file__).with_name("probe.cpp")
_A = 1 + 2.0**-12
_INPUT = [_A, _A, -(1 + 2.0**-11), 1.0, 2.0, 3.0, 4.0, 5.0]
WRONG_SELECTS = "takes one operand of a select for another"
"""What is said of a compiler that does so, as clang++ before 23 does for AVX-512."""
_FINDINGS = (
    "contracts a * b + c", "does not fuse fma", "computes vectors wrong", "does not wrap integers", WRONG_SELECTS,
    "computes exp of float16 wrong", "computes matrix products wrong", "computes atomic additions wrong",
)  # fmt: skip


@dataclass(frozen=True)
class Verdict:
    """Whether a compiler works, and why not."""

    works: bool
    version: str
    family: str
    reason: str
    created: float
    flags: tuple[str, ...] = ()
    """Which it needs beside those of its family."""


def verdict_of(
    identity: dict[str, object], judge: Callable[[], Verdict], refresh: bool = False, retry: bool = True
) -> Verdict:
    """The verdict kept on disk for ``identity`` (the compiler's path, size, time, flags), else that of ``judge()``.

    ``refresh`` asks anew; ``retry`` does so for failures that are older than an hour: a broken installation may have
    been repaired without the driver changing. What ``judge`` raises is raised, and not kept.
    """
    key = key_of(cpu=cpu_identity(), source=source_text(), headers=headers.digest(), **identity)
    name = f"{key}.json"
    kept = None if refresh else _read(store.root() / "toolchains" / name) or _read(store.subfolder("toolchains") / name)
    if kept is not None and (kept.works or not retry or 0 <= time.time() - kept.created < _RETRY_AFTER):
        return kept
    verdict = judge()
    _write(store.subfolder("toolchains") / name, verdict)
    return verdict


@lru_cache(maxsize=1)
def source_text() -> str:
    """The probe: all headers that kernels may include, and code that uses what kernels are made of."""
    code = _SOURCE.read_text(encoding="utf-8")
    names = (path.name for path in sorted(headers.NATIVE.glob("*.h")))
    return "".join(f'#include "{name}"\n' for name in names) + f'#line 1 "{_SOURCE.name}"\n{code}'


def probe(compile_source: Callable[[Path, Path, list[Path]], None], version: str, family: str) -> Verdict:
    """Compile and run the probe. ``compile_source(source, library, include_dirs)`` raises CompileError where it fails.

    Raises HinderedError where the machine stood in the way, of which nothing follows for the compiler.
    """

    def judge(root: Path) -> str:
        with tempfile.TemporaryDirectory(prefix="probe-", dir=store.made(root / "toolchains")) as folder:
            source, library = Path(folder) / "probe.cpp", Path(folder) / "probe.dll"
            source.write_text(source_text(), encoding="utf-8")
            compile_source(source, library, [headers.NATIVE])
            return _findings(_run(library))

    try:
        reason = store.written(judge)
    except HinderedError:
        raise
    except subprocess.TimeoutExpired:
        raise HinderedError(f"the compiled probe did not end in {_RUN_TIMEOUT:g} s") from None
    except (CompileError, OSError, ValueError) as error:
        return Verdict(False, version, family, str(error), time.time())
    return Verdict(not reason, version, family, reason, time.time())


def _run(library: Path) -> int:
    """The probe's result, from a child process: wrong code must not take this one down."""
    python = interpreter()
    if python is None:
        return _call(str(library))
    # The child imports nothing of tilekit, so that it starts in milliseconds.
    code = f"import ctypes; f = ctypes.CDLL({str(library)!r}).tilekit_probe; print(f({_arguments()}))"
    command = [python, "-I", "-S", "-c", code]
    child = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_RUN_TIMEOUT)
    if child.returncode != 0:
        why = (child.stderr.strip().splitlines() or ["no message"])[-1]
        raise ValueError(f"the compiled probe cannot be run (exit code {child.returncode}: {why})")
    return int(child.stdout)


def _values() -> list[float]:
    fused = 2.0**-24
    total = 0.0
    for value in _INPUT:
        total = _float32(total + _float32(_float32(value * value) + value))
    return [*_INPUT, fused, total]


def _float32(value: float) -> float:
    return ctypes.c_float(value).value


def _arguments() -> str:
    values = _values()
    return f"(ctypes.c_float * {len(values)})(*{values!r}), ctypes.c_int(2**31 - 1)"


def _call(library: str) -> int:
    values = _values()
    function = ctypes.CDLL(library).tilekit_probe
    return int(function((ctypes.c_float * len(values))(*values), ctypes.c_int(2**31 - 1)))


def _findings(result: int) -> str:
    return ", ".join(text for bit, text in enumerate(_FINDINGS) if result >> bit & 1)


def _read(path: Path) -> Verdict | None:
    try:
        verdict = Verdict(**json.loads(path.read_text(encoding="utf-8")))
        return replace(verdict, flags=tuple(verdict.flags))
    except (OSError, ValueError, TypeError):
        return None


def _write(path: Path, verdict: Verdict) -> None:
    temporary = path.with_suffix(f".{os.getpid()}.tmp")
    with contextlib.suppress(OSError):  # found out anew by the next process
        try:
            temporary.write_text(json.dumps(asdict(verdict)), encoding="utf-8")
            os.replace(temporary, path)
        finally:
            temporary.unlink(missing_ok=True)
