"""Ranges at the limits of their dtype: every index once, and an end."""

import numpy as np
import pytest

import tilekit as tk

MOST, LEAST = 2**63 - 1, -(2**63)
INT = 2**31


def whole(bounds, dtype):
    """A kernel that notes the first and last index and how many there are."""

    @tk.kernel
    def notes(a: dtype, b: dtype, step: dtype, out: tk.array1d[tk.int64]):
        count = tk.int64(0)
        for i in bounds(a, b, step):
            if count == tk.int64(0):
                out[1] = tk.int64(i)
            count += tk.int64(1)
            out[2] = tk.int64(i)
        out[0] = count

    return notes


def with_break(bounds, dtype):
    """The same where the loop may be left, so that it is one that tests its index itself."""

    @tk.kernel
    def notes(a: dtype, b: dtype, step: dtype, out: tk.array1d[tk.int64]):
        count = tk.int64(0)
        for i in bounds(a, b, step):
            if count == tk.int64(0):
                out[1] = tk.int64(i)
            count += tk.int64(1)
            out[2] = tk.int64(i)
            if count > tk.int64(40):
                break
        out[0] = count

    return notes


def plain(a, b, step):
    return range(a, b)


def stepped(a, b, step):
    return range(a, b, step)


def by_three(a, b, step):
    return range(a, b, 3)


def by_minus_three(a, b, step):
    return range(a, b, -3)


def backwards(a, b, step):
    return reversed(range(a, b))


def backwards_down(a, b, step):
    return reversed(range(a, b, -1))


def twice_backwards(a, b, step):
    return reversed(reversed(range(a, b)))


def to_far(a, b, step):
    return range(2147483640, b, 5)


def from_literals(a, b, step):
    return range(2147483640, 2147483690)


def jumping(a, b, step):
    return range(0, b, 2000000000)


CASES = [
    (plain, tk.int64, (MOST - 3, MOST, 1)),
    (plain, tk.int64, (LEAST, LEAST + 3, 1)),
    (plain, tk.uint64, (2**63 - 2, 2**63 + 2, 1)),
    (plain, tk.int32, (INT - 4, INT - 1, 1)),
    (by_three, tk.int64, (MOST - 7, MOST, 1)),
    (by_three, tk.int32, (INT - 8, INT - 1, 1)),
    (by_minus_three, tk.int64, (LEAST + 7, LEAST, 1)),
    (by_minus_three, tk.int32, (-INT + 7, -INT, 1)),
    (stepped, tk.int64, (0, MOST, 2**62)),
    (stepped, tk.int64, (0, LEAST, -(2**62))),
    (stepped, tk.int64, (MOST, LEAST, LEAST)),
    (stepped, tk.int64, (LEAST, MOST, MOST)),
    (stepped, tk.int32, (-INT, INT - 1, INT - 1)),
    (stepped, tk.int64, (3, 9, 0)),
    (backwards, tk.int64, (LEAST, LEAST + 3, 1)),
    (backwards, tk.int64, (MOST - 3, MOST, 1)),
    (backwards, tk.int32, (-INT, -INT + 3, 1)),
    (backwards, tk.int64, (5, 2, 1)),
    (backwards, tk.uint32, (0, 3, 1)),
    (backwards_down, tk.int64, (MOST, MOST - 3, 1)),
    (backwards_down, tk.int32, (INT - 1, INT - 4, 1)),
    (to_far, tk.int64, (0, INT + 20, 1)),
    (to_far, tk.int32, (0, INT - 1, 1)),
    (from_literals, tk.int32, (0, 0, 1)),
    (jumping, tk.int64, (0, 2**40, 1)),
    (jumping, tk.int32, (0, INT - 1, 1)),
]


@pytest.mark.parametrize("device", ["cpu", "interpret"])
@pytest.mark.parametrize("form", [whole, with_break])
@pytest.mark.parametrize("bounds, dtype, values", CASES)
def test_a_range_has_the_indices_that_python_gives_it(bounds, dtype, values, form, device):
    found = np.zeros(3, np.int64)
    expected = bounds(*values) if values[2] else range(0)
    if not values[2] and device == "interpret":
        with pytest.raises(AssertionError, match=r"range\(\) step must not be zero"):
            tk.launch_tiled(form(bounds, dtype), dim=1, inputs=list(values), outputs=[found], device=device)
        return
    tk.launch_tiled(form(bounds, dtype), dim=1, inputs=list(values), outputs=[found], device=device)
    indices = [index for index, _ in zip(expected, range(41 if form is with_break else 2000))]
    ends = [indices[0], indices[-1]] if indices else [0, 0]
    wanted = [len(indices), *(i - 2**64 if i >= 2**63 else i for i in ends)]
    assert found.tolist() == wanted


@tk.kernel
def mixed(a: tk.int32, b: tk.int64, out: tk.array1d[tk.int64]):
    for i in range(a, b):
        out[0] = 1


@tk.kernel
def mixed_with_break(a: tk.int32, b: tk.int64, out: tk.array1d[tk.int64]):
    for i in range(a, b):
        if out[0] > 3:
            break


@pytest.mark.parametrize("kernel", [mixed, mixed_with_break])
def test_bounds_of_two_dtypes_are_refused(kernel):
    with pytest.raises(TypeError, match=r"range\(\) needs one dtype: start is int32 but stop is int64"):
        tk.launch_tiled(kernel, dim=1, inputs=[0, 5], outputs=[np.zeros(1, np.int64)])


@tk.kernel
def beyond(a: tk.int64, out: tk.array1d[tk.int64]):
    for i in range(a, 2**63):
        out[0] = i


@tk.kernel
def beyond_with_break(a: tk.int64, out: tk.array1d[tk.int64]):
    for i in range(a, 2**63):
        if out[0] > 3:
            break


@pytest.mark.parametrize("kernel", [beyond, beyond_with_break])
def test_a_bound_that_no_integer_holds_is_refused(kernel):
    with pytest.raises(ValueError, match=r"range\(\): the stop 9223372036854775808 does not fit int64"):
        tk.launch_tiled(kernel, dim=1, inputs=[0], outputs=[np.zeros(1, np.int64)])
