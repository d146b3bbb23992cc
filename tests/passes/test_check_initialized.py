"""A tile that no write can have reached is not read; one that some path writes is poisoned in checked mode."""

import numpy as np
import pytest

import tilekit as tk
from tests import on_gpu
from tests.builtins.both import out
from tilekit.errors import UninitializedError


@tk.kernel
def stored(n: int, x: tk.array1d[float]):
    t = tk.tile_empty(shape=4)
    tk.tile_store(x, t)


@tk.kernel
def added(n: int, x: tk.array1d[float]):
    t = tk.tile_empty(shape=4)
    u = t + 1.0
    tk.tile_store(x, u)


@tk.kernel
def viewed(n: int, x: tk.array1d[float]):
    t = tk.tile_empty(shape=(2, 4))
    tk.tile_store(x, tk.tile_reshape(t, 8)[4:])


@tk.kernel
def accumulated(n: int, x: tk.array2d[float]):
    t = tk.tile_empty(shape=(4, 4))
    a = tk.tile_ones(shape=(4, 4))
    tk.tile_matmul(a, a, t)
    tk.tile_store(x, t)


@tk.kernel
def other_branch(n: int, x: tk.array1d[float]):
    t = tk.tile_empty(shape=4)
    if n > 0:
        tk.tile_assign(t, tk.tile_ones(shape=4))
    else:
        tk.tile_store(x, t)
    tk.tile_store(x, t)


@tk.kernel
def never_in_loop(n: int, x: tk.array1d[float]):
    t = tk.tile_empty(shape=4)
    for i in range(n):
        if i > 2:
            tk.tile_store(x, t)


@tk.kernel
def made_in_loop(n: int, x: tk.array1d[float]):
    for _i in range(n):
        t = tk.tile_empty(shape=4)
        tk.tile_store(x, t)
        t[0] = 1.0


@tk.kernel
def carried(n: int, x: tk.array1d[float]):
    t = tk.tile_empty(shape=4)
    u = tk.tile_empty(shape=4)
    for _i in range(n):
        v = t
        t = u
        u = v
    tk.tile_store(x, t)


@pytest.mark.parametrize(
    ("kernel", "made", "read"),
    [(stored, 1, 2), (added, 1, 2), (viewed, 1, 2), (accumulated, 1, 3), (other_branch, 1, 5), (never_in_loop, 1, 4),
     (made_in_loop, 2, 3), (carried, 1, 7)],
)  # fmt: skip
def test_reading_what_nothing_wrote_is_refused(kernel, made, read):
    start = kernel.function.__code__.co_firstlineno + 1
    x = out(4, 4) if kernel is accumulated else out(4)
    with pytest.raises(UninitializedError) as caught:
        tk.launch_tiled(kernel, dim=1, inputs=[1], outputs=[x])
    assert caught.value.location.line == start + read
    assert f"that tile_empty made at line {start + made}, but nothing was written to it" in str(caught.value)


@tk.kernel
def fine(n: int, x: tk.array2d[float]):
    t = tk.tile_empty(shape=(4, 4))
    a = tk.tile_ones(shape=(4, 4))
    tk.tile_matmul(a, a, t, beta=0.0)
    u = tk.tile_empty(shape=(4, 4))
    for i in range(n):
        if i > 0:
            t += u
        tk.tile_assign(u, t)
    w = tk.tile_empty(shape=(4, 4))
    for i in range(4):
        w[i] = u[i]
    tk.tile_store(x, w)


def test_writes_on_some_path_or_in_parts_are_enough():
    x = out(4, 4)
    tk.launch_tiled(fine, dim=1, inputs=[3], outputs=[x])
    assert np.array_equal(x, np.full((4, 4), 16, np.float32))


@tk.kernel
def some_paths(n: int, x: tk.array1d[float], k: tk.array1d[tk.int16]):
    t = tk.tile_empty(shape=4)
    i = tk.tile_empty(shape=4, dtype=tk.int16)
    if n > 0:
        t[0] = 1.0
        i[0] = tk.int16(1)
    tk.tile_store(x, t)
    tk.tile_store(k, i)


