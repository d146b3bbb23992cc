"""``tk.launch`` and ``tk.launch_tiled``: their arguments, and what is specialised on them."""

import inspect
import threading

import numpy as np
import pytest

import tilekit as tk
from tilekit.runtime.arguments import ByBlockDim
from tilekit.runtime.array_view import ArrayView


@tk.kernel
def doubled(a: tk.array1d[float], out: tk.array1d[float]):
    i = tk.tid()
    tk.tile_store(out, tk.tile_load(a, shape=4, offset=i * 4) * 2.0, offset=i * 4)


@tk.kernel
def coordinates(out: tk.array2d[tk.int32]):
    i, j, k, m = tk.tid()
    n = tk.tid()
    row = tk.tile_zeros(shape=(1, 5), dtype=tk.int32)
    row[0, 0] = i
    row[0, 1] = j
    row[0, 2] = k
    row[0, 3] = m
    row[0, 4] = n
    tk.tile_store(out, row, offset=(((i * 3 + j) + k) * 4 + m, 0))


@tk.kernel
def numbers(x: float, n: int, b: tk.bool, h: tk.float16, u: tk.uint8, out: tk.array1d[tk.float64]):
    t = tk.tile_zeros(shape=5, dtype=tk.float64)
    t[0] = tk.float64(x)
    t[1] = tk.float64(n)
    t[2] = tk.float64(b)
    t[3] = tk.float64(h)
    t[4] = tk.float64(u)
    tk.tile_store(out, t)


@tk.kernel
def lanes(out: tk.array1d[tk.int32]):
    _i, lane = tk.tid()
    tk.tile_store(out, tk.tile(lane))


@tk.kernel
def wrong(out: tk.array1d[float]):
    tk.tile_store(out, tk.tile_ones(shape=2, dtype=int))


@tk.kernel
def optional(a: tk.array1d[float], out: tk.array1d[float]):
    t = tk.tile_ones(shape=2)
    if a is not None:
        t += tk.tile_load(a, shape=2)
    tk.tile_store(out, t)


def arrays(count=2, size=8):
    return [np.arange(size, dtype=np.float32) for _ in range(count)]


@pytest.mark.parametrize("dim", [2, np.int64(2), (2,), [2], np.array([2])[0]])
def test_dim(dim):
    a, out = arrays()
    tk.launch_tiled(doubled, dim, [a], [out], block_dim=32)
    assert np.array_equal(out, 2 * a)
    out[:] = 0
    tk.launch_tiled(kernel=doubled, dim=dim, inputs=[a, out])
    assert np.array_equal(out, 2 * a)


def test_four_dimensions():
    grid = (2, 3, 1, 4)
    out = np.zeros((24, 5), np.int32)
    tk.launch_tiled(coordinates, dim=grid, outputs=[out])
    expected = [[*index, index[0]] for index in np.ndindex(*grid)]
    assert out.tolist() == expected


@pytest.mark.parametrize(
    ("dim", "error", "message"),
    [
        (2.0, TypeError, "dim must be an int or a tuple of ints, got 2.0"),
        ("2", TypeError, "dim must be an int or a tuple of ints, got '2'"),
        (None, TypeError, "dim must be an int or a tuple of ints, got None"),
        (-1, ValueError, "dim must not be negative, got -1"),
        ((), ValueError, r"dim must have 1 to 4 entries, got \(\)"),
        ((1, 1, 1, 1, 1), ValueError, "dim must have 1 to 4 entries"),
        (2**31 + 1, ValueError, "dim=2147483649 has an extent above 2\\*\\*31, so coordinates would not fit int32"),
        ((0, 2**32), ValueError, "has an extent above"),
        ((2**31, 2**31, 2), ValueError, "dim=.* has more than 2\\*\\*63 - 1 points"),
    ],
)
def test_wrong_dim(dim, error, message):
    a, out = arrays()
    with pytest.raises(error, match=message):
        tk.launch_tiled(doubled, dim=dim, inputs=[a], outputs=[out])


def test_an_empty_grid_runs_nothing():
    a, out = arrays()
    tk.launch_tiled(doubled, dim=0, inputs=[a], outputs=[out])
    assert np.array_equal(out, a)


def test_the_keywords_are_warp_s_in_its_order():
    wp = pytest.importorskip("warp")
    expected = [name for name in inspect.signature(wp.launch).parameters]
    assert list(inspect.signature(tk.launch).parameters) == expected
    assert list(inspect.signature(tk.launch_tiled).parameters) == expected


