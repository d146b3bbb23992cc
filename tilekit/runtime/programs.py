"""Programs of several launches: each run evaluates sizes, allocates scratch, and runs one kernel after another."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tilekit.builtins.grid import dimensions
from tilekit.errors import VerificationError
from tilekit.ir.context import LaunchForm
from tilekit.ir.program import Program
from tilekit.ir.sizes import Extent, Scalar
from tilekit.ir.types import ArrayType, DType, ScalarType
from tilekit.passes.activity import written_parameters
from tilekit.passes.uniformity import runs_lanes
from tilekit.runtime.array_view import ArrayView
from tilekit.runtime.program_sizes import Sizes, evaluated
from tilekit.runtime.scratch import Memory, Place
from tilekit.runtime.warm import Again, Like

MOST_KNOWN = 64
"""Runs that differ in numbers which sizes depend on, and whose sizes a program keeps."""


def forms_of(program: Program, form: LaunchForm) -> list[LaunchForm]:
    """The form of each launch, from that of the user's.

    Raises:
        VerificationError: a launch has a grid of its own, of fewer dimensions than its function asks for; or of points
            whose lanes act together: how the grid divides into blocks would then be known at each launch only.
    """
    for launch in program.launches:
        if launch.grid is None:
            continue
        what = f"program {program.name}, function {launch.function.name!r}"
        if dimensions(launch.function) > len(launch.grid):
            asked = dimensions(launch.function)
            text = f"{what}: it asks for {asked} coordinates, but its own grid has {len(launch.grid)}"
            raise VerificationError(f"{text}:\n{launch.function}")
        if not launch.tiled and runs_lanes(launch.function, False):
            text = f"{what}: its lanes act together, so that its own grid must be one of blocks"
            raise VerificationError(f"{text}:\n{launch.function}")
    return [launch.form(form) for launch in program.launches]


@dataclass(frozen=True)
class Part:
    """One launch of a program, and which of the program's arguments it takes.

    In the program's values its scratch arrays follow its parameters, and the numbers that it computes follow those.
    """

    kernel: Any
    values: tuple[int, ...]
    """Their places among the program's values."""
    arrays: tuple[int, ...]
    """The places of its arrays among the program's."""
    numbers: tuple[int, ...]
    """The places of its numbers among the program's."""
    array_places: tuple[int, ...]
    """Where the addresses are among its own values."""
    number_places: tuple[tuple[int, DType], ...]
    """Where the numbers are there, and their dtypes."""

    def like(self, users: Like, everything: Sequence[Any], grid: tuple[int, ...]) -> Like:
        """Its launch over ``grid`` in a run of the program like an earlier one, which packed ``everything``."""
        own = [everything[place] for place in self.values]
        places = list(self.array_places), list(self.number_places)
        return Like(own, *places, grid, math.prod(grid), users.libraries)


