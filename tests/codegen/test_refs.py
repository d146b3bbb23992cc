"""Index expressions of elements."""

import numpy as np
import pytest

from tilekit.codegen.refs import coordinates


@pytest.mark.parametrize("shape", [(1,), (5,), (4, 6), (1, 3), (3, 1), (2, 1, 4), (2, 3, 4, 5), (1, 1, 7)])
def test_coordinates_undo_row_major_numbers(shape):
    for number in range(int(np.prod(shape))):
        expressions = coordinates(str(number), shape)
        found = tuple(eval(text.replace("/", "//")) for text in expressions)
        assert found == np.unravel_index(number, shape)