def test_checked_mode_poisons_what_may_be_unwritten():
    with tk.config.scoped(checked=True):
        x, k = out(4), out(4, dtype=np.int16)
        tk.launch_tiled(some_paths, dim=1, inputs=[1], outputs=[x, k])
        assert x[0] == 1 and np.isnan(x[1:]).all()
        assert k.tolist() == [1, -12851, -12851, -12851]


def test_the_interpreter_reports_a_read_on_the_path_it_takes():
    x, k = out(4), out(4, dtype=np.int16)
    start = some_paths.function.__code__.co_firstlineno + 1
    with pytest.raises(UninitializedError, match=f"tile_empty made at line {start + 1}, but nothing") as caught:
        tk.launch_tiled(some_paths, dim=1, inputs=[0], outputs=[x, k], device="interpret")
    assert caught.value.location.line == start + 6
    tk.launch_tiled(fine, dim=1, inputs=[3], outputs=[out(4, 4)], device="interpret")


@tk.kernel
def scaled(n: int, beta: float, x: tk.array2d[float]):
    a = tk.tile_ones(shape=(4, 4))
    t = tk.tile_empty(shape=(4, 4))
    if n > 1:
        tk.tile_matmul(a, a, t, beta=beta)
    else:
        tk.tile_matmul(a, a, t, 1.0, beta)
    tk.tile_store(x, t)


@pytest.mark.parametrize("checked", [False, True])
@pytest.mark.parametrize("device", ["cpu", "interpret"])
@pytest.mark.parametrize("n", [1, 2])
def test_a_factor_at_run_time_must_be_zero_where_nothing_was_written(n, device, checked):
    start = scaled.function.__code__.co_firstlineno + 1
    with tk.config.scoped(checked=checked):
        x = out(4, 4)
        tk.launch_tiled(scaled, dim=1, inputs=[n, 0.0], outputs=[x], device=device)
        assert np.array_equal(x, np.full((4, 4), 4, np.float32))
        for beta in (1.0, -0.5, np.nan):
            with pytest.raises(UninitializedError) as caught:
                tk.launch_tiled(scaled, dim=1, inputs=[n, beta], outputs=[x], device=device)
            assert caught.value.location.line == start + (4 if n > 1 else 6)
            assert caught.value.message == (
                f"this reads a tile<4x4xf32> that tile_empty made at line {start + 2}, but nothing was written to it; "
                "write to it first, or make it with tk.tile_zeros, in block 0 of kernel 'scaled'"
            )


@tk.kernel
def begun(n: int, x: tk.array2d[float]):
    a = tk.tile_ones(shape=(4, 4))
    t = tk.tile_empty(shape=(4, 4))
    for i in range(n):
        tk.tile_matmul(a, a, t, beta=tk.where(i > 0, 1.0, 0.0))
    tk.tile_store(x, t)


@pytest.mark.parametrize("device", ["cpu", "interpret"])
def test_a_factor_that_is_zero_in_the_first_iteration_is_enough(device):
    x = out(4, 4)
    tk.launch_tiled(begun, dim=1, inputs=[3], outputs=[x], device=device)
    assert np.array_equal(x, np.full((4, 4), 12, np.float32))


@tk.kernel
def perhaps(n: int, beta: float, x: tk.array2d[float]):
    a = tk.tile_ones(shape=(4, 4))
    t = tk.tile_empty(shape=(4, 4))
    if n > 0:
        tk.tile_assign(t, a)
    tk.tile_matmul(a, a, t, beta=beta)
    tk.tile_store(x, t)


def test_a_factor_of_what_some_path_wrote_reads_poison_in_checked_mode():
    with tk.config.scoped(checked=True):
        for n, beta, wanted in ((1, 1.0, 5.0), (0, 0.0, 4.0), (0, 1.0, np.nan)):
            x = out(4, 4)
            tk.launch_tiled(perhaps, dim=1, inputs=[n, beta], outputs=[x])
            assert np.array_equal(x, np.full((4, 4), wanted, np.float32), equal_nan=True)


@pytest.mark.gpu
def test_a_factor_at_run_time_is_checked_on_a_gpu():
    x = out(4, 4)
    on_gpu.launch_tiled(scaled, 1, [2, 0.0], [x])
    assert np.array_equal(x, np.full((4, 4), 4, np.float32))
    with pytest.raises(UninitializedError, match="nothing was written to it"):
        on_gpu.launch_tiled(scaled, 1, [2, 1.0], [x])
        tk.synchronize()
