"""What has no effect is dropped, what has one stays whole."""

import numpy as np

import tilekit as tk


def told(x):
    print(x)
    return x + 1.0


@tk.kernel
def maps_for_its_effect(n: float):
    t = tk.tile_full(shape=2, value=n, dtype=float)
    tk.tile_map(told, t)


def test_a_map_whose_result_is_unused_keeps_its_effect(capsys):
    tk.launch_tiled(maps_for_its_effect, dim=1, inputs=[np.float32(1.5)], block_dim=32)
    assert capsys.readouterr().out.split() == ["1.5", "1.5"]
