"""Leaves gradients that nobody asks for out of an adjoint: what adds to them is dropped, what reads them reads 0."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from tilekit.ir.array_parts import ArrayRoots
from tilekit.ir.context import building
from tilekit.ir.core import Function, Op, Value, leaves, walk
from tilekit.ir.program import Program
from tilekit.ir.rewrite import Rewriter
from tilekit.ir.types import ArrayType
from tilekit.passes.activity import read_parameters, written_arrays
from tilekit.passes.eliminate_dead_code import eliminate_dead_code
from tilekit.passes.scope import zero_of


def without_gradients(program: Program, names: Collection[str]) -> Program:
    """The adjoint without its array parameters of these names; launches that then do nothing are gone, all but one."""
    if not names:
        return program
    params = {name: value for name, value in program.params.items() if name not in names}
    launches = [replace(launch, function=_without(launch.function, names)) for launch in program.launches]
    kept = [launch for launch in launches if any(op.has_effect for op in launch.function.body.ops)]
    return replace(program, params=params, launches=tuple(kept or launches[:1]))


def replaced_parameters(fn: Function) -> frozenset[str]:
    """The names of the arrays that a function stores to, and whose contents it neither reads nor updates."""
    roots = ArrayRoots(fn.body)
    touched: dict[Value, list[Op]] = {}
    unsure: set[Value] = set()
    for op in walk(fn.body):
        for array in dict.fromkeys((*written_arrays(op), *_read_arrays(op))):
            of = roots.of(array)
            unsure |= of if len(of) > 1 else set()
            for root in of:
                touched.setdefault(root, []).append(op)
    found = {array for array, ops in touched.items() if all(op.builtin.writes and not op.builtin.atomics for op in ops)}
    return frozenset(name for name, value in fn.params.items() if value in found - unsure) - read_parameters(fn)


def _read_arrays(op: Op) -> tuple[Value, ...]:
    names = dict.fromkeys((*op.builtin.reads, *(op.builtin.atomics if op.results else ())))
    return tuple(value for name in names for value in leaves(op.operands[name]))


def without_stores(fn: Function, names: Collection[str]) -> Function:
    """A kernel without its stores to arrays that are only written, and of whose gradients none comes in; so what only
    they need is not differentiated, and a gradient that is no number there does no harm."""
    found = replaced_parameters(fn).intersection(names)
    return fn.with_body(_without(fn, found).body) if found else fn


def _without(fn: Function, names: Collection[str]) -> Function:
    roots, dropped = ArrayRoots(fn.body), {value for name, value in fn.params.items() if name in names}

    def is_gone(value: Value) -> bool:
        return isinstance(value.type, ArrayType) and not roots.of(value).isdisjoint(dropped)

    def without(op: Op, rewriter: Rewriter) -> list[Op] | None:
        own = (*written_arrays(op), *_read_arrays(op), *(() if op.blocks else op.results))
        if not any(map(is_gone, own)):
            return None
        with building() as builder:
            rewriter.known.update({result: zero_of(result.type) for result in op.results if not is_gone(result)})
        return [made.with_(location=op.location) for made in builder.ops]

    body = Rewriter(change=without).block(fn.body)
    params = {name: value for name, value in fn.params.items() if name not in names}
    return eliminate_dead_code(replace(fn, params=params, body=body))
