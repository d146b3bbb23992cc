"""Runs a compiler as a child process that can be stopped: by a time limit, by Ctrl-C, with its own children."""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tilekit.errors import CompileError

_KEEP_ERRORS = 5
_KEEP_LINES = 40


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
        if self.code != 0 and "Killed signal" in self.output:
            return "SIGKILL"
        return None


class TimedOutError(CompileError):
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


def failure(compiler: str, finished: Finished) -> CompileError:
    """The error for a compiler that did not end with exit code 0."""
    killed = finished.killed
    if killed:
        what = f"{compiler} was killed ({killed}); memory may have run out"
    elif finished.code == 0:
        what = f"{compiler} reported success and wrote nothing"
    else:
        what = f"{compiler} failed with exit code {finished.code}"
    details = first_errors(finished.output)
    return CompileError(f"{what}\n{shlex.join(finished.command)}" + (f"\n{details}" if details else ""))


def first_errors(output: str) -> str:
    """The first errors of a compiler's output with the lines that belong to them, warnings left out."""
    kept: list[str] = []
    errors = 0
    keeping = False
    for line in output.splitlines():
        if any(word in line for word in ("warning:", "note:", "remark:")):
            keeping = False
        elif "error:" in line or "undefined reference" in line or "undefined symbol" in line:
            errors += 1
            keeping = True
            if errors > _KEEP_ERRORS:
                break
        if keeping:
            kept.append(line)
    lines = kept or output.splitlines()
    return "\n".join(line.rstrip() for line in lines[:_KEEP_LINES])
