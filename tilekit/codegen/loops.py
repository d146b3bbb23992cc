"""Loops of kernels, which end early where the launch is to end."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

STRIP = 256
"""Light iterations that run without a look at the clock: under a microsecond."""


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
        with self._inner(head):
            if left:
                self.line(f"if (!tk::goes_on({left}, breath, arena, error)) return false;")
            yield
        if left:
            self.line(f"breath.left = {left};")

    @contextmanager
    def unit_loop(self, dtype: str, index: str, bounds: tuple[str, str, str], light: bool) -> Iterator[None]:
        """A loop from ``bounds[0]`` to before ``bounds[1]`` by ``bounds[2]``, which is 1 or -1.

        Where its iterations are light, a strip of them is run without a look, so that compilers treat it as any loop.
        """
        start, last, by = bounds
        up = not by.startswith("-")
        before, ahead = ("<", f"{last}, {index}") if up else (">", f"{index}, {last}")
        brief = light and _is_brief(start, last)
        left = self.count_breath() if light and not brief and not self._in_loop else None
        if left is None:
            head = f"for ({dtype} {index} = {start}; {index} {before} {last}; {index} += {by})"
            with self._inner(head) if brief else self.loop(head):
                yield
            return
        self.line(f"{dtype} {index} = {start};")
        with self.braces(f"while ({index} {before} {last})"):
            self.line(f"if (!tk::goes_on({left}, breath, arena, error)) return false;")
            end, far = self.fresh("end"), f"{index} {'+' if up else '-'} {STRIP}"
            self.line(f"const {dtype} {end} = tk::is_far<{dtype}>({ahead}, {STRIP}) ? {far} : {last};")
            with self._inner(f"for (; {index} {before} {end}; {index} += {by})"):
                yield
        self.line(f"breath.left = {left};")

    @contextmanager
    def _inner(self, head: str) -> Iterator[None]:
        """A loop that soon ends."""
        with self.braces(head):
            self.line("TK_ITERATION;")
            outer, self._in_loop = self._in_loop, True
            yield
            self._in_loop = outer

    def count_breath(self) -> str | None:
        """The iterations until the clock is looked at, in a variable that compilers can keep in a register."""
        left = self.fresh("left")
        self.line(f"tk::i64 {left} = breath.left;")
        return left


def _is_brief(start: str, last: str) -> bool:
    """Whether a loop by ones is known to have no more iterations than a strip."""
    known = [text.rstrip("l") for text in (start, last)]
    return all(text.lstrip("-").isdigit() for text in known) and abs(int(known[0]) - int(known[1])) <= STRIP