def test_unknown_and_meaningless_keywords():
    a, out = arrays()
    with pytest.raises(TypeError, match="unexpected keyword argument 'blockdim'"):
        tk.launch_tiled(doubled, dim=2, inputs=[a], outputs=[out], blockdim=32)
    tk.launch_tiled(
        doubled, dim=2, inputs=[a], outputs=[out], adj_inputs=[None], adj_outputs=[None], stream=None,
        record_tape=False, max_blocks=3, block_dim=64, device="cpu",
    )  # fmt: skip
    assert np.array_equal(out, 2 * a)


def test_what_is_no_kernel():
    with pytest.raises(TypeError, match=r"must be a kernel made by @tk\.kernel"):
        tk.launch(print, dim=1)


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ([np.zeros(8, np.float32)], TypeError, r"takes 2 arguments \(a, out\), got 1"),
        (arrays(3), TypeError, r"takes 2 arguments \(a, out\), got 3"),
        ([np.zeros(8), np.zeros(8, np.float32)], TypeError, "'a' .*expects .*float32.*got an array of float64"),
        ([np.zeros((2, 4), np.float32), np.zeros(8, np.float32)], TypeError, "'a' .*got .* float32 with 2 dimensions"),
        ([3.0, np.zeros(8, np.float32)], TypeError, "'a' of kernel 'doubled': the number 3.0 is not an array"),
        ([[1.0], np.zeros(8, np.float32)], TypeError, "'a' of kernel 'doubled': a list is not an array"),
        ([np.zeros(8, np.float32), np.broadcast_to(np.float32(0), 8)], ValueError, "'out' .*output but read-only"),
        ([np.zeros(8, np.float32), np.lib.stride_tricks.as_strided(np.zeros(8, np.float32), (8,), (0,))], ValueError,
         "'out' .*is an output but its own elements share memory"),
    ],
)  # fmt: skip
def test_wrong_arguments(given, error, message):
    for device in ("cpu", "interpret"):
        with pytest.raises(error, match=message):
            tk.launch_tiled(doubled, dim=2, inputs=given[:1], outputs=given[1:], device=device)


@pytest.mark.parametrize(
    ("inputs", "outputs", "message"),
    [
        (None, (), r"inputs of kernel 'doubled' must be a list or tuple of arguments, got None"),
        (5, (), r"inputs .* got 5 \(an int\)"),
        ((), 5, r"outputs .* got 5 \(an int\)"),
        ((a for a in arrays(2)), (), "inputs .* must be a list or tuple"),
        ({1.0, 2.0}, (), "inputs .* must be a list or tuple of arguments, got an object of class set"),
    ],
)
def test_arguments_that_are_no_sequence(inputs, outputs, message):
    for recorded in (False, True):
        with pytest.raises(TypeError, match=message):
            tk.launch_tiled(doubled, dim=2, inputs=inputs, outputs=outputs, record_cmd=recorded)


@tk.kernel
def fills(a: tk.array2d[float], more: bool):
    row = a[0]
    if more:
        row[tk.tid()] = 1.0


def test_rows_of_an_array_may_be_the_arguments():
    both = np.arange(8, dtype=np.float32).reshape(2, 4)
    tk.launch_tiled(doubled, dim=1, inputs=both, block_dim=1)
    assert both[1].tolist() == [0.0, 2.0, 4.0, 6.0]
    tk.launch_tiled(doubled, dim=0, inputs=np.zeros((0, 4), np.float32), outputs=both)


def test_inputs_that_are_written():
    """Which list an array stands in does not matter: many programs give all of them as inputs."""
    frozen = np.zeros((1, 4), np.float32)
    frozen.flags.writeable = False
    overlapping = np.lib.stride_tricks.as_strided(np.zeros(1, np.float32), (1, 4), (4, 0))
    for device in ("cpu", "interpret"):
        with pytest.raises(ValueError, match=r"'a' of kernel 'fills': is written by the kernel but read-only"):
            tk.launch(fills, dim=4, inputs=[frozen, True], device=device)
        with pytest.raises(ValueError, match=r"is written by the kernel but its own elements share memory"):
            tk.launch(fills, dim=4, inputs=[overlapping, True], device=device)
    assert not frozen.any()
    out = np.zeros(8, np.float32)
    tk.launch_tiled(doubled, dim=2, inputs=[np.broadcast_to(np.float32(3), 8), out])
    assert np.all(out == 6)


