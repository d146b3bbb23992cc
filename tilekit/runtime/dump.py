"""Dumps of what a compile makes: with ``TILEKIT_DUMP=ir,cpu`` one file a pass, and the emitted C++.

The files of a kernel are numbered in order: ``00-gemm-trace.ir``, ``01-gemm-eliminate_dead_code.ir``, ...,
``02-gemm-emit.cpp``. Another specialisation of a kernel of that name is called ``gemm.2``, and so on.
"""

from __future__ import annotations

import re

from tilekit.config import config
from tilekit.forks import Lock
from tilekit.ir.core import Function
from tilekit.runtime import store

_lock = Lock()
_specialisations: dict[str, list[str]] = {}


class Dump:
    """The files of one compile, in ``config.dump_folder()``; nothing is written that ``config.dump`` does not name."""

    def __init__(self, kernel: str) -> None:
        self.kernel = re.sub(r"[^\w.-]+", "_", kernel) or "kernel"
        self.kinds = config.dump
        self.stem = ""
        self.count = 0

    def observe(self, name: str, fn: Function) -> None:
        """Called by the pipeline after each pass."""
        self._write("ir", f"{name}.ir", str(fn) if self.kinds else "")

    def emitted(self, kind: str, suffix: str, source: str) -> None:
        """Called with the emitted code; ``kind`` is its name in ``config.dump``."""
        self._write(kind, f"emit.{suffix}", source)

    def _write(self, kind: str, name: str, text: str) -> None:
        if not self.kinds:
            return
        self.stem = self.stem or self._number(text)
        file = f"{self.count:02}-{self.stem}-{name}"
        self.count += 1
        if kind not in self.kinds:
            return
        folder = config.dump_folder()
        try:
            folder.mkdir(parents=True, exist_ok=True)
            (folder / file).write_text(text, encoding="utf-8", errors="backslashreplace")
        except OSError as error:  # the kernel itself is fine
            store.warn_once(f"dumps cannot be written to {folder}: {error}")

    def _number(self, traced: str) -> str:
        """The kernel's name, numbered where another kernel of this name, or other types, came before."""
        with _lock:
            known = _specialisations.setdefault(self.kernel, [])
            if traced not in known:
                known.append(traced)
            number = known.index(traced) + 1
        return self.kernel if number == 1 else f"{self.kernel}.{number}"
