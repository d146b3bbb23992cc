"""Runs a compiler as a child process that can be stopped: by a time limit, by Ctrl-C, with its own children."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tilekit.errors import CompileError
from tilekit.runtime.hindrances import HinderedError, hindrance, remedy

_KEEP_ERRORS = 5
_KEEP_LINES = 40
# A write through mapped memory to a full disk ends in SIGBUS.
_FROM_OUTSIDE = ("SIGKILL", "SIGTERM", "SIGHUP", "SIGINT", "SIGXCPU", "SIGXFSZ", "SIGBUS")
_TOLD = {"Killed": "SIGKILL", "File size limit exceeded": "SIGXFSZ", "CPU time limit exceeded": "SIGXCPU",
         "Bus error": "SIGBUS"}  # fmt: skip
_KILLED = re.compile(rf"({'|'.join(_TOLD)}) signal terminated program")
_REMARK = re.compile(r"\b(?:warning|note|remark):")
_ERROR = re.compile(r"\b[Ee]rror:|undefined reference|undefined symbol|No such file")
_BEGINS = re.compile(r"[^\s:|][^\s:]*:(?:\d|\s)")
"""A line that a program puts its name or a file's before, as the linker does, whose failures name no error."""


@dataclass(frozen=True)
class Finished:
    """How a child ended: its exit code (negative: the signal that killed it) and what it wrote."""

    command: tuple[str, ...]
    code: int
    output: str

    @property
    def killed(self) -> str | None:
        """What killed the compiler or the program it drives, or None where it ended by itself."""
        if self.code < 0:
            with contextlib.suppress(ValueError):
                return signal.Signals(-self.code).name
            return f"signal {-self.code}"
        if self.code == 0:
            return None
        told = _KILLED.search(self.output)  # as g++ says of the programs that it starts
        return _TOLD[told[1]] if told else None


class TimedOutError(HinderedError):
    """A compiler took longer than ``config.compile_timeout``."""


def run(command: Sequence[str], timeout: float, environment: Mapping[str, str] | None = None) -> Finished:
    """Run ``command`` to its end and return how it ended.

    Raises TimedOutError after ``timeout`` seconds and OSError where the program cannot be started. Whatever
    interrupts the wait (KeyboardInterrupt included) first kills the child and all its children.
    """
    # A group of its own: Ctrl-C in a terminal then reaches this process alone, which kills the whole group. Drivers
    # like g++ start the real compiler as a grandchild that would otherwise outlive a killed driver.
    windows = sys.platform == "win32"
    child = _Child(
        list(command),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={**os.environ, "LC_ALL": "C", **(environment or {})},
        start_new_session=not windows,
        creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0) if windows else 0,
    )
    try:
        output, _ = child.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        _kill(child)
        message = f"{shlex.join(command)}\ndid not finish in {timeout:g} s (option compile_timeout) and was stopped"
        raise TimedOutError(message) from None
    except BaseException:
        _kill(child)
        raise
    return Finished(tuple(command), child.returncode, output.decode("utf-8", "replace"))


def interpreter() -> str | None:
    """The program that runs Python here; None where Python is embedded, whose program is the host application."""
    name = os.path.basename(sys.executable or "").lower()
    return sys.executable if name.startswith(("python", "pypy")) else None


class _Child(subprocess.Popen[bytes]):
    """A child that does not outlive an interrupt of its start, when nobody has a handle to kill it by yet."""

    def __init__(self, command: list[str], **options: Any) -> None:
        try:
            super().__init__(command, **options)
        except BaseException:
            if getattr(self, "pid", None) is not None:
                _kill(self)
            raise


def _kill(child: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(OSError):
        if sys.platform == "win32":
            subprocess.run(["taskkill", "/F", "/T", "/PID", str(child.pid)], capture_output=True, check=False)
        else:
            os.killpg(child.pid, signal.SIGKILL)
    with contextlib.suppress(OSError):
        child.kill()
    child.wait()
    if child.stdout is not None:
        child.stdout.close()


def failure(compiler: str, finished: Finished, folder: Path | None = None) -> CompileError:
    """The error for a compiler that did not end with exit code 0; ``folder`` is where it was to write.

    A HinderedError where the machine stood in its way: a full disk, too many open files, memory.
    """
    killed, hindered, after = finished.killed, None, ""
    if finished.code != 0:
        hindered = hindrance(finished.output)
    if hindered:
        what = f"{compiler} could not do its work: {hindered}"
        after = f"\n{remedy(folder)}" if folder is not None else ""
    elif killed:
        what = f"{compiler} was killed ({killed})"
        what += "; memory may have run out" if killed == "SIGKILL" else ""
    elif finished.code == 0:
        what = f"{compiler} reported success and wrote nothing"
    else:
        what = f"{compiler} failed with exit code {finished.code}"
    details = first_errors(finished.output)
    message = f"{what}\n{shlex.join(finished.command)}" + (f"\n{details}" if details else "") + after
    return HinderedError(message) if hindered or killed in _FROM_OUTSIDE else CompileError(message)


def first_errors(output: str) -> str:
    """The first errors of a compiler's output with the lines that belong to them, warnings left out."""
    kept: list[str] = []
    errors = 0
    keeping = True
    for line in output.splitlines():
        if _REMARK.search(line):
            keeping = False
        elif _ERROR.search(line):
            errors += 1
            keeping = True
            if errors > _KEEP_ERRORS:
                break
        elif _BEGINS.match(line):
            keeping = True
        if keeping:
            kept.append(line)
    lines = kept or output.splitlines()
    return "\n".join(line.rstrip() for line in lines[:_KEEP_LINES])
