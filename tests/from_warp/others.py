"""Rows of the other tables: where tilekit accepts more, refuses more, or lacks something."""

from __future__ import annotations

import contextlib
import enum
import io
from fractions import Fraction

import numpy as np
import pytest

import tilekit as tk
from tests.from_warp.rows import A, row, run

wp = pytest.importorskip("warp")


@row("`dim` and `block_dim` of `launch_tiled` are keywords only, without a default; grids have up to 3 dimensions")
def _() -> None:
    @tk.kernel
    def k(out: tk.array1d[float]):
        a, b, c, d = tk.tid()
        tk.tile_atomic_add(out, tk.tile_ones(shape=4, dtype=float))

    out = np.zeros(4, np.float32)
    tk.launch_tiled(k, (2, 1, 2, 3), [], [out])
    assert out.tolist() == [12.0] * 4


@row("literals must have their partner's type: `t * 2` and `alpha=2` are refused")
def _() -> None:
    @tk.kernel
    def k(a: tk.array2d[float], x: float, out: tk.array2d[float]):
        t = tk.tile_load(a, shape=(4, 4)) * 2
        tk.tile_store(out, tk.tile_matmul(t, t, alpha=2) * (x + 1))

    assert np.array_equal(run(k, A, 1.0, size=(4, 4)), 4 * (2 * A) @ (2 * A))


@row("a literal must become `float(...)` or `int(...)` before a loop changes it")
def _() -> None:
    @tk.kernel
    def k(n: int, out: tk.array1d[float]):
        x = 0
        for i in range(n):
            x += 1.5
        out[0] = x

    assert run(k, 3)[0] == 4.5

    @tk.kernel
    def two(n: int, x: tk.array1d[tk.float64], y: tk.array1d[float]):
        t = 0.7 if n > 2 else 0.3
        x[0] = x[0] * t
        y[0] = y[0] * t

    with pytest.raises(tk.errors.KernelTypeError, match="meets float64 at line .* and float32 here"):
        tk.launch(two, dim=1, inputs=[3, np.ones(1), np.ones(1, np.float32)])


class Mode(enum.Enum):
    DOUBLE = "double"


@row("strings, enums and tuples cannot be captured, so `precision` cannot be a variable")
def _() -> None:
    precision, mode, shape = "default", Mode.DOUBLE, (4, 4)

    @tk.kernel
    def k(a: tk.array2d[float], out: tk.array2d[float]):
        t = tk.tile_load(a, shape=shape)
        p = tk.tile_matmul(t, t, precision=precision)
        tk.tile_store(out, p * 2.0 if mode is Mode.DOUBLE else p)

    assert np.array_equal(run(k, A, size=(4, 4)), 2 * A @ A)


@row("only functions with `@wp.func` can be called")
def _() -> None:
    def plain(x):
        return x + 1.0

    class Scale:
        factor = 2.0

        def apply(self, x):
            return plain(x) * self.factor

    scale = Scale()

    @tk.kernel
    def k(x: float, out: tk.array1d[float]):
        square = lambda v: v * v
        out[0] = square(scale.apply(x))

    assert run(k, 2.0)[0] == 36.0


@row("`tid()` cannot be called in a function")
def _() -> None:
    def where():
        return tk.tid()

    @tk.kernel
    def k(out: tk.array1d[float]):
        i = where()
        out[i] = float(i)

    assert run(k, dim=4).tolist() == [0, 1, 2, 3]


@row("no lists, tuples as loop subjects, `zip`, `enumerate`, comprehensions, lambdas or annotated variables")
def _() -> None:
    @tk.kernel
    def k(n: int, out: tk.array1d[float]):
        total: int = 0
        for i, (x, y) in enumerate(zip([1, 2], (n, 20), strict=True)):
            total += i + x * y
        doubled = [2 * v for v in (n, 1)]
        out[0] = float(total + sum(doubled))

    assert run(k, 3)[0] == 0 + 3 + 1 + 40 + 6 + 2


@row("`min`, `max` take two arguments, `**` floats only")
def _() -> None:
    @tk.kernel
    def k(n: int, x: float, out: tk.array1d[float]):
        out[0] = float(min(n, 7, 5) + max(n, 1, 2))
        out[1] = x**2.0

    assert run(k, 3, 1.5)[:2].tolist() == [6.0, 2.25]


@row("`t + 1.0`, `t % u`, `abs(t)`, `wp.exp(t)` and `t.shape` are refused, `t *= u` is no update in place")
def _() -> None:
    @tk.kernel
    def k(a: tk.array1d[float], out: tk.array1d[float]):
        t = tk.tile_load(a, shape=4)
        u = tk.tile_view(t, offset=0, shape=(2,))
        u *= 3.0
        tk.tile_store(out, tk.exp(abs(t + 1.0) % 2.0) + float(t.shape[0]))

    t = A[0] * np.array([3, 3, 1, 1], np.float32)
    assert np.allclose(run(k, A[0]), np.exp(np.abs(t + 1) % 2) + 4)


