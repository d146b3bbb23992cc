"""Names that lanes bind to tiles: all lanes share the copy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilekit as tk
from tests import on_gpu

LANES = np.arange(8, dtype=np.float32)


def run(kernel: Any, n: int, device: str) -> list[list[float]]:
    out = np.zeros((3, 8), np.float32)
    if device == "cuda":
        held = on_gpu.there(out)
        tk.launch_tiled(kernel, dim=1, inputs=[n], outputs=[held], block_dim=8)
        out = held.numpy()
    else:
        tk.launch_tiled(kernel, dim=1, inputs=[n], outputs=[out], block_dim=8, device=device)
    return out.tolist()  # type: ignore[no-any-return]


@tk.kernel
def copies(n: int, out: tk.array2d[float]):
    _, lane = tk.tid()
    t = tk.tile(float(lane))
    u = t
    u[lane] = 5.0
    s = t[lane]
    w = u
    w += 1.0
    pair = (t, lane)
    p, own = pair
    p += 1.0
    tk.tile_store(out[0], t)
    tk.tile_store(out[1], u)
    out[2, lane] = s + w[7 - lane] + p[own]


@tk.kernel
def changes_places(n: int, out: tk.array2d[float]):
    _, lane = tk.tid()
    t = tk.tile(float(lane))
    u = t
    for _ in range(n):
        u = t
        t += 1.0
        t, u = u, t
        u[lane] = u[7 - lane] + 100.0
    best = t
    if n > 2:
        best = u
    best += 1.0
    if lane < 3:
        out[2, lane] = best[7 - lane]
        t[lane] = 50.0
    tk.tile_store(out[0], t)
    tk.tile_store(out[1], best)


DEVICES = ["cpu", "interpret", pytest.param("cuda", marks=pytest.mark.gpu)]


@pytest.mark.parametrize("device", DEVICES)
def test_lanes_share_what_a_name_is_bound_to(device: str) -> None:
    assert run(copies, 0, device) == [LANES.tolist(), [5.0] * 8, (LANES * 2 + 7).tolist()]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("n", [0, 1, 3])
def test_tiles_of_lanes_that_change_places(n: int, device: str) -> None:
    other = LANES + 1
    best = (other[::-1] + 100 if n > 2 else LANES) + 1
    first = np.where(LANES < 3, 50, LANES)
    read = np.where(LANES < 3, best[::-1], 0)
    assert run(changes_places, n, device) == [first.tolist(), best.tolist(), read.tolist()]


@pytest.mark.parametrize("device", ["cpu", "interpret"])
def test_a_copy_in_some_lanes_is_not_written(device: str) -> None:
    @tk.kernel
    def k(n: int, out: tk.array2d[float]):
        _, lane = tk.tid()
        t = tk.tile(float(lane))
        if lane < 4:
            u = t
            u[lane] = 5.0
            out[2, lane] = u[7 - lane]
        tk.tile_store(out[0], t)

    with pytest.raises(tk.errors.KernelValueError) as caught:
        run(k, 0, device)
    assert caught.value.message == (
        "'u[lane]': a lane cannot write to a copy of a tile by itself, as lanes share their tiles; bind the name where "
        "all lanes do, or write to the tile itself"
    )


@pytest.mark.parametrize("device", ["cpu", "interpret"])
def test_a_copy_of_a_lanes_own_view_is_not_written(device: str) -> None:
    @tk.kernel
    def k(n: int, out: tk.array2d[float]):
        _, lane = tk.tid()
        t = tk.tile_reshape(tk.tile(float(lane)), (4, 2))
        v = t[lane // 2]
        w = v
        out[2, lane] = w[0]
        w[0] = 7.0

    with pytest.raises(tk.errors.KernelValueError, match="a lane cannot write to a copy of a tile by itself"):
        run(k, 0, device)


@pytest.mark.parametrize("device", ["cpu", "interpret"])
def test_a_lanes_own_view_is_not_carried(device: str) -> None:
    @tk.kernel
    def k(n: int, out: tk.array2d[float]):
        _, lane = tk.tid()
        t = tk.tile_reshape(tk.tile(float(lane)), (4, 2))
        v = t[lane // 2]
        if n > 0:
            v = t[lane % 2]
        out[2, lane] = v[0]

    with pytest.raises(tk.errors.KernelValueError) as caught:
        run(k, 0, device)
    line = caught.value.location.line
    assert caught.value.message == (
        f"a tile<2xf32> is carried by the condition at line {line} (if n > 0:), but differs between lanes because of "
        f"the value at line {line - 3} (_, lane = tk.tid()); lanes share their tiles, so carry the index of the part "
        "instead"
    )
