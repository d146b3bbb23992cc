"""Every builtin is complete, documented and tested."""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.adjoints import carries_gradient
from tests.conformance import build, cases_of
from tilekit import public
from tilekit.ir.builtin import REGISTRY, Builtin
from tilekit.ir.core import Op, walk

CONFORMANCE = [path.stem for path in sorted(Path(__file__).parent.glob("test_conform_*.py"))]
WITHOUT_CASES: dict[str, Callable[[Builtin], bool]] = {
    "what it does is text or an error": lambda b: b.side_effect and not b.writes and not b.atomics,
    "it is about lanes, of which a case has one": lambda b: (
        b.lane or b.observes_lanes or not {"lane", "lanes"}.isdisjoint(b.signature.parameters)
    ),
    "a pass makes it of ops that have cases, for GPUs": lambda b: b.scratch or bool(b.in_memory),
    "it runs ops that have cases, for GPUs": lambda b: (
        b.region is not None and b.region.runs == "elements" and not b.region.args
    ),
    "a pass puts in its place what it does": lambda b: b.region is not None and b.region.runs == "once",
    "a pass makes it after gradients are taken, of kernels that have cases": lambda b: b.late,
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


def test_every_builtin_has_a_gradient_or_says_why_not() -> None:
    """Whether one is owed, the ops of conformance cases with floats tell; without cases, whether it takes operands."""
    modules = [importlib.import_module(f"tests.builtins.{name}") for name in CONFORMANCE]
    cases = [case for module in modules for case in cases_of(module.__name__)]
    by_floats = sorted(cases, key=lambda case: not any(spec.dtype.is_float for spec in case.operands.values()))
    first = {case.builtin: case for case in reversed(by_floats)}
    ops: dict[str, list[Op]] = {}
    for op in (op for case in first.values() for op in walk(build(case).function.body)):
        ops.setdefault(op.builtin.name, []).append(op)
    owed = {name for name, found in ops.items() if not found[0].builtin.late and carries_gradient(found)}
    for name in REGISTRY.keys() - ops.keys():
        declared = REGISTRY[name]
        tells = declared.side_effect and not declared.writes and not declared.atomics
        if declared.operand_names and not (declared.late or tells):
            owed.add(name)
    assert {"abs", "element_store", "tile_load", "gather_lanes", "bits_of"} <= owed
    assert not {name for name in owed if not REGISTRY[name].has("adjoint") and not REGISTRY[name].no_adjoint}


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
