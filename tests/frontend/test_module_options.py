"""Names of module options: ours, Warp's, and no others."""

from __future__ import annotations

from typing import Any

import pytest

import tilekit as tk
from tilekit.errors import KernelValueError
from tilekit.frontend.module_options import MODULE_OPTIONS, WITHOUT_MEANING


@tk.kernel
def nothing(out: tk.array1d[float]):
    out[0] = 1.0


def test_a_misspelt_option_is_refused() -> None:
    with pytest.raises(KernelValueError, match=r"no module option 'require_gem'; did you mean `require_gemm`\?"):
        tk.kernel(nothing.function, module_options={"require_gem": "mma"})
    before = tk.get_module_options()
    with pytest.raises(KernelValueError, match="there is no module option 'tensor_cores'; they are max_unroll, "):
        tk.set_module_options({"max_unroll": 4, "tensor_cores": True})
    assert tk.get_module_options() == before


def test_those_of_warp_are_accepted() -> None:
    wp: Any = pytest.importorskip("warp")
    theirs = set(wp.get_module("tests.frontend.no_module").options)
    assert theirs <= {*MODULE_OPTIONS, *WITHOUT_MEANING}
    tk.kernel(nothing.function, module_options=dict.fromkeys(WITHOUT_MEANING))