@tk.kernel(name="in C++\\")
def named(new: tk.array1d[float], double: float, this: int, this_: int, NULL: int, errno: int, unsigned: tk.bool):
    if unsigned:
        new[tk.tid()] = double + float(this) + float(this_) + float(NULL * errno)


def test_any_name_of_a_parameter_or_kernel():
    new = np.zeros(2, np.float32)
    tk.launch(named, dim=2, inputs=[new, 0.5, 1, 2, 3, 1, True])
    assert np.all(new == 6.5)


def test_a_device_that_the_arrays_are_not_on():
    a, out = arrays()
    with pytest.raises(ValueError, match="the launch is on 'cuda:0', but the kernel's arrays are on 'cpu'"):
        tk.launch_tiled(doubled, dim=2, inputs=[a], outputs=[out], device="cuda:0")


def test_arrays_on_two_devices():
    a, out = arrays()
    there = ArrayView(4096, (8,), (4,), tk.float32, "cuda:0")
    with pytest.raises(ValueError, match="argument 'out' of kernel 'doubled': is on cpu, other arguments on cuda:0"):
        tk.launch_tiled(doubled, dim=2, inputs=[there], outputs=[out])
    with pytest.raises(ValueError, match="argument 'out' of kernel 'doubled': is on cuda:0, other arguments on cpu"):
        tk.launch_tiled(doubled, dim=2, inputs=[a], outputs=[there])


def test_the_number_of_threads_is_no_reason_to_compile_anew():
    a, out = arrays()
    doubled.cache.clear()
    for threads in (1, 2, None):
        with tk.config.scoped(num_threads=threads):
            tk.launch_tiled(doubled, dim=2, inputs=[a], outputs=[out])
    assert len(doubled.cache) == 1


def test_one_array_may_be_input_and_output():
    (a,) = arrays(1)
    tk.launch_tiled(doubled, dim=2, inputs=[a], outputs=[a])
    assert a.tolist() == [2.0 * x for x in range(8)]


def test_any_strides():
    a, out = np.arange(32, dtype=np.float32)[::-4], np.zeros(16, np.float32)[1::2]
    tk.launch_tiled(doubled, dim=2, inputs=[a], outputs=[out])
    assert np.array_equal(out, 2 * a)


def test_numbers_convert_to_the_parameter_s_dtype():
    out = np.zeros(5)
    tk.launch_tiled(numbers, dim=1, inputs=[0.1, np.int64(-7), True, 2.0009765625, 255], outputs=[out])
    assert out.tolist() == [float(np.float32(0.1)), -7, 1, float(np.float16(2.0009765625)), 255]
    tk.launch_tiled(numbers, dim=1, inputs=[1e300, 3, 0, np.nan, 0], outputs=[out])
    assert np.isinf(out[0])
    assert np.isnan(out[3])


@pytest.mark.parametrize(
    ("index", "value", "message"),
    [
        (0, "1", "'x' of kernel 'numbers': expects float32, got '1' of type str"),
        (1, 1.5, r"'n' of kernel 'numbers': expects int32, got 1.5 of type float; use int\(...\)"),
        (1, 2**31, "2147483648 does not fit int32"),
        (4, -1, "-1 does not fit uint8"),
        (0, np.zeros(3), "expects float32, got array"),
        (0, None, "expects float32, got None"),
        (0, 10**400, r"~1.000e\+400 does not fit float32, which holds up to 3.4028"),
        (3, -(10**400), r"~-1.000e\+400 does not fit float16, which holds up to 65504.0"),
    ],
)
def test_wrong_numbers(index, value, message):
    given = [0.0, 0, False, 0.0, 0]
    given[index] = value
    with pytest.raises(TypeError, match=message):
        tk.launch_tiled(numbers, dim=1, inputs=given, outputs=[np.zeros(5)])


def test_an_array_that_is_not_given():
    out = np.zeros(2, np.float32)
    tk.launch_tiled(optional, dim=1, inputs=[None], outputs=[out])
    assert out.tolist() == [1, 1]
    tk.launch_tiled(optional, dim=1, inputs=[np.full(2, 2, np.float32)], outputs=[out])
    assert out.tolist() == [3, 3]


