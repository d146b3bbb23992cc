"""How elements are dealt to threads."""

import numpy as np
import pytest

from tilekit.codegen.layout import Blocked, coordinates


@pytest.mark.parametrize(("size", "threads", "vector"), [(512, 32, 4), (48, 32, 8), (1, 32, 1), (1000, 20, 2)])
def test_every_element_lies_in_one_register_of_one_thread(size, threads, vector):
    layout = Blocked(size, threads, vector)
    found = [
        (i * threads + thread) * vector + j
        for thread in range(threads)
        for i in range(layout.rounds)
        for j in range(vector)
    ]
    inside = [e for e in found if e < size]
    assert sorted(inside) == list(range(size))
    assert layout.ragged is (len(inside) != len(found))
    assert layout.registers == layout.rounds * vector


@pytest.mark.parametrize("shape", [(1,), (5,), (4, 6), (1, 3), (3, 1), (2, 1, 4), (2, 3, 4, 5), (1, 1, 7)])
def test_coordinates_undo_row_major_numbers(shape):
    for number in range(int(np.prod(shape))):
        expressions = coordinates(str(number), shape)
        found = tuple(eval(text.replace("/", "//")) for text in expressions)
        assert found == np.unravel_index(number, shape)
