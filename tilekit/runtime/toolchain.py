"""Host C++ compilers, run as child processes: ``$TILEKIT_CXX``, else clang++, else g++, else the ziglang wheel."""

from __future__ import annotations

import errno
import importlib.util
import logging
import os
import platform
import re
import shlex
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tilekit.config import config
from tilekit.errors import CompileError, FallbackWarning
from tilekit.forks import Lock
from tilekit.ir.notices import warn_at
from tilekit.runtime import process, store
from tilekit.runtime.cpus import cpu_identity
from tilekit.runtime.hindrances import HinderedError, hindrance
from tilekit.runtime.keys import key_of
from tilekit.runtime.probe import WRONG_SELECTS, Verdict, probe, verdict_of
from tilekit.runtime.progress import progress

# Of starting a program: it is not there, or is none.
_NO_PROGRAM = (errno.ENOENT, errno.EACCES, errno.EPERM, errno.ENOTDIR, errno.ENOEXEC)
_log = logging.getLogger("tilekit")
_lock = Lock()
_chosen: dict[str | None, Toolchain | None] = {}

# -frounding-math and -ffast-math are never among them: the first is slow, the second changes results.
_FLAGS = (
    "-std=c++17",
    "-O3",
    "-ffp-contract=off",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-fno-exceptions",
    "-fno-rtti",
    "-fwrapv",
    "-fno-strict-aliasing",
    "-shared",
)
_FAMILY_FLAGS = {
    "gcc": (),
    # Arithmetic on _Float16 rounds after every operation, as on the GPU.
    "clang": ("-Xclang", "-ffloat16-excess-precision=none"),
    # zig turns its sanitizer on by itself, and links a libc of its own unless told not to.
    "zig": ("-Xclang", "-ffloat16-excess-precision=none", "-nostdlib", "-fno-sanitize=undefined"),
}

# For compilers that the probe finds to select wrongly with AVX-512's masks; zig takes no -mno-avx512f.
_WITHOUT_AVX512 = ("-Xclang", "-target-feature", "-Xclang", "-avx512f")

REMEDY = "install g++, clang++ or the ziglang package, or set TILEKIT_CXX"
"""What to do where no compiler was found."""


@dataclass(frozen=True)
class Toolchain:
    """One host compiler that passed the probe.

    ``command`` is how it is called, ``path`` the program, ``flags`` those of an optimised build. ``fingerprint`` is a
    digest of all that may change generated code, the host's CPU included: a part of cache keys.
    """

    name: str
    command: tuple[str, ...]
    version: str
    path: str
    flags: tuple[str, ...]
    fingerprint: str
    family: str
    """``gcc``, ``clang`` or ``zig``."""
    careful: tuple[str, ...] = ()
    """Those of the flags that keep it from code that it gets wrong."""

    def flags_of(self, debug: bool = False, fast_math: bool = False, long: bool = False) -> tuple[str, ...]:
        """The flags of a build: ``debug`` for a debugger, ``fast_math`` with contraction of ``a * b + c``.

        Where the code is ``long``, compilers are to leave out what takes them times that grow faster than it does.
        """
        changed = {"-O3": "-O1"} if debug or long else {}
        if fast_math:
            changed["-ffp-contract=off"] = "-ffp-contract=fast"
        return tuple(changed.get(flag, flag) for flag in self.flags) + (("-g",) if debug else ())

    def compile(
        self,
        source_path: Path,
        out_path: Path,
        include_dirs: Sequence[Path] = (),
        debug: bool = False,
        fast_math: bool = False,
        long: bool = False,
    ) -> None:
        """Compile a C++ file to the shared library ``out_path``, which appears whole or not at all.

        Raises CompileError with the compiler, its command and its first errors; also where it was killed or took
        longer than ``config.compile_timeout``; a HinderedError where the machine stood in its way. Ctrl-C stops the
        compiler. It keeps its temporary files beside ``out_path``: no other disk need have room.
        """
        out_path = Path(out_path)
        includes = [f"-I{folder}" for folder in include_dirs]
        with tempfile.TemporaryDirectory(prefix=".compile-", dir=out_path.parent) as folder:
            temporary = Path(folder) / out_path.name
            flags = self.flags_of(debug, fast_math, long)
            command = [*self.command, *flags, *includes, str(source_path), "-o", str(temporary)]
            finished = self._run(command, folder)
            if finished.code != 0 or not temporary.is_file():
                raise process.failure(f"{self.name} ({self.version})", finished, out_path.parent)
            os.replace(temporary, out_path)

    def _run(self, command: list[str], folder: str) -> process.Finished:
        try:
            return process.run(command, config.compile_timeout, _environment(folder))
        except OSError as error:
            hindered = error.errno not in _NO_PROGRAM and hindrance(error)
            message = f"{self.name} cannot be started: {hindered or error.strerror or error}\n{shlex.join(command)}"
            raise (HinderedError if hindered else CompileError)(message) from error