def test_block_dim_is_specialised_on_only_where_lanes_are_observed():
    a, out = arrays()
    doubled.cache.clear()
    for block_dim in (1, 32, 100, 1024, None, 0, -1):
        tk.launch_tiled(doubled, dim=2, inputs=[a], outputs=[out], block_dim=block_dim)
    (compiled,) = doubled.cache.values()
    assert not isinstance(compiled, ByBlockDim)
    for block_dim in (1, 4):
        found = np.zeros(block_dim, np.int32)
        tk.launch_tiled(lanes, dim=1, outputs=[found], block_dim=block_dim)
        assert found.tolist() == list(range(block_dim))
    (by_block_dim,) = lanes.cache.values()
    assert sorted(by_block_dim) == [1, 4]


@pytest.mark.parametrize(
    ("block_dim", "error", "message"),
    [(1025, ValueError, "at most 1024, got 1025"), (2.0, TypeError, "block_dim must be an int, got 2.0")],
)
def test_wrong_block_dim(block_dim, error, message):
    a, out = arrays()
    with pytest.raises(error, match=message):
        tk.launch_tiled(doubled, dim=2, inputs=[a], outputs=[out], block_dim=block_dim)


def test_the_number_of_threads_changes_no_bit():
    a = np.random.default_rng(0).standard_normal(40_000).astype(np.float32)
    results = []
    for threads in (1, 2, 3):
        for block_dim in (32, 256):
            out = np.zeros_like(a)
            with tk.config.scoped(num_threads=threads):
                tk.launch_tiled(doubled, dim=10_000, inputs=[a], outputs=[out], block_dim=block_dim)
            results.append(out.tobytes())
    assert set(results) == {(2 * a).tobytes()}


def test_a_failed_compile_fails_again():
    for _ in range(3):
        with pytest.raises(TypeError, match=r"tile_store\(\): t is a tile<2xi32>"):
            tk.launch_tiled(wrong, dim=1, outputs=[np.zeros(2, np.float32)])
    assert not wrong.cache


def test_a_kernel_defined_again_takes_effect():
    results = []

    @tk.kernel
    def again(out: tk.array1d[float]):
        tk.tile_store(out, tk.tile_full(shape=2, value=2.0))

    tk.launch_tiled(again, dim=1, outputs=[out := np.zeros(2, np.float32)])
    results.append(out.tolist())

    @tk.kernel
    def again(out: tk.array1d[float]):
        tk.tile_store(out, tk.tile_full(shape=2, value=3.0))

    tk.launch_tiled(again, dim=1, outputs=[out := np.zeros(2, np.float32)])
    results.append(out.tolist())
    assert results == [[2, 2], [3, 3]]


def test_recorded_launches():
    a, out = arrays()
    command = tk.launch_tiled(doubled, dim=1, inputs=[a], outputs=[out], record_cmd=True)
    assert isinstance(command, tk.Launch)
    assert np.array_equal(out, a)
    command.launch()
    assert out.tolist() == [0, 2, 4, 6, 4, 5, 6, 7]
    command.set_dim(2)
    command.set_param_at_index(0, np.ones(8, np.float32))
    command.launch()
    assert out.tolist() == [2] * 8
    other = np.zeros(8, np.float32)
    command.set_params([out, other])
    command.launch()
    assert other.tolist() == [4] * 8
    with pytest.raises(ValueError, match="kernel 'doubled' has no parameter 'b', only a, out"):
        command.set_param_by_name("b", a)
    with pytest.raises(TypeError, match="got an array of float64"):
        tk.launch_tiled(doubled, dim=1, inputs=[np.zeros(2)], outputs=[out], record_cmd=True)


def test_a_block_size_is_not_state():
    """A launch with other lanes, or a recorded one, leaves later launches alone."""
    small, large = np.zeros(4, np.int32), np.zeros(64, np.int32)
    recorded = tk.launch_tiled(lanes, dim=1, outputs=[small], block_dim=4, record_cmd=True)
    tk.launch_tiled(lanes, dim=1, outputs=[large], block_dim=64)
    recorded.launch()
    assert small.tolist() == list(range(4))
    assert large.tolist() == list(range(64))


def test_many_threads_launch_at_once():
    wanted, errors = np.arange(8, dtype=np.float32) * 2, []

    def work():
        a, out = arrays()
        for _ in range(50):
            out[:] = 0
            tk.launch_tiled(doubled, dim=2, inputs=[a], outputs=[out])
            if not np.array_equal(out, wanted):
                errors.append(out)

    doubled.cache.clear()
    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