@row("`t[2:4] = 0.0`, `t[2:4] *= u`, `t[..., 0]` are refused")
def _() -> None:
    @tk.kernel
    def k(a: tk.array2d[float], out: tk.array1d[float]):
        t = tk.tile_load(a, shape=(4, 4))
        t[2:4] *= 2.0
        t[0:1] = -1.0
        tk.tile_store(out, t[..., 1])

    assert run(k, A).tolist() == [-1.0, 5.0, 18.0, 26.0]


@row("`b = d = a` is refused")
def _() -> None:
    @tk.kernel
    def k(a: tk.array1d[float], out: tk.array1d[float]):
        t = tk.tile_load(a, shape=4)
        b = d = t
        b += 1.0
        d *= 2.0
        tk.tile_store(out, t + b * 10.0 + d * 100.0)

    assert np.array_equal(run(k, A[0]), A[0] * 211 + 10)


@row("f-strings are refused")
def _() -> None:
    @tk.kernel
    def k(x: float, out: tk.array1d[float]):
        print(f"x is {x:.2f}")

    text = io.StringIO()
    with contextlib.redirect_stdout(text):
        run(k, 1.5)
    assert text.getvalue() == "x is 1.50\n"


@row("`tile_sum(a, axis=-1)` is refused")
def _() -> None:
    @tk.kernel
    def k(a: tk.array2d[float], out: tk.array1d[float]):
        tk.tile_store(out, tk.tile_sum(tk.tile_load(a, shape=(4, 4)), axis=-1))

    assert run(k, A).tolist() == A.sum(axis=-1).tolist()


@row("bfloat16 operands of a product need `enable_backward=False` on the module")
def _() -> None:
    @tk.kernel
    def k(a: tk.array2d[float], out: tk.array2d[float]):
        t = tk.tile_astype(tk.tile_load(a, shape=(4, 4)), tk.bfloat16)
        acc = tk.tile_zeros(shape=(4, 4), dtype=float)
        tk.tile_matmul(t, t, acc)
        tk.tile_store(out, acc)

    assert np.array_equal(run(k, A, size=(4, 4)), A @ A)


@row("kernels under `from __future__ import annotations` need annotations that are module globals")
def _() -> None:
    element = tk.float32

    @tk.kernel
    def k(out: tk.array1d[element]):
        out[0] = 1.0

    assert run(k)[0] == 1.0


# Where tilekit refuses more.


@row("recursion ends in Python's own RecursionError")
def _() -> None:
    def factorial(n):
        return 1 if n < 2 else n * factorial(n - 1)

    @tk.kernel
    def k(n: int, out: tk.array1d[float]):
        out[0] = float(factorial(n))

    with pytest.raises(NotImplementedError, match="calls itself"):
        run(k, 3)


@row("an array that the kernel writes may be read-only, or have elements that share memory")
def _() -> None:
    @tk.kernel
    def k(out: tk.array1d[float]):
        out[0] = 1.0

    shared = np.lib.stride_tricks.as_strided(np.zeros(1, np.float32), (4,), (0,))
    with pytest.raises(ValueError, match="share memory"):
        tk.launch_tiled(k, dim=1, outputs=[shared], block_dim=32)
    with pytest.raises(ValueError, match="read-only"):
        tk.launch_tiled(k, dim=1, inputs=[np.broadcast_to(np.float32(0), 4)], block_dim=32)


@row("vectors, matrices, quaternions, transforms and structs")
def _() -> None:
    with pytest.raises(NotImplementedError, match="later release"):

        @tk.kernel
        def k(v: wp.array(dtype=wp.vec3)):
            pass


@row("`tile_sort`, scans, `tile_fft`, `tile_cholesky` and other solvers, random tiles, stacks, BVH and mesh queries")
def _() -> None:
    @tk.kernel
    def k(a: tk.array2d[float], out: tk.array2d[float]):
        tk.tile_store(out, wp.tile_cholesky(tk.tile_load(a, shape=(4, 4))))

    with pytest.raises(NotImplementedError, match="does not have yet"):
        run(k, A, size=(4, 4))


@row("names of `tid()` beyond the dimensions of a `launch` are 0")
def _() -> None:
    @tk.kernel
    def k(out: tk.array1d[float]):
        i, j = tk.tid()
        out[i] = float(j)

    with pytest.raises(ValueError, match="unpacked into 2 names, but this launch has 1 dimension"):
        tk.launch(k, 4, [np.zeros(4, np.float32)])


