"""Loops of kernels, which end early where the launch is to end."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager


class Loops(ABC):
    """What an emitter writes loops with."""

    _in_loop = False

    @abstractmethod
    def line(self, text: str) -> None: ...

    @abstractmethod
    def braces(self, head: str = "") -> AbstractContextManager[None]: ...

    @abstractmethod
    def fresh(self, stem: str = "v") -> str: ...

    @contextmanager
    def loop(self, head: str) -> Iterator[None]:
        """A loop of a kernel; the outermost ends early where the launch is to end, as after Ctrl-C."""
        left = None if self._in_loop else self.count_breath()
        with self.braces(head):
            self.line("TK_ITERATION;")
            if left:
                self.line(f"if (!tk::goes_on({left}, breath, arena, error)) return false;")
            outer, self._in_loop = self._in_loop, True
            yield
            self._in_loop = outer
        if left:
            self.line(f"breath.left = {left};")

    def count_breath(self) -> str | None:
        """The iterations until the clock is looked at, in a variable that compilers can keep in a register."""
        left = self.fresh("left")
        self.line(f"tk::i64 {left} = breath.left;")
        return left
