"""Where kernels and helpers may be defined, and what a new definition does."""

from __future__ import annotations

import functools
import linecache
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import tilekit as tk
from tilekit.errors import KernelSyntaxError
from tilekit.ir.context import LaunchForm

SCALE = 2.0


def run(kernel, *inputs):
    out = np.zeros(4, np.float32)
    tk.launch_tiled(kernel, dim=1, inputs=list(inputs), outputs=[out], block_dim=1)
    return out.tolist()


@tk.kernel
def in_a_module(out: tk.array1d[float]):
    out[0] = SCALE


def make(factor):
    def scaled(x):
        return x * factor

    @tk.kernel
    def k(x: float, out: tk.array1d[float]):
        out[0] = scaled(x) + SCALE

    return k


class Model:
    TILE = 3.0

    def __init__(self, bias):
        self.bias = bias

    @staticmethod
    def double(x):
        return 2.0 * x

    def shift(self, x, times=1.0):
        return x + self.bias * times

    @tk.kernel
    def in_a_class(x: float, out: tk.array1d[float]):
        out[0] = Model.double(x) + Model.TILE

    def kernel(self):
        @tk.kernel
        def k(x: float, out: tk.array1d[float]):
            out[0] = self.shift(x, times=2.0)

        return k


def test_module_closure_class_and_method():
    assert run(in_a_module)[0] == 2.0
    assert [run(make(factor), 3.0)[0] for factor in (1.0, 10.0)] == [5.0, 32.0]
    assert run(Model.in_a_class, 5.0)[0] == 13.0


def test_a_method_sees_the_attributes_of_its_object_as_they_are():
    model = Model(5.0)
    kernel = model.kernel()
    assert run(kernel, 1.0)[0] == 11.0
    model.bias = 7.0
    assert run(kernel, 1.0)[0] == 15.0


def cell(text: str, name: str) -> dict[str, Any]:
    """Run text as a notebook does: a file that only linecache knows."""
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    names: dict[str, Any] = {"tk": tk, "np": np, "__name__": "__main__"}
    exec(compile(text, name, "exec"), names)
    return names


CELL = """
def scale(x):
    return x * {factor}

@tk.kernel
def k(x: float, out: tk.array1d[float]):
    out[0] = scale(x)
"""


def test_notebook_cells():
    first = cell(CELL.format(factor=2.0), "<ipython-input-1-abc>")
    second = cell(CELL.format(factor=3.0), "<ipython-input-2-def>")
    assert run(first["k"], 1.0)[0] == 2.0
    assert run(second["k"], 1.0)[0] == 3.0


def test_equal_code_in_two_files_keeps_its_own_globals():
    text = "def get():\n    return VALUE\n\n@tk.kernel\ndef k(out: tk.array1d[float]):\n    out[0] = get()\n"
    found = []
    for number in (1.0, 2.0):
        names = cell(text, f"<cell {number}>")
        names["VALUE"] = number
        found.append(names["k"])
    assert [run(kernel)[0] for kernel in found] == [1.0, 2.0]


def test_a_redefined_helper_takes_effect_at_the_next_launch():
    names = cell(CELL.format(factor=2.0), "<cell redefined>")
    assert run(names["k"], 1.0)[0] == 2.0
    text = "def scale(x):\n    return x * 5.0\n"
    linecache.cache["<cell later>"] = (len(text), None, text.splitlines(keepends=True), "<cell later>")
    exec(compile(text, "<cell later>", "exec"), names)
    assert run(names["k"], 1.0)[0] == 5.0


def test_no_source_is_one_clear_error():
    names: dict[str, Any] = {"tk": tk}
    text = "@tk.kernel\ndef k(n: int):\n    x = n\n"
    with pytest.raises(KernelSyntaxError, match=r"source of 'k' is not available; define kernels in a file"):
        exec(text, names)
        tk.launch_tiled(names["k"], dim=1, inputs=[1], block_dim=1)


def test_python_c_is_the_same_error():
    program = "import tilekit as tk\n@tk.kernel\ndef k(n: int):\n    x = n\ntk.launch_tiled(k, dim=1, inputs=[1])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert "source of 'k' is not available" in done.stderr


def test_defaults_keywords_and_star_arguments_of_helpers():
    @tk.func
    def weighted(x: float, weight: float = 10.0, *, offset: float = 1.0):
        return x * weight + offset

    def total(*numbers):
        return sum(numbers)

    @tk.kernel
    def k(x: float, out: tk.array1d[float]):
        out[0] = weighted(x)
        out[1] = weighted(x, 2.0, offset=5.0)
        out[2] = weighted(weight=3.0, x=x)
        out[3] = total(x, 1.0, x)

    assert run(k, 2.0) == [21.0, 9.0, 7.0, 5.0]


def passes_on(function):
    @functools.wraps(function)
    def inner(*values):
        return function(*values)

    return inner


def drops(function):
    @functools.wraps(function)
    def inner():
        return function()

    return inner


@tk.kernel
@passes_on
def decorated_below(x: float, out: tk.array1d[float]):
    out[0] = 2.0 * x


@tk.kernel
def by_name(x: float, /, out: tk.array1d[float], *, n: int):
    out[0] = x + float(n)


@tk.kernel
@drops
def without_its_parameters(x: float, out: tk.array1d[float]):
    out[0] = x


@passes_on
@tk.kernel
def decorated_above(x: float, out: tk.array1d[float]):
    out[0] = x


