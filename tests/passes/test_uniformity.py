"""What lanes cannot do together is refused, with the condition and its line."""

import numpy as np
import pytest

import tilekit as tk


@tk.kernel
def load_in_branch(a: tk.array1d[float]):
    _i, lane = tk.tid()
    if lane < 3:
        t = tk.tile_load(a, shape=4)
        tk.tile_store(a, t)


@tk.kernel
def store_in_nested_branch(n: int, a: tk.array1d[float]):
    _i, lane = tk.tid()
    t = tk.tile_zeros(shape=4)
    if n > lane:
        if n > 1:
            tk.tile_store(a, t)


@tk.kernel
def load_in_loop(a: tk.array1d[float]):
    _i, lane = tk.tid()
    for k in range(lane):
        tk.tile_store(a, tk.tile_load(a, shape=4, offset=k))


@tk.kernel
def load_in_while(a: tk.array1d[float]):
    _i, lane = tk.tid()
    n = lane
    while n > 0:
        tk.tile_store(a, tk.tile_load(a, shape=4))
        n -= 1


@tk.kernel
def carried_condition(a: tk.array1d[float]):
    _i, lane = tk.tid()
    x = 0
    for _k in range(20):
        if x > 3:
            tk.tile_store(a, tk.tile_zeros(shape=4))
        x += lane


@tk.kernel
def by_an_atomic(a: tk.array1d[float]):
    old = tk.atomic_add(a, 0, 1.0)
    if old < 3.0:
        tk.tile_store(a, tk.tile_zeros(shape=4))


@tk.kernel
def chosen_by_lane(a: tk.array1d[float]):
    _i, lane = tk.tid()
    t = tk.tile_zeros(shape=4)
    u = tk.tile_ones(shape=4)
    v = t
    if lane == 1:
        v = u
    tk.tile_store(a, v)


@tk.kernel
def offset_of_lane(a: tk.array1d[float]):
    _i, lane = tk.tid()
    tk.tile_store(a, tk.tile_zeros(shape=4), offset=lane)


@tk.kernel
def value_of_lane(a: tk.array1d[float]):
    _i, lane = tk.tid()
    tk.tile_store(a, tk.tile_full(shape=4, value=tk.float32(lane)))


@tk.kernel
def scaled_by_lane(a: tk.array1d[float]):
    _i, lane = tk.tid()
    tk.tile_store(a, tk.tile_zeros(shape=4) * tk.float32(lane))


@tk.kernel
def view_of_lane(a: tk.array1d[float]):
    _i, lane = tk.tid()
    t = tk.tile_zeros(shape=(8, 4))
    tk.tile_store(a, t[lane])


@tk.kernel
def untiled_condition(a: tk.array1d[float]):
    t = tk.tile_zeros(shape=8)
    if tk.untile(t) > 0.0:
        tk.tile_store(a, t)


@tk.kernel
def by_point(a: tk.array1d[float]):
    i = tk.tid()
    if i < 3:
        tk.tile_store(a, tk.tile_zeros(shape=4))


@tk.kernel
def mapped_with_lane(a: tk.array1d[float]):
    _i, lane = tk.tid()
    x = tk.float32(lane)
    tk.tile_store(a, tk.tile_map(lambda v: v + x, tk.tile_zeros(shape=4)))


@tk.kernel
def after_return(a: tk.array1d[float]):
    _i, lane = tk.tid()
    if lane > 2:
        return
    tk.tile_store(a, tk.tile(1.0))


def refused(kernel, *arguments, tiled=True):
    """The error's line and message, lines counted from the kernel's def."""
    launch = tk.launch_tiled if tiled else tk.launch
    start = kernel.function.__code__.co_firstlineno + 1
    messages = set()
    for device in ("cpu", "interpret"):
        with pytest.raises(ValueError) as caught:
            launch(kernel, dim=8, inputs=[*arguments, np.zeros(8, np.float32)], block_dim=8, device=device)
        messages.add((caught.value.location.line - start, caught.value.message))
    (found,) = messages
    return found[0], found[1].replace(f"line {start + 1} ", "line 1 "), start


@pytest.mark.parametrize(
    ("kernel", "arguments", "line", "condition", "source"),
    [
        (load_in_branch, (), 3, (2, "if lane < 3:"), 1),
        (store_in_nested_branch, (2,), 5, (3, "if n > lane:"), 1),
        (load_in_loop, (), 3, (2, "for k in range(lane):"), 1),
        (load_in_while, (), 4, (3, "while n > 0:"), 1),
        (carried_condition, (), 5, (4, "if x > 3:"), 1),
        (after_return, (), 4, (2, "if lane > 2:"), 1),
        (untiled_condition, (), 3, (2, "if tk.untile(t) > 0.0:"), 2),
    ],
)
def test_tile_operations_under_a_condition_that_differs(kernel, arguments, line, condition, source):
    found, message, start = refused(kernel, *arguments)
    assert found == line
    what = "loop" if condition[1].startswith(("for", "while")) else "condition"
    assert f"all lanes of the block take part, but it stands in the {what} at line {start + condition[0]}" in message
    assert f"({condition[1]}), which differs between lanes because of the value at line" in message
    assert f"at line {1 if source == 1 else start + source} (" in message.partition("because of the value")[2]


def test_under_a_point_s_condition():
    line, message, _ = refused(by_point, tiled=False)
    assert line == 3
    assert "(if i < 3:), which differs between lanes because of the value at line 1 (i = tk.tid())" in message


def test_each_lane_gets_another_result_of_an_atomic():
    line, message, _ = refused(by_an_atomic, tiled=False)
    assert line == 3
    cause = "differs between lanes because of the value at line 1 (old = tk.atomic_add(a, 0, 1.0))"
    assert f"(if old < 3.0:), which {cause}" in message


def test_a_tile_chosen_by_lanes():
    line, message, _ = refused(chosen_by_lane)
    assert line == 5
    assert message.startswith("a tile<4xf32> is chosen in the condition at line")
    assert message.endswith("lanes share their tiles, so choose elements instead")


@pytest.mark.parametrize(
    ("kernel", "line", "start"),
    [
        (offset_of_lane, 2, "tile_store(): offset must be the same for all lanes of the block"),
        (value_of_lane, 2, "tile_full(): value must be the same for all lanes of the block"),
        (scaled_by_lane, 2, "'tk.tile_zeros(shape=4) * tk.float32(lane)': args must be the same for all lanes"),
        (mapped_with_lane, 3, "'tk.tile_map(lambda v: v + x, tk.tile_zeros(shape=4))': what its function uses must be"),
        (view_of_lane, 3, "tile_store(): t must be the same for all lanes of the block"),
    ],
)
def test_operands_that_differ(kernel, line, start):
    found, message, _ = refused(kernel)
    assert found == line
    assert message.startswith(start)
    assert "at line 1 (_i, lane = tk.tid()); use tk.tile(x) to make a tile of one value a lane" in message
