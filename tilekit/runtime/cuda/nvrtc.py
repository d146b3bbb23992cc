"""NVRTC: CUDA C++ in memory to a cubin in memory, for any architecture, with or without a GPU.

The compiler comes with the packages of the extra ``cuda``; no CUDA toolkit is needed. It runs on a thread of its own,
so that Ctrl-C is answered while it works, and several kernels are compiled at once.
"""

from __future__ import annotations

import atexit
import ctypes
import importlib
import os
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeVar

from tilekit.config import config
from tilekit.errors import CompileError, DeviceError, MissingPackageError
from tilekit.runtime.process import TimedOutError

T = TypeVar("T")
REMEDY = "install the extra 'cuda' of tilekit-lang: python -m pip install 'tilekit-lang[cuda]'"
"""What to do where NVRTC was not found."""
_KEEP_LINES = 40
_NO_CACHE = "--no-cache"
"""Where there is a driver, NVRTC takes machine code from a cache of its own, which did not tell a kernel that flushes
subnormals from one that does not (13.0, on an H200); others found the assembler's log missing."""


@dataclass(frozen=True)
class Cubin:
    """Machine code for one architecture, and what the assembler said of it."""

    code: bytes
    log: str

    @property
    def registers(self) -> int:
        """Registers of a thread; 0 where the assembler did not say."""
        return self._number(r"Used (\d+) registers")

    @property
    def spilled(self) -> int:
        """Bytes of a thread that are stored because there are not enough registers."""
        return self._number(r"(\d+) bytes spill stores")

    def _number(self, pattern: str) -> int:
        found = re.findall(pattern, self.log)
        return max(map(int, found), default=0)


@cache
def _bindings() -> Any:
    try:
        module = importlib.import_module("cuda.bindings.nvrtc")
    except ImportError as error:
        raise MissingPackageError(f"compiling for CUDA needs NVRTC, which is not installed: {REMEDY}") from error
    try:
        _checked(module, module.nvrtcVersion())
    except Exception as error:  # each version has an error of its own for a library that is not there
        why = " ".join(str(error).split())
        raise MissingPackageError(f"NVRTC cannot be loaded ({why}): {REMEDY}") from error
    return module


def _checked(nvrtc: Any, result: tuple[Any, ...]) -> Any:
    """What a call gave; it comes as ``(status, *values)``."""
    status, *values = result
    if int(status) != 0:
        raise CompileError(f"NVRTC failed: {nvrtc.nvrtcGetErrorString(status)[1].decode()}")
    return values[0] if len(values) == 1 else tuple(values)


@cache
def version() -> tuple[int, int]:
    """The version of CUDA whose NVRTC is installed.

    Raises:
        MissingPackageError: none is.
    """
    nvrtc = _bindings()
    major, minor = _checked(nvrtc, nvrtc.nvrtcVersion())
    return int(major), int(minor)


@cache
def architectures() -> tuple[int, ...]:
    """What the installed NVRTC makes code for, as numbers such as 90; raises as :func:`version`."""
    nvrtc = _bindings()
    return tuple(int(number) for number in _checked(nvrtc, nvrtc.nvrtcGetSupportedArchs()))


