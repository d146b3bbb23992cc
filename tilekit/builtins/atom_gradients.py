"""Gradients of atoms: by the name of their rule, from the gradient of the result."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator
from typing import Any

import numpy as np

from tilekit.builtins.atom_registers import data_from_register, read_slots
from tilekit.builtins.atoms import Atom, Slot
from tilekit.builtins.slopes import over, times
from tilekit.ir.builtin import REGISTRY
from tilekit.ir.core import Value
from tilekit.ir.handles import OPERATORS, Tile

Grads = Callable[..., tuple[Any, ...]]
"""From the gradient of the result, a function that gives the result, and the operands: one function an operand."""


def _where(condition: Any, a: Any, b: Any) -> Any:
    return REGISTRY["where"](condition, a, b)


def _zero(grad: Any) -> Any:
    return REGISTRY["tile_full"](grad.shape, 0.0, grad.dtype) if isinstance(grad, Tile) else 0.0


def _only_where(condition: Any, grad: Any) -> Any:
    return _where(condition, grad, _zero(grad))


def _chosen(g: Any, r: Any, *operands: Any) -> tuple[Any, ...]:
    """The gradient of a least or greatest operand: it goes to the first one that the result is."""

    def answer(position: int) -> Any:
        result, found = r(), g
        for before in operands[:position]:
            found = _only_where(OPERATORS["!="](before, result), found)
        return _only_where(OPERATORS["=="](operands[position], result), found)

    return tuple((lambda position=position: answer(position)) for position in range(len(operands)))


def _of(name: str, x: Any) -> Any:
    return REGISTRY[name](x)


RULES: dict[str, Grads] = {
    "fma": lambda g, r, a, b, c: (lambda: times(g, b), lambda: times(g, a), lambda: g),
    "add": lambda g, r, a, b: (lambda: g, lambda: g),
    "sub": lambda g, r, a, b: (lambda: g, lambda: -g),
    "mul": lambda g, r, a, b: (lambda: times(g, b), lambda: times(g, a)),
    "div": lambda g, r, a, b: (lambda: over(g, b), lambda: times(g, -r() / b)),
    "mov": lambda g, r, a: (lambda: g,),
    "cvt": lambda g, r, a: (lambda: g,),
    "neg": lambda g, r, a: (lambda: -g,),
    "abs": lambda g, r, a: (lambda: _where(a < 0.0, -g, g),),
    "min": _chosen,
    "max": _chosen,
    "rcp": lambda g, r, a: (lambda: times(g, -r() * r()),),
    "sqrt": lambda g, r, a: (lambda: over(g, 2.0 * r()),),
    "rsqrt": lambda g, r, a: (lambda: times(g, -0.5 * r() / a),),
    "ex2": lambda g, r, a: (lambda: times(g, r() * math.log(2.0)),),
    "lg2": lambda g, r, a: (lambda: over(g, a * math.log(2.0)),),
    "tanh": lambda g, r, a: (lambda: g * (1.0 - r() * r()),),
    "sin": lambda g, r, a: (lambda: g * _of("cos", a),),
    "cos": lambda g, r, a: (lambda: -(g * _of("sin", a)),),
}
"""The rules that ``atoms.json`` names. Rounding counts as if it were none."""


def gradients(cx: Any, grad: Any, value: Any, result: Any, atom: Atom) -> dict[str, Any]:
    """What the adjoint rule of an atom on registers answers."""
    rule = RULES.get(atom.adjoint or "")
    if rule is None:
        raise cx.refuse(f"{atom} has no adjoint")
    operands, slots = cx.op.operands["sources"], read_slots(atom)
    pred = value("pred")
    given = [_number(cx, slot, operands[i], value("sources", i)) for i, slot in enumerate(slots)]
    found = rule(grad, lambda: cx.widen(result()), *given)

    def answer(position: int) -> Any:
        each = gated(cx, found[position](), result, atom.flags)
        each = each if pred is None else _only_where(pred, each)
        return each if isinstance(operands[position].type, type(cx.op.results[0].type)) else cx.sum(each)

    answers = tuple((lambda i=i: answer(i)) for i in range(len(operands)))
    return {"sources": answers, "dst": lambda: _where(pred, _zero(grad), grad)}


def _number(cx: Any, slot: Slot, operand: Any, found: Any) -> Any:
    """An operand as the number that it is in its slot, in the dtype that gradients are computed in."""
    dtype, natural = operand.type.dtype, slot.carriers[0]
    if dtype.is_float:
        return cx.widen(found)
    if isinstance(operand, Value):  # otherwise the gradient would silently be zero
        raise cx.refuse(
            f"operand {slot.name} of {cx.op.attrs['atom']} is a {operand.type}, bits through which no gradient flows; "
            f"give it as {natural.name}"
        )
    return float(data_from_register(np.asarray(operand.value, dtype.numpy), natural))


def gated(cx: Any, grad: Any, result: Any, flags: Collection[str]) -> Any:
    """An operand's gradient, none where the result was clamped by ``.sat`` or ``.relu``."""
    for condition in _unclamped(cx, result, flags):
        grad = _only_where(condition, grad)
    return grad


def _unclamped(cx: Any, result: Any, flags: Collection[str]) -> Iterator[Any]:
    if {"sat", "relu"} & set(flags):
        found = cx.widen(result())
        yield found > 0.0
        if "sat" in flags:
            yield found < 1.0
