"""The kinds of rules that declare a builtin.

A rule takes, by name, those parameters of the signature that it needs, and first any of the leading parameters that
``LEADING`` gives its kind:

    arguments   call   -> call      the other ways to call it that Warp has, as arguments of the signature
    result      types  -> type      type and shape rule; the verifier runs it again after every pass
    coerce      types  -> dtypes    the dtype that operands are converted to before anything else
    check       handles -> None     what types cannot tell: aliasing
    ignores     operands -> names   the tile operands that are not read, such as an accumulator scaled by zero
    warns       target -> warning   a category and text where the target does not do what was asked for
    reference   arrays -> array     what the op means, in NumPy; also the interpreter
    neutral     types  -> number    what a reduction passes over, for the elements of missing lanes
    verify      values -> None      what the verifier checks besides types, such as what its blocks take and yield
    adds        attrs  -> name      the operand that an atomic update adds to what is there; "" where it does not add
    alone       values -> value     an atomic update as plain ops, for where nothing else touches the elements
    shared      whole  -> bool      whether lanes share it; ``whole`` coordinates are the same for a block
    adjoint     values -> values    gradient of each float operand, built from other builtins
    lower       values -> value     rewrites to more concrete builtins ...
    emit        names  -> code      ... or writes C++; exactly one of the two

``types`` are the types of the results in ``reference`` and of the operands, by name, in ``emit``.

An ``adjoint`` rule gets ``grad``, the gradient of the first result, or ``grads``, those of all: zeros where none flows.
``value(name)`` recomputes an operand in the adjoint function, ``result(i)`` a result. The answer has an entry for every
operand that is a float tile or number: a gradient, ``0``, ``no_gradient("why")``, or a function giving one of these,
called only where it is wanted; a tuple for a tuple of operands. ``cx`` is an ``ir.gradients.AdjointContext``.
"""

from __future__ import annotations

LEADING: dict[str, tuple[str, ...]] = {
    "arguments": ("args", "kwargs"),
    "result": ("blocks",),
    "coerce": (),
    "check": (),
    "ignores": (),
    "warns": ("target",),
    "reference": ("machine", "blocks", "types"),
    "neutral": (),
    "verify": ("blocks", "types"),
    "adds": (),
    "alone": (),
    "shared": ("whole",),
    "adjoint": ("cx", "grad", "grads", "value", "result"),
    "lower": ("target", "lane", "lanes"),
    "emit": ("cx", "results", "blocks", "types"),
}
