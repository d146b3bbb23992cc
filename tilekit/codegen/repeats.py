"""The repeats of an instruction over tiles: their order, and the registers of each."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tilekit.codegen.refs import ElementIndex

MOST_UNROLLED = 256
"""Repeats of an op that one thread's code spells out; more are a loop. Compilers take more than twice as long for twice
as many: half a minute for a thousand of three ops."""
MOST_SPELLED = 1024
"""Repeats of all its ops that the code of a kernel spells out."""


def unrolled(shape: tuple[int, ...]) -> Iterator[ElementIndex]:
    """Every repeat, row by row, with constant indices; one thread holds them all."""
    for number, index in enumerate(np.ndindex(*shape)):
        found = ElementIndex(map(str, index))
        found.register = str(number)
        yield found


def registers_of(repeat: ElementIndex, lanes: int) -> list[ElementIndex]:
    """The elements of a tile that a repeat takes: ``lanes`` neighbours of the last axis."""
    return [repeat] if lanes == 1 else [_one(repeat, lanes, lane) for lane in range(lanes)]


def _one(repeat: ElementIndex, lanes: int, lane: int) -> ElementIndex:
    *rows, last = repeat
    found = ElementIndex((*rows, _times(last, lanes, lane)))
    found.register = None if repeat.register is None else _times(repeat.register, lanes, lane)
    return found


def _times(number: str, lanes: int, lane: int) -> str:
    return str(int(number) * lanes + lane) if number.isdigit() else f"(({number}) * {lanes} + {lane})"
