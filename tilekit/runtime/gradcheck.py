"""``tk.gradcheck``: a kernel's gradient against differences of what it computes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from tilekit.errors import KernelNotImplementedError, KernelValueError, TilekitError
from tilekit.frontend.kernel import Kernel
from tilekit.runtime.samples import Elements, first, ragged, strided

if TYPE_CHECKING:
    from tilekit.runtime.trial import Mask, Trial

__all__ = ["gradcheck"]


@dataclass(frozen=True)
class Bounds:
    """How far a gradient may be from a difference; None is chosen from the kernel's unit roundoff."""

    eps: float | None
    atol: float | None
    rtol: float | None
    inputs: int
    """How many elements of an input are perturbed at most; all where not positive."""
    outputs: int

    def __post_init__(self) -> None:
        """Refuse numbers that no comparison could use.

        Raises:
            KernelValueError: the step is not positive, or a tolerance is negative.
        """
        if self.eps is not None and not 0 < self.eps < np.inf:
            raise KernelValueError(f"eps must be a positive number, got {self.eps!r}")
        for name, given in (("atol", self.atol), ("rtol", self.rtol)):
            if given is not None and not 0 <= given < np.inf:
                raise KernelValueError(f"{name} must be zero or a positive number, got {given!r}")


@dataclass(frozen=True)
class Row:
    """One comparison."""

    input: str
    output: str
    arrays: str
    """Which copies of the arrays."""
    analytic: float
    numeric: float
    bound: float
    kink: bool
    """Whether the differences ahead and behind differ by as much as the gradient is off."""

    @property
    def error(self) -> float:
        return abs(self.analytic - self.numeric)

    @property
    def passed(self) -> bool:
        return bool(self.error <= self.bound)  # not where one is NaN

    @property
    def badness(self) -> float:
        return self.error / self.bound if np.isfinite(self.error) else np.inf


def gradcheck(
    function: Kernel,
    dim: Any = None,
    inputs: Sequence[Any] = (),
    outputs: Sequence[Any] = (),
    *,
    eps: float | None = None,
    atol: float | None = None,
    rtol: float | None = None,
    raise_exception: bool = True,
    input_output_mask: Mask = None,
    device: Any = None,
    max_blocks: int = 0,
    block_dim: int | None = None,
    max_inputs_per_var: int = -1,
    max_outputs_per_var: int = -1,
    plot_relative_error: bool = False,
    plot_absolute_error: bool = False,
    show_summary: bool = True,
    restore_inputs: bool = True,
    tiled: bool = True,
) -> bool:
    """Check a kernel's gradient against central differences, along random directions.

    A float32 kernel is specialised again in float64 for the check, so that rounding hides no fault. A kernel that
    computes in 16-bit floats, uses atoms, reads the bits of a number or calls a function with a gradient of its own is
    checked as it is, with a step and a bound that follow from its unit roundoff.

    The check runs on copies of the arrays: as they are; with other strides; and without the last element of each axis,
    where the kernel can be launched so. Every array of floats is perturbed, outputs as well: what a kernel leaves of
    their old contents has a gradient too. Where arrays of Warp or PyTorch among the inputs require grad, only they are.

    Args:
        function: The kernel.
        dim: Its grid.
        inputs, outputs: Its arguments in order, as for a launch; they are not changed.
        eps: The step; by default from the unit roundoff and the size of the elements.
        atol, rtol: What is allowed: ``atol + rtol * |gradient|`` and the rounding of the difference itself. By default
            1e-9 and 1e-6 in float64.
        raise_exception: Whether a gradient that is off is an error.
        input_output_mask: The pairs of an input and an output to check, by name or by position; None for all.
        device: Where the kernel runs; by default where the arrays are.
        max_blocks, restore_inputs: Accepted, without meaning.
        block_dim: As for a launch.
        max_inputs_per_var, max_outputs_per_var: How many elements of an array take part; all where not positive.
        plot_relative_error, plot_absolute_error: Refused; draw what :func:`jacobian` returns.
        show_summary: Whether to print the comparisons; an error has them in its message.
        tiled: Whether the kernel is launched by ``launch_tiled``.

    Returns:
        Whether every gradient is right.

    Raises:
        KernelValueError: a gradient is off and ``raise_exception`` is True; the message has the comparisons. Or
            ``eps``, ``atol`` or ``rtol`` is no number that can be used.
        KernelNotImplementedError: the kernel cannot be differentiated; the message names op and line.

    Example:
        >>> import numpy as np, tilekit as tk
        >>> @tk.kernel
        ... def squares(x: tk.array1d[float], out: tk.array1d[float]):
        ...     t = tk.tile_load(x, shape=4)
        ...     tk.tile_store(out, t * t)
        >>> x, out = np.arange(4, dtype=np.float32), np.zeros(4, np.float32)
        >>> tk.gradcheck(squares, dim=1, inputs=[x], outputs=[out], show_summary=False)
        True
    """
    if plot_relative_error or plot_absolute_error:
        raise KernelNotImplementedError("gradcheck() draws nothing; draw what tk.jacobian() returns")
    from tilekit.runtime.trial import trial_of

    how: dict[str, Any] = {"device": device, "block_dim": block_dim, "tiled": tiled}
    trial = trial_of(function, dim, inputs, outputs, wide=True, taker="gradcheck", **how)
    bounds = Bounds(eps, atol, rtol, max_inputs_per_var, max_outputs_per_var)
    pairs = trial.masked(input_output_mask)
    if not pairs:
        raise KernelValueError(f"kernel {function.key!r} has no pair of an input and an output of floats to check")
    rows, notes = _rows(trial, pairs, bounds)
    passed, text = all(row.passed for row in rows), _report(trial, rows, notes)
    if raise_exception and not passed:
        raise KernelValueError(text)
    if show_summary:
        print(text)
    return passed