@dataclass(frozen=True)
class Candidate:
    """A compiler that was looked for: where it stands, whether it works and why not."""

    name: str
    command: tuple[str, ...]
    works: bool
    reason: str
    """Empty where it works."""
    version: str = ""
    toolchain: Toolchain | None = None
    hindrance: HinderedError | None = None
    """What of the machine kept it from being tried."""

    @property
    def note(self) -> str:
        """What is not used of the processor because the compiler gets it wrong, or nothing."""
        careful = self.toolchain is not None and self.toolchain.careful == _WITHOUT_AVX512
        return f"without AVX-512, with which it {WRONG_SELECTS}" if careful else ""


def find_toolchain() -> Toolchain | None:
    """The compiler that kernels are compiled with, or None. Found once for each value of ``config.cxx``.

    A compiler that is there but fails the probe is passed over, which is logged once per cache, at INFO; if
    ``config.cxx`` names it, with a FallbackWarning. Raises HinderedError where the machine keeps compilers from their
    work: a full disk, too many open files. That is not remembered.
    """
    wanted = config.cxx
    with _lock:
        if wanted not in _chosen:
            _chosen[wanted] = _find(wanted)
        return _chosen[wanted]


def candidates(refresh: bool = False) -> list[Candidate]:
    """Every compiler that is looked for, in order, with its verdict. ``refresh`` probes again."""
    return [_examine(name, command, refresh, retry=True) for name, command in _commands(config.cxx)]


def absence() -> str:
    """What is said where no compiler was found, or none works: each with the first line of its reason."""
    broken = [candidate for candidate in candidates() if candidate.command and not candidate.works]
    if not broken:
        return f"no C++ compiler was found; {REMEDY}"
    reasons = "; ".join(f"{candidate.name}: {candidate.reason.partition(chr(10))[0]}" for candidate in broken)
    return f"no C++ compiler works ({reasons}); {REMEDY}"


def library_suffix() -> str:
    """The file name extension of shared libraries on this platform."""
    return {"win32": ".dll", "darwin": ".dylib"}.get(sys.platform, ".so")


def _find(wanted: str | None) -> Toolchain | None:
    commands = _commands(wanted)
    hindrances = []
    # What failed long ago is tried again only where nothing else works.
    for retry in (False, True):
        for name, command in commands:
            candidate = _examine(name, command, refresh=False, retry=retry)
            if candidate.works:
                return candidate.toolchain
            if candidate.hindrance is not None:
                hindrances.append(candidate.hindrance)
            elif name == "TILEKIT_CXX" and not retry:
                message = f"the compiler {wanted!r} (TILEKIT_CXX) is not used: {candidate.reason}"
                warn_at(FallbackWarning, message, None)
        if hindrances:
            raise hindrances[0]
    return None


def _commands(wanted: str | None) -> list[tuple[str, tuple[str, ...]]]:
    """Name and command of each candidate; an empty command where it is not installed."""
    found = [("TILEKIT_CXX", _split(wanted))] if wanted else []
    for name in ("clang++", "g++"):
        path = shutil.which(name)
        found.append((name, (path,) if path else ()))
    zig = _zig_wheel()
    return [*found, ("zig", (zig, "c++") if zig else ())]


def _split(command: str) -> tuple[str, ...]:
    """A command as words; the path of a file may hold spaces."""
    if shutil.which(command):
        return (command,)
    try:
        return tuple(shlex.split(command, posix=os.name == "posix"))
    except ValueError:  # an open quote
        return (command,)


def _zig_wheel() -> str | None:
    """The program in the ziglang wheel, found without importing it."""
    try:
        spec = importlib.util.find_spec("ziglang")
    except (ImportError, ValueError):
        return None
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        path = Path(folder) / ("zig.exe" if os.name == "nt" else "zig")
        if path.is_file():
            return str(path)
    return None


