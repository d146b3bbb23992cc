"""Every builtin is complete, documented and tested."""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conformance import cases_of
from tilekit import public
from tilekit.ir.builtin import REGISTRY, Builtin

CONFORMANCE = [path.stem for path in sorted(Path(__file__).parent.glob("test_conform_*.py"))]
WITHOUT_CASES: dict[str, Callable[[Builtin], bool]] = {
    "what it does is text or an error": lambda b: b.side_effect and not b.writes and not b.atomics,
    "it is about lanes, of which a case has one": lambda b: (
        b.lane or b.observes_lanes or not {"lane", "lanes"}.isdisjoint(b.signature.parameters)
    ),
    "a pass makes it of ops that have cases, for GPUs": lambda b: b.scratch or bool(b.in_memory),
    "its elements are undefined": lambda b: (
        not {"shape", "ndim"}.isdisjoint(b.signature.parameters) and not b.operand_names
    ),
}
"""Why a builtin needs no conformance case, read from its properties; other tests run it."""


def test_every_builtin_has_conformance_cases_or_a_reason() -> None:
    modules = [importlib.import_module(f"tests.builtins.{name}") for name in CONFORMANCE]
    covered = {case.builtin for module in modules for case in cases_of(module.__name__)}
    assert covered <= REGISTRY.keys()
    missing = {
        name for name, b in REGISTRY.items() if not any(reason(b) for reason in WITHOUT_CASES.values())
    } - covered
    assert not missing


@pytest.mark.parametrize("name", sorted(REGISTRY))
def test_declarations_are_complete(name: str) -> None:
    declared = REGISTRY[name]
    assert declared.missing_rules() == []
    assert not (declared.has("adjoint") and declared.no_adjoint), "an adjoint rule and a reason for having none"
    for names in (declared.reads, declared.writes, declared.atomics, declared.reuses, declared.unify):
        assert set(names) <= set(declared.operand_names)


FUNCTIONS = [item for item in public.documented() if item.parameters is not None]


@pytest.mark.parametrize("item", FUNCTIONS, ids=lambda item: item.name)
def test_public_functions_are_documented(item: public.Documented) -> None:
    """A summary, what arguments mean, what comes back, and an example that the doctests run."""
    doc = inspect.cleandoc(item.doc)
    first = doc.splitlines()[0]
    assert first.endswith("."), first
    assert "Example:" in doc and ">>> " in doc
    if item.parameters.parameters:
        described = doc.partition("Args:")[2].partition("\n\n")[0]
        for name, parameter in item.parameters.parameters.items():
            if parameter.kind is inspect.Parameter.VAR_KEYWORD:
                continue
            assert re.search(rf"\b{re.escape(name)}\b", described), f"{item.name}() says nothing of {name!r}"


def test_the_guard_sees_an_incomplete_declaration() -> None:
    def tile_unfinished(a: int) -> None:
        """Unfinished."""

    unfinished = Builtin(tile_unfinished)
    try:
        assert unfinished.missing_rules() == ["result", "reference", "exactly one of lower / emit"]
    finally:
        del REGISTRY["tile_unfinished"]
