"""Does a host compiler work? Compiles one small kernel with the real flags, runs it and keeps the verdict on disk."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from tilekit.errors import CompileError
from tilekit.runtime import store
from tilekit.runtime.cpus import cpu_identity
from tilekit.runtime.keys import key_of
from tilekit.runtime.process import TimedOutError, interpreter

_RETRY_AFTER = 3600.0
"""Seconds that a failure is remembered: a broken installation may be repaired without the driver changing."""

_RUN_TIMEOUT = 60.0

# What generated code relies on: vector types, no contraction, explicit fused multiply-add, wrapping integers.
_SOURCE = """
typedef float V8 __attribute__((vector_size(32)));
#ifdef _WIN32
__declspec(dllexport)
#endif
extern "C" int tilekit_probe(const float* in, int big) {
    float a = in[0], b = in[1], c = in[2];
    float separate = a * b + c, fused = __builtin_fmaf(a, b, c);
    V8 v;
    __builtin_memcpy(&v, in, sizeof v);
    v = v * v + v;
    float sum = 0;
    for (int i = 0; i < 8; ++i) sum += v[i];
    int bad = 0;
    if (separate != 0.0f) bad |= 1;
    if (fused != in[8]) bad |= 2;
    if (sum != in[9]) bad |= 4;
    if (big + 1 > big) bad |= 8;
    return bad;
}
"""
_A = 1 + 2.0**-12
_INPUT = [_A, _A, -(1 + 2.0**-11), 1.0, 2.0, 3.0, 4.0, 5.0]
_FINDINGS = ("contracts a * b + c", "does not fuse fma", "computes vectors wrong", "does not wrap integers")


@dataclass(frozen=True)
class Verdict:
    """Whether a compiler works, and why not."""

    works: bool
    version: str
    family: str
    reason: str
    created: float


def verdict_of(identity: dict[str, object], judge: Callable[[], Verdict], refresh: bool) -> Verdict:
    """The verdict kept on disk for ``identity`` (the compiler's path, size, time, flags), else that of ``judge()``."""
    key = key_of(cpu=cpu_identity(), source=_SOURCE, **identity)
    path = store.subfolder("toolchains") / f"{key}.json"
    kept = None if refresh else _read(path)
    if kept is not None:
        return kept
    verdict = judge()
    _write(path, verdict)
    return verdict


def probe(compile_source: Callable[[Path, Path], None], version: str, family: str) -> Verdict:
    """Compile and run the probe kernel. ``compile_source(source, library)`` raises CompileError where it fails."""
    with tempfile.TemporaryDirectory(prefix="probe-", dir=store.subfolder("toolchains")) as folder:
        source = Path(folder) / "probe.cpp"
        library = Path(folder) / "probe.dll"
        source.write_text(_SOURCE)
        try:
            compile_source(source, library)
            reason = _findings(_run(library))
        except TimedOutError as error:
            return Verdict(False, version, family, error.message, 0.0)
        except (CompileError, OSError, ValueError, subprocess.SubprocessError) as error:
            # Created at 0: being killed says nothing lasting about the compiler, so it is tried again next time.
            created = 0.0 if "was killed" in str(error) else time.time()
            return Verdict(False, version, family, str(error), created)
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
        fresh = verdict.works or 0 <= time.time() - verdict.created < _RETRY_AFTER
    except (OSError, ValueError, TypeError):
        return None
    return verdict if fresh else None


def _write(path: Path, verdict: Verdict) -> None:
    temporary = path.with_suffix(f".{os.getpid()}.tmp")
    with contextlib.suppress(OSError):
        try:
            temporary.write_text(json.dumps(asdict(verdict)), encoding="utf-8")
            os.replace(temporary, path)
        finally:
            temporary.unlink(missing_ok=True)
