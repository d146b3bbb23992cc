"""Apache TVM TIRx in tests: what its table of PTX instructions takes."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

pytest.importorskip("tvm_tirx", reason="needs the extra tirx")

from tvm_tirx.backend.cuda.ptx import engine
from tvm_tirx.backend.cuda.ptx.table import TABLE, variants


def spelling_in_tirx(spelling: str) -> str | None:
    """How TIRx writes an instruction, or None where it refuses the spelling."""
    try:
        return str(engine.instruction_name(spelling))
    except (KeyError, ValueError):
        return None


def spellings_of_tirx(mnemonics: Iterable[str]) -> set[str]:
    """Every complete spelling of these instructions that TIRx takes."""
    entries = [entry for entry in TABLE.values() if entry.ptx_name in set(mnemonics)]
    return {".".join([entry.ptx_name, *filter(None, tokens)]) for entry in entries for tokens in variants(entry)}
