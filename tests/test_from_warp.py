"""Every row of docs/from_warp.md's tables, tested: a row without a test here, or a test without a row, fails."""

from __future__ import annotations

import contextlib
import enum
import io
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import warp as wp

import tilekit as tk

PAGE = Path(__file__).parent.parent / "docs" / "from_warp.md"
ROWS: dict[str, Callable[[], None]] = {}


def row(title: str) -> Callable[[Callable[[], None]], Callable[[], None]]:
    """The test of the row whose first cell is ``title``."""

    def add(test: Callable[[], None]) -> Callable[[], None]:
        assert title not in ROWS
        ROWS[title] = test
        return test

    return add


def rows_of_page() -> list[str]:
    lines = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| ")]
    cells = [re.split(r"(?<!\\) \| ", line[2:])[0].strip() for line in lines]
    return [cell for cell in cells if cell != "in Warp 1.19" and set(cell) != {"-"}]


def run(kernel: Any, *inputs: Any, dim: Any = 1, size: Any = 4, dtype: Any = np.float32, block_dim: int = 32) -> Any:
    """The output array, the kernel's last parameter, after a launch."""
    out = np.zeros(size, dtype)
    tk.launch_tiled(kernel, dim=dim, inputs=list(inputs), outputs=[out], block_dim=block_dim)
    return out


A = np.arange(16, dtype=np.float32).reshape(4, 4)


@row("`t @ u` of two tiles multiplies element by element")
def _() -> None:
    @tk.kernel
    def k(a: tk.array2d[float], out: tk.array2d[float]):
        t = tk.tile_load(a, shape=(4, 4))
        tk.tile_store(out, t @ t)

    assert np.array_equal(run(k, A, size=(4, 4)), A @ A)


@row("`tile_matmul(a, b, a)` gives wrong values without a diagnostic")
def _() -> None:
    @tk.kernel
    def k(a: tk.array2d[float], out: tk.array2d[float]):
        t = tk.tile_load(a, shape=(4, 4))
        tk.tile_matmul(t, t, t)
        tk.tile_store(out, t)

    with pytest.raises(tk.errors.TilekitError, match=r"(?s)line \d+"):
        run(k, A, size=(4, 4))


@row("`tile_matmul` into a `tile_empty` with `beta=1` reads stale memory")
def _() -> None:
    @tk.kernel
    def k(a: tk.array2d[float], out: tk.array2d[float]):
        t = tk.tile_load(a, shape=(4, 4))
        acc = tk.tile_empty(shape=(4, 4), dtype=float)
        tk.tile_matmul(t, t, acc)
        tk.tile_store(out, acc)

    with pytest.raises(tk.errors.UninitializedError):
        run(k, A, size=(4, 4))


@row("float16 tiles accumulate a product in float16 where `out` is float16")
def _() -> None:
    @tk.kernel
    def k(a: tk.array2d[tk.float16], out: tk.array2d[tk.float16]):
        t = tk.tile_load(a, shape=(1, 2048))
        acc = tk.tile_zeros(shape=(1, 1), dtype=tk.float16)
        tk.tile_matmul(t, tk.tile_transpose(t), acc)
        tk.tile_store(out, acc)

    ones = np.full((1, 2048), 1.001, np.float16)
    exact = (ones.astype(np.float64) ** 2).sum()
    assert run(k, ones, size=(1, 1), dtype=np.float16)[0, 0] == np.float16(exact)


@row("`tile_load` at a negative offset reads memory before the array")
def _() -> None:
    @tk.kernel
    def k(a: tk.array1d[float], out: tk.array1d[float]):
        tk.tile_store(out, tk.tile_load(a, shape=4, offset=-2))
        tk.tile_store(out, tk.tile_full(shape=2, value=9.0), offset=-2)

    assert run(k, np.array([5, 6, 7, 8], np.float32)).tolist() == [0, 0, 5, 6]


@row("an index outside an array reads or writes other memory")
def _() -> None:
    @tk.kernel
    def k(n: int, out: tk.array1d[float]):
        out[n] = 1.0

    with pytest.raises(IndexError):
        run(k, 7)


@row("`t < u` of two tiles is one bool")
def _() -> None:
    @tk.kernel
    def elements(a: tk.array1d[float], out: tk.array1d[int]):
        t = tk.tile_load(a, shape=4)
        tk.tile_store(out, tk.tile_astype(t < 2.0, int))

    @tk.kernel
    def condition(a: tk.array1d[float], out: tk.array1d[int]):
        t = tk.tile_load(a, shape=4)
        if t < 2.0:
            out[0] = 1

    assert run(elements, A[0], dtype=np.int32).tolist() == [1, 1, 0, 0]
    with pytest.raises(TypeError, match="no truth value"):
        run(condition, A[0], dtype=np.int32)


