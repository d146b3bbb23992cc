"""What emit rules are handed: tiles as pointers or registers, elements as index expressions, places that report."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tilekit.codegen.layouts import AnyLayout
from tilekit.codegen.storage import Buffer
from tilekit.codegen.text import cpp_type
from tilekit.errors import Location
from tilekit.ir.types import TileType
from tilekit.ir.views import ViewMap


class ElementIndex(list[str]):
    """The index expressions of the element that a loop is at, and the register that holds it where one does."""

    register: str | None = None


@dataclass(frozen=True)
class TileRef:
    """A tile as emit rules see it: a pointer to its first element and the element strides from there.

    A tile in registers has a layout; ``pointer`` is then the thread's array of them.
    """

    pointer: str
    type: TileType
    map: ViewMap
    buffer: Buffer
    factor: str = ""
    """The operand that holds it, where only matrix products read it."""

    @property
    def operand(self) -> str:
        """It as an operand of a matrix product."""
        return self.factor or f"tk::operand<{self.strides[0]}, {self.strides[1]}>({self.pointer})"

    @property
    def element(self) -> str:
        return cpp_type(self.type.dtype)

    @property
    def shape(self) -> tuple[int, ...]:
        return self.type.shape

    @property
    def strides(self) -> tuple[int, ...]:
        return self.map.strides

    @property
    def dense(self) -> bool:
        return self.map.is_dense()

    @property
    def layout(self) -> AnyLayout | None:
        return self.buffer.layout

    def at(self, index: Sequence[str]) -> str:
        """The element with these index expressions."""
        if self.layout is not None:
            assert isinstance(index, ElementIndex) and index.register is not None, "registers are read in element loops"
            return f"{self.pointer}[{index.register}]"
        terms = [
            name if stride == 1 else f"{name} * {stride}"
            for name, stride, extent in zip(index, self.strides, self.shape, strict=True)
            if stride and extent > 1
        ]
        return f"{self.pointer}[{' + '.join(terms) or '0'}]"


@dataclass(frozen=True)
class Site:
    """A place in a kernel that can report: a check with its message, or a print with what it shows.

    ``text`` is the message, with ``{index}``, ``{extent}`` and ``{axis}`` for what the kernel recorded, or empty for a
    print; ``render`` makes a print's text, or the whole message, from the address of its values.
    """

    text: str
    location: Location | None
    render: Any = None
    """Makes the text from the address of the values' addresses."""
    extents: tuple[tuple[int, int], ...] = ()
    """Of each value that is shown: where its bytes begin, from its address on, and how many they are."""

    def text_of(self, packed: int) -> str:
        """The text from the address of the values' bytes, each behind the other from a multiple of 8 bytes on."""
        addresses = (ctypes.c_void_p * max(len(self.extents), 1))()
        for number, (start, size) in enumerate(self.extents):
            addresses[number] = packed - start
            packed += -(-size // 8) * 8
        return str(self.render(ctypes.addressof(addresses)))


def coordinates(number: str, shape: tuple[int, ...]) -> list[str]:
    """The index expressions of the element with a row-major number."""
    index, below = [], 1
    for axis in reversed(range(len(shape))):
        extent = shape[axis]
        part = number if below == 1 else f"{number} / {below}"
        above = axis > 0 and any(other > 1 for other in shape[:axis])
        index.append("0" if extent == 1 else f"({part} % {extent})" if above else f"({part})" if below > 1 else part)
        below *= extent
    return index[::-1]


def in_place(to: TileRef, source: TileRef) -> bool:
    """Whether two tiles are the same elements of one buffer."""
    return to.buffer is source.buffer and to.map == source.map


def exchanges(moves: Sequence[tuple[TileRef, TileRef]]) -> bool:
    """Whether copies write what others read, but each element only where that same element is read."""
    meets = [(to, source) for to, _ in moves for _, source in moves if to.buffer.overlaps(source.buffer)]
    alike = {(tile.shape, tile.layout) for move in moves for tile in move}
    return bool(meets) and len(alike) == 1 and all(in_place(to, source) for to, source in meets)
