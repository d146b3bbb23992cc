"""Wrong programs and the whole message of each: ``programs/<area>.txt`` shows both side by side.

A program is run as a file of that name with ``tk``, ``np``, ``wp`` and ``Any`` at hand; then the last kernel it defines
is launched with arguments that fit its annotations. ``--update-golden`` writes the messages.
"""

from __future__ import annotations

import contextlib
import linecache
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilekit as tk
from tilekit.frontend.kernel import Kernel
from tilekit.ir.annotations import ArrayAnnotation
from tilekit.ir.types import DType

wp = pytest.importorskip("warp")

FOLDER = Path(__file__).parent / "programs"
HEAD = re.compile(r"^=== (\S+)$", re.MULTILINE)
LEAST = 80


@dataclass(frozen=True)
class Case:
    area: str
    name: str
    program: str
    expected: str

    @property
    def file(self) -> str:
        return f"{self.name}.py"


def read(path: Path) -> list[Case]:
    _, *parts = HEAD.split(path.read_text(encoding="utf-8"))
    cases = []
    for name, text in zip(parts[::2], parts[1::2], strict=True):
        program, _, expected = text.partition("\n---\n")
        cases.append(Case(path.stem, name, program.strip("\n") + "\n", expected.strip("\n")))
    return cases


CASES = [case for path in sorted(FOLDER.glob("*.txt")) for case in read(path)]


def outcome(case: Case) -> str:
    """The class and text of the error that the program raises."""
    linecache.cache[case.file] = (len(case.program), None, case.program.splitlines(keepends=True), case.file)
    names: dict[str, Any] = {"__name__": "program", "tk": tk, "np": np, "wp": wp, "Any": Any}
    try:
        exec(compile(case.program, case.file, "exec"), names)
        kernel = [value for value in names.values() if isinstance(value, Kernel)][-1]
        given = [argument(annotation) for annotation in kernel.parameters.values()]
        tk.launch_tiled(kernel, dim=1, inputs=given, block_dim=32)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    finally:
        del linecache.cache[case.file]
    return "no error"


def argument(annotation: Any) -> Any:
    if isinstance(annotation, ArrayAnnotation):
        return tk.zeros((16,) * (annotation.ndim or 1), dtype=annotation.dtype, device="cpu")
    return 3 if not isinstance(annotation, DType) else annotation.numpy.type(3)


@pytest.mark.parametrize("case", CASES, ids=[f"{case.area}-{case.name}" for case in CASES])
def test_message(case, request):
    found = outcome(case)
    if request.config.getoption("--update-golden"):
        rewrite(case, found)
    elif found != case.expected:
        pytest.fail(f"{case.program}\n--- found\n{found}\n--- expected\n{case.expected}", pytrace=False)


def rewrite(case: Case, found: str) -> None:
    path = FOLDER / f"{case.area}.txt"
    cases = [(c.name, c.program, found if c.name == case.name else c.expected) for c in read(path)]
    text = "\n".join(f"=== {name}\n{program}---\n{expected}\n" for name, program, expected in cases)
    path.write_text(text, encoding="utf-8", newline="\n")


def test_there_are_many_and_no_two_have_one_name():
    assert len(CASES) >= LEAST
    assert len({case.name for case in CASES}) == len(CASES)


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_quality(case):
    """What every message owes its reader."""
    kind, _, text = case.expected.partition(": ")
    assert issubclass(getattr(tk.errors, kind), tk.errors.TilekitError)
    assert case.expected.endswith(text) and len(text) > 20
    assert not re.search(
        r"__\w+|\bSSA\b|\bdatum\b|<class|object at 0x|NoneType|'Scalar'|'Tile'|'Array'|map_elements", text
    )
    if f"{case.file}:" in text:
        with contextlib.suppress(StopIteration):
            caret = next(line for line in text.splitlines() if set(line.strip()) == {"^"})
            assert text.splitlines()[text.splitlines().index(caret) - 1].strip() in case.program
