"""Gradients of conformance cases: by the interpreter, by compiled code, and whether rules answer for all operands."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import numpy as np

from tests.compiled import Library
from tests.passes.finite_differences import compare_with_differences
from tilekit.ir.builtin import Builtin
from tilekit.ir.core import Function, Op, Value, leaves
from tilekit.ir.gradients import has_gradient
from tilekit.ir.interpret import interpret
from tilekit.ir.program import Program
from tilekit.ir.types import ArrayType, float64
from tilekit.passes.differentiate import differentiate

Arrays = dict[str, Any]


def carries_gradient(ops: Iterable[Op]) -> bool:
    """Whether floats may go into one of the ops and out of one, so that their builtin owes a gradient or a reason."""
    ins, outs = False, False
    for op in ops:
        read = {value for name in op.builtin.reads for value in leaves(op.operands[name])}
        written = {value for name in (*op.builtin.writes, *op.builtin.atomics) for value in leaves(op.operands[name])}
        ins |= any(has_gradient(v.type) and (v in read or not _is_array(v)) for v in op.inputs())
        outs |= any(has_gradient(v.type) and not _is_array(v) for v in op.results)
        outs |= any(has_gradient(v.type) for v in written)
    return ins and outs


def _is_array(value: Value) -> bool:
    return isinstance(value.type, ArrayType)


class Answers(list[tuple[Op, Mapping[str, Any]]]):
    """What the adjoint rule of one builtin answers while a function is differentiated."""

    def __init__(self, declared: Builtin) -> None:
        self.declared = declared

    def __enter__(self) -> Answers:
        rule, names = self.declared._rules["adjoint"]
        self.rule = rule, names

        def noted(cx: Any, **given: Any) -> Any:
            found = rule(**{name: value for name, value in {"cx": cx, **given}.items() if name in names})
            self.append((cx.op, found or {}))
            return found

        self.declared._rules["adjoint"] = noted, tuple(dict.fromkeys(("cx", *names)))
        return self

    def __exit__(self, *exception: object) -> None:
        self.declared._rules["adjoint"] = self.rule

    def missing(self) -> Iterator[str]:
        """The float operands that are no arrays and have no answer."""
        for op, found in self:
            if op.builtin.carries:  # the rule adds to gradients itself
                continue
            for name, operand in op.operands.items():
                items = operand if isinstance(operand, tuple) else (operand,)
                floats = [i for i, item in enumerate(items) if _is_float(item)]
                given = found.get(name)
                if floats and name not in found:
                    yield name
                elif isinstance(given, tuple) and len(given) != len(items):
                    yield f"{name}: {len(given)} answers for {len(items)} operands"


def _is_float(item: Any) -> bool:
    return isinstance(item, Value) and has_gradient(item.type) and not _is_array(item)


@dataclass(eq=False)
class Adjoint:
    """The adjoint of a function, with the data that it is run on and the gradients of what the function writes."""

    function: Function
    data: Arrays
    seeds: Sequence[str]

    @cached_property
    def program(self) -> Program:
        return differentiate(self.function)

    @property
    def key(self) -> Any:
        """What tells adjoints with other results apart."""
        return str(self.function), *((name, np.asarray(value).tobytes()) for name, value in self.data.items())

    @cache  # noqa: B019
    def compared(self) -> None:
        """Compare it with finite differences, once."""
        compare_with_differences(self.function, self.data, tuple(self.seeds), program=self.program)

    @property
    def functions(self) -> list[Function]:
        assert not self.program.scratch
        return [launch.function for launch in self.program.launches]

    def arguments(self) -> Arrays:
        """Fresh ones: the data, the seeds, and zeros for the gradients that are wanted."""
        rng = np.random.default_rng(7)
        gradients: Arrays = {}
        for name, fresh in self.program.gradients.items():
            seed = rng.standard_normal(self.data[name].shape) if name in self.seeds else 0.0
            dtype = self.program.params[fresh].type.dtype.numpy
            gradients[fresh] = np.broadcast_to(seed, self.data[name].shape).astype(dtype)
        copied = {n: value.copy() if isinstance(value, np.ndarray) else value for n, value in self.data.items()}
        return copied | gradients

    @cached_property
    def interpreted(self) -> Arrays:
        """The gradients by the reference rules."""
        arguments = self.arguments()
        for function in self.functions:
            interpret(function, arguments)
        return self.gradients(arguments)

    def gradients(self, arguments: Arrays) -> Arrays:
        return {name: value for name, value in arguments.items() if name not in self.data}


class AdjointLibrary:
    """Adjoints of many functions, compiled together; ``library`` compiles functions and runs one of them."""

    def __init__(self, adjoints: Sequence[Adjoint], library: Any = Library) -> None:
        self.numbers: dict[int, range] = {}
        functions: list[Function] = []
        for adjoint in adjoints:
            self.numbers[id(adjoint)] = range(len(functions), len(functions) + len(adjoint.functions))
            functions += adjoint.functions
        self.library = library(functions)

    def run(self, adjoint: Adjoint) -> Arrays:
        """The gradients."""
        arguments = adjoint.arguments()
        for number in self.numbers[id(adjoint)]:
            self.library.run(number, arguments)
        return adjoint.gradients(arguments)


def assert_equal_within_rounding(got: Arrays, want: Arrays) -> None:
    """In float64, or where gradients are summed in float32, within a few roundings of the greatest element."""
    assert got.keys() == want.keys()
    for name, value in want.items():
        assert got[name].dtype == value.dtype
        size = float(np.max(np.abs(value), initial=0.0))
        unit = 1e-12 if value.dtype == float64.numpy else 1e-5
        np.testing.assert_allclose(got[name], value, rtol=unit, atol=unit * size, err_msg=name)