class ProgramKernel:
    """A program of several launches that is ready to run, as a kernel of one launch is."""

    def __init__(self, program: Program, kernels: Sequence[Any], memory: Memory) -> None:
        self.program = program
        self.name = program.name
        self.memory = memory
        self.types = {name: value.type for name, value in program.params.items()}
        written = frozenset[str]().union(*(written_parameters(launch.function) for launch in program.launches))
        arrays = [name for name, type in self.types.items() if isinstance(type, ArrayType)]
        self.written = tuple(index for index, name in enumerate(arrays) if name in written)
        """Which of its arrays it may write."""
        self.parts = _parts(program, kernels)
        self._starts = _starts(self.types)
        self._named = sorted(set(self._places_of_sizes()))
        """The places of the values that sizes depend on."""
        self._known: dict[Any, Sizes] = {}
        numbers = [name for name, type in self.types.items() if isinstance(type, ScalarType)]
        self._deciding = [numbers.index(name) for name in program.deciding]
        self._kept = [name for name, scratch in program.scratch.items() if scratch.until_backward]

    def run(
        self,
        values: Sequence[Any],
        grid: tuple[int, ...],
        points: int,
        views: Sequence[ArrayView] = (),
        stream: Any = None,
    ) -> dict[str, ArrayView]:
        """Run over ``grid``; ``values`` are pointers, shapes, strides and numbers in order.

        Args:
            values: As for a kernel of one launch.
            grid: Of the user's launch.
            points: Of that grid.
            views: On a GPU the arrays, which decide on a stream where none is given.
            stream: On a GPU a stream or its handle.

        Returns:
            The scratch arrays that live until backward. Their memory is freed with the last of them, or earlier by
            ``owner.free(stream)``, in the order of a stream.

        Raises:
            KernelValueError: a size is negative or too large, or there is no memory for scratch arrays.
            TilekitError: as a kernel of one launch. The message names the launch.
        """
        sizes = self.sizes(values, grid)
        with self.memory.turn(views, stream) as chosen:
            held = self._allocate(sizes, chosen)
            try:
                everything = [*values, *sizes.packed(sizes.addresses(held))]
                for part, own in zip(self.parts, sizes.grids, strict=True):
                    if some := math.prod(own):
                        taken = [everything[place] for place in part.values]
                        self.memory.launch(part.kernel, taken, own, some, chosen)
            finally:
                _free(held, chosen)
        return {name: self._view(sizes.chunks[1].places[name], held[1]) for name in self._kept}

    def again(self, like: Like) -> Again | None:
        """Launches that differ in addresses and numbers; programs whose scratch outlives the run have none.

        What sizes come to, and what each launch is told, is found out once; where sizes depend on numbers, once for
        each value of those.
        """
        current = None if self._kept else self.memory.current_of(like.libraries)
        if current is None or not all(hasattr(part.kernel, "again") for part in self.parts):
            return None
        if self.program.is_one_launch and not self._deciding:  # which then keeps to the limits whatever the numbers are
            self.sizes(like.values, like.grid)
            found: Again | None = self.parts[0].kernel.again(like)
            return found
        plans: dict[tuple[Any, ...], tuple[Sizes, list[_Step]]] = {}

        def launch(pointers: Sequence[int], numbers: Sequence[Any], stream: Any) -> bool:
            chosen = current(stream)
            if chosen is None:
                return False
            decided = tuple([numbers[place] for place in self._deciding])
            plan = plans.get(decided)
            if plan is None:
                if len(plans) >= MOST_KNOWN:
                    plans.clear()
                plan = plans[decided] = self._plan(like, like.with_others(pointers, numbers))
            sizes, steps = plan
            held = self._allocate(sizes, chosen)
            try:
                everything = (*pointers, *sizes.addresses(held))
                given = (*numbers, *sizes.computed) if sizes.computed else numbers
                for again, arrays, own in steps:
                    again([everything[place] for place in arrays], [given[place] for place in own], chosen)
            finally:
                _free(held, chosen)
            return True

        return launch

    def _plan(self, like: Like, values: Sequence[Any]) -> tuple[Sizes, list[_Step]]:
        sizes = self.sizes(values, like.grid)
        everything = [*values, *sizes.packed((0,) * len(sizes.places))]
        steps = [
            (part.kernel.again(part.like(like, everything, grid)), part.arrays, part.numbers)
            for part, grid in zip(self.parts, sizes.grids, strict=True)
            if math.prod(grid)
        ]
        return sizes, steps

    def sizes(self, values: Sequence[Any], grid: tuple[int, ...]) -> Sizes:
        """What the sizes come to in one run; they are kept for the next with the same numbers.

        Raises:
            KernelValueError: one is negative or too large; the message names the launch or scratch array.
        """
        key = grid, tuple([values[place] for place in self._named])
        found = self._known.get(key)
        if found is None:
            if len(self._known) >= MOST_KNOWN:
                self._known.clear()
            found = self._known[key] = evaluated(self.program, self._starts, values, grid)
        return found

    def _places_of_sizes(self) -> Iterator[int]:
        for size in self.program.sizes():
            if isinstance(size, Extent):
                yield self._starts[size.param] + 1 + size.axis
            elif isinstance(size, Scalar):
                yield self._starts[size.param]

    def _allocate(self, sizes: Sizes, stream: Any) -> list[Any]:
        """Memory for each chunk; None where there is nothing to hold."""
        held: list[Any] = []
        try:
            for chunk in sizes.chunks:
                held.append(self.memory.allocate(chunk.size, chunk.zeroed, stream) if chunk.size else None)
        except BaseException:
            _free([*held, None], stream)
            raise
        return held

    def _view(self, place: Place, held: Any) -> ArrayView:
        address = 0 if held is None else place.at(held.address)
        return ArrayView(address, place.shape, place.strides, place.dtype, self.memory.device, owner=held)


_Step = tuple[Again, tuple[int, ...], tuple[int, ...]]
"""How a launch is told again, and which of the program's arrays and numbers it takes."""


def _free(held: Sequence[Any], stream: Any) -> None:
    """Free what is for the run alone."""
    if held[0] is not None:
        held[0].free(stream)


def _count(type: Any) -> int:
    """How many values an argument of a type is."""
    return 1 + 2 * type.ndim if isinstance(type, ArrayType) else 1


def _starts(types: Mapping[str, Any]) -> dict[str, int]:
    """Where each parameter's values begin."""
    found, place = {}, 0
    for name, type in types.items():
        found[name] = place
        place += _count(type)
    return found


def _parts(program: Program, kernels: Sequence[Any]) -> list[Part]:
    types = {name: value.type for name, value in {**program.params, **program.added}.items()}
    starts = _starts(types)
    arrays = [name for name, type in types.items() if isinstance(type, ArrayType)]
    numbers = [name for name, type in types.items() if isinstance(type, ScalarType)]
    found = []
    for launch, kernel in zip(program.launches, kernels, strict=True):
        taken = {name: types[name] for name in launch.function.params}
        own = _starts(taken)
        values = [place for name, type in taken.items() for place in range(starts[name], starts[name] + _count(type))]
        mine = [name for name in taken if name in arrays]
        scalars = [name for name in taken if name in numbers]
        found.append(
            Part(
                kernel,
                tuple(values),
                tuple(arrays.index(name) for name in mine),
                tuple(numbers.index(name) for name in scalars),
                tuple(own[name] for name in mine),
                tuple((own[name], types[name].dtype) for name in scalars),
            )
        )
    return found
