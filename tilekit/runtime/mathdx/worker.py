"""Makes one unit: ``python -m tilekit.runtime.mathdx.worker PROVIDER FOLDER``, with the unit in ``FOLDER/unit.json``.

A process of its own, because libmathdx compiles one unit at a time and cannot be interrupted.
"""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from typing import Any

from tilekit.codegen.gemm.units import Unit
from tilekit.errors import CompileError
from tilekit.runtime.mathdx.made import Made

ASKED, CODE, FACTS = "unit.json", "unit.ltoir", "facts.json"


def unit_of(text: str) -> Unit:
    """A unit that was written as JSON.

    Example:
        >>> import dataclasses
        >>> unit = Unit(64, 64, 32, "F16", "F32", 90, 128, (True, True), (0, 0), (16, 16))
        >>> unit_of(json.dumps(dataclasses.asdict(unit))) == unit
        True
    """
    fields: dict[str, Any] = json.loads(text)
    given: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in fields.items()}
    return Unit(**given)


def make(provider: str, folder: Path) -> None:
    """Compile the unit in a folder, and write its code and what must be known of it beside it.

    Raises:
        CompileError: the provider refused it.
    """
    unit = unit_of((folder / ASKED).read_text(encoding="utf-8"))
    module: Any = importlib.import_module(f"tilekit.runtime.mathdx.{provider}")
    made: Made = module.compile_unit(unit)
    (folder / CODE).write_bytes(made.code)
    (folder / FACTS).write_text(json.dumps(made.facts), encoding="utf-8")


def main(arguments: list[str]) -> int:
    """Run the program; the exit status is 1 where the provider refused the unit."""
    provider, folder = arguments
    try:
        make(provider, Path(folder))
    except CompileError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
