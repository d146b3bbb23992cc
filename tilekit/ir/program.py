"""What is compiled, cached, taped and captured: an ordered list of launches with the scratch memory they share."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from tilekit.errors import Location
from tilekit.ir.context import LaunchForm
from tilekit.ir.core import Function, Value
from tilekit.ir.sizes import Scalar, Size, parts


@dataclass(frozen=True)
class Launch:
    """One function over a grid."""

    function: Function
    grid: tuple[Size, ...] | None = None
    """None for that of the user's launch, whose form and block it then has too."""
    tiled: bool = True
    """With a grid of its own: whether each of its points is a block, else each is a point of ``launch``."""
    block_dim: int | None = None
    """With a grid of its own: the lanes of a block; None for as many as the user's launch has."""

    def form(self, users: LaunchForm) -> LaunchForm:
        """What its code may depend on about a launch, from that of the user's."""
        if self.grid is None:
            return users
        return LaunchForm(self.tiled, len(self.grid), self.block_dim or users.block_dim)

    def __str__(self) -> str:
        if self.grid is None:
            return f"launch {self.function.name}"
        over = f"launch {self.function.name} over ({', '.join(map(str, self.grid))})"
        return (
            over
            + ("" if self.tiled else ", one lane a point")
            + (f", block_dim {self.block_dim}" if self.block_dim is not None else "")
        )


@dataclass(frozen=True)
class Scratch:
    """An array that lives for one run of the program, allocated in stream order."""

    value: Value
    shape: tuple[Size, ...]
    zeroed: bool = False
    """Whether it is all zeros when the first launch runs; else nothing is known of its contents."""
    until_backward: bool = False
    """Whether it outlives the run: it is then given to whoever ran the program, such as a tape's record."""

    def __str__(self) -> str:
        text = f"scratch {self.value.type} of ({', '.join(map(str, self.shape))})"
        return text + ", zeroed" * self.zeroed + ", until backward" * self.until_backward


@dataclass(frozen=True)
class Computed:
    """An integer that the host computes for functions of the program."""

    value: Value
    size: Size

    def __str__(self) -> str:
        return f"{self.value.type} of {self.size}"


@dataclass(frozen=True)
class Summed:
    """How the gradient of an array that a kernel reads is summed."""

    array: str
    """The parameter that is added to."""
    form: Literal["gathered", "added in place", "scattered"]
    """Gathered: each element is summed by one block of a launch of its own, in an order that is always the same. Added
    in place: by the one point of the grid that adds to it, in the order of its code. Scattered: by atomic additions."""
    how: str
    """Over what, by what, or why it is scattered."""
    launch: str
    """The function that adds to it."""
    condition: str = ""
    """Of one that is scattered: what does not hold."""
    location: Location | None = None
    """Where."""

    def __str__(self) -> str:
        line = f"line {self.location.line}: " if self.location else ""
        return f"{self.array}: {self.form}, {line}{self.how}" + (f" ({self.condition})" if self.condition else "")


@dataclass(frozen=True)
class Limit:
    """The most that a size may be in a run, as what adds up an array is only right up to there."""

    size: Size
    most: int
    array: str
    """The parameter that is added to."""
    why: str
    """What happens beyond, and what to do."""
    location: Location | None = None
    """Of what adds to it."""

    def __str__(self) -> str:
        return f"{self.array}: right up to {self.size} = {self.most}"


@dataclass(frozen=True)
class Program:
    """Launches in order; each function's parameters are, by name, parameters, scratch arrays or computed numbers of the
    program."""

    name: str
    params: Mapping[str, Value]
    launches: tuple[Launch, ...]
    scratch: Mapping[str, Scratch]
    gradients: Mapping[str, str] = field(default_factory=dict)
    """Of a program of gradients: for each array parameter of the kernel the name of the one for its gradient."""
    sums: tuple[Summed, ...] = ()
    """Of one: how each array that is added to is summed, once ``sum_gradients`` has decided it."""
    kept_bytes: int = 0
    """Of one: the bytes of scratch in which each block keeps what its loops carry, at most."""
    computed: Mapping[str, Computed] = field(default_factory=dict)
    """Numbers that launches take and the user's launch does not give."""
    limits: tuple[Limit, ...] = ()
    """What a run must keep to; else it is an error."""

    @classmethod
    def of(cls, function: Function) -> Program:
        """The program of a user's kernel: one launch."""
        return cls(function.name, function.params, (Launch(function),), {})

    @property
    def is_one_launch(self) -> bool:
        """Whether running it is one launch of its function with the program's own arguments over the user's grid, where
        it keeps to the limits."""
        if len(self.launches) != 1 or self.scratch or self.computed:
            return False
        (launch,) = self.launches
        return launch.grid is None and tuple(launch.function.params) == tuple(self.params)

    @property
    def is_kernel(self) -> bool:
        """Whether running it is running that launch, and no more."""
        return self.is_one_launch and not self.limits

    @property
    def added(self) -> dict[str, Value]:
        """What functions may take besides its parameters: scratch arrays, then computed numbers."""
        arrays = {name: scratch.value for name, scratch in self.scratch.items()}
        return {**arrays, **{name: number.value for name, number in self.computed.items()}}

    def free_name(self, stem: str) -> str:
        """The stem and the first number with which it is no name in the program yet."""
        known = {*self.params, *self.added}
        return next(name for number in range(len(known) + 1) if (name := f"{stem}{number}") not in known)

    def map(self, change: Callable[[Function], Function]) -> Program:
        """The program with each launch's function changed, as by a pass over functions."""
        launches = tuple(replace(launch, function=change(launch.function)) for launch in self.launches)
        return replace(self, launches=launches)

    def sizes(self) -> Iterator[Size]:
        """Every size that it names, and what those are made of."""
        for launch in self.launches:
            for size in launch.grid or ():
                yield from parts(size)
        for scratch in self.scratch.values():
            for size in scratch.shape:
                yield from parts(size)
        for number in self.computed.values():
            yield from parts(number.size)
        for limit in self.limits:
            yield from parts(limit.size)

    @property
    def deciding(self) -> tuple[str, ...]:
        """The integer parameters that its sizes depend on, in order."""
        named = {size.param for size in self.sizes() if isinstance(size, Scalar)}
        return tuple(name for name in self.params if name in named)

    def __str__(self) -> str:
        functions = "\n".join(str(launch.function) for launch in self.launches)
        bare = not (self.scratch or self.computed or self.sums or self.limits)
        if bare and len(self.launches) == 1 and self.launches[0].grid is None:
            return functions
        lines = [f"program {self.name}({', '.join(self.params)})"]
        lines += [f"  {sum}" for sum in self.sums]
        lines += [f"  {limit}" for limit in self.limits]
        lines += [f"  {name}: {item}" for name, item in {**self.scratch, **self.computed}.items()]
        lines += [f"  {launch}" for launch in self.launches]
        return "\n".join([*lines, functions])
