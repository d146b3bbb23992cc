"""What the CUDA dialect writes. Whether it is right is seen where it runs: the conformance tests on a GPU."""

import re

import tilekit as tk
from tilekit.codegen.cuda import emit_cuda
from tilekit.codegen.target import ArrayClass, Target
from tilekit.ir.context import LaunchForm
from tilekit.passes import run_pipeline
from tilekit.passes.choose_block import choose_block


def emitted(kernel, ndim=1, tiled=True, block_dim=128, checked=False):
    function = kernel.trace(kernel.default_types(), LaunchForm(tiled, ndim, block_dim))
    target = Target("cuda", "90a", block_dim, tiled, ndim, checked, checked)
    target = choose_block(function, target)
    lowered, storage = run_pipeline(function, target)
    source, sites = emit_cuda(lowered, storage, target)
    return source[source.index("struct Params") :], sites, storage.size


def between(text, first, last):
    return text[text.index(first) : text.index(last, text.index(first) + 1)]


@tk.kernel
def scaled(a: tk.array2d[float], b: tk.array2d[float], s: float):
    i, j = tk.tid()
    x = tk.tile_load(a, shape=(16, 64), offset=(i * 16, j * 64))
    tk.tile_store(b, x * s + 1.0, offset=(i * 16, j * 64))


def test_elementwise_kernels_use_registers_only():
    source, _, shared = emitted(scaled, ndim=2)
    assert shared == 0
    assert "arena +" not in source
    layout = "tk::Layout<tk::List<16, 64>, tk::List<32, 33, 3>, tk::List<34, 35, 36, 37, 0>, tk::List<1, 2>>"
    assert f"typedef {layout} L0;" in source
    assert "tk::load_registers<L0, 1, 4, false, 8, 16, 64>" in source


@tk.kernel
def product(a: tk.array2d[float], b: tk.array2d[float], c: tk.array2d[float]):
    i, j = tk.tid()
    acc = tk.tile_zeros(shape=(32, 32), dtype=float)
    for k in range(a.shape[1] / 16):
        x = tk.tile_load(a, shape=(32, 16), offset=(i * 32, k * 16))
        y = tk.tile_load(b, shape=(16, 32), offset=(k * 16, j * 32))
        tk.tile_matmul(x, y, acc)
    tk.tile_store(c, acc, offset=(i * 32, j * 32))


def test_a_gemm_loop_waits_twice_an_iteration():
    with tk.config.scoped(gemm="scalar"):
        source, _, shared = emitted(product, ndim=2)
    loop = between(source, "for (tk::i32", "\n    }\n")
    assert loop.count("team.sync()") == 2
    assert loop.index("tk::load<") < loop.index("team.sync()") < loop.index("tk::gemm<")
    assert shared == 32 * 32 * 4 + 2 * 32 * 16 * 4


@tk.kernel
def counted(n: tk.array1d[int], out: tk.array1d[int]):
    i = tk.tid()
    old = tk.atomic_add(n, 0, 1)
    out[i] = old
    t = tk.tile_zeros(shape=4)
    t[0] = 1.0
    out[i + 1] = int(t[0])


def test_what_happens_once_for_the_block_is_done_by_one_thread():
    source, _, _ = emitted(counted)
    effects = re.findall(r"if \(team.rank\(\) == 0\) \{\n[^}]*\}", source)
    assert sum("tk::atomic" in text for text in effects) == 1
    assert sum("*tk::element" in text for text in effects) == 2
    told = source[source.index("team.sync()") :]
    assert "= t" in told[: told.index("*tk::element")]  # all threads learn what the atomic update found


@tk.kernel
def point(a: tk.array1d[float]):
    i = tk.tid()
    a[i] = a[i] * 2.0


@tk.kernel
def chosen(a: tk.array1d[float]):
    i = tk.tid()
    if a[i] > 0.0:
        a[i] = a[i] * 2.0


def test_points_run_alone():
    source, _, shared = emitted(chosen, tiled=False)
    assert "team.sync()" not in source
    assert "if (number >= (tk::u32)args.launch.dim[0]) return;" in source
    assert shared == 0


@tk.kernel
def lanes(a: tk.array1d[float], out: tk.array1d[float]):
    i, lane = tk.tid()
    t = tk.tile(a[i * 64 + lane])
    tk.tile_store(out, tk.tile_sum(t), offset=i)


def test_lanes_are_threads():
    source, _, _ = emitted(lanes, block_dim=64)
    assert "= team.rank();" in source
    assert "__launch_bounds__(64)" in source


@tk.kernel
def swapped(a: tk.array2d[float], b: tk.array2d[float], n: int):
    x = tk.tile_load(a, shape=(4, 4))
    y = tk.tile_load(b, shape=(4, 4))
    for _ in range(n):
        tk.tile_matmul(x, tk.tile_transpose(y), x if False else tk.tile_zeros(shape=(4, 4)))
        x, y = tk.tile_transpose(y), x
    tk.tile_store(a, x)
    tk.tile_store(b, y)


def test_tiles_swapped_in_memory_wait_between_saving_and_writing():
    source, _, _ = emitted(swapped)
    loop = between(source, "for (tk::i32", "tk::store_registers")
    saved, read = loop.index("t64_f32[e"), loop.index("= t64_f32[")
    assert saved < loop.index("team.sync()", saved) < read


@tk.kernel
def printed(a: tk.array1d[float]):
    t = tk.tile_load(a, shape=4)
    print(t, tk.tid())


def test_prints_go_to_the_mailbox():
    source, sites, _ = emitted(printed)
    assert "tk::post(launch, 0, block, pieces, 2);" in source
    assert sites[0].extents == ((0, 16), (0, 4))


@tk.kernel
def kept(a: tk.array1d[float], out: tk.array1d[float]):
    _, lane = tk.tid()
    t = tk.tile_load(a, shape=32)
    u = t + 0.0
    t[lane] = 2.0
    tk.tile_store(out, t + u)


def test_lanes_write_in_place():
    source, _, _ = emitted(kept, block_dim=32)
    assert "saved" not in source


def test_threads_are_whole_warps_unless_lanes_are_observed():
    for block_dim, threads in ((1, 32), (33, 64), (256, 256), (1024, 256)):
        assert f"__launch_bounds__({threads})" in emitted(scaled, ndim=2, block_dim=block_dim)[0]


@tk.kernel
def picked(a: tk.array1d[float], out: tk.array1d[float]):
    t = tk.tile_load(a, shape=8)
    n = tk.tid()
    tk.tile_store(out, tk.tile_map(lambda x: x + t[n], t))


def test_functions_of_elements_read_other_tiles():
    source, _, shared = emitted(picked)
    assert shared == 64
    assert "team.sync()" in source


def test_strides_that_the_class_of_an_array_fixes_are_known():
    function = scaled.trace(scaled.default_types(), LaunchForm(True, 2, 128))
    classes = {"a": ArrayClass(1, True, (False, False), False), "b": ArrayClass(-1, False, (True, False), False)}
    target = choose_block(function, Target("cuda", "90a", 128, True, 2, False, False, arrays=classes))
    source, _ = emit_cuda(*run_pipeline(function, target), target)
    assert "p.a.stride[1] = 4;" in source
    assert "p.b.stride[0] = 0;" in source
    assert source.count(".stride[") == 2
