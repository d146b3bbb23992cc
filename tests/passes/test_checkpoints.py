"""Loops whose states just fit into their slots, and just do not."""

from __future__ import annotations

import numpy as np
import pytest

import tilekit as tk
from tests.passes.test_differentiate_loops import check

A1 = tk.array1d[tk.float64]


@pytest.mark.parametrize("checkpoints", [1, 3])
@pytest.mark.parametrize("more", [0, 1, 2])
def test_a_known_trip_count_near_the_number_of_slots(checkpoints: int, more: int) -> None:
    """The first state is kept, that of the last iteration need not be."""
    trips = checkpoints + more

    @tk.kernel(module_options={"max_unroll": 0})
    def powers(a: A1, out: A1):
        x = tk.tile_load(a, shape=2)
        for _ in range(trips):
            x = x * x + x
        tk.tile_store(out, x)

    with tk.config.scoped(checkpoints=checkpoints):
        check(powers, a=np.asarray([0.5, -0.25]), out=np.zeros(2))
