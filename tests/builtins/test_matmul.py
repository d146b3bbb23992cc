"""tile_matmul: forms, dtypes, factors, what is refused."""

import warnings

import ml_dtypes
import numpy as np
import pytest

import tilekit as tk
from tests.builtins.both import interpreted, out, run
from tilekit.errors import KernelTypeError, KernelValueError, PrecisionWarning

rng = np.random.default_rng(7)
M, N, K = 5, 7, 6
A = rng.standard_normal((M, K)).astype(np.float32)
B = rng.standard_normal((K, N)).astype(np.float32)
C = rng.standard_normal((M, N)).astype(np.float32)


def close(found, expected, depth=K):
    scale = np.abs(A) @ np.abs(B) + np.abs(C)
    return np.all(np.abs(found.astype(float) - expected) <= 4 * (depth + 4) * 2.0**-24 * scale)


@tk.kernel
def forms(a: tk.array2d[float], b: tk.array2d[float], c: tk.array2d[float], n: int, s: float, d: tk.float64,
          x: tk.array2d[float]):  # fmt: skip
    p, q = tk.tile_load(a, shape=(5, 6)), tk.tile_load(b, shape=(6, 7))
    t = tk.tile_load(c, shape=(5, 7))
    tk.tile_matmul(p, q, t, alpha=n, beta=s)
    tk.tile_store(x, t)
    u = tk.tile_load(c, shape=(5, 7))
    tk.tile_matmul(p, q, u, alpha=2, beta=d)
    tk.tile_store(x, u, offset=(5, 0))
    tk.tile_store(x, p @ q, offset=(10, 0))
    tk.tile_store(x, tk.tile_matmul(p, q, alpha=-0.5), offset=(15, 0))
    w = tk.tile_load(c, shape=(5, 7))
    tk.tile_matmul(q.T, p.T, w.T)
    tk.tile_store(x, w, offset=(20, 0))
    tk.tile_store(x, tk.tile_matmul(p, p.T), offset=(25, 0))


def test_both_forms_with_factors_of_any_type():
    (x,) = run(forms, [A, B, C, 3, -0.25, 0.5], [out(30, 7)])
    a, b, c = (v.astype(float) for v in (A, B, C))
    for i, wanted in enumerate([3 * a @ b - 0.25 * c, 2 * a @ b + 0.5 * c, a @ b, -0.5 * a @ b, a @ b + c]):
        assert close(x[5 * i : 5 * i + 5], wanted)
    assert np.allclose(x[25:, :5], a @ a.T, atol=1e-5)


@tk.kernel
def scaled(a: tk.array2d[float], b: tk.array2d[float], beta: float, x: tk.array2d[float]):
    t = tk.tile_full(shape=(5, 7), value=float("nan"))
    tk.tile_matmul(tk.tile_load(a, shape=(5, 6)), tk.tile_load(b, shape=(6, 7)), t, beta=beta)
    tk.tile_store(x, t)


@pytest.mark.parametrize("beta", [0.0, -0.0])
def test_a_run_time_beta_of_zero_does_not_read_out(beta):
    (x,) = run(scaled, [A, B, beta], [out(5, 7)])
    assert close(x, A.astype(float) @ B)
    assert np.isnan(run(scaled, [A, B, 1.0], [out(5, 7)])[0]).all()


@tk.kernel
def mixed(a: tk.array2d[tk.float16], b: tk.array2d[tk.float64], c: tk.array2d[float], x: tk.array2d[tk.float16],
          y: tk.array2d[tk.float64], z: tk.array2d[tk.bfloat16], w: tk.array2d[float]):  # fmt: skip
    p, q, r = tk.tile_load(a, shape=(5, 6)), tk.tile_load(b, shape=(6, 7)), tk.tile_load(c, shape=(6, 7))
    tk.tile_store(x, p @ q)
    t = tk.tile_zeros(shape=(5, 7), dtype=tk.float64)
    tk.tile_matmul(p, r, t)
    tk.tile_store(y, t)
    tk.tile_store(y, tk.tile_transpose(q.T) @ tk.tile_ones(shape=(7, 7)), offset=(5, 0))
    low = tk.tile_astype(p, tk.bfloat16)
    tk.tile_store(z, low @ r)
    u = tk.tile_ones(shape=(5, 7))
    tk.tile_matmul(low, tk.tile_astype(r, tk.bfloat16), u, alpha=0.1, beta=-1)
    tk.tile_store(w, u)


