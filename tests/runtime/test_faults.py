"""The errors that compiled kernels record."""

import re

from tilekit.codegen.headers import NATIVE
from tilekit.errors import TilekitError
from tilekit.runtime.faults import _KINDS


def test_every_kind_of_the_headers_is_an_error_of_python():
    (enum,) = re.findall(r"enum ErrorKind \{(.*?)\}", (NATIVE / "base.h").read_text(encoding="utf-8"), re.DOTALL)
    kinds = {int(number) for name, number in re.findall(r"(k\w+) = (\d+)", enum) if name != "kNoError"}
    assert kinds == _KINDS.keys()
    assert all(issubclass(error, TilekitError) for error in _KINDS.values())
