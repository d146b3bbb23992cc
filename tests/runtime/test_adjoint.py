"""Backward launches: ``launch_adjoint``, and Warp's form of it."""

from __future__ import annotations

import threading
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tilekit as tk
from tilekit.errors import KernelTypeError, KernelValueError, TilekitError
from tilekit.runtime.adjoint import launch_adjoint

DEVICES = ["cpu", "interpret"]


@tk.kernel
def mul(a: tk.array1d[float], b: tk.array1d[float], factor: float, n: int, out: tk.array1d[float]):
    i = tk.tid()
    for _ in range(n):
        x, y = tk.tile_load(a, shape=4, offset=4 * i), tk.tile_load(b, shape=4, offset=4 * i)
        tk.tile_store(out, factor * (x * y), offset=4 * i)


@tk.kernel
def twice_used(a: tk.array1d[float], b: tk.array1d[float], out: tk.array1d[float]):
    x, y = tk.tile_load(a, shape=4), tk.tile_load(b, shape=4)
    tk.tile_store(out, x * x * y)


@tk.kernel
def halves(a: tk.array1d[float], adj_a: tk.array1d[float], both: tk.array1d[float], first: tk.array1d[float]):
    """Two outputs, and a parameter with the name that a gradient would have; a quotient has no gradient at 0."""
    x, y = tk.tile_load(a, shape=4), tk.tile_load(adj_a, shape=4)
    tk.tile_store(both, x * x + y)
    tk.tile_store(first, 1.0 / x)


def numbers(count: int, dtype: Any = np.float32) -> Any:
    return np.arange(1, count + 1).astype(dtype)


@pytest.mark.parametrize("device", DEVICES)
def test_gradients_are_added_and_seeds_consumed(device: str) -> None:
    """The grid is ragged, a gradient is a view with steps, and one is not asked for."""
    a, b, out = numbers(7), numbers(14)[::2], np.zeros(7, np.float32)
    found, seed = np.full(14, 10, np.float32)[::2], numbers(7)
    arguments = [a, b, 2.0, 1, out]
    launch_adjoint(mul, 2, arguments, {"b": found, "out": seed}, device=device)
    np.testing.assert_array_equal(found, 10 + 2 * a * numbers(7))
    assert not seed.any()
    launch_adjoint(mul, 2, arguments, {"b": found}, device=device)
    np.testing.assert_array_equal(found, 10 + 2 * a * numbers(7))
    seed[:] = 1
    launch_adjoint(mul, 2, arguments, {"out": seed}, device=device)
    assert not seed.any()


@pytest.mark.parametrize("device", DEVICES)
def test_outputs_whose_gradient_is_left_out_have_none(device: str) -> None:
    a, other, both, first = numbers(4) - 1, numbers(4), np.zeros(4, np.float32), np.zeros(4, np.float32)
    found, seed = np.zeros(4, np.float32), np.ones(4, np.float32)
    launch_adjoint(halves, 1, [a, other, both, first], {"a": found, "both": seed}, device=device)
    np.testing.assert_array_equal(found, 2 * a)


@tk.kernel
def twice_read(a: tk.array1d[Any], out: tk.array1d[float]):
    x, y = tk.tile_load(a, shape=4), tk.tile_load(a, shape=4)
    tk.tile_store(out, 0.4 * tk.tile_astype(x, float) + 0.4 * tk.tile_astype(y, float))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_gradients_of_16_bits_are_rounded_once(dtype: Any, device: str) -> None:
    """Two adds of 0.4 units in the last place, each of which alone would be rounded away."""
    unit = float(ml_dtypes.finfo(dtype).eps)
    a, out = np.ones(4, dtype), np.zeros(4, np.float32)
    found, seed = np.ones(4, dtype), np.full(4, unit, np.float32)
    launch_adjoint(twice_read, 1, [a, out], {"a": found, "out": seed}, device=device)
    assert found.dtype == dtype and found.astype(float).tolist() == [1 + unit] * 4
    assert not seed.any()


def test_one_gradient_array_for_two_arguments() -> None:
    a, out = numbers(4), np.zeros(4, np.float32)
    found, seed = np.zeros(4, np.float32), np.ones(4, np.float32)
    launch_adjoint(mul, 1, [a, a, 1.0, 1, out], {"a": found, "b": found, "out": seed})
    np.testing.assert_array_equal(found, 2 * a)


