"""A source file that changes between its import and the first launch."""

import importlib.util
import os
import time

import numpy as np
import pytest

import tilekit as tk

SOURCE = '''"""A module with a kernel."""
import tilekit as tk

OFFSET = 0.5


def helper(x):
    return x + OFFSET


def made(factor):
    def scale(x):
        return x * factor

    @tk.kernel
    def kernel(out: tk.array1d[float]):
        """Has a closure, a lambda and a helper."""
        t = tk.tile_map(lambda v: scale(helper(v)) + 1.0, tk.tile_full(shape=2, value=1.0))
        for _i in range(3):
            t = -t
        tk.tile_store(out, t)

    return kernel


kernel = made(2.0)
'''


@pytest.fixture
def module(tmp_path):
    path = tmp_path / "changing.py"
    path.write_text(SOURCE)
    spec = importlib.util.spec_from_file_location("changing", path)
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


def change(module, text):
    with open(module.__file__, "w") as file:
        file.write(text)
    later = time.time() + 5
    os.utime(module.__file__, (later, later))  # file systems may count seconds


def launched(kernel):
    out = np.zeros(2, np.float32)
    tk.launch_tiled(kernel, dim=1, outputs=[out], device="interpret")
    return out.tolist()


def test_a_file_that_is_as_it_was(module):
    change(module, SOURCE)
    assert launched(module.kernel) == [-4.0, -4.0]


@pytest.mark.parametrize(
    "text",
    [
        SOURCE.replace("range(3)", "range(2)"),
        SOURCE.replace("t = -t", "t = t"),
        SOURCE.replace("scale(helper(v)) + 1.0", "scale(helper(v)) + 2.0"),
        SOURCE.replace("OFFSET = 0.5", "OFFSET = 0.5\n\n# moved\n"),
        SOURCE.replace("return x + OFFSET", "return x - OFFSET"),
        "",
    ],
)
def test_a_file_that_was_changed_is_refused(module, text):
    change(module, text)
    for _ in range(2):
        with pytest.raises(SyntaxError, match=r"importlib\.reload|is not available"):
            launched(module.kernel)


def test_what_was_launched_before_goes_on(module):
    assert launched(module.kernel) == [-4.0, -4.0]
    change(module, SOURCE.replace("range(3)", "range(2)"))
    assert launched(module.kernel) == [-4.0, -4.0]


RELOADED = '''"""A module without kernels."""


def scaled(x, by=FACTOR):
    return x * by + OFFSET


class Rule:
    def apply(self, x):
        return x - OFFSET


rule = Rule()
'''


def reloaded(path, factor, offset):
    path.write_text(RELOADED.replace("FACTOR", str(factor)).replace("OFFSET", str(offset)))
    os.utime(path, (factor * 100, factor * 100))  # file systems may count seconds
    spec = importlib.util.spec_from_file_location("helpers_that_change", path)
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


def test_functions_that_are_replaced_in_place(tmp_path):
    """As IPython's autoreload does for names that were imported from a module which was edited."""
    path = tmp_path / "helpers_that_change.py"
    module = reloaded(path, 2.0, 0.25)
    scaled, rule = module.scaled, module.rule

    @tk.kernel
    def by_function(out: tk.array1d[float]):
        out[tk.tid()] = scaled(1.0)

    @tk.kernel
    def by_method(out: tk.array1d[float]):
        out[tk.tid()] = rule.apply(1.0)

    def found(kernel, device):
        out = np.zeros(4, np.float32)
        for _ in range(4):  # warm as well
            tk.launch(kernel, dim=4, inputs=[out], device=device)
        return out[0]

    def results():
        return [found(kernel, device) for kernel in (by_function, by_method) for device in ("cpu", "interpret")]

    assert results() == [2.25, 2.25, 0.75, 0.75]
    again = reloaded(path, 3.0, 0.5)
    for old, new in ((scaled, again.scaled), (module.Rule.apply, again.Rule.apply)):
        old.__code__, old.__defaults__ = new.__code__, new.__defaults__
    assert results() == [3.5, 3.5, 0.5, 0.5]
    scaled.__defaults__ = (5.0,)
    assert results() == [5.5, 5.5, 0.5, 0.5]