def _examine(name: str, command: tuple[str, ...], refresh: bool, retry: bool) -> Candidate:
    program = shutil.which(command[0]) if command else None
    if program is None:
        missing = f"{command[0]} is not there" if command else _NOT_INSTALLED[name]
        return Candidate(name, command, False, missing)
    real = os.path.realpath(program)
    status = os.stat(real)
    command = (program, *command[1:])
    identity = {"command": command, "real": real, "size": status.st_size, "mtime": status.st_mtime_ns}
    family_flags = {family: _flags(family) for family in _FAMILY_FLAGS}

    def judge() -> Verdict:
        with progress(f"trying the compiler {name}, which was not used before"):
            verdict = _judge(name, command, status.st_size)
        if not verdict.works and name != "TILEKIT_CXX":
            _log.info("the compiler %s is not used: %s", shlex.join(command), verdict.reason)
        return verdict

    try:
        verdict = verdict_of({**identity, "flags": family_flags}, judge, refresh, retry)
    except HinderedError as error:
        return Candidate(name, command, False, error.message, hindrance=error)
    if not verdict.works:
        return Candidate(name, command, False, verdict.reason, verdict.version)
    toolchain = _toolchain(name, command, verdict, status.st_size)
    return Candidate(name, command, True, "", verdict.version, toolchain)


_NOT_INSTALLED = {
    "TILEKIT_CXX": "it is empty",
    "clang++": "it is not installed",
    "g++": "it is not installed",
    "zig": "the package ziglang is not installed (the extra `cpu`: python -m pip install 'tilekit-lang[cpu]')",
}


def _judge(name: str, command: tuple[str, ...], size: int) -> Verdict:
    try:
        finished = process.run([*command, "--version"], min(60.0, config.compile_timeout), _environment())
        if finished.code != 0 or not finished.output.strip():
            raise process.failure(command[0], finished)
    except HinderedError:
        raise
    except (OSError, CompileError) as error:
        if isinstance(error, OSError) and error.errno not in _NO_PROGRAM and (hindered := hindrance(error)):
            raise HinderedError(f"{command[0]} cannot be started: {hindered}") from error
        return Verdict(False, "", "", f"its version cannot be read: {error}", time.time())
    version = finished.output.strip().splitlines()[0].strip()
    first = Verdict(False, version, _family(command, finished.output), "", 0.0)
    verdict = probe(_toolchain(name, command, first, size).compile, version, first.family)
    if WRONG_SELECTS not in verdict.reason or first.family == "gcc":
        return verdict
    careful = replace(first, flags=_WITHOUT_AVX512)
    return replace(probe(_toolchain(name, command, careful, size).compile, version, first.family), flags=careful.flags)


def _family(command: tuple[str, ...], output: str) -> str:
    """Which flags a compiler takes, from its command and what ``--version`` prints; wrapper scripts included."""
    called_zig = "c++" in command[1:] and Path(command[0]).name.lower().startswith("zig")
    # zig prints clang's version; its own folder, or the kernel's version in the target, gives it away.
    if called_zig or re.search(r"^InstalledDir: .*\bzig|^Target: .*linux\d+\.\d", output, re.MULTILINE):
        return "zig"
    return "clang" if re.search("clang", output, re.IGNORECASE) else "gcc"


def _toolchain(name: str, command: tuple[str, ...], verdict: Verdict, size: int) -> Toolchain:
    flags = (*_flags(verdict.family), *verdict.flags)
    # The size stands for the build: zig reports only the version of the clang inside.
    fingerprint = key_of(
        family=verdict.family,
        version=verdict.version,
        size=size,
        arguments=command[1:],
        flags=flags,
        cpu=cpu_identity(),
    )
    return Toolchain(name, command, verdict.version, command[0], flags, fingerprint, verdict.family, verdict.flags)


def _flags(family: str) -> tuple[str, ...]:
    arm = platform.machine().lower() in ("aarch64", "arm64")
    native = "-mcpu=native" if arm else "-march=native"
    position = () if sys.platform == "win32" else ("-fPIC",)
    return (*_FLAGS, native, *position, *_FAMILY_FLAGS[family])


def _environment(folder: str | None = None) -> dict[str, str]:
    """What a compiler's environment has beside this process's: where temporary files go, and zig's own cache, which
    lies inside tilekit's."""
    cache = str(store.subfolder("zig"))
    temporary = {} if folder is None else dict.fromkeys(("TMPDIR", "TMP", "TEMP"), folder)
    return {"ZIG_GLOBAL_CACHE_DIR": cache, "ZIG_LOCAL_CACHE_DIR": cache, **temporary}
