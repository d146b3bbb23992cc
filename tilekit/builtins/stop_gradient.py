"""``stop_gradient``: a value that is a constant of differentiation."""

from __future__ import annotations

from typing import Any

from tilekit.ir.builtin import builtin
from tilekit.ir.handles import Scalar, Tile


@builtin(group="Gradients", stops_gradient=True)
def stop_gradient(x: Scalar | Tile) -> Scalar | Tile:
    """The value itself, as a constant of differentiation: its gradient is exactly zero.

    It is the way around an operation that cannot be differentiated where its gradient does not matter: on what the
    operation reads, or on what it gives. In compiled code nothing is left of it.

    Args:
        x: A tile or a number.

    Returns:
        A tile or number of the same value. A tile is one of its own: writing to it does not change ``x``.

    Raises:
        KernelTypeError: ``x`` is neither; of an array, load what you need first.

    Example:
        >>> import tilekit as tk
        >>> tk.stop_gradient(tk.tile_full(2, 3.0))
        tile<2xf32>
        [3. 3.]
    """


@stop_gradient.result
def _result(x: Any) -> Any:
    return x


@stop_gradient.reference
def _reference(x: Any) -> Any:
    return x


@stop_gradient.lower
def _lower(x: Any) -> Any:
    return x


@stop_gradient.adjoint
def _adjoint() -> dict[str, Any]:
    return {"x": 0}
