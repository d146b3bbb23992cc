"""What adjoint rules answer with, and the types of gradients."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from tilekit.ir.types import ArrayType, DType, ScalarType, TileType, Type, float32, float64

if TYPE_CHECKING:
    from tilekit.errors import KernelNotImplementedError
    from tilekit.ir.core import Block, Op, Value
    from tilekit.ir.handles import Array


class AdjointContext(Protocol):
    """What an adjoint rule can ask about the op that is reversed; tiles and numbers are handles of the adjoint."""

    op: Op
    """The op of the function that is differentiated."""

    def value(self, name: str, index: int | None = None) -> Any:
        """An operand, or one of a tuple of them, computed again: a handle, a number, None or a tuple of these."""

    def result(self, index: int = 0) -> Any:
        """A result, computed again."""

    def flows(self, index: int = 0) -> bool:
        """Whether a gradient flows into a result; where none does, its gradient is given as zeros."""

    def wants(self, operand: Any) -> bool:
        """Whether the gradient of an operand, as the op holds it, is asked for."""

    def array(self, name: str, index: int | None = None) -> Array:
        """The gradient of an array operand, or of one of a tuple: to add to where the op reads, to take from where it
        writes.

        Its dtype is the array's own where the kernel only writes the array, else that of ``gradient_type``.
        """

    def finite_outside(self, name: str) -> bool:
        """Whether an operand is finite where it comes from what lies outside of arrays."""

    def zeros(self, name: str) -> Any:
        """A zero gradient for an operand."""

    def widen(self, value: Any) -> Any:
        """A value in the dtype that gradients are computed in: 16-bit floats become float32."""

    def sum(self, tile: Any) -> Any:
        """The sum of a tile's elements: the gradient of a number that all of them have."""

    def once(self, grad: Any, place: str, value: str) -> Any:
        """The gradient of operand ``value``, a number that each lane writes at offset ``place`` of a shared tile."""

    def add_element(self, name: str, grad: Any, add: Callable[[Any, Any, Any, Any], Any]) -> Any:
        """The gradient of a tile without axes of which each lane reads the element; it may be a view of another tile.

        ``add(tile, grad, offset, map)`` adds a number to the element of a tile that a view is; without a map to its
        only one.
        """

    def refuse(self, reason: str) -> KernelNotImplementedError:
        """The error that says why no gradient flows through this op; the rule raises it."""

    def reverse_elements(self, record: Callable[[Block, tuple[Value, ...]], Any]) -> dict[Value, Any]:
        """For an op that runs a block for each element: the gradients of the block's parameters, as tiles.

        ``record`` makes the op of a block that takes elements of some of the parameters, and last of ``grad``. The
        gradients of what the block captures are added up here.
        """

    def through(self, name: str, build: Callable[[Any], Any]) -> Any:
        """The gradient of an operand, where ``build`` makes the same result of it by other builtins."""

    def reverse_inside(self) -> None:
        """Reverse the block of an op that runs it once, here."""

    def reverse_branches(self, record: Callable[[Any], Any]) -> None:
        """Reverse each block of a branch; ``record`` makes the op of the reversed blocks."""

    def reverse_loop(
        self,
        count: Callable[[], Any],
        leading: Callable[[Any], tuple[Any, ...]],
        record: Callable[[Any, Any], Any] | None = None,
    ) -> None:
        """Reverse the block of a loop.

        Args:
            count: Gives the number of iterations.
            leading: Gives, from the number of an iteration, what the block gets before what the loop carries.
            record: Makes the loop that goes through the same indices backwards, from what it carries and the reversed
                block, where there is one; it serves where no iteration needs what the loop carries.
        """

    def count_iterations(self) -> Any:
        """How often a loop runs whose block yields whether it goes on; found by running it without effects."""


@dataclass(frozen=True)
class NoGradient:
    """An operand's gradient that a rule cannot give; reaching it refuses the differentiation."""

    reason: str


def no_gradient(reason: str) -> NoGradient:
    """What an adjoint rule answers for an operand whose gradient it cannot give.

    Example:
        >>> no_gradient("the order of equal keys is not defined")
        NoGradient(reason='the order of equal keys is not defined')
    """
    return NoGradient(reason)


def gradient_dtype(dtype: DType) -> DType:
    """The dtype that gradients of a dtype are summed in: 16-bit floats use float32."""
    return float64 if dtype is float64 else float32


def gradient_type(type: Type) -> Type:
    """The type of the gradient of a value."""
    dtype = gradient_dtype(type.dtype)
    if isinstance(type, TileType):
        return TileType(dtype, type.shape)
    return ArrayType(dtype, type.ndim) if isinstance(type, ArrayType) else ScalarType(dtype)


def has_gradient(type: Type) -> bool:
    """Whether values of a type can carry a gradient: floats do, integers and conditions do not."""
    return type.dtype.is_float
