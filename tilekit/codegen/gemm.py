"""How matrix products are computed, and why. Pure: a plan follows from an op and what it is compiled for."""

from __future__ import annotations

from dataclasses import dataclass

from tilekit.codegen.target import Target
from tilekit.errors import Location
from tilekit.ir.core import Function, Op, walk
from tilekit.ir.types import TileType, Type


@dataclass(frozen=True)
class Plan:
    """How one matrix product is computed."""

    backend: str
    reason: str
    """Why no other backend computes it."""
    m: int
    n: int
    k: int
    types: tuple[TileType, TileType, TileType]
    """Of the factors and the result."""
    location: Location | None

    def __str__(self) -> str:
        a, b, out = (type.dtype.short for type in self.types)
        return f"{self.m}x{self.n}x{self.k}, {a} x {b} -> {out}: {self.backend} ({self.reason})"


def plan_product(op: Op, target: Target) -> Plan:
    """The plan of an op that has the property ``contraction``."""
    a, b, _ = (op.operands[name] for name in op.builtin.contraction)
    types = _tile(a.type), _tile(b.type), _tile(op.results[0].type)  # type: ignore[union-attr]
    (m, n), k = types[2].shape, types[0].shape[1]
    reason = (
        "on the CPU there is no other"
        if target.is_cpu
        else "this version has no backend for tensor cores; threads sum with fused multiply-adds in order of k"
    )
    return Plan("scalar", reason, m, n, k, types, op.location)


def _tile(type: Type) -> TileType:
    assert isinstance(type, TileType)
    return type


def plans_of(fn: Function, target: Target) -> tuple[Plan, ...]:
    """The plan of each matrix product of a function, in order."""
    return tuple(plan_product(op, target) for op in walk(fn.body) if op.builtin.contraction)
