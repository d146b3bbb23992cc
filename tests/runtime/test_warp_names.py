import os
import subprocess
import sys

import numpy as np
import pytest

from tilekit.errors import KernelAttributeError
from tilekit.ir.types import bfloat16, float32
from tilekit.runtime import warp_names

wp = pytest.importorskip("warp")


def run(program: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)


def test_every_listed_name_is_public_in_warp() -> None:
    assert [name for name in warp_names.names() if not hasattr(wp, name) or name.startswith("_")] == []


def test_lookup() -> None:
    assert warp_names.lookup("copy") is wp.copy
    assert warp_names.lookup("ScopedTimer") is wp.ScopedTimer
    assert warp_names.lookup("dtype_to_numpy")(float32) is np.float32


@pytest.mark.parametrize("name", ["vec3", "kernel", "sin", "nothing", "__path__"])
def test_other_names_are_not_found(name: str) -> None:
    with pytest.raises(KernelAttributeError, match=f"tilekit has no attribute '{name}'"):
        warp_names.lookup(name)


def test_dtype_conversion() -> None:
    assert warp_names.to_warp_dtype(bfloat16) is wp.bfloat16
    assert warp_names.to_warp_dtype(bool) is wp.bool
    assert warp_names.to_warp_dtype(wp.vec3) is wp.vec3


def test_first_use_prints_nothing_and_keeps_the_log_level() -> None:
    done = run(
        "from tilekit.runtime.warp_arrays import zeros\n"
        "import warp; before = warp.config.log_level\n"
        "zeros(3); assert warp.config.log_level == before == warp.LOG_INFO"
    )
    assert (done.stdout, done.stderr) == ("", "")


def test_what_others_write_to_standard_error_is_kept(capfd: pytest.CaptureFixture[str]) -> None:
    with warp_names._without_line("no GPU"):
        os.write(2, b"mine\nWarp: no GPU here\nalso mine\n")
    assert capfd.readouterr().err == "mine\nalso mine\n"


def test_importing_and_annotating_needs_no_warp() -> None:
    run(
        "import sys; sys.modules['warp'] = None\n"
        "from tilekit.ir.annotations import array2d\n"
        "from tilekit.ir.parameters import parse_parameters\n"
        "from tilekit.runtime import arrays, warp_arrays, warp_names\n"
        "import numpy as np; arrays.view_of(np.zeros(3))\n"
        "def k(a: array2d[float]): ...\n"
        "parse_parameters(k)\n"
        "assert not {'torch', 'cupy', 'jax'} & set(sys.modules)"
    )


def test_missing_warp_says_what_to_install() -> None:
    done = run(
        "import sys; sys.modules['warp'] = None\n"
        "from tilekit.errors import MissingPackageError\n"
        "from tilekit.runtime.warp_names import lookup\n"
        "try: lookup('copy')\n"
        "except MissingPackageError as error: print(error)"
    )
    assert done.stdout == "this needs NVIDIA Warp, which is not installed: pip install warp-lang\n"