@row("slices of arrays in kernels, `tile_load(a[::2], shape=4)`")
def _() -> None:
    @tk.kernel
    def k(a: tk.array1d[float], out: tk.array1d[float]):
        tk.tile_store(out, tk.tile_load(a[::2], shape=4))

    with pytest.raises(TypeError, match="cannot be sliced in a kernel; load a tile"):
        run(k, A[0])


@row(
    "tiles as indices, `t[rows, :]`, `tile_load_indexed`, `tile_scatter_add`, `tile_argmax`, `tile_dot`, "
    "`tile_from_thread`"
)
def _() -> None:
    @tk.kernel
    def k(a: tk.array2d[float], out: tk.array2d[float]):
        tk.tile_store(out, tk.tile_load(a, shape=(4, 4))[tk.tile_arange(4, dtype=int), :])

    @tk.kernel
    def named(a: tk.array2d[float], out: tk.array2d[float]):
        out[0, 0] = wp.tile_argmax(tk.tile_load(a, shape=(4, 4)))[0]

    with pytest.raises(TypeError, match="cannot index"):
        run(k, A, size=(4, 4))
    with pytest.raises(NotImplementedError, match="does not have yet"):
        run(named, A, size=(4, 4))


@row("`func_native`")
def _() -> None:
    with pytest.raises(AttributeError, match="does not have Warp's 'func_native' yet"):
        tk.func_native  # noqa: B018


# More than Warp has.

X = np.float32([1 + 2**-13, 1 / 3])
EXACT = [Fraction(float(x)) ** 2 - 1 for x in X]


def rounded(values: list[Fraction]) -> list[float]:
    return [float(np.float32(float(value))) for value in values]


@row("`set_module_options` takes any name, and any value")
def _() -> None:
    for options in ({"fast_maths": True}, {"fast_math": "yes"}):
        with pytest.raises((TypeError, ValueError), match="fast_math"):
            tk.set_module_options(options)


@row('`tk.fma(a, b, c, rounding="rn")`')
def _() -> None:
    @tk.kernel
    def k(x: tk.array1d[float], out: tk.array2d[float]):
        i = tk.tid()
        out[i, 0] = tk.fma(x[i], x[i], -1.0, rounding="rm")
        out[i, 1] = tk.fma(x[i], x[i], -1.0)
        out[i, 2] = tk.fma(x[i], x[i], -1.0, rounding="rp")

    out = np.zeros((2, 3), np.float32)
    tk.launch(k, dim=2, inputs=[X], outputs=[out])
    assert out[:, 1].tolist() == rounded(EXACT)
    for (low, _middle, high), exact in zip(out, EXACT, strict=True):
        assert Fraction(float(low)) <= exact <= Fraction(float(high))
        assert high <= np.nextafter(low, np.float32(2))


@row('`tk.tile_fma(a, b, c, rounding="rn")`')
def _() -> None:
    @tk.kernel
    def k(x: tk.array1d[float], out: tk.array1d[float]):
        t = tk.tile_load(x, shape=2)
        tk.tile_store(out, tk.tile_fma(t, t, -1.0))

    assert run(k, X, size=2).tolist() == rounded(EXACT)
    assert rounded(EXACT) != (X * X - np.float32(1)).tolist()


@row('`tk.ptx["fma.rn.f32"]`')
def _() -> None:
    assert tk.ptx["fma.f32.rn"] == tk.ptx["fma.rn.f32"] == tk.ptx.fma.rn.f32
    with pytest.raises(ValueError, match=r"write fma\.rn\.f32"):
        tk.ptx["fma.f32"]


@row("`tk.tile_apply(atom, destination, *operands)`")
def _() -> None:
    @tk.kernel
    def k(x: tk.array1d[float], out: tk.array1d[float]):
        t = tk.tile_load(x, shape=2)
        tk.tile_apply(tk.ptx["fma.rn.f32"], t, t, t, -1.0)
        tk.tile_store(out, t)

    assert run(k, X, size=2).tolist() == rounded(EXACT)


@row("`tk.pack2`, `tk.tile_bitcast`")
def _() -> None:
    @tk.kernel
    def k(x: tk.array1d[tk.float16], out: tk.array1d[tk.float16]):
        t = tk.tile_load(x, shape=4)
        pairs = tk.tile_bitcast(t, tk.uint32)
        tk.tile_apply(tk.ptx["add.rn.f16x2"], pairs, pairs, tk.pack2(1.0, 10.0, tk.float16))
        tk.tile_store(out, t)

    assert run(k, np.arange(4, dtype=np.float16), dtype=np.float16).tolist() == [1.0, 11.0, 3.0, 13.0]
