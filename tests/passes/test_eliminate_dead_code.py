"""What has no effect is dropped, what has one stays whole."""

import numpy as np

import tilekit as tk
from tilekit.ir.context import LaunchForm
from tilekit.ir.core import walk
from tilekit.ir.interpret import Machine, interpret
from tilekit.passes.eliminate_dead_code import eliminate_dead_code


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


@tk.kernel
def carries(a: tk.array1d[float], out: tk.array1d[float], n: int):
    """``step`` is used in the loop alone, ``weight`` in the branch; ``count`` only carries itself."""
    total, step, weight, count = 0.0, 1.0, 0.5, 0.0
    for k in range(n):
        total += step * weight
        if a[k] > 0.0:
            step *= 2.0
            weight = a[k]
            count += 1.0
    out[0] = total


def test_a_carry_lives_where_another_one_needs_it():
    types = carries.default_types()
    before = carries.trace(types, LaunchForm(tiled=False))
    after = eliminate_dead_code(before)
    loops = [[op for op in walk(fn.body) if op.builtin.name == "for_range"] for fn in (before, after)]
    branches = [op for op in walk(after.body) if op.builtin.name == "if_else"]
    assert [[len(op.results) for op in found] for found in (*loops, branches)] == [[4], [3], [2]]
    a = np.asarray([1, -1, 3, -1, -1], np.float32)
    for fn in (before, after):
        out = np.zeros(1, np.float32)
        interpret(fn, {"a": a, "out": out, "n": np.int32(5)}, Machine((0,), (1,), 1))
        assert out == 0.5 + 2.0 + 2.0 + 4 * 3.0 + 4 * 3.0
