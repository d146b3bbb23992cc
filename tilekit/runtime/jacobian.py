"""``tk.jacobian``: every derivative of a kernel's outputs in its inputs, by its gradient."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tilekit.errors import KernelNotImplementedError, KernelValueError
from tilekit.frontend.kernel import Kernel

if TYPE_CHECKING:
    from tilekit.runtime.trial import Mask, Trial

__all__ = ["jacobian"]


def jacobian(
    function: Kernel,
    dim: Any = None,
    inputs: Sequence[Any] = (),
    outputs: Sequence[Any] = (),
    input_output_mask: Mask = None,
    device: Any = None,
    max_blocks: int = 0,
    block_dim: int | None = None,
    max_outputs_per_var: int = -1,
    plot_jacobians: bool = False,
    metadata: Any = None,
    restore_inputs: bool = True,
    tiled: bool = True,
) -> dict[tuple[int, int], np.ndarray[Any, Any]]:
    """The Jacobians of a kernel: how each element of an output changes with each element of an input.

    The kernel's gradient runs once for each element of an output, on copies of the arrays and in their own dtypes.

    Args:
        function: The kernel.
        dim: Its grid.
        inputs, outputs: Its arguments in order, as for a launch; they are not changed.
        input_output_mask: The pairs of an input and an output, by name or by position; None for all.
        device: Where the kernel runs; by default where the arrays are.
        max_blocks, metadata, restore_inputs: Accepted, without meaning.
        block_dim: As for a launch.
        max_outputs_per_var: How many elements of an output are looked at, the others are NaN; all where not positive.
        plot_jacobians: Refused; draw what is returned.
        tiled: Whether the kernel is launched by ``launch_tiled``.

    Returns:
        By the positions of an input among ``inputs`` and of an output among ``outputs``, NumPy arrays of shape
        ``(output.size, input.size)`` in float64.

    Raises:
        KernelNotImplementedError: the kernel cannot be differentiated; the message names op and line.

    Example:
        >>> import numpy as np, tilekit as tk
        >>> @tk.kernel
        ... def squares(x: tk.array1d[float], out: tk.array1d[float]):
        ...     t = tk.tile_load(x, shape=3)
        ...     tk.tile_store(out, t * t)
        >>> x, out = np.arange(3, dtype=np.float32), np.zeros(3, np.float32)
        >>> tk.jacobian(squares, dim=1, inputs=[x], outputs=[out])[0, 0].tolist()
        [[0.0, 0.0, 0.0], [0.0, 2.0, 0.0], [0.0, 0.0, 4.0]]
    """
    if plot_jacobians:
        raise KernelNotImplementedError("jacobian() draws nothing; draw what it returns")
    from tilekit.runtime.trial import trial_of

    trial = trial_of(
        function, dim, inputs, outputs,
        device=device, block_dim=block_dim, tiled=tiled, wide=False, taker="jacobian",
    )  # fmt: skip
    names = list(trial.arguments)
    before, after = names[: len(inputs)], names[len(inputs) :]
    pairs = [(i, o) for i, o in trial.masked(input_output_mask) if i in before and o in after]
    if not pairs:
        text = "has no pair of an input and an output of floats; what it writes goes into outputs"
        raise KernelValueError(f"kernel {function.key!r} {text}")
    found = {}
    for output in dict.fromkeys(o for _, o in pairs):
        rows = _rows(trial, output, [i for i, o in pairs if o == output], max_outputs_per_var)
        found.update({(before.index(i), after.index(output)): row for i, row in rows.items()})
    return found


def _rows(trial: Trial, output: str, wanted: Sequence[str], most: int) -> dict[str, np.ndarray[Any, Any]]:
    """The derivatives of one output's elements, of the first ``most`` where that is positive, by each wanted input."""
    size = trial.samples[output].values.size
    rows = {i: np.full((size, trial.samples[i].values.size), np.nan) for i in wanted}
    for element in range(size if most <= 0 else min(size, most)):
        seed = np.zeros(trial.samples[output].values.shape)
        seed.reshape(-1)[element] = 1.0
        gradients = trial.gradients({output: seed})
        for i in wanted:
            rows[i][element] = gradients[i].reshape(-1)
    return rows
