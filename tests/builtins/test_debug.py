"""``print``, ``printf`` and ``assert`` in kernels, compiled and interpreted."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest

import tilekit as tk
from tests.builtins.launching import interpreted
from tilekit.errors import KernelAssertionError, KernelTypeError, KernelValueError

F = np.float32


def printed(capsys: Any, kernel: Any, dim: Any, *arguments: Any) -> str:
    """What a compiled launch prints, after holding it against the interpreter."""
    text: list[str] = []
    interpreted(kernel, dim, [np.copy(a) if isinstance(a, np.ndarray) else a for a in arguments], write=text.append)
    capsys.readouterr()
    for device in ("interpret", "cpu"):
        tk.launch_tiled(kernel, dim=dim, inputs=list(arguments), block_dim=1, device=device)
        out: str = capsys.readouterr().out
        assert out == "".join(text), device
    return out


@tk.kernel
def shows(x: tk.array1d[Any], n: int):
    i = tk.tid()
    print("block", i, x[i], n, 2.5, True, None, sep=" ", end=";\n")
    print()
    print(x[i], x[i] > 1.0, (i, 1, "a"), (n,), sep="|")


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_scalars(capsys: Any, dtype: str) -> None:
    if dtype == "bfloat16":
        x = np.array([0.1, 3], pytest.importorskip("ml_dtypes").bfloat16)
        values = [str(F(v)) for v in x]
    else:
        x = np.array([0.1, 3], dtype)
        values = [str(v) for v in x]
    lines = [
        f"block {i} {values[i]} -5 2.5 True None;\n\n{values[i]}|{bool(i)}|({i}, 1, 'a')|(-5,)\n" for i in range(2)
    ]
    assert printed(capsys, shows, 2, x, -5) == "".join(lines)


class Pair(NamedTuple):
    x: Any
    y: Any


@tk.kernel
def containers(n: int):
    print({"a": n, 1: (n, "b")}, Pair(n, "z"), [Pair(1, [n])], {}, range(3))
    print(f"{(n, 1)} {[n, 'c']!s} {Pair(n, 2)!r} {{'k': n}} {({'k': n},)}")


def test_containers_that_hold_run_time_values(capsys: Any) -> None:
    text = printed(capsys, containers, 1, 7)
    assert text.splitlines() == [
        "{'a': 7, 1: (7, 'b')} Pair(x=7, y='z') [Pair(x=1, y=[7])] {} range(0, 3)",
        "(7, 1) [7, 'c'] Pair(x=7, y=2) {'k': n} ({'k': 7},)",
    ]


@tk.kernel
def integers(a: tk.array1d[tk.int8], b: tk.array1d[tk.uint64], c: tk.array1d[bool]):
    print(a[0], b[0], c[0], not c[0], a.shape)


def test_integers(capsys: Any) -> None:
    text = printed(capsys, integers, 1, np.array([-7], np.int8), np.array([2**64 - 1], np.uint64), np.array([True]))
    assert text == "-7 18446744073709551615 True False (1,)\n"


@pytest.mark.parametrize("dtype", ["float32", "int16", "float16", "bfloat16", "bool"])
def test_tiles(capsys: Any, dtype: str) -> None:
    if dtype == "bfloat16":
        x = (np.arange(12) / 2).reshape(3, 4).astype(pytest.importorskip("ml_dtypes").bfloat16)
        shown = x.astype(F)
    else:
        shown = x = (np.arange(12) / 2 if dtype != "bool" else np.arange(12) % 3).reshape(3, 4).astype(dtype)
    text = printed(capsys, some_tiles, 1, x)
    assert text == f"t = {shown}\n{shown.T} 3\n"


@tk.kernel
def some_tiles(x: tk.array2d[Any]):
    t = tk.tile_load(x, shape=(3, 4))
    print("t =", t)
    print(tk.tile_transpose(t), 3)


@tk.kernel
def ordered(x: tk.array1d[int]):
    i, j = tk.tid()
    if j % 2 == 0:
        for k in range(x[i]):
            print(i, j, k)


def test_blocks_print_in_order(capsys: Any) -> None:
    x = np.array([3, 0, 40], np.int32)
    text = printed(capsys, ordered, (3, 50), x)
    assert text.split("\n")[:-1] == [f"{i} {j} {k}" for i in range(3) for j in range(0, 50, 2) for k in range(x[i])]


def test_print_goes_through_the_current_stdout(monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken:
        def write(self, text: str) -> None:
            raise OSError("disk full")

    with monkeypatch.context() as patch:
        patch.setattr("sys.stdout", Broken())
        with pytest.raises(OSError, match="disk full"):
            tk.launch_tiled(ordered, dim=(1, 1), inputs=[np.array([1], np.int32)], block_dim=1)


@tk.kernel
def strings(x: tk.array1d[float], n: tk.array1d[int]):
    i = tk.tid()
    width = 8
    print(f"x[{i}] = {x[i]:.3f} {x[i]!r:>{width}}|{n[i]:+05d}|{'const'!r}|{width:3}", f"{TWO} {{}}", f"{n[0]}")
    t = tk.tile_load(x, shape=2)
    print(f"{t} and {t!s:>12}")


TWO = 2


def test_f_strings(capsys: Any) -> None:
    x, n = np.array([0.1, 2.5], F), np.array([7, -42], np.int32)
    text = printed(capsys, strings, 2, x, n)
    lines = [f"x[{i}] = {x[i]:.3f} {x[i]!s:>8}|{n[i]:+05d}|'const'|  8 2 {{}} 7\n{x} and {x!s:>12}\n" for i in range(2)]
    assert text == "".join(lines)


@tk.kernel
def blank_lines(n: int):
    print(f"""{n}
 
    
	
 {n}""")


def test_lines_of_blanks_in_a_text_stay(capsys: Any) -> None:
    assert printed(capsys, blank_lines, 1, 7) == "7\n \n    \n\t\n 7\n"


@tk.kernel
def asserts_with_values(x: tk.array1d[float]):
    i = tk.tid()
    assert x[i] < 2.0, f"x[{i}] = {x[i]:.2f} {{}}"
    assert i < 2, (i, "is", x[i])


@pytest.mark.parametrize("device", ["cpu", "interpret"])
def test_assertion_shows_values(device: str) -> None:
    with pytest.raises(KernelAssertionError) as raised:
        tk.launch_tiled(asserts_with_values, dim=2, inputs=[np.array([1, 2.5], F)], block_dim=1, device=device)
    assert raised.value.message == "x[1] = 2.50 {}, in block 1 of kernel 'asserts_with_values'"
    with pytest.raises(KernelAssertionError, match=r"\(2, 'is', 1.0\), in block 2"):
        tk.launch_tiled(asserts_with_values, dim=4, inputs=[np.ones(4, F)], block_dim=1, device=device)


@tk.kernel
def formatted(x: tk.array1d[float], n: tk.array1d[tk.int64]):
    tk.printf("%d%% of %5.2f|%-6s|%x|%lld\n", n[0], x[0], 0.1, n[0], 12345678901234)
    tk.printf("no values\n")


def test_printf(capsys: Any) -> None:
    text = printed(capsys, formatted, 1, np.array([2.125], F), np.array([255], np.int64))
    assert text == "255% of  2.12|0.1   |ff|12345678901234\nno values\n"


@tk.kernel
def checked(x: tk.array1d[float], out: tk.array1d[float]):
    _i, j = tk.tid()
    assert x[j] >= 0.0, "x must not be {negative}"
    assert len(x) == 3
    out[j] = tk.sqrt(x[j])


def test_assert_raises_where_it_stands() -> None:
    x = np.array([4, -1, 9], F)
    with pytest.raises(KernelAssertionError) as interpretation:
        interpreted(checked, (1, 3), [x, np.zeros(3, F)])
    with pytest.raises(AssertionError) as eager:
        tk.launch_tiled(checked, dim=(1, 3), inputs=[x, np.zeros(3, F)], block_dim=1, device="interpret")
    out = np.zeros(3, F)
    with pytest.raises(AssertionError) as compiled:
        tk.launch_tiled(checked, dim=(1, 3), inputs=[x, out], block_dim=1)
    assert str(eager.value) == str(compiled.value)
    for error in (interpretation.value, compiled.value):
        assert isinstance(error, KernelAssertionError)
        assert error.message.startswith("x must not be {negative}")
        assert "assert x[j] >= 0.0" in str(error) and error.location is not None
    assert compiled.value.message.endswith("in block (0, 1) of kernel 'checked'")
    assert out.tolist() == [2, 0, 0]
    tk.launch_tiled(checked, dim=(1, 3), inputs=[abs(x), out], block_dim=1)
    assert out.tolist() == [2, 1, 3]
    with pytest.raises(KernelAssertionError, match="assertion failed, in block"):
        tk.launch_tiled(checked, dim=(1, 2), inputs=[abs(x)[:2].copy(), out], block_dim=1)


@tk.kernel
def constant_assert(x: tk.array1d[float], out: tk.array1d[float]):
    assert x.ndim == 2, f"{x.ndim} dimensions"


@tk.kernel
def constant_assert_of_value(x: tk.array1d[float], out: tk.array1d[float]):
    assert x.ndim == 2, f"{x.ndim} dimensions, {x[0]}"


@tk.kernel
def wrong_format(x: tk.array1d[float], out: tk.array1d[float]):
    print(f"{x[0]:d}")


@tk.kernel
def tile_format(x: tk.array1d[float], out: tk.array1d[float]):
    print(f"{tk.tile_load(x, shape=2):.2f}")


@tk.kernel
def prints_array(x: tk.array1d[float], out: tk.array1d[float]):
    print(x)


@tk.kernel
def run_time_sep(x: tk.array1d[float], out: tk.array1d[float]):
    print(1, 2, sep=x[0])


@tk.kernel
def wrong_count(x: tk.array1d[float], out: tk.array1d[float]):
    tk.printf("%d %d", 1)


@tk.kernel
def wrong_conversion(x: tk.array1d[float], out: tk.array1d[float]):
    tk.printf("%y", 1)


@tk.kernel
def prints_tile(x: tk.array1d[float], out: tk.array1d[float]):
    tk.printf("%f", tk.tile_load(x, shape=2))


@pytest.mark.parametrize(
    ("kernel", "error", "message"),
    [
        (constant_assert, KernelAssertionError, "1 dimensions"),
        (constant_assert_of_value, KernelAssertionError, "1 dimensions, <scalar f32>"),
        (wrong_format, KernelValueError, "a float32 takes no format 'd'"),
        (tile_format, KernelTypeError, "a tile<2xf32> takes no format '.2f'; format its elements"),
        (prints_array, KernelTypeError, "an array1d<f32> cannot be printed as a whole"),
        (run_time_sep, KernelTypeError, r"print\(\): sep must be a compile-time string, got a float32"),
        (wrong_count, KernelValueError, "the format '%d %d' takes 2 values, got 1"),
        (wrong_conversion, KernelValueError, "the format '%y' has a '%' that starts no supported conversion"),
        (prints_tile, KernelTypeError, "printf.. prints numbers, got a tile<2xf32>"),
    ],
)
def test_refused(kernel: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        tk.launch_tiled(kernel, dim=1, inputs=[np.zeros(2, F), np.zeros(2, F)], block_dim=1)


def test_outside_kernels(capsys: Any) -> None:
    tk.printf("%d\n", 3)
    assert capsys.readouterr().out == "3\n"


@tk.kernel
def expects(x: tk.array1d[float]):
    i = tk.tid()
    tk.expect_eq(i, 1)
    tk.expect_neq(x[i], 2.0)
    tk.expect_near(x[i], 1.0, 0.5)
    tk.expect_eq(3, 3)


def test_expectations_print_and_go_on(capsys: Any) -> None:
    text = printed(capsys, expects, 2, np.array([np.nan, 2], F))
    line = next(n for n, t in enumerate(open(__file__), 1) if "tk.expect_eq(i, 1)" in t)
    assert text.split("\n")[:-1] == [
        f"Error, expect_eq() failed at {__file__}:{line}", "  Expected: 1", "  Actual: 0",
        f"Error, expect_near() failed at {__file__}:{line + 2}", "  Expected near: 1.0", "  Actual: nan",
        f"Error, expect_neq() failed at {__file__}:{line + 1}", "  Expected not: 2.0", "  Actual: 2.0",
        f"Error, expect_near() failed at {__file__}:{line + 2}", "  Expected near: 1.0", "  Actual: 2.0",
    ]  # fmt: skip
