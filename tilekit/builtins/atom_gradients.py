"""Gradients of atoms: by the name of their rule, from the gradient of the result."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from tilekit.builtins.atoms import Atom
from tilekit.ir.builtin import REGISTRY
from tilekit.ir.handles import Tile

Grads = Callable[..., tuple[Any, ...]]


def _where(condition: Any, a: Any, b: Any) -> Any:
    return REGISTRY["where"](condition, a, b)


RULES: dict[str, Grads] = {
    "fma": lambda g, r, a, b, c: (lambda: g * b, lambda: g * a, lambda: g),
    "add": lambda g, r, a, b: (lambda: g, lambda: g),
    "sub": lambda g, r, a, b: (lambda: g, lambda: -g),
    "mul": lambda g, r, a, b: (lambda: g * b, lambda: g * a),
    "mov": lambda g, r, a: (lambda: g,),
}


def gradients(cx: Any, grad: Any, value: Any, result: Any, atom: Atom) -> dict[str, Any]:
    """What the adjoint rule of an atom on registers answers."""
    rule = RULES.get(atom.adjoint or "")
    if rule is None:
        raise cx.refuse(f"{atom} has no adjoint")
    operands = cx.op.operands["sources"]
    given = [cx.widen(value("sources", i)) for i in range(len(operands))]
    pred = value("pred")
    flowing = grad if pred is None else _masked(pred, grad, keep=True)
    flowing = gated(cx, flowing, result, atom.flags)
    found = rule(flowing, result, *given)

    def answer(position: int) -> Any:
        each = found[position]()
        return each if isinstance(operands[position].type, type(cx.op.results[0].type)) else cx.sum(each)

    answers = tuple((lambda i=i: answer(i)) for i in range(len(operands)))
    return {"sources": answers, "dst": lambda: _masked(pred, grad, keep=False)}


def _masked(pred: Any, grad: Any, keep: bool) -> Any:
    return _where(pred, grad, _zero(grad)) if keep else _where(pred, _zero(grad), grad)


def _zero(grad: Any) -> Any:
    return REGISTRY["tile_full"](grad.shape, 0.0, grad.dtype) if isinstance(grad, Tile) else 0.0


def gated(cx: Any, grad: Any, result: Any, flags: Collection[str]) -> Any:
    """No gradient flows where the result was clamped by ``.sat`` or ``.relu``."""
    if not {"sat", "relu"} & set(flags):
        return grad
    found = cx.widen(result())
    grad = _where(found > 0.0, grad, _zero(grad))
    return _where(found < 1.0, grad, _zero(grad)) if "sat" in flags else grad
