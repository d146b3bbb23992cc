"""Scratch memory of a program's run: where its arrays lie, and memory of the host for them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from tilekit.codegen.target import ArrayClass
from tilekit.errors import KernelValueError
from tilekit.ir.program import Program
from tilekit.ir.types import ArrayType, DType
from tilekit.runtime.array_view import ArrayView

ALIGNMENT = 256
"""Bytes: each array begins at a multiple of them, as what the CUDA driver allocates."""
ROW = 16
"""Bytes: each row begins at a multiple of them, as code for a GPU takes it of arrays that nothing is known of."""
POISON = 0xFF
"""Of which bytes scratch memory that is not zeroed is made where kernels are interpreted: NaN, or -1."""


@dataclass(frozen=True)
class Place:
    """Where an array lies in its chunk."""

    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: DType

    def at(self, address: int) -> int:
        """The address of its first element, in a chunk at an address; 0 where it has none."""
        return address + self.offset if math.prod(self.shape) else 0


@dataclass
class Chunk:
    """Memory for the arrays of one lifetime: those that are zeroed come first."""

    places: dict[str, Place] = field(default_factory=dict)
    size: int = 0
    zeroed: int = 0
    """So many bytes from the beginning are zero at first."""

    def add(self, name: str, dtype: DType, shape: tuple[int, ...], zeroed: bool) -> None:
        strides = [dtype.bits // 8]
        for extent in reversed(shape[1:]):
            rows = strides[0] * extent
            strides.insert(0, -(-rows // ROW) * ROW if len(strides) == 1 else rows)
        self.places[name] = Place(self.size, shape, tuple(strides), dtype)
        if math.prod(shape):
            self.size += -(-strides[0] * shape[0] // ALIGNMENT) * ALIGNMENT
        if zeroed:
            self.zeroed = self.size


def chunks_of(program: Program, shapes: Mapping[str, tuple[int, ...]]) -> tuple[Chunk, Chunk]:
    """Where scratch arrays of these shapes lie: those of the run, and those that outlive it.

    Rows begin at multiples of 16 bytes, so that one kernel serves every size.

    Example:
        >>> from tilekit.ir.core import Value
        >>> from tilekit.ir.program import Scratch
        >>> from tilekit.ir.types import float32
        >>> sums = Scratch(Value(ArrayType(float32, 2)), (3, 5))
        >>> run, _ = chunks_of(Program("p", {}, (), {"sums": sums}), {"sums": (3, 5)})
        >>> run.places["sums"].strides, run.size
        ((32, 4), 256)
    """
    found = Chunk(), Chunk()
    for name, scratch in sorted(program.scratch.items(), key=lambda item: not item[1].zeroed):
        type = scratch.value.type
        assert isinstance(type, ArrayType)
        found[scratch.until_backward].add(name, type.dtype, shapes[name], scratch.zeroed)
    return found


def scratch_classes(program: Program) -> dict[str, ArrayClass]:
    """What code for a GPU may assume of a program's scratch arrays: as they are laid out here, of any size."""
    ranks = {name: len(scratch.shape) for name, scratch in program.scratch.items()}
    return {name: ArrayClass(rank - 1, True, (False,) * rank, wide=True) for name, rank in ranks.items()}


class Memory(Protocol):
    """What a program's scratch arrays are allocated in, and how its kernels are launched there."""

    device: str

    def turn(self, views: Sequence[ArrayView], stream: Any) -> Any:
        """A context in which one run's launches are told, in order: it gives their stream."""
        ...

    def allocate(self, size: int, zeroed: int, stream: Any) -> Any:
        """Memory with an ``address``, whose first bytes are zero; it is freed by ``free(stream)`` or with the object.

        Raises:
            KernelValueError, DeviceError: there is not so much.
        """
        ...

    def launch(self, kernel: Any, values: Sequence[Any], grid: tuple[int, ...], points: int, stream: Any) -> None:
        """Run one of the program's kernels."""
        ...

    def current_of(self, libraries: Sequence[str | None]) -> Any:
        """What gives the stream of a launch like an earlier one, from the one it names or None; it gives None where
        the long way must find it. Itself None where it always must."""
        ...


class HostBytes:
    """Memory of the host."""

    def __init__(self, size: int, zeroed: int, poisoned: bool) -> None:
        try:
            self._memory = np.empty(size + ALIGNMENT, np.uint8)
        except (MemoryError, ValueError):
            raise KernelValueError(f"there are no {size} bytes of memory for scratch arrays") from None
        start = -self._memory.ctypes.data % ALIGNMENT
        self.address: int = self._memory.ctypes.data + start
        self._memory[start : start + zeroed] = 0
        if poisoned:
            self._memory[start + zeroed :] = POISON

    def free(self, stream: Any = None) -> None:
        """Nothing: it goes with the object."""


class HostMemory:
    """Memory of the host, in which kernels run before their launch returns."""

    device = "cpu"

    def __init__(self, poisoned: bool = False) -> None:
        self.poisoned = poisoned

    @contextmanager
    def turn(self, views: Sequence[ArrayView], stream: Any) -> Iterator[None]:
        yield None

    def allocate(self, size: int, zeroed: int, stream: Any) -> HostBytes:
        return HostBytes(size, zeroed, self.poisoned)

    def launch(self, kernel: Any, values: Sequence[Any], grid: tuple[int, ...], points: int, stream: Any) -> None:
        kernel.run(values, grid, points)

    def current_of(self, libraries: Sequence[str | None]) -> Any:
        return lambda stream: 0
