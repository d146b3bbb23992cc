"""The plan of each matrix product of a function."""

from __future__ import annotations

from dataclasses import replace

from tilekit.codegen.gemm.plan import Plan, plan
from tilekit.codegen.gemm.product import Factor, Product, Situation
from tilekit.codegen.gemm.units import Unit, Units
from tilekit.codegen.target import Target
from tilekit.errors import Location
from tilekit.ir.core import Function, Op
from tilekit.ir.regions import emitted
from tilekit.ir.types import TileType, Type, bfloat16, float32
from tilekit.ir.views import ViewMap

MOST_INLINE = 8
"""Products of a kernel that has the code of each where it stands; of more, equal ones are calls of one function. The
compiler's time grows with the square of a function's length: 40 products of 8x8 tiles took ten seconds in one."""
MOST_INLINE_LARGE = 32
"""The same of products whose sums a call would pass through memory. Their code has few branches."""
PASSED_WORDS = 32
"""Of sums: what functions are given and return in registers."""


def product_of(op: Op) -> Product:
    """The product of an op that has the property ``contraction``, of tiles that lie anywhere."""
    a, b = (_tile(op.operands[name].type) for name in op.builtin.contraction[:2])  # type: ignore[union-attr]
    out = _tile(op.results[0].type).dtype
    sums = float32 if out is bfloat16 else out  # which cannot accumulate: sums are rounded to it at the end
    left, right = (Factor(tile.dtype, ViewMap.identity(tile.shape)) for tile in (a, b))
    return Product(left, right, sums, str(op.attrs.get("precision", "default")))


def _tile(type: Type) -> TileType:
    assert isinstance(type, TileType)
    return type


def units_of(fn: Function) -> Units:
    """What cuBLASDx computes of a function, each once, in order, with the line of its first product."""
    plans: list[Plan] = [op.attrs["plan"] for op in emitted(fn.body) if "plan" in op.attrs]
    found: dict[Unit, Location | None] = {}
    for made in plans:
        if made.unit is not None:
            found.setdefault(made.unit, made.location)
    return found


def products_in(fn: Function) -> int:
    """How many products of a function are computed by a plan's code."""
    return sum("plan" in op.attrs for op in emitted(fn.body))


def is_apart(plan: Plan, products: int, adds: bool) -> bool:
    """Whether a product is a call, in a kernel with so many ``products``.

    ``adds`` says that it adds to sums in registers, which a call is given and returns. A unit's are calls already.
    """
    registers = plan.layout.registers
    if isinstance(registers, str):
        return False
    words = registers * (2 if plan.sum == "tk::f64" else 1) if adds else 0
    return products > (MOST_INLINE if words <= PASSED_WORDS else MOST_INLINE_LARGE)


def plans_of(fn: Function, target: Target) -> tuple[Plan, ...]:
    """The plan of each matrix product of a function, in order."""
    found = []
    for op in emitted(fn.body):
        if "plan" in op.attrs:
            found.append(op.attrs["plan"])
        elif op.builtin.contraction:
            made = plan(product_of(op), Situation(target.arch, gemm="scalar"))
            found.append(replace(made, location=op.location))
    return tuple(found)