@pytest.mark.parametrize("device", DEVICES)
def test_a_gradient_array_that_is_an_argument(device: str) -> None:
    """What the adjoint reads of the argument is what was there before."""
    a, b, out = numbers(4), numbers(4) + 1, np.zeros(4, np.float32)
    launch_adjoint(twice_used, 1, [a, b, out], {"a": a, "b": b, "out": np.ones(4, np.float32)}, device=device)
    first, second = numbers(4), numbers(4) + 1
    np.testing.assert_array_equal(a, first + 2 * first * second)
    np.testing.assert_array_equal(b, second + first * first)


def test_an_adjoint_is_compiled_when_it_is_needed_and_once() -> None:
    a, b, out = numbers(4), numbers(4), np.zeros(4, np.float32)
    mul.cache.clear()
    tk.launch_tiled(mul, dim=1, inputs=[a, b, 1.0, 1], outputs=[out], device="cpu")
    assert len(mul.cache) == 1

    def backward() -> None:
        launch_adjoint(mul, 1, [a, b, 1.0, 1, out], {"a": np.zeros(4, np.float32), "out": numbers(4)})

    threads = [threading.Thread(target=backward) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(mul.cache) == 2


def test_what_the_adjoint_reads_must_not_have_been_overwritten_by_the_launch() -> None:
    a, b = numbers(4), numbers(4)
    with pytest.raises(KernelValueError) as caught:
        launch_adjoint(mul, 1, [a, b, 1.0, 1, b], {"a": np.zeros(4, np.float32), "out": numbers(4)})
    assert caught.value.message == (
        "the adjoint of kernel 'mul' reads argument 'b' again, but it shares memory with 'out', which the kernel has "
        "written; pass an array of its own for 'out'"
    )
    x = np.zeros(8, np.float32)
    with pytest.raises(KernelValueError) as caught:
        launch_adjoint(halves, 1, [a, a, x[:4], x[4:]], {"a": b, "both": x[:4], "first": x[2:6]})
    assert caught.value.message == (
        "the gradients of arguments 'both' and 'first' of kernel 'halves' share memory, but the kernel writes both, "
        "and only what was written last has a gradient; write to arrays of their own"
    )


@tk.kernel
def shifted(a: tk.array1d[float], out: tk.array1d[float], last: tk.array1d[float]):
    i = tk.tid()
    tk.tile_store(out, 2.0 * tk.tile_load(a, shape=4, offset=4 * i), offset=4 * i)
    tk.tile_store(last, 3.0 * tk.tile_load(a, shape=4, offset=4 * i), offset=4 * i)


def test_one_array_by_two_names_of_which_one_is_written() -> None:
    """The second read sees what was stored by the other name."""
    a, last, g = numbers(4), np.zeros(4, np.float32), np.zeros(4, np.float32)
    launch_adjoint(shifted, 1, [a, a, last], {"a": g, "out": g, "last": np.ones(4, np.float32)})
    assert g.tolist() == [6.0] * 4
    x, z = np.zeros(12, np.float32), np.zeros(8, np.float32)
    for there in (x[:8], x[4:]):
        with pytest.raises(KernelValueError) as caught:
            launch_adjoint(shifted, 2, [x[:8], there, z], {"a": np.zeros(8, np.float32), "last": z})
        assert caught.value.message == (
            "argument 'a' of kernel 'shifted' shares memory with 'out', which the kernel writes, so its gradient "
            "depends on what was read and written first; pass one array for both, with one gradient, or an array of "
            "its own for 'out'"
        )


READ_ONLY = np.zeros(4, np.float32)
READ_ONLY.flags.writeable = False
LIKE_A = "the gradient of argument 'a' of kernel 'mul': must be like the argument, an array of float32 of shape (4,) "


@pytest.mark.parametrize(
    ("gradients", "message"),
    [
        ({"c": None}, "a gradient of 'c' is given, but kernel 'mul' has no such parameter, only a, b, factor, n, out"),
        ({"n": numbers(4)}, "a gradient of 'n' of kernel 'mul' is given, but 'n' is not an array"),
        ({"a": numbers(3)}, LIKE_A + "on 'cpu', got an array of float32 of shape (3,) on 'cpu'"),
        ({"a": numbers(4, float)}, LIKE_A + "on 'cpu', got an array of float64 of shape (4,) on 'cpu'"),
        ({"a": READ_ONLY}, "the gradient of argument 'a' of kernel 'mul': is written but read-only"),
        ({"a": 1.0}, "the gradient of argument 'a' of kernel 'mul': the number 1.0 is not an array; pass an array of "
         "one element, such as np.array([x])"),
    ],
)  # fmt: skip
def test_gradients_that_do_not_fit(gradients: dict[str, Any], message: str) -> None:
    with pytest.raises(TilekitError) as caught:
        launch_adjoint(mul, 1, [numbers(4), numbers(4), 1.0, 1, numbers(4)], gradients)
    assert caught.value.message == message


@tk.kernel
def gathered(a: tk.array1d[float], places: tk.array1d[int], out: tk.array1d[float]):
    tk.tile_store(out, tk.tile_load(a, shape=4) * tk.tile_astype(tk.tile_load(places, shape=4), float))


def test_integers_have_no_gradient() -> None:
    places = np.arange(4, dtype=np.int32)
    with pytest.raises(KernelTypeError) as caught:
        launch_adjoint(gathered, 1, [numbers(4), places, numbers(4)], {"places": places})
    assert caught.value.message == (
        "the gradient of argument 'places' of kernel 'gathered': the argument is an array of int32, which has no "
        "gradient; leave it out"
    )


def backward(record_cmd: bool, adj_inputs: Any, adj_outputs: Any, a: Any, b: Any, out: Any, **how: Any) -> None:
    command = tk.launch_tiled(
        mul, dim=1, inputs=[a, b, 2.0, 1], outputs=[out], adj_inputs=adj_inputs, adj_outputs=adj_outputs,
        adjoint=True, record_cmd=record_cmd, **how,
    )  # fmt: skip
    assert (command is not None) == record_cmd
    if command is not None:
        command.launch()


@pytest.mark.parametrize("record_cmd", [False, True])
@pytest.mark.parametrize("device", DEVICES)
def test_warps_form(record_cmd: bool, device: str) -> None:
    a, b, out, found, seed = numbers(4), numbers(4), *(np.zeros(4, np.float32) for _ in range(3))
    seed[:] = 1
    backward(record_cmd, [found, None, 0.0, None], [seed], a, b, out, device=device)
    np.testing.assert_array_equal(found, 2 * b)
    assert not seed.any()


@pytest.mark.parametrize("record_cmd", [False, True])
def test_entries_that_are_none_stand_for_the_gradients_of_warps_arrays(record_cmd: bool) -> None:
    pytest.importorskip("warp")
    a, b, out = (tk.array(numbers(4), device="cpu", requires_grad=needs) for needs in (True, False, True))
    out.grad.fill_(1.0)
    backward(record_cmd, [], [None], a, b, out)
    assert a.grad.numpy().tolist() == [2.0, 4.0, 6.0, 8.0] and b.grad is None
    assert not out.grad.numpy().any()


@pytest.mark.parametrize(
    ("adj_inputs", "message"),
    [
        ([None], "adj_inputs of kernel 'mul' has 1 entry, but inputs has 4; give one for each, None where there is no "
         "gradient"),
        (1.0, "adj_inputs of kernel 'mul' must be a list or tuple, got 1.0 (a float)"),
        ([], "a backward launch of kernel 'mul' without any gradient array: give them as adj_inputs and adj_outputs, "
         "or pass Warp's arrays made with requires_grad=True"),
        ([None, None, numbers(4), None], "a gradient of 'factor' of kernel 'mul' is given, but 'factor' is not an "
         "array"),
    ],
)  # fmt: skip
def test_lists_of_gradients_that_do_not_fit(adj_inputs: Any, message: str) -> None:
    with pytest.raises(TilekitError) as caught:
        backward(False, adj_inputs, [], numbers(4), numbers(4), numbers(4))
    assert caught.value.message == message
