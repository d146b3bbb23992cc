"""What code is generated for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tilekit.ir.array_parts import whole_of
from tilekit.ir.core import Function, Op, Value, walk
from tilekit.ir.types import ArrayType


@dataclass(frozen=True)
class ArrayClass:
    """What a CUDA kernel may assume of an array's memory; kernels are specialised on it."""

    unit_axis: int
    """The axis whose stride is one element, the last such; -1 where there is none."""
    aligned: bool
    """Whether the base and the strides of all other axes are multiples of 16 bytes."""
    zero: tuple[bool, ...]
    """Which axes have stride zero."""
    wide: bool
    """Whether the elements span more than 2**31 bytes, so that offsets need 64 bits."""
    whole: bool = False
    """Whether it is aligned, and the extent of the unit axis a multiple of 16 bytes: no pack is half inside."""

    def part(self, ndim: int) -> ArrayClass:
        """Of the part with the last axes that indices of the others name.

        Example:
            >>> ArrayClass(2, True, (False, False, False), False).part(2)
            ArrayClass(unit_axis=1, aligned=True, zero=(False, False), wide=False, whole=False)
            >>> ArrayClass(0, True, (False, False, False), False).part(2).aligned
            False
        """
        unit = self.unit_axis - (len(self.zero) - ndim)
        return ArrayClass(
            max(unit, -1), self.aligned and unit >= 0, self.zero[-ndim:], self.wide, self.whole and unit >= 0
        )


@dataclass(frozen=True)
class Target:
    """A device kind and what is fixed about a launch at compile time."""

    kind: str = "cpu"
    arch: str = ""
    block_dim: int = 1
    """Lanes of a block; part of the meaning only of kernels that observe lanes."""
    tiled: bool = True
    """Whether launched by ``launch_tiled``: one block a grid point."""
    ndim: int = 1
    """Grid dimensions of the launch."""
    index_checks: bool = True
    checked: bool = False
    line_directives: bool = True
    """Whether the code names the lines of the kernel's source."""
    threads: int = 1
    """Threads that run a block; 1 on the CPU."""
    arrays: Mapping[str, ArrayClass] = field(default_factory=dict)
    """The class of each array parameter; on the CPU none is known."""
    no_mathdx: str = "cuBLASDx is not installed"
    """Why cuBLASDx cannot be used; empty where it can."""
    ragged: bool = False
    """Whether the last block lacks lanes."""
    whole: int = 0
    """Leading coordinates of a point that all lanes of a block share."""

    @property
    def is_cpu(self) -> bool:
        return self.kind == "cpu"

    def runs_points(self, fn: Function) -> bool:
        """Whether each thread of a GPU runs points of the launch by itself, after lanes were formed."""
        return not self.is_cpu and not self.tiled and not any(_together(op) for op in walk(fn.body))

    def class_of(self, array: Value, fn: Function, defined: Mapping[Value, Op]) -> ArrayClass:
        """What may be assumed of an array of a function: a parameter, or a part of one such as ``a[i]``."""
        whole, parts = whole_of(array, defined)
        assert isinstance(array.type, ArrayType) and isinstance(whole.type, ArrayType)
        name = next((name for name, param in fn.params.items() if param is whole), "")
        found = self.arrays.get(name) or ArrayClass(-1, False, (False,) * whole.type.ndim, True)
        return found.part(array.type.ndim) if parts else found


def _together(op: Op) -> bool:
    """Whether the lanes of a block do something together, or are run by a loop."""
    return op.builtin.cooperative or (op.builtin.carries and not op.builtin.by_element)