@row("a tile operation under a per-lane condition has no diagnostic")
def _() -> None:
    @tk.kernel
    def k(a: tk.array1d[float], out: tk.array1d[float]):
        i, lane = tk.tid()
        if lane > 0:
            tk.tile_store(out, tk.tile_load(a, shape=4))

    with pytest.raises(tk.errors.TilekitError, match="lane"):
        run(k, A[0])


@row("`block_dim` is 1 on the CPU, whatever was asked for")
def _() -> None:
    @tk.kernel
    def k(out: tk.array1d[float]):
        i, lane = tk.tid()
        tk.tile_store(out, tk.tile_sum(tk.tile(float(lane))))

    assert run(k, block_dim=16)[0] == sum(range(16))


@row("`np.sin(x)` in a kernel is taken for `wp.sin(x)` by its name")
def _() -> None:
    @tk.kernel
    def k(x: float, out: tk.array1d[float]):
        out[0] = np.sin(x)

    with pytest.raises(TypeError, match=r"use tk\.sin"):
        run(k, 1.0)


@row("a name that only a branch assigns has that branch's value, also where it did not run")
def _() -> None:
    @tk.kernel
    def k(n: int, out: tk.array1d[float]):
        if n > 100:
            x = 5.0
        out[0] = x

    with pytest.raises(NameError, match=r"line \d+ assigns it, but only in the 'if'"):
        run(k, 3)


@row("a `@wp.func` that ends without `return` on some path gives 0 there")
def _() -> None:
    def some(n):
        if n > 100:
            return 5.0

    @tk.kernel
    def k(n: int, out: tk.array1d[float]):
        out[0] = some(n)

    with pytest.raises(TypeError, match="return a value on every path"):
        run(k, 3)


@row("a changed `wp.constant` does not reach a kernel that was compiled before")
def _() -> None:
    constants = type("Constants", (), {"FACTOR": wp.constant(2.0)})

    @tk.kernel
    def k(out: tk.array1d[float]):
        out[0] = constants.FACTOR

    assert run(k)[0] == 2.0
    constants.FACTOR = wp.constant(3.0)
    assert run(k)[0] == 3.0


@row("an integer division by zero ends the process on the CPU")
def _() -> None:
    @tk.kernel
    def k(n: int, out: tk.array1d[float]):
        out[0] = float(5 // n + 5 % n)

    assert run(k, 0)[0] == 0.0


@row("`assert` is ignored outside debug mode, where it ends the process")
def _() -> None:
    @tk.kernel
    def k(n: int, out: tk.array1d[float]):
        assert n < 3, "n is too large"
        out[0] = 1.0

    with pytest.raises(AssertionError, match="n is too large"):
        run(k, 3)


@row("tiles of more than 256 KiB in a block end the process on the CPU")
def _() -> None:
    @tk.kernel
    def k(out: tk.array1d[float]):
        t = tk.tile_ones(shape=(512, 512), dtype=float)
        tk.tile_store(out, tk.tile_sum(t))

    assert run(k)[0] == 512 * 512


@row("`print` writes to the process's output, past `sys.stdout`")
def _() -> None:
    @tk.kernel
    def k(n: int, out: tk.array1d[float]):
        print("n is", n)

    text = io.StringIO()
    with contextlib.redirect_stdout(text):
        run(k, 3)
    assert text.getvalue() == "n is 3\n"


# Where tilekit accepts more.


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
        square = lambda v: v * v  # noqa: E731
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


@row("no lists, tuples as loop subjects, `zip`, `enumerate`, comprehensions, lambdas, f-strings or annotated variables")
def _() -> None:
    @tk.kernel
    def k(n: int, out: tk.array1d[float]):
        total: int = 0
        for i, (x, y) in enumerate(zip([1, 2], (n, 20), strict=True)):
            total += i + x * y
        doubled = [2 * v for v in (n, 1)]
        name = f"{len(doubled)} values"
        out[len(name) - 8] = float(total + sum(doubled))

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


@row("an output array may be read-only, or have elements that share memory")
def _() -> None:
    @tk.kernel
    def k(out: tk.array1d[float]):
        out[0] = 1.0

    shared = np.lib.stride_tricks.as_strided(np.zeros(1, np.float32), (4,), (0,))
    with pytest.raises(ValueError, match="share memory"):
        tk.launch_tiled(k, dim=1, outputs=[shared], block_dim=32)


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


def test_rows_and_tests_are_the_same():
    assert rows_of_page() == list(ROWS)


@pytest.mark.parametrize("title", list(ROWS))
def test_row(title):
    ROWS[title]()
