"""What the sizes of a program come to in one run: grids, scratch memory, and numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tilekit.errors import KernelValueError
from tilekit.ir.program import Limit, Program
from tilekit.ir.sizes import MAX_EXTENT, Difference, Product, Size, Sum, evaluate, parts
from tilekit.ir.types import ArrayType, ScalarType, int32
from tilekit.runtime.scratch import Chunk, Place, chunks_of


@dataclass(frozen=True)
class Sizes:
    """What the sizes of a program are in one run."""

    grids: tuple[tuple[int, ...], ...]
    """Of each launch."""
    chunks: tuple[Chunk, Chunk]
    """Memory of the run, and memory that outlives it."""
    places: tuple[tuple[int, Place], ...]
    """Of each scratch array: the number of its chunk, and where it lies there."""
    computed: tuple[int, ...]
    """The numbers that launches take and the user's launch does not give."""

    def addresses(self, held: Sequence[Any]) -> tuple[int, ...]:
        """Of the scratch arrays, in the memory that was allocated for each chunk; None where it has no bytes."""
        return tuple([0 if held[chunk] is None else place.at(held[chunk].address) for chunk, place in self.places])

    def packed(self, addresses: Sequence[int]) -> list[Any]:
        """The values that follow those of a run's arguments."""
        places = zip(addresses, self.places, strict=True)
        arrays = [item for address, (_, place) in places for item in (address, *place.shape, *place.strides)]
        return [*arrays, *self.computed]


def evaluated(program: Program, starts: Mapping[str, int], values: Sequence[Any], grid: tuple[int, ...]) -> Sizes:
    """The sizes of a program in one run.

    Args:
        starts: Where each parameter's values begin.
        values, grid: As the program is run.

    Raises:
        KernelValueError: one is negative or too large; the message names the launch, scratch array or number. Or one is
            beyond a limit of the program.
    """
    known = _Known(program, starts, values, grid)
    for limit in program.limits:
        known.check(limit)
    grids = tuple(
        grid if launch.grid is None else known.extents(f"the grid of {launch.function.name!r}", launch.grid)
        for launch in program.launches
    )
    scratch = program.scratch.items()
    chunks = chunks_of(program, {name: known.extents(f"scratch {name!r}", item.shape) for name, item in scratch})
    places = tuple((int(item.until_backward), chunks[item.until_backward].places[name]) for name, item in scratch)
    numbers = tuple(known.number(name, item.value.type, item.size) for name, item in program.computed.items())
    return Sizes(grids, chunks, places, numbers)


class _Known:
    """What sizes are made of."""

    def __init__(
        self, program: Program, starts: Mapping[str, int], values: Sequence[Any], grid: tuple[int, ...]
    ) -> None:
        self.name = program.name
        self.arrays = {fresh: name for name, fresh in program.gradients.items()}
        """What each gradient is of."""
        self.grid = grid
        self.shapes: dict[str, tuple[int, ...]] = {}
        self.scalars: dict[str, int] = {}
        for name, value in program.params.items():
            start = starts[name]
            if isinstance(value.type, ArrayType):
                self.shapes[name] = tuple(values[start + 1 : start + 1 + value.type.ndim])
            else:
                self.scalars[name] = values[start]

    def extents(self, what: str, wanted: Sequence[Size]) -> tuple[int, ...]:
        text = f"{what} of ({', '.join(map(str, wanted))})"
        found = tuple([self._evaluate(text, size) for size in wanted])
        if any(not 0 <= extent <= MAX_EXTENT for extent in found):
            raise self._error(text, f"extents must be from 0 to 2**31, but are {found}")
        return found

    def number(self, name: str, type: Any, wanted: Size) -> int:
        assert isinstance(type, ScalarType)
        text = f"the number {name!r} of {wanted}"
        found = self._evaluate(text, wanted)
        if not type.dtype.holds(found):
            raise self._error(text, f"{found} does not fit {type.dtype.name}")
        return found

    def check(self, limit: Limit) -> None:
        """Raise where a size is beyond a limit."""
        found = self._evaluate(f"the limit of {limit.size}", limit.size)
        if found > limit.most:
            raise KernelValueError(
                f"program {self.name!r} cannot add up the gradient of {self.arrays.get(limit.array, limit.array)!r} in "
                f"this launch: {limit.size} is {found}, but beyond {limit.most} {limit.why}",
                limit.location,
            )

    def _evaluate(self, text: str, size: Size) -> int:
        try:
            for part in parts(size):
                number = evaluate(part, self.grid, self.shapes, self.scalars)
                if isinstance(part, Sum | Difference | Product) and not int32.holds(number):
                    raise KernelValueError(f"{part} is {number} in this launch, which does not fit int32")
            return evaluate(size, self.grid, self.shapes, self.scalars)
        except KernelValueError as error:
            raise self._error(text, error.message) from None

    def _error(self, text: str, why: str) -> KernelValueError:
        return KernelValueError(f"program {self.name!r}, {text}: {why}")
