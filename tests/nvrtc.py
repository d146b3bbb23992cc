"""NVRTC in tests: it needs no GPU, but the extra ``cuda``, which the extra ``test`` includes."""

from __future__ import annotations

import pytest

from tilekit.errors import MissingPackageError
from tilekit.runtime.cuda import nvrtc


def missing() -> bool:
    try:
        nvrtc.version()
    except MissingPackageError:
        return True
    return False


needs_nvrtc = pytest.mark.skipif(missing(), reason="needs NVRTC: python -m pip install -e '.[cuda]'")
ARCHES = ("75", "80", "90a", "100", "120")
"""What is compiled for: one of each generation."""
