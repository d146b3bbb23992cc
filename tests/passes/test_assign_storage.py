"""Tiles share memory where they may, and only there."""

import cProfile

import numpy as np
import pytest

import tilekit as tk
from tilekit.codegen.target import Target
from tilekit.ir.context import LaunchForm
from tilekit.ir.core import walk
from tilekit.ir.types import ArrayType, ScalarType, TileType
from tilekit.passes import run_pipeline
from tilekit.passes.assign_storage import assign_storage
from tilekit.passes.liveness import Liveness


@tk.kernel
def gemm(a: tk.array2d[float], b: tk.array2d[float], out: tk.array2d[float], n: int):
    acc = tk.tile_zeros(shape=(8, 8))
    for k in range(n):
        a_tile = tk.tile_load(a, shape=(8, 4), offset=(0, k * 4))
        b_tile = tk.tile_load(b, shape=(4, 8), offset=(k * 4, 0))
        tk.tile_matmul(a_tile, b_tile, acc)
    tk.tile_store(out, acc)


@tk.kernel
def branch(a: tk.array2d[float], b: tk.array2d[float], out: tk.array2d[float], n: int):
    acc = tk.tile_load(a, shape=(8, 8))
    if n > 3:
        acc += tk.tile_matmul(acc, acc)
    else:
        acc += 1.0
    tk.tile_store(out, acc)


@tk.kernel
def transposed_update(a: tk.array2d[float], b: tk.array2d[float], out: tk.array2d[float], n: int):
    t = tk.tile_load(a, shape=(8, 8))
    t += tk.tile_transpose(t)
    tk.tile_store(out, t)


@tk.kernel
def swap(a: tk.array2d[float], b: tk.array2d[float], out: tk.array2d[float], n: int):
    x = tk.tile_load(a, shape=(8, 8))
    y = tk.tile_load(b, shape=(8, 8))
    for _ in range(n):
        x, y = y, x
    tk.tile_store(out, x - y * 2.0)


@tk.kernel
def read_again(a: tk.array2d[float], b: tk.array2d[float], out: tk.array2d[float], n: int):
    """The next iteration reads ``x`` again, so that ``z`` cannot lie there."""
    x = tk.tile_load(a, shape=(8, 8))
    acc = tk.tile_zeros(shape=(8, 8))
    for _ in range(n):
        y = tk.tile_matmul(x, x)
        z = tk.tile_load(b, shape=(8, 8))
        tk.tile_matmul(y, z, acc)
    tk.tile_store(out, acc)


@tk.kernel
def widened(a: tk.array2d[float], b: tk.array2d[float], out: tk.array2d[float], n: int):
    t = tk.tile_astype(tk.tile_load(a, shape=(8, 8)), tk.float64)
    u = tk.tile_astype(t * 3.0, tk.int8)
    tk.tile_store(out, tk.tile_astype(u, tk.float32))


def lowered(kernel):
    """The function before its copies are placed, and its storage."""
    types = {name: ArrayType(tk.float32, 2) for name in ("a", "b", "out")} | {"n": ScalarType(tk.int32)}
    seen = {}
    run_pipeline(kernel.trace(types, LaunchForm(True, 1)), Target(), seen.__setitem__)
    seen.pop("place_copies")
    fn = seen.popitem()[1]
    return fn, assign_storage(fn)


def test_a_rolled_gemm_loop_accumulates_in_place():
    _, storage = lowered(gemm)
    buffers = {id(buffer) for buffer in storage.buffers.values()}
    assert len(buffers) == 3
    assert storage.size == 8 * 8 * 4 + 2 * 8 * 4 * 4


@pytest.mark.parametrize("kernel", [gemm, branch, transposed_update, swap, read_again, widened], ids=lambda k: k.key)
def test_values_alive_together_never_share_bytes(kernel):
    fn, storage = lowered(kernel)
    for value, others in Liveness(fn).interferes.items():
        for other in others:
            a, b = storage.buffers[value], storage.buffers[other]
            assert a.offset + a.size <= b.offset or b.offset + b.size <= a.offset


@pytest.mark.parametrize("kernel", [gemm, branch, transposed_update, swap, read_again, widened], ids=lambda k: k.key)
def test_every_tile_that_is_not_a_view_has_a_buffer(kernel):
    fn, storage = lowered(kernel)
    for op in walk(fn.body):
        if not op.builtin.view:
            assert all(v in storage.buffers for v in op.results if isinstance(v.type, TileType))