@pytest.mark.parametrize("device", ["cpu", "interpret"])
def test_kernels_under_and_over_other_decorators(device: str) -> None:
    out = np.zeros(1, np.float32)
    tk.launch(decorated_below, dim=1, inputs=[3.0, out], device=device)
    assert out[0] == 6
    tk.launch(by_name, dim=1, inputs=[3.0, out, 4], device=device)
    assert out[0] == 7
    with pytest.raises(tk.errors.KernelTypeError, match="takes 0 positional arguments but 2 were given") as found:
        tk.launch(without_its_parameters, dim=1, inputs=[3.0, out], device=device)
    assert "def inner():" in str(found.value)
    with pytest.raises(tk.errors.KernelTypeError, match="got the function decorated_above, which wraps a kernel; put"):
        tk.launch(decorated_above, dim=1, inputs=[3.0, out], device=device)


def test_a_function_of_no_module_is_a_kernel_and_a_helper() -> None:
    names: dict[str, Any] = {"tk": tk}
    text = "def double(x):\n    return x * 2.0\n@tk.kernel\ndef k(out: tk.array1d[float]):\n    out[0] = double(4.0)\n"
    linecache.cache["<no module>"] = (len(text), None, text.splitlines(keepends=True), "<no module>")
    exec(compile(text, "<no module>", "exec"), names)
    assert names["double"].__module__ in (None, "builtins")
    assert run(names["k"])[0] == 8


def test_helpers_in_helpers_lambdas_and_recursion_over_constants():
    def power(x, n):
        return 1.0 if n == 0 else x * power(x, n - 1)

    square = lambda x: power(x, 2)  # noqa: E731

    @tk.kernel
    def k(x: float, out: tk.array1d[float]):
        twice = lambda f, v: f(f(v))  # noqa: E731
        out[0] = power(x, 3)
        out[1] = twice(square, x)

    assert run(k, 2.0)[:2] == [8.0, 16.0]


def test_variables_may_have_any_name():
    @tk.kernel
    def index(item: float, out: tk.array1d[float]):
        index = 0.0
        chosen = item if item > 1.0 else index
        body = 0.0
        for cx in range(3):
            body += chosen
            if body > 100.0:
                break
        operands = body
        out[0] = operands

    assert run(index, 2.0)[0] == 6.0


def test_comments_and_strings_may_stand_left_of_a_nested_kernel():
    @tk.kernel
    def outlined(out: tk.array1d[float]):
        """A first line

        and one at the margin.
        """
        i = tk.tid()
        # a line that is commented out
        out[i] = 3.0
        assert out[i] > 4.0, "where"

    with pytest.raises(
        AssertionError, match=r"test_definitions.py:\d+: where, (.|\n)*\n    assert out\[i\] > 4.0"
    ) as error:
        run(outlined)
    assert linecache.getline(__file__, error.value.location.line).strip().startswith("assert out[i]")
    assert error.value.location.column == 8


def test_a_kernel_called_again_with_other_types_is_compiled_again():
    @tk.kernel
    def k(x: Any, out: tk.array1d[float]):
        out[0] = float(x / 2)

    assert run(k, np.int32(5))[0] == 2.0
    assert run(k, np.float32(5))[0] == 2.5


# fmt: off
ALIKE = (lambda v: v + 1.0, lambda v: v + 2.0, lambda v: (lambda w: w + 3.0)(v),
         lambda v: tk.sin(v), lambda v: tk.cos(v),
         lambda v: 5.0 if v > 1.0 else 6.0, lambda v: 5.0 if v > 1.0 else 7.0)
# fmt: on


def test_lambdas_on_one_line_that_differ_in_a_constant_or_a_name():
    @tk.kernel
    def k(x: float, first: int, out: tk.array1d[float]):
        for i in tk.static_range(len(ALIKE)):
            if first <= i < first + 4:
                out[i - first] = ALIKE[i](x)

    assert run(k, 0.0, 0) + run(k, 0.0, 4) == [1.0, 2.0, 3.0, 0.0, 1.0, 6.0, 7.0, 0.0]


def test_lambdas_on_one_line_with_variables_of_their_own():
    def kernel_with(a, b):
        # fmt: off
        scale, shift = lambda v: v * a, lambda v: v + b
        # fmt: on

        @tk.kernel
        def k(x: float, out: tk.array1d[float]):
            out[0] = shift(scale(x))

        return k

    assert run(kernel_with(2.0, 5.0), 3.0)[0] == 11.0


def test_module_options_reach_kernels_declared_before_and_after() -> None:
    def rolled(kernel: tk.Kernel) -> bool:
        return "for_range" in str(kernel.trace(kernel.default_types(), LaunchForm(ndim=1)))

    @tk.kernel
    def before(out: tk.array1d[float]):
        for i in range(4):
            out[i] = 1.0

    @tk.kernel(module_options={"max_unroll": 8})
    def own(out: tk.array1d[float]):
        for i in range(4):
            out[i] = 1.0

    try:
        run(before)
        assert not rolled(before)
        tk.set_module_options({"max_unroll": 2, "enable_backward": False})
        after = tk.kernel(before.function)
        assert [rolled(before), rolled(after), rolled(own)] == [True, True, False]
        assert not before.cache
        assert tk.get_module_options() == {"max_unroll": 2, "enable_backward": False}
        assert tk.get_module_options(sys) == {}
        tk.set_module_options({"max_unroll": 16}, sys.modules[__name__])
        assert not rolled(after)
    finally:
        tk.set_module_options({"max_unroll": 16})


def test_an_endless_expression_is_a_clear_error() -> None:
    text = "@tk.kernel\ndef k(out: tk.array1d[float]):\n    out[0] = " + " + ".join(["out[1]"] * 2000) + "\n"
    linecache.cache["<long>"] = (len(text), None, text.splitlines(keepends=True), "<long>")
    names: dict[str, Any] = {"tk": tk, "__name__": "long"}
    exec(compile(text, "<long>", "exec"), names)
    with pytest.raises(KernelSyntaxError, match="'k' has too many operations; use several statements"):
        run(names["k"])
