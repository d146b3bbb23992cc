from __future__ import annotations

import pytest

from tilekit.codegen.architectures import arch_name, registers_limit, shared_limit
from tilekit.errors import KernelValueError


@pytest.mark.parametrize(
    ("arch", "kib"), [("75", 64), ("80", 163), ("86", 99), ("89", 99), ("90", 227), ("100", 227), ("120", 99)]
)
def test_shared_memory_of_a_block(arch: str, kib: int) -> None:
    assert shared_limit(arch) == shared_limit(f"{arch}a") == kib * 1024


def test_registers_of_a_thread() -> None:
    assert registers_limit() == 255


@pytest.mark.parametrize("given", [90, "90", "sm_90", "sm90"])
def test_spellings(given: object) -> None:
    assert arch_name(given) == "90"


@pytest.mark.parametrize("given", ["hopper", 9.0, "9", "90b", None, (9, 0)])
def test_what_is_no_architecture(given: object) -> None:
    with pytest.raises(KernelValueError, match="compute capability without its dot"):
        arch_name(given)