def arch_of(capability: tuple[int, int]) -> str:
    """The architecture to compile for, so that a device of this compute capability runs it.

    Raises:
        CompileError: the installed NVRTC has none.
    """
    wanted = capability[0] * 10 + capability[1]
    served = [number for number in architectures() if number // 10 == capability[0] and number <= wanted]
    if not served:
        raise _no_architecture(str(wanted))
    return "90a" if max(served) == 90 else str(max(served))


def check_arch(arch: str) -> None:
    """Refuse an architecture that the installed NVRTC does not know.

    Raises:
        CompileError: it does not.
    """
    found = re.fullmatch(r"(\d{2,3})[af]?", arch)
    if found is None or int(found[1]) not in architectures():
        raise _no_architecture(arch)


def _no_architecture(arch: str) -> CompileError:
    known = ", ".join(map(str, architectures()))
    return CompileError(
        "NVRTC {}.{} makes no code for sm_{}; it knows {}".format(*version(), arch, known)
        + ("; the package nvidia-cuda-nvrtc has newer versions" if _newer(arch) else "")
    )


def _newer(arch: str) -> bool:
    number = re.match(r"\d+", arch)
    return number is not None and int(number[0]) > max(architectures())


def check_driver(served: int) -> None:
    """Refuse an NVRTC whose code the driver cannot load; ``served`` is the driver's CUDA version as it gives it.

    Raises:
        DeviceError: the driver is of an older major version than NVRTC.
    """
    major, minor = served // 1000, served % 1000 // 10
    ours = version()
    if ours[0] > major:
        raise DeviceError(
            f"NVRTC {ours[0]}.{ours[1]} makes code for CUDA {ours[0]}, but the NVIDIA driver serves CUDA "
            f"{major}.{minor} only: update the driver, or install a compiler for it: "
            f"python -m pip install 'cuda-bindings<{major + 1}' nvidia-cuda-nvrtc-cu{major}"
        )


def compile_cubin(source: str, name: str, headers: Mapping[str, str], options: Sequence[str]) -> Cubin:
    """Compile CUDA C++.

    Args:
        source: The code.
        name: What messages call it.
        headers: What it may include, by name.
        options: NVRTC's; one names the architecture.

    Raises:
        CompileError: NVRTC refused the code; the message has its log. Or it took longer than ``compile_timeout``.
        MissingPackageError: NVRTC is not installed.
    """
    return _compile(source, name, headers, options, "CUBIN")[0]


def compile_for_linking(source: str, name: str, headers: Mapping[str, str], options: Sequence[str]) -> bytes:
    """The same, to LTO IR, of which nvJitLink makes machine code."""
    return compile_with_names(source, name, headers, options, ())[0]


def compile_with_names(
    source: str, name: str, headers: Mapping[str, str], options: Sequence[str], asked: Sequence[str]
) -> tuple[bytes, list[str]]:
    """The same, with the mangled names of what is asked for as C++ spells it, such as instances of templates."""
    made, names = _compile(source, name, headers, [*options, "-dlto"], "LTOIR", asked)
    return made.code, names


_Compiled = tuple[Cubin, list[str]]


def _compile(
    source: str, name: str, headers: Mapping[str, str], options: Sequence[str], form: str, asked: Sequence[str] = ()
) -> _Compiled:
    _bindings()  # not on the thread: the first import of a package belongs to who waits for it
    return on_thread(lambda: _compile_now(source, name, headers, options, form, asked), f"NVRTC, compiling {name!r},")


def _compile_now(
    source: str, name: str, headers: Mapping[str, str], options: Sequence[str], form: str, asked: Sequence[str]
) -> _Compiled:
    nvrtc = _bindings()
    names, texts = [key.encode() for key in headers], [text.encode() for text in headers.values()]
    label = re.sub(r"[^\w.-]+", "_", name) + ".cu"
    created = nvrtc.nvrtcCreateProgram(source.encode(), label.encode(), len(names), texts, names)
    program = _checked(nvrtc, created)
    try:
        for each in asked:
            _checked(nvrtc, nvrtc.nvrtcAddNameExpression(program, each.encode()))
        given = [option.encode() for option in (*options, _NO_CACHE)]
        status = nvrtc.nvrtcCompileProgram(program, len(given), given)[0]
        text = _written(nvrtc, "ProgramLog", program).rstrip(b"\0 \n").decode("utf-8", "replace")
        if int(status) != 0:
            raise _refused(nvrtc, name, options, status, text)
        code = _written(nvrtc, form, program)
        mangled = [_checked(nvrtc, nvrtc.nvrtcGetLoweredName(program, each.encode())).decode() for each in asked]
        return Cubin(code, text), mangled
    finally:
        nvrtc.nvrtcDestroyProgram(program)


def _written(nvrtc: Any, what: str, program: Any) -> bytes:
    """What NVRTC writes into memory that is given to it; a log of one byte is the end of an empty one."""
    size = _checked(nvrtc, getattr(nvrtc, f"nvrtcGet{what}Size")(program))
    memory = bytearray(size)  # not bytes: Python has one object for each byte, which other code holds as well
    if size > 1:
        _checked(nvrtc, getattr(nvrtc, f"nvrtcGet{what}")(program, memory))
    return bytes(memory)


def _refused(nvrtc: Any, name: str, options: Sequence[str], status: Any, log: str) -> CompileError:
    reason = nvrtc.nvrtcGetErrorString(status)[1].decode()
    lines = [line for line in log.splitlines() if "warning" not in line][:_KEEP_LINES]
    head = "NVRTC {}.{} could not compile kernel {!r}: {}".format(*version(), name, reason)
    return CompileError("\n".join([head, "options: " + " ".join(options), *lines]))


def on_thread(work: Callable[[], T], what: str) -> T:
    """The result of ``work``, done on a thread of its own: whoever waits answers Ctrl-C meanwhile.

    What is interrupted runs on to its end unseen, or to that of the process; it has no effect but its result.

    Raises:
        TimedOutError: it took longer than ``config.compile_timeout``.
    """
    done = threading.Event()
    outcome: list[Any] = [None, None]

    def run() -> None:
        try:
            outcome[0] = work()
        except BaseException as error:
            outcome[1] = error
        done.set()

    threading.Thread(target=run, name="tilekit-nvrtc", daemon=True).start()
    limit = config.compile_timeout
    try:
        finished = done.wait(limit)
    except BaseException:
        _end_without_destructors()
        raise
    if not finished:
        _end_without_destructors()
        raise TimedOutError(f"{what} did not finish in {limit:g} s (option compile_timeout)")
    if outcome[1] is not None:
        raise outcome[1]
    return outcome[0]  # type: ignore[no-any-return]


@cache
def _end_without_destructors() -> None:
    """Let the process end as soon as Python has, with its exit status: NVRTC's destructors, which C runs after that,
    crash while a thread is compiling."""
    if os.name != "posix" or not hasattr(libc := ctypes.CDLL(None), "on_exit"):  # it is GNU's
        return
    atexit.register(libc.fflush, None)
    libc.on_exit(ctypes.cast(libc._exit, ctypes.c_void_p), None)
