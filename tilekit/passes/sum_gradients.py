"""Decides how the gradient of each array is summed: gathered, added in place, or by atomics; and rounds it once."""

from __future__ import annotations

from tilekit.errors import KernelNotImplementedError
from tilekit.ir.context import LaunchForm
from tilekit.ir.program import Program
from tilekit.passes.gather_gradients import gather_gradients
from tilekit.passes.own_gradients import own_gradients
from tilekit.passes.round_gradients import round_gradients, summed_apart


def sum_gradients(program: Program, form: LaunchForm, deterministic: bool = False) -> Program:
    """The program with atomic additions replaced, where that is possible.

    Args:
        program: As ``differentiate`` gives it.
        form: Of the user's launch, with its dimensions.
        deterministic: Whether a float that must be added atomically is an error.

    Returns:
        A program that gives the same sums; those of 16-bit arrays are rounded once. ``sums`` says of each array that is
        added to how that is done, and of what is scattered, why.

    Raises:
        KernelNotImplementedError: ``deterministic``, and an array must be added to atomically.
    """
    apart = summed_apart(program)
    made = own_gradients(gather_gradients(program, form.ndim or 1, form.tiled, apart), form)
    for summed in made.sums:
        if deterministic and summed.form == "scattered":
            of = next((of for of, fresh in program.gradients.items() if fresh == summed.array), summed.array)
            raise KernelNotImplementedError(
                f"the gradient of {of!r} would be added up by atomics, in another order in every run, and the option "
                f"deterministic is on: {summed.how}; {summed.condition}",
                summed.location,
            )
    return round_gradients(made, apart)