def test_dtypes_mix_freely():
    a, b, c = A.astype(np.float16), B.astype(np.float64), B
    outputs = [out(5, 7, dtype=np.float16), out(11, 7, dtype=float), out(5, 7, dtype=ml_dtypes.bfloat16), out(5, 7)]
    x, y, z, w = run(mixed, [a, b, c], outputs)
    wide = a.astype(float)
    assert np.array_equal(x, (wide @ b).astype(np.float16))
    assert np.allclose(y[:5], wide @ c, rtol=1e-14, atol=1e-14)
    assert np.allclose(y[5:], b @ np.ones((7, 7)), rtol=1e-14, atol=1e-14)
    low, high = (v.astype(ml_dtypes.bfloat16).astype(float) for v in (a, c))
    once = np.abs(low) @ np.abs(c) * (2.0**-8 + 12 * 2.0**-24)
    assert (np.abs(z.astype(float) - low @ c) <= once).all()
    assert np.allclose(w, float(np.float32(0.1)) * (low @ high) - 1, atol=1e-5)


def tile(*shape, dtype=float):
    return tk.tile_ones(shape=shape, dtype=dtype)


@pytest.mark.parametrize(
    ("wrong", "error", "message"),
    [
        (lambda: tile(4, 3) @ tile(4, 3), KernelValueError,
         r"K differs: a is a tile<4x3xf32> and b is a tile<4x3xf32>"),
        (lambda: tk.tile_matmul(tile(4, 3), tile(3, 5), tile(4, 4)), KernelValueError,
         r"out is a tile<4x4xf32>, but a tile<4x3xf32> times a tile<3x5xf32> has shape \(4, 5\)"),
        (lambda: tile(4) @ tile(4, 4), KernelValueError, r"a is a tile<4xf32>; matrix products need two axes"),
        (lambda: tile(4, 4, dtype=int) @ tile(4, 4), KernelTypeError,
         r"a is a tile<4x4xi32> but b is a tile<4x4xf32>; integers multiply integers, so convert one, "
         r"as in tk.tile_astype\(b, tk.int32\)"),
        (lambda: tile(4, 4) @ tile(4, 4, dtype=tk.int8), KernelTypeError,
         r"a is a tile<4x4xf32> but b is a tile<4x4xi8>; .* as in tk.tile_astype\(b, tk.float32\)"),
        (lambda: tk.tile_matmul(tile(4, 4, dtype=int), tile(4, 4, dtype=int), tile(4, 4)), KernelTypeError,
         r"a is a tile<4x4xi32> but out is a tile<4x4xf32>"),
        (lambda: tk.tile_matmul(tile(2, 2, dtype=tk.int8), tile(2, 2, dtype=tk.int8), tile(2, 2, dtype=tk.int8)),
         KernelTypeError, r"out is a tile<2x2xi8>, but integers are summed in int32; use an int32 accumulator"),
        (lambda: tile(4, 4, dtype=tk.uint32) @ tile(4, 4), KernelTypeError,
         r"a is a tile<4x4xu32>; matrix products need floats, or integers that int32 holds, "
         r"as in tk.tile_astype\(a, tk.int32\)"),
        (lambda: tile(4, 4, dtype=tk.int64) @ tile(4, 4, dtype=tk.int64), KernelTypeError, r"a is a tile<4x4xi64>"),
        (lambda: tk.tile_matmul(tile(2, 2, dtype=int), tile(2, 2, dtype=int), alpha=2.5), KernelValueError,
         r"the constant 2.5 is not an integer"),
        (lambda: tk.tile_matmul(tile(2, 2, dtype=int), tile(2, 2, dtype=int), alpha=float("inf")), KernelValueError,
         r"the constant inf is not an integer"),
        (lambda: tk.tile_matmul(tile(2, 2), tile(2, 2), tile(2, 2, dtype=tk.bfloat16)), KernelTypeError,
         r"out is bfloat16, which cannot accumulate; use a float32 accumulator and tk.tile_astype"),
        (lambda: tk.tile_matmul(tile(2, 2), tile(2, 2), precision="bf16"), KernelValueError,
         r"precision must be the compile-time string 'default', 'tf32' or 'tf32x3', got 'bf16'"),
        (lambda: tk.tile_matmul(tile(2, 2), tile(2, 2), precision=1), KernelValueError, r"precision must be .* got 1"),
        (lambda: tk.tile_matmul(tile(2, 2, dtype=tk.float16), tile(2, 2), precision="tf32"), KernelTypeError,
         r"'tf32' needs float32 tiles, but a is a tile<2x2xf16>, b is a tile<2x2xf32>"),
        (lambda: tk.tile_matmul(tile(2, 2), 3), KernelTypeError, r"b must be a tile, got 3"),
        (lambda: tk.tile_matmul(tile(2, 2), tile(2, 2), alpha="2"), KernelTypeError, r"alpha must be a number"),
    ],
)  # fmt: skip
def test_wrong_products_are_refused(wrong, error, message):
    with pytest.raises(error, match=message):
        wrong()


