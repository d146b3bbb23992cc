"""Calls in kernels: long chains of helpers, and Python's ``min`` and ``max`` of all that can be iterated."""

from __future__ import annotations

import importlib.util
import sys

import numpy as np
import pytest

import tilekit as tk
from tests.frontend.running import check

DEVICES = pytest.mark.parametrize("device", ["cpu", "interpret"])


def chain(length, path, body, decorator="@tk.func\n"):
    """A kernel whose helpers call one another, ``length`` deep."""
    text = f"import tilekit as tk\n\n\n{decorator}def h0(x):\n    return x\n"
    for i in range(length):
        text += f"\n\n{decorator}def h{i + 1}(x):\n{body.format(i=i)}\n"
    text += f"\n\n@tk.kernel\ndef k(x: float, out: tk.array1d[float]):\n    out[0] = h{length}(x)\n"
    return kernel_in(path / f"chain_{length}.py", text)


def kernel_in(file, text):
    file.write_text(text)
    spec = importlib.util.spec_from_file_location(file.stem, file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.k


@DEVICES
@pytest.mark.parametrize("decorator", ["", "@tk.func\n"])
@pytest.mark.parametrize("length", [41, 200])
def test_long_chains_of_helpers(length, decorator, device, tmp_path):
    k, out, limit = (
        chain(length, tmp_path, "    return h{i}(x) + 1.0", decorator),
        np.zeros(1, np.float32),
        sys.getrecursionlimit(),
    )
    tk.launch_tiled(k, dim=1, inputs=[0.5], outputs=[out], device=device)
    assert out[0] == length + 0.5
    assert sys.getrecursionlimit() == limit


@pytest.mark.deep
def test_too_long_a_chain_says_so(tmp_path):
    k, limit = chain(600, tmp_path, "    return h{i}(x) + 1.0"), sys.getrecursionlimit()
    with pytest.raises(NotImplementedError) as caught:
        tk.launch_tiled(k, dim=1, inputs=[0.5], outputs=[np.zeros(1, np.float32)])
    text = "'h100' is called by a chain of more than 500 helpers; merge some of them"
    assert caught.value.message == text
    assert sys.getrecursionlimit() == limit


def test_helpers_under_hundreds_of_branches_of_a_helper(tmp_path):
    text = "import tilekit as tk\n\n\ndef h0(x):\n    return x + 1.0\n\n\ndef h1(x, i):\n    y = x\n"
    text += "".join(f"    {'el' * (j > 0)}if i == {j}:\n        y = h0(x) * {j}.0\n" for j in range(450))
    text += "    return y\n\n\n@tk.kernel\ndef k(x: float, i: int, out: tk.array1d[float]):\n    out[0] = h1(x, i)\n"
    out, limit = np.zeros(1, np.float32), sys.getrecursionlimit()
    tk.launch_tiled(
        kernel_in(tmp_path / "branches.py", text), dim=1, inputs=[0.5, 449], outputs=[out], device="interpret"
    )
    assert out[0] == 449 * 1.5
    assert sys.getrecursionlimit() == limit


def largest_of_a_generator(a, b):
    return max(x * x for x in (a, b, 3)), min(x - 1 for x in [a, b])


@pytest.mark.parametrize(("a", "b"), [(1, 5), (-7, 2)])
def test_min_and_max_of_what_can_be_iterated(a, b):
    check(largest_of_a_generator, a, b)


@DEVICES
def test_min_and_max_of_elements(device):
    @tk.kernel
    def k(x: tk.array1d[float], out: tk.array1d[float]):
        out[0] = max(x[i] for i in range(4))
        out[1] = min(x[i] * 2.0 for i in range(1, 4))
        out[2] = max(map(abs, (x[0], x[1])))
        out[3] = max(2.0, *[x[i] for i in range(2)])

    x, out = np.float32([-5, 1, 7, 3]), np.zeros(4, np.float32)
    tk.launch_tiled(k, dim=1, inputs=[x], outputs=[out], device=device)
    assert out.tolist() == [7, 2, 5, 2]
