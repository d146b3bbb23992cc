"""What a builtin tells the passes about itself: a closed list, so that no pass knows an op by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tilekit.ir.regions import Region


@dataclass(eq=False)
class Properties:
    """What passes may ask of an op without knowing its name."""

    group: str = "internal"
    """The chapter of the reference that documents it; internal ones are not public."""
    late: bool = False
    """A pass makes it after gradients are taken: no kernel records it, so that it needs none."""
    operator: str | None = None
    """The Python operator, or step of the frontend, that means it."""
    elementwise: bool = False
    """Scalar arithmetic: applied to tiles, it is mapped over their elements."""
    approximate: bool = False
    """Its ``reference`` is only near what compiled code gives, which the interpreter asks where it can be had."""
    cooperative: bool = False
    """All lanes of the block take part, so it must not stand under a per-lane condition."""
    units: Mapping[str, float] = field(default_factory=dict)
    """Of an op of two operands, the number in one of them that makes the result the other one, bit for bit."""
    quiets: bool = False
    """Its floats are computed and rounded: a signalling NaN among its operands is a quiet one in the result."""
    divisor: str = ""
    """The operand by which the other one is divided, rounded to nearest where they are floats."""
    fills: str = ""
    """The operand that is every element of the result."""
    unify: tuple[str, ...] = ()
    """Operands that must share one dtype."""
    updates: str | None = None
    """The tile operand that is rebound to the (first) result."""
    reads: tuple[str, ...] = ()
    """Array operands that are read."""
    writes: tuple[str, ...] = ()
    """Array operands that are written."""
    atomics: tuple[str, ...] = ()
    """Array operands that are updated atomically."""
    side_effect: bool = False
    """It does more than yield its results, so it is never dropped."""
    may_fail: bool = False
    """It reports what is outside an array or tile, so it runs although nothing uses its result."""
    ordered: bool = False
    """Blocks that run it must run in order, as for printing."""
    lane: bool = False
    """The result differs between lanes whatever the operands."""
    observes_lanes: bool = False
    """A kernel that contains it depends on the number of lanes."""
    exact_block: bool = False
    """On a GPU, a kernel that contains it runs with exactly the threads that its launch asks for."""
    per_lane: tuple[str, ...] = ()
    """Operands of a cooperative op that may differ between lanes; ``lower`` gets the tile of their values."""
    counted: str = ""
    """Of a reduction, the operand that says how many elements there are where a block lacks lanes; None for all."""
    view: bool = False
    """The result is other coordinates over the first operand's storage."""
    part_of: str | None = None
    """The array operand of which the result is the part that indices of the first axes name."""
    contraction: tuple[str, ...] = ()
    """The operands a, b, accumulator of a matrix product."""
    for_factors: str | None = None
    """The builtin that does the same where only matrix products read the result, as their factors."""
    unused: str | None = None
    """The builtin that does the same where nothing needs the result."""
    linear_in: tuple[str, ...] = ()
    """Operands in which the result is linear."""
    puns: bool = False
    """Floats among its results may hold bits of integers that depend on floats: their gradient is not lost unseen."""
    reuses: tuple[str, ...] = ()
    """Tile operands whose storage the result may take over."""
    in_place: str = ""
    """The tile operand that it changes where it lies: the first result is in the same place."""
    stops_gradient: bool = False
    """No gradient flows through it: its results are constants of differentiation."""
    region: Region | None = None
    """How it runs its blocks, where it owns any."""
    moves: tuple[str, ...] = ()
    """Operands of whose elements the result is made, without looking at them."""
    by_element: bool = False
    """Its tiles are read and written element by element, so that threads may hold them in registers."""
    run: str = ""
    """Of such an op, the attribute that says how many neighbours of a row one thread must hold; 0 where its tiles are
    not dealt to threads alike, so that they lie in memory."""
    in_memory: tuple[str, ...] = ()
    """Of such an op, the operands whose elements all threads read, so that they lie in memory."""
    along: str = ""
    """The attribute with the axis of a reduction of the first operand, which threads may hold as a product left it."""
    scratch: bool = False
    """The last result is memory that the op needs while it runs."""
    unread_at_zero: str = ""
    """The operand that keeps the accumulator from being read where it is zero."""
    uninitialized: bool = False
    """The result holds nothing yet: reading it before a write is an error."""

    @property
    def carries(self) -> bool:
        """Whether it is a loop or branch, whose results are what its blocks yield."""
        return self.region is not None and self.region.carries
