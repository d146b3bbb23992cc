"""What the architectures of NVIDIA's GPUs offer; the facts are in ``architectures.json``."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

from tilekit.errors import KernelValueError, shown

_FACTS = Path(__file__).with_suffix(".json")
_NAME = re.compile(r"(?:sm_?)?(\d{2,3}[af]?)")


@cache
def _facts() -> Any:
    return json.loads(_FACTS.read_text(encoding="utf-8"))


def arch_name(given: object) -> str:
    """An architecture as it is named within: ``90``, ``"90"`` and ``"sm_90"`` are ``"90"``.

    Raises:
        KernelValueError: it is written in another way.

    Example:
        >>> arch_name(90), arch_name("sm_90a")
        ('90', '90a')
    """
    found = _NAME.fullmatch(given if isinstance(given, str) else shown(given))
    if found is None:
        raise KernelValueError(
            f"arch must be a compute capability without its dot, such as 90 or '90a', not {shown(given)}"
        )
    return found[1]


def shared_limit(arch: str) -> int | None:
    """Bytes of shared memory that a block can have at most; None where it is not known.

    Example:
        >>> shared_limit("90a"), shared_limit("75")
        (232448, 65536)
    """
    kib = _facts()["shared_kib"].get(arch.rstrip("af"))
    return None if kib is None else kib * 1024


def registers_limit() -> int:
    """Registers that a thread can have at most."""
    return int(_facts()["registers_per_thread"])
