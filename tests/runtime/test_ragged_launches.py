"""``tk.launch`` of tile kernels over points that leave the last block without some lanes."""

from __future__ import annotations

import numpy as np
import pytest

import tilekit as tk
from tests.runtime.test_lanes import run

BLOCK = 8
LESS = [1, 3, 7, 8, 9, 13, 16, 23]


@tk.kernel
def stored(a: tk.array1d[float], out: tk.array1d[float]):
    i = tk.tid()
    first = i - i % 8
    block = tk.untile(tk.tile(first // 8))
    out[i] = tk.untile(tk.tile(a[i]) * 2.0 + 1.0) + float(block)


@tk.kernel
def sums(a: tk.array1d[float], out: tk.array1d[float]):
    i = tk.tid()
    total = tk.tile_sum(tk.tile(a[i]) * 2.0 + 1.0)
    out[i] = total[0]


@tk.kernel
def extremes(a: tk.array1d[tk.int32], least: tk.array1d[tk.int32], greatest: tk.array1d[tk.int32]):
    i = tk.tid()
    t = tk.tile(a[i])
    low, high = tk.tile_min(t), tk.tile_max(t * 2)
    least[i] = low[0]
    greatest[i] = high[0]


@tk.kernel
def counted(n: tk.array1d[tk.int32]):
    i = tk.tid()
    tk.tile_atomic_add(n, tk.tile_sum(tk.tile(1)))
    acc = tk.tile_zeros(shape=8, dtype=tk.int32)
    for k in range(3):
        acc += tk.tile(i * 0 + k)
    tk.tile_atomic_add(n, tk.tile_sum(acc), offset=1)


@tk.kernel
def moved(out: tk.array1d[tk.int32], added: tk.array1d[tk.int32], n: int):
    i = tk.tid()
    t = tk.tile(i + 1)
    tk.tile_store(out, t, offset=n)
    tk.tile_atomic_add(added, t, offset=1)


@pytest.mark.parametrize("n", LESS)
def test_missing_lanes_contribute_nothing(n: int) -> None:
    a = np.linspace(0.1, 2, n).astype(np.float32)
    (_, out) = run(sums, a, np.zeros(n, np.float32), dim=n, tiled=False)
    blocks = np.split(2.0 * a.astype(np.float64) + 1.0, range(BLOCK, n, BLOCK))
    assert np.allclose(out, np.concatenate([np.full(len(b), b.sum()) for b in blocks]), rtol=1e-6)
    whole = np.arange(n, dtype=np.int32) - 100
    _, least, greatest = run(extremes, whole, *np.zeros((2, n), np.int32), dim=n, tiled=False)
    for start in range(0, n, BLOCK):
        assert set(least[start : start + BLOCK]) == {start - 100}
        assert set(greatest[start : start + BLOCK]) == {2 * (min(start + BLOCK, n) - 101)}
    (count,) = run(counted, np.zeros(2, np.int32), dim=n, tiled=False)
    assert count.tolist() == [n, 3 * n]


@pytest.mark.parametrize("n", LESS)
def test_a_lane_gets_back_what_it_gave(n: int) -> None:
    a = np.arange(n, dtype=np.float32)
    (_, out) = run(stored, a, np.zeros(n, np.float32), dim=n, tiled=False)
    assert out.tolist() == [2.0 * i + 1 + i // 8 for i in range(n)]


@pytest.mark.parametrize("offset", [0, 2, -2, 6, 12, -9])
@pytest.mark.parametrize("n", [1, 5, 7])
def test_elements_of_missing_lanes_are_not_stored(n: int, offset: int) -> None:
    out, added, _ = run(moved, np.full(10, -1, np.int32), np.full(10, 100, np.int32), offset, dim=n, tiled=False)
    expected = np.full(10, -1)
    for lane in range(n):
        if 0 <= lane + offset < 10:
            expected[lane + offset] = lane + 1
    assert out.tolist() == expected.tolist()
    assert added.tolist() == [100 + (i if 1 <= i <= n else 0) for i in range(10)]


@tk.kernel
def loaded(a: tk.array2d[float], out: tk.array1d[float]):
    i = tk.tid()
    t = tk.tile_load(a, shape=(4, 4)) * 2.0
    s = tk.tile_sum(t, axis=0)
    out[i] = s[i % 4]


@pytest.mark.parametrize("n", LESS)
def test_tiles_that_hold_no_lanes_are_whole(n: int) -> None:
    a = np.arange(16, dtype=np.float32).reshape(4, 4)
    (_, out) = run(loaded, a, np.zeros(n, np.float32), dim=n, tiled=False)
    assert out.tolist() == [float(2 * a.sum(0)[i % 4]) for i in range(n)]


@tk.kernel
def uniform_in_lanes(flag: int, a: tk.array1d[float], out: tk.array1d[float]):
    """What is the same for all lanes is found in code of single lanes, and used by all of them together.

    No block writes what another one loads.
    """
    i = tk.tid()
    k = 0
    for j in range(flag):
        a[i] = float(j)
        k += 3
    t = tk.tile_load(a, shape=4, offset=k)
    out[i] = t[0] + tk.tile_sum(tk.tile(1.0))[0]


@pytest.mark.parametrize("n", [3, 13])
def test_what_lanes_share_reaches_all_threads(n: int) -> None:
    a = np.arange(40, dtype=np.float32)
    (_, _, out) = run(uniform_in_lanes, 10, a, np.zeros(n, np.float32), dim=n, tiled=False)
    assert out.tolist() == [30.0 + (min(8, n) if i < 8 else n - 8) for i in range(n)]


@tk.func
def product(a: float, b: float):
    return a * b


@tk.func
def larger(a: float, b: float):
    if a > b:
        return a
    return b


@tk.kernel
def combined(a: tk.array1d[float], out: tk.array2d[float]):
    i = tk.tid()
    t = tk.tile(a[i])
    out[0, i] = tk.tile_reduce(product, t)[0]
    out[1, i] = tk.tile_reduce(larger, -t, axis=0)[0]
    out[2, i] = tk.tile_sum(tk.tile_map(lambda x: x if x > 2.0 else x + 100.0, t), keepdims=True)[0]


@pytest.mark.parametrize(("n", "lanes"), [(1, 8), (11, 8), (70, 64), (100, 64)])
def test_functions_of_the_user(n: int, lanes: int) -> None:
    a = (1.0 + np.arange(n) / 64).astype(np.float32)
    _, out = run(combined, a, np.zeros((3, n), np.float32), dim=n, block_dim=lanes, tiled=False)
    for start in range(0, n, lanes):
        block = a[start : start + lanes].astype(np.float64)
        found = out[:, start : start + lanes]
        expected = [block.prod(), -block.min(), (block + 100.0 * (block <= 2.0)).sum()]
        assert np.allclose(found, np.reshape(expected, (3, 1)), rtol=1e-5)


@tk.kernel
def quotients(a: tk.array1d[tk.int32], out: tk.array1d[tk.int32]):
    """Of elements that missing lanes do not have, nothing may be computed that fails."""
    i = tk.tid()
    t = tk.tile_map(halved, tk.tile(a[i]))
    out[i] = tk.tile_sum(t)[0]


@tk.func
def halved(x: int):
    assert x > 0
    return 12 // x


def test_what_is_computed_for_missing_lanes_cannot_fail() -> None:
    _, out = run(quotients, np.int32([3, 4, 6]), np.zeros(3, np.int32), dim=3, tiled=False)
    assert out.tolist() == [9, 9, 9]


@tk.kernel
def reshaped(out: tk.array2d[float]):
    i = tk.tid()
    t = tk.tile_reshape(tk.tile(float(i)), (2, 4))
    tk.tile_store(out, t)


@pytest.mark.parametrize("device", ["cpu", "interpret"])
def test_what_has_no_meaning_without_all_lanes(device: str) -> None:
    kernel, call, out = reshaped, "'tk.tile_store(out, t)'", np.zeros((2, 4), np.float32)
    with pytest.raises(ValueError) as caught:
        tk.launch(kernel, dim=5, outputs=[out], block_dim=BLOCK, device=device)
    assert isinstance(caught.value, tk.errors.TilekitError)
    assert caught.value.message == (
        f"{call}: the tile has one element a lane, and the last block of this launch lacks lanes; such a tile can be "
        "computed with, reduced, stored, and read element by element; for anything "
        "else let the number of points be a multiple of block_dim=8, or use tk.launch_tiled"
    )
    assert caught.value.location is not None and call.strip("'") in caught.value.location.source_line()
    tk.launch(kernel, dim=8, outputs=[out], block_dim=BLOCK, device=device)


def test_one_form_serves_all_launches_that_lack_lanes() -> None:
    sums.cache.clear()
    for n in LESS * 2:
        tk.launch(sums, dim=n, inputs=[np.ones(n, np.float32)], outputs=[np.ones(n, np.float32)], block_dim=BLOCK)
    (forms,) = (found for found in sums.cache.values() if isinstance(found, dict))
    assert sorted(forms) == [(8, False, 0), (8, True, 0)]


@tk.kernel
def rows(a: tk.array2d[float], out: tk.array2d[float]):
    i, j = tk.tid()
    t = tk.tile_load(a, shape=(1, 8), offset=(i, 0))
    out[i, j] = t[0, 7 - j % 8] + tk.tile_sum(tk.tile(1.0))[0]


@pytest.mark.parametrize("cols", [8, 16])
def test_a_coordinate_that_a_block_shares_is_an_offset(cols: int) -> None:
    a = np.arange(24, dtype=np.float32).reshape(3, 8)
    _, out = run(rows, a, np.zeros((3, cols), np.float32), dim=(3, cols), tiled=False)
    assert np.array_equal(out, a[:, [7 - j % 8 for j in range(cols)]] + 8)


@pytest.mark.parametrize("device", ["cpu", "interpret"])
@pytest.mark.parametrize("cols", [4, 12, 20])
def test_a_coordinate_that_it_does_not_share_is_none(cols: int, device: str) -> None:
    a, out = np.zeros((3, 8), np.float32), np.zeros((3, cols), np.float32)
    with pytest.raises(ValueError) as caught:
        tk.launch(rows, dim=(3, cols), inputs=[a], outputs=[out], block_dim=BLOCK, device=device)
    assert isinstance(caught.value, tk.errors.TilekitError)
    line = rows.function.__code__.co_firstlineno + 2
    assert caught.value.message == (
        "tile_load(): offset must be the same for all lanes of the block, but it depends on the value at line "
        f"{line} (i, j = tk.tid()); all lanes share it where the extents after it in dim make whole blocks: let their "
        "product be a multiple of block_dim, or use tk.launch_tiled"
    )


@tk.kernel
def each_point(a: tk.array1d[float], out: tk.array1d[float]):
    i = tk.tid()
    tk.tile_store(out, tk.tile_load(a, shape=2, offset=2 * i) * 2.0, offset=2 * i)


def test_blocks_of_one_lane_share_every_coordinate() -> None:
    a = np.arange(10, dtype=np.float32)
    _, out = run(each_point, a, np.zeros(10, np.float32), dim=5, block_dim=1, tiled=False)
    assert np.array_equal(out, 2 * a)


@tk.kernel
def strided(a: tk.array1d[float], n: int, out: tk.array1d[float]):
    _i, lane = tk.tid()
    total = tk.tile_zeros(shape=8)
    for k in range(lane, n, tk.block_dim()):
        total += tk.tile(a[k])
    tk.tile_store(out, tk.tile_sum(total))


@tk.kernel
def in_step(a: tk.array1d[float], n: int, out: tk.array1d[float]):
    _i, lane = tk.tid()
    total = tk.tile_zeros(shape=8)
    for first in range(0, n, tk.block_dim()):
        x = 0.0
        if first + lane < n:
            x = a[first + lane]
        total += tk.tile(x)
    tk.tile_store(out, tk.tile_sum(total))


@pytest.mark.parametrize("device", ["cpu", "interpret"])
def test_lanes_with_trips_of_their_own(device: str) -> None:
    a, out = np.arange(21, dtype=np.float32), np.zeros(1, np.float32)
    with pytest.raises(ValueError) as caught:
        tk.launch_tiled(strided, dim=1, inputs=[a, 21], outputs=[out], block_dim=BLOCK, device=device)
    line = strided.function.__code__.co_firstlineno + 2
    assert isinstance(caught.value, tk.errors.TilekitError)
    assert caught.value.message == (
        "'tk.tile(a[k])': all lanes of the block take part, but it stands in the loop at line "
        f"{line + 2} (for k in range(lane, n, tk.block_dim()):), which differs between lanes because of the value at "
        f"line {line} (_i, lane = tk.tid()); let the index before the lane is added run, as in "
        "`for first in range(0, n, tk.block_dim()):`, and inside it let a lane whose own index is not below the end "
        "give what changes nothing, such as 0"
    )
    tk.launch_tiled(in_step, dim=1, inputs=[a, 21], outputs=[out], block_dim=BLOCK, device=device)
    assert out.tolist() == [a.sum()]