@tk.kernel
def onto_itself(a: tk.array2d[float], x: tk.array2d[float]):
    t = tk.tile_load(a, shape=(4, 4))
    u = tk.tile_load(a, shape=(4, 4))
    tk.tile_matmul(u, t, t)
    tk.tile_store(x, t)


@tk.kernel
def through_views(a: tk.array2d[float], x: tk.array2d[float]):
    t = tk.tile_load(a, shape=(8, 4))
    upper, lower = t[:4], t[3:7]
    tk.tile_matmul(upper, tk.tile_load(a, shape=(4, 4)), lower.T)
    tk.tile_store(x, t)


@tk.kernel
def at_one_offset(a: tk.array2d[float], i: int, x: tk.array2d[float]):
    t = tk.tile_load(a, shape=(8, 4))
    v = tk.tile_view(t, offset=(i, 0), shape=(4, 4))
    tk.tile_matmul(v, tk.tile_load(a, shape=(4, 4)), v.T)
    tk.tile_store(x, t)


@pytest.mark.parametrize(
    ("kernel", "name", "made", "line"),
    [(onto_itself, "b", 1, 3), (through_views, "a", 1, 3), (at_one_offset, "a", 1, 3)],
)
def test_an_accumulator_over_an_operand_is_refused(kernel, name, made, line):
    start = kernel.function.__code__.co_firstlineno + 1
    arguments = [A] if kernel is not at_one_offset else [A, 1]
    with pytest.raises(
        KernelValueError, match=f"out overlaps {name}: both are parts of .* made at line {start + made}; "
    ) as e:
        tk.launch_tiled(kernel, dim=1, inputs=arguments, outputs=[out(8, 4)])
    assert e.value.location.line == start + line


@tk.kernel
def halves(a: tk.array2d[float], x: tk.array2d[float]):
    t = tk.tile_load(a, shape=(8, 4))
    tk.tile_matmul(t[::2], t[::2].T, t[1::2])
    tk.tile_store(x, t)