@pytest.mark.parametrize("n", [0, 1, 2, 5])
@pytest.mark.parametrize("kernel", [branch, transposed_update, swap, read_again, widened], ids=lambda k: k.key)
def test_sharing_keeps_the_meaning(kernel, n):
    rng = np.random.default_rng(n)
    a, b = (rng.standard_normal((8, 8)).astype(np.float32) for _ in range(2))
    out = np.zeros((8, 8), np.float32)
    tk.launch_tiled(kernel, dim=1, inputs=[a, b, out, n], block_dim=32)
    x, y = (b, a) if n % 2 else (a, b)
    expected = {
        "branch": a @ a + a if n > 3 else a + 1,
        "transposed_update": a + a.T,
        "swap": x - y * 2,
        "read_again": n * (a @ a @ b),
        "widened": (a.astype(np.float64) * 3).astype(np.int8),
    }[kernel.key]
    np.testing.assert_allclose(out, expected, rtol=1e-5, atol=1e-5)


@tk.kernel
def doubled(a: tk.array2d[float], out: tk.array2d[tk.float64]):
    tk.tile_store(out, tk.cast(tk.tile_load(a, shape=(8, 8)), tk.float64) * 2.0)


def test_a_result_never_lies_on_part_of_an_operand():
    """Element 0 of a wider result would overwrite element 1 of the operand before it is read."""
    function, storage = run_pipeline(doubled.trace(doubled.default_types(), LaunchForm(True, 1)), Target())
    (op,) = (op for op in walk(function.body) if op.builtin.name == "map_elements")
    operand, result = storage.buffers[next(op.inputs())], storage.buffers[op.results[0]]
    assert operand.offset + operand.size <= result.offset or result.offset + result.size <= operand.offset
    a, out = np.arange(64, dtype=np.float32).reshape(8, 8), np.zeros((8, 8))
    tk.launch_tiled(doubled, dim=1, inputs=[a, out], block_dim=32)
    np.testing.assert_array_equal(out, a * 2.0)


# Names that are bound to tiles.


def plain_row(x, y, out, n):
    for _ in range(n):
        x += y
        y += tk.tile_transpose(x)
    tk.tile_store(out, x - y)


def bound_row(x, y, out, n):
    start, other = x, y
    x, y = start, other
    for _ in range(n):
        x += y
        again = y
        y = again
        y += tk.tile_transpose(x)
    last = x
    tk.tile_store(out, last - y)


def changing_row(x, y, out, n):
    for _ in range(n):
        x += y
        y += tk.tile_transpose(x)
        x, y = y, x
    tk.tile_store(out, x - y)


ROWS = {"plain": plain_row, "bound": bound_row, "changing": changing_row}


def kernel_of(row):
    @tk.kernel
    def k(a: tk.array2d[float], b: tk.array2d[float], out: tk.array2d[float], n: int):
        row(tk.tile_load(a, shape=(32, 32)), tk.tile_load(b, shape=(32, 32)), out, n)

    return k


def test_an_assignment_adds_no_op():
    types = {name: ArrayType(tk.float32, 2) for name in ("a", "b", "out")} | {"n": ScalarType(tk.int32)}
    found = [kernel_of(ROWS[name]).trace(types, LaunchForm(True, 1)) for name in ("plain", "bound")]
    plain, bound = ([(op.builtin.name, len(op.results)) for op in walk(fn.body)] for fn in found)
    assert plain == bound


@pytest.mark.parametrize("options", [{"device": "cpu"}, {"arch": 90, "block_dim": 128}], ids=["cpu", "cuda"])
@pytest.mark.parametrize("name", ["bound", "changing"])
def test_names_that_change_places_need_no_memory(name, options):
    if "arch" in options:
        pytest.importorskip("cuda.core")
    plain, found = (tk.compile(kernel_of(ROWS[each]), **options).arena_bytes for each in ("plain", name))
    assert plain == found > 0


def test_a_copy_takes_memory_where_both_are_used_after_a_change():
    @tk.kernel
    def k(a: tk.array2d[float], out: tk.array2d[float]):
        x = tk.tile_load(a, shape=(32, 32))
        y = x
        y += tk.tile_transpose(x)
        tk.tile_store(out, x - y)

    assert tk.compile(k, device="cpu").arena_bytes == 2 * 32 * 32 * 4


def chain(lines):
    """A kernel of so many products, each of the one before."""

    @tk.kernel
    def k(a: tk.array2d[float], out: tk.array2d[float]):
        x = tk.tile_load(a, shape=(4, 4))
        t = x
        for _ in tk.static(range(lines)):
            t = tk.tile_matmul(t, x)
        tk.tile_store(out, t)

    return k


def test_its_work_grows_with_the_number_of_tiles_and_not_faster():
    def calls(lines):
        kernel = chain(lines)
        fn, _ = run_pipeline(kernel.trace(kernel.default_types(), LaunchForm(True, 1)), Target())
        profile = cProfile.Profile()
        profile.runcall(assign_storage, fn)
        return sum(entry.callcount for entry in profile.getstats())

    assert calls(800) < 4.4 * calls(200)