def _variants(trial: Trial) -> Iterator[tuple[str, Trial]]:
    yield "as given", trial
    yield "strided", replace(trial, samples=strided(trial.samples))
    cut = ragged(trial.samples)
    if any(cut[name].values.shape != sample.values.shape for name, sample in trial.samples.items()):
        yield "ragged", replace(trial, samples=strided(cut))


def _rows(trial: Trial, pairs: Sequence[tuple[str, str]], bounds: Bounds) -> tuple[list[Row], list[str]]:
    rows, notes = [], []
    for label, variant in _variants(trial):
        rng = np.random.default_rng(12)
        if label == "ragged":
            try:
                variant.run({})
            except TilekitError as error:
                notes.append(f"not checked with shorter arrays: {error.message}")
                continue
        for output in dict.fromkeys(output for _, output in pairs):
            sample = variant.samples[output]
            seed = sample.rounded(first(bounds.outputs, _normal(rng, sample.values.shape)))
            found = variant.gradients({output: seed})
            for input, other in pairs:
                if other == output:
                    rows.append(_worst(variant, label, input, output, seed, found[input], bounds, rng))
    return rows, notes


def _normal(rng: np.random.Generator, shape: tuple[int, ...]) -> Elements:
    return np.asarray(rng.standard_normal(shape))


def _worst(
    trial: Trial,
    label: str,
    input: str,
    output: str,
    seed: Elements,
    gradient: Elements,
    bounds: Bounds,
    rng: np.random.Generator,
) -> Row:
    """The worse comparison of two: along a random direction, and along one on which no parts of the gradient cancel."""
    random = _normal(rng, gradient.shape)
    aligned = np.abs(_normal(rng, gradient.shape)) * np.where(gradient == 0, np.sign(random), np.sign(gradient))
    rows = []
    for direction in (random, aligned):
        compared = _Comparison(trial, input, output, seed, gradient, bounds)
        rows.append(compared.along(label, first(bounds.inputs, direction)))
    return max(rows, key=lambda row: row.badness)


@dataclass(frozen=True)
class _Comparison:
    trial: Trial
    input: str
    output: str
    seed: Elements
    gradient: Elements
    bounds: Bounds

    def along(self, label: str, direction: Elements) -> Row:
        sample, u = self.trial.samples[self.input], self.trial.roundoff
        here = sample.values.astype(np.float64)
        size = float(np.sqrt(np.mean(here**2))) if here.size else 0.0
        chosen = float(np.cbrt(u)) * (size if size > 0 and np.isfinite(size) else 1.0)
        step = chosen if self.bounds.eps is None else self.bounds.eps
        ahead, behind = sample.rounded(here + step * direction), sample.rounded(here - step * direction)
        values = [self._loss(at) for at in (ahead, here, behind)]
        parts = self.gradient * (ahead - behind) / (2 * step)
        analytic, numeric = float(np.sum(parts)), (values[0][0] - values[2][0]) / (2 * step)
        rounding = 8 * u * max(found[1] for found in values) / (2 * step)
        atol = 1e-9 if self.bounds.atol is None else self.bounds.atol
        rtol = max(1e-6, 8 * float(np.cbrt(u)) ** 2) if self.bounds.rtol is None else self.bounds.rtol
        bound = atol + rtol * max(abs(analytic), abs(numeric), float(np.linalg.norm(parts))) + rounding
        bend = abs(values[0][0] - 2 * values[1][0] + values[2][0]) / (2 * step)
        kink = bend > bound and bend >= 0.5 * abs(analytic - numeric)
        return Row(self.input, self.output, label, analytic, numeric, bound, bool(kink))

    def _loss(self, at: Elements) -> tuple[float, float]:
        """The sum of the seeded outputs, and the root of the sum of their squares."""
        parts = self.seed * self.trial.run({self.input: at})[self.output]
        return float(np.sum(parts)), float(np.linalg.norm(parts))


_HEADER = ("input", "output", "arrays", "analytic", "numeric", "error", "bound", "")


def _report(trial: Trial, rows: Sequence[Row], notes: Sequence[str]) -> str:
    passed = all(row.passed for row in rows)
    dtypes = ", ".join(dict.fromkeys(trial.samples[name].dtype.name for name in trial.floats))
    lines = [f"gradcheck of kernel {trial.kernel.key!r} in {dtypes}: {'passed' if passed else 'FAILED'}"]
    shown = [row for row in rows if row.input != row.output or row.analytic or row.numeric or not row.passed]
    table = [_HEADER, *map(_cells, shown)]
    widths = [max(len(line[column]) for line in table) for column in range(len(_HEADER))]
    lines += ["  " + "  ".join(map(str.ljust, line, widths)).rstrip() for line in table]
    if any(row.kink and not row.passed for row in rows):
        notes = [*notes, "a kink: the differences ahead and behind differ where the kernel is not smooth at its inputs"]
    return "\n".join([*lines, *(f"  {note}" for note in notes)])


def _cells(row: Row) -> tuple[str, ...]:
    numbers = [f"{value:.6g}" for value in (row.analytic, row.numeric)]
    numbers += [f"{value:.1e}" for value in (row.error, row.bound)]
    return row.input, row.output, row.arrays, *numbers, "ok" if row.passed else "kink?" if row.kink else "WRONG"