@tk.kernel
def at_offsets(a: tk.array2d[float], i: int, j: int, x: tk.array2d[float]):
    t = tk.tile_load(a, shape=(8, 4))
    tk.tile_matmul(tk.tile_view(t, (i, 0), (4, 4)), tk.tile_ones(shape=(4, 4)), tk.tile_view(t, (j, 0), (4, 4)))
    tk.tile_store(x, t)


SQUARE = rng.integers(-9, 9, (8, 4)).astype(np.float32)


def test_parts_that_do_not_meet_are_fine():
    (x,) = run(halves, [SQUARE], [out(8, 4)])
    t = SQUARE.copy()
    t[1::2] += t[::2] @ t[::2].T
    assert np.array_equal(x, t)


@pytest.mark.parametrize(("i", "j"), [(0, 4), (4, 0)])
def test_views_at_run_time_offsets_compile(i, j):
    (x,) = run(at_offsets, [SQUARE, i, j], [out(8, 4)])
    t = SQUARE.copy()
    t[j : j + 4] += t[i : i + 4] @ np.ones((4, 4), np.float32)
    assert np.array_equal(x, t)


def test_views_that_meet_at_run_time_mean_the_value_form_and_are_reported_where_checked():
    x = out(8, 4)
    tk.launch_tiled(at_offsets, dim=1, inputs=[SQUARE, 1, 3], outputs=[x])
    t = SQUARE.copy()
    t[3:7] += SQUARE[1:5] @ np.ones((4, 4), np.float32)
    assert np.array_equal(x, t)
    message = "out overlaps a: both are parts of the tile made at line"
    with pytest.raises(KernelValueError, match=message):
        interpreted(at_offsets, 1, [SQUARE, 1, 3, x])
    with pytest.raises(KernelValueError, match=message):
        tk.launch_tiled(at_offsets, dim=1, inputs=[SQUARE, 1, 3], outputs=[x], device="interpret")
    with tk.config.scoped(checked=True):
        tk.launch_tiled(at_offsets, dim=1, inputs=[SQUARE, 0, 4], outputs=[x])
        with pytest.raises(KernelValueError, match=message):
            tk.launch_tiled(at_offsets, dim=1, inputs=[SQUARE, 1, 3], outputs=[x])


MODE = "tf32"


@tk.kernel
def reduced(a: tk.array2d[float], b: tk.array2d[float], n: int, x: tk.array2d[float]):
    t = tk.tile_zeros(shape=(5, 7))
    for _ in range(n):
        tk.tile_matmul(tk.tile_load(a, shape=(5, 6)), tk.tile_load(b, shape=(6, 7)), t, precision=MODE)
    tk.tile_store(x, t)


@tk.kernel
def reduced_again(a: tk.array2d[float], b: tk.array2d[float], x: tk.array2d[float]):
    for _ in range(2):
        tk.tile_store(x, tk.tile_matmul(tk.tile_load(a, shape=(5, 6)), tk.tile_load(b, shape=(6, 7)), precision="tf32"))


@pytest.mark.parametrize("device", ["cpu", "interpret"])
def test_tf32_on_the_cpu_computes_float32_and_warns_once(device):
    for kernel, inputs, line in ((reduced, [A, B, 1], 4), (reduced_again, [A, B], 3)):
        x = out(5, 7)
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            tk.launch_tiled(kernel, dim=1, inputs=inputs, outputs=[x], device=device)
            tk.launch_tiled(kernel, dim=1, inputs=inputs, outputs=[x], device=device)
        assert [(w.category, w.filename) for w in found] == [(PrecisionWarning, __file__)]
        assert found[0].lineno == kernel.function.__code__.co_firstlineno + line
        assert close(x, A.astype(float) @ B)


def test_tf32_outside_kernels_warns_at_the_call():
    with pytest.warns(PrecisionWarning, match="'tf32' is not available on the CPU; float32 is computed") as found:
        tk.tile_matmul(tile(2, 2), tile(2, 2), precision="tf32")
    assert found[0].filename == __file__
