"""Options of kernels and modules: what is accepted, what is refused, and where."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

import tilekit as tk
from tilekit.errors import KernelTypeError, KernelValueError
from tilekit.options import FUNC_OPTIONS, KERNEL_OPTIONS, MODULE_OPTIONS

NAMELESS = "module options are gemm, require_gemm, enable_mathdx_gemm, fast_math"


def body(a: tk.array1d[float]):
    a[0] = 1.0


@pytest.mark.parametrize(
    ("options", "error", "message", "word"),
    [
        ({"enable_mathdx_gem": False}, KernelTypeError, "did you mean `enable_mathdx_gemm`\\?; " + NAMELESS, "gem"),
        ({"wholly_other": 1}, KernelTypeError, "no module option 'wholly_other'; " + NAMELESS, "wholly_other"),
        ({"checked": True}, KernelTypeError, "only tk.config.checked", "checked"),
        ({3: True}, KernelTypeError, "no module option 3", "3"),
        ([("gemm", "mma")], KernelTypeError, "must be a dict of values by name, got a list", "module_options"),
        ({"gemm": "mm"}, KernelValueError, "'gemm' must be 'auto' or .* not 'mm'", "gemm"),
        ({"fast_math": 1}, KernelValueError, "'fast_math' must be True or False or None, not 1", "fast_math"),
        ({"max_unroll": -1}, KernelValueError, "'max_unroll' must be an integer of at least 0", "max_unroll"),
        ({"optimization_level": 3, "fuse_fp": "no"}, KernelValueError, "'fuse_fp' must be True or False", "fuse_fp"),
    ],
)
def test_wrong_module_options_are_errors_where_they_are_given(options, error, message, word):
    with pytest.raises(error, match=message) as of_kernel:
        tk.kernel(body, module_options=options)
    with pytest.raises(error, match=message) as of_module:
        tk.set_module_options(options)
    for found in (of_kernel, of_module):
        assert found.value.location.file == __file__
        assert "options=options" in str(found.value) or "options(options)" in str(found.value)
    assert tk.get_module_options() == {}


def test_a_module_option_as_a_keyword_is_told_where_it_belongs():
    with pytest.raises(
        KernelTypeError, match="has no keyword 'enable_mathdx_gemm'; write module_options=.'enable_mathdx"
    ):
        tk.kernel(body, enable_mathdx_gemm=False)


def test_the_caret_is_under_the_name():
    with pytest.raises(KernelTypeError) as found:
        tk.kernel(
            body,
            module_options={
                "fast_math": True,
                "fast_maths": True,
            },
        )
    assert str(found.value).splitlines()[1:] == ['    "fast_maths": True,', "     ^^^^^^^^^^"]


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"cuda_max_register": 8}, KernelTypeError, "did you mean `cuda_max_registers`\\?; it takes name, "),
        ({"cuda_max_registers": "8"}, KernelValueError, "must be an integer of at least 1 or None, not '8'"),
        ({"cuda_max_registers": 0}, KernelValueError, "must be an integer of at least 1 or None, not 0"),
        ({"launch_bounds": (256, "1")}, KernelValueError, r"an integer or a tuple of them or None, not \(256, '1'\)"),
        ({"enable_backward": "no"}, KernelValueError, "must be True or False or None, not 'no'"),
        ({"name": 3}, KernelValueError, "must be a string or None, not 3"),
    ],
)
def test_wrong_keywords_of_a_kernel(options, error, message):
    with pytest.raises(error, match=message) as found:
        tk.kernel(**options)
    assert found.value.location.file == __file__


def test_wrong_keywords_of_a_func():
    with pytest.raises(KernelTypeError, match="func.. has no keyword 'inlined'; did you mean `inline`"):
        tk.func(inlined=True)


def test_none_leaves_an_option_to_the_config():
    options = tk.kernel(body, module_options={"fast_math": None, "max_unroll": 3}).options["module_options"]
    assert options == {"max_unroll": 3}
    with tk.config.scoped(max_unroll=5):
        assert tk.kernel(body, module_options={"max_unroll": None}).max_unroll == 5


def test_modules_by_name():
    tk.set_module_options({"max_unroll": 4}, "some.module")
    assert tk.get_module_options("some.module") == {"max_unroll": 4}
    nothing: Any = 3
    with pytest.raises(KernelTypeError, match="module must be a module or its name, got 3"):
        tk.get_module_options(nothing)


def test_all_that_warp_takes_is_accepted():
    wp = pytest.importorskip("warp")
    assert set(wp.get_module_options()) <= set(MODULE_OPTIONS)
    tk.kernel(body, module_options=wp.get_module_options())
    assert set(inspect.signature(wp.kernel).parameters) - {"f"} <= set(KERNEL_OPTIONS)
    assert set(inspect.signature(wp.func).parameters) - {"f"} == set(FUNC_OPTIONS)
    how = {"launch_bounds": (256, 1), "cluster_dim": 2, "entry_point_abi": "warp", "grid_stride": False}
    kernel = tk.kernel(**how, enable_cuda_smem_spilling=True, module="unique")(body)
    assert tk.compile(kernel, device="cpu").arena_bytes == 0


def test_the_debugger_s_mode_of_one_kernel(monkeypatch):
    from tilekit.runtime import cpu

    built = []
    monkeypatch.setattr(cpu, "build", lambda generated, toolchain, debug, fast: built.append((debug, fast)))
    for options in ({"mode": "debug"}, {"mode": None, "fast_math": True}):
        tk.compile(tk.kernel(body, module_options=options), device="cpu")
    assert built == [(True, False), (False, True)]
