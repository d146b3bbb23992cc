"""Products that cuBLASDx serves: what it is asked to compile, as a unit that kernels are linked with."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import gcd

from tilekit.codegen.gemm.kinds import AMPERE, INTEGERS, ROUNDED, Kind, accumulator, kind_of
from tilekit.codegen.gemm.product import Factor, Product, Situation, along_k
from tilekit.codegen.gemm.tiles import WARP, Reading, Ring, Warps, architecture, ring_of, warps_of
from tilekit.codegen.orders import PACK_BYTES, Order, order_of, why_unordered
from tilekit.codegen.text import cpp_type
from tilekit.errors import Location
from tilekit.ir.types import bfloat16, float16, float32, float64

PRECISIONS = {float16: "F16", bfloat16: "BF16", float32: "F32", float64: "F64"}
"""What cuBLASDx calls the dtypes."""
OLDEST = 75
"""The first architecture that NVRTC 13 and cuBLASDx have in common."""
WARP_TILE = {"F32": (64, 32), "F64": (32, 32)}
"""The most rows and columns of a warp, by what sums are: cuBLASDx holds a product beside those it is added to."""
DEPTH_OF_HALVES = 64
"""Elements along the sum of a step of a ring: with 32, 128 x 256 reached 231 and not 328 TFLOP/s on an H200."""
SMALLEST_STEP = 16
"""Extents that are no multiple of it meet NVIDIA's bug 5218000 where a leading dimension is not the extent."""


@dataclass(frozen=True)
class Unit:
    """A descriptor of cuBLASDx: ``a`` times ``b``, both in shared memory, added to sums in the threads' registers."""

    m: int
    n: int
    k: int
    precision: str
    """Of the factors, as cuBLASDx calls it."""
    sums: str
    """The precision of the sums."""
    arch: int
    threads: int
    """Of the block, which all take part."""
    rows: tuple[bool, bool]
    """Whether each factor is row-major."""
    leading: tuple[int, int]
    """Elements between the rows (columns) of each factor; 0 where cuBLASDx may choose how it lies in memory."""
    alignment: tuple[int, int]
    """Of each factor's address and leading dimension, in bytes."""

    @property
    def name(self) -> str:
        """Its C++ type, and what the names of its functions begin with."""
        return f"tk_gemm_{hashlib.sha256(repr(self).encode()).hexdigest()[:16]}"

    @property
    def chooses_layout(self) -> bool:
        """Whether the factors lie as cuBLASDx wants."""
        return self.leading == (0, 0)

    @property
    def leading_apart(self) -> bool:
        """Whether rows (columns) have gaps between them, or factors lie in parts of larger tiles."""
        rows, cols = self.rows
        return not self.chooses_layout and self.leading != (self.k if rows else self.m, self.n if cols else self.k)

    def __str__(self) -> str:
        orders = "".join("N" if row else "T" for row in self.rows)
        return f"{self.m}x{self.n}x{self.k} {self.precision} {orders}, {self.threads} threads, sm_{self.arch}"


Units = Mapping[Unit, Location | None]
"""Units, with the line of a product that needs each."""


@dataclass(frozen=True)
class Served:
    """How cuBLASDx serves a product."""

    unit: Unit
    warps: Warps
    """How many threads, and what they hold about."""
    ring: Ring | None
    a: Reading
    b: Reading
    lost_precision: str | None
    """Why float32 is computed where less precision was asked for."""


def serve(product: Product, situation: Situation) -> Served | str:
    """How cuBLASDx serves a product, or why it does not.

    Example:
        >>> from tilekit.ir.views import ViewMap
        >>> square = Factor(float16, ViewMap.identity((64, 64)))
        >>> str(serve(Product(square, square, float32), Situation("75", no_mathdx="")).unit)
        '64x64x64 F16 NN, 64 threads, sm_75'
        >>> serve(Product(square, square, float32), Situation("75", no_mathdx="cuBLASDx is not installed"))
        'cuBLASDx is not installed'
    """
    why_not = _refusal(product, situation)
    if why_not is not None:
        return why_not
    kind, precision, lost = _precision(product)
    warps = warps_of(kind, product.m, product.n, situation.threads, (1, 1))
    if isinstance(warps, str):
        return warps
    sums = PRECISIONS[accumulator(product.a.dtype, product.b.dtype, product.out)]
    how = precision, sums, architecture(situation.arch), warps.threads
    ring = product.in_loop
    found = _in_ring(product, situation, warps, how, lost) if ring else _in_memory(product, warps, how, lost)
    return situation.no_mathdx or found if isinstance(found, Served) else found  # no advice that would not help


_How = tuple[str, str, int, int]


def _refusal(product: Product, situation: Situation) -> str | None:
    """Why cuBLASDx does not serve a product, whatever its strides."""
    a, b = product.a.dtype, product.b.dtype
    arch = architecture(situation.arch)
    if not situation.arch:
        return "the CPU has no cuBLASDx"
    if arch < OLDEST:
        return f"cuBLASDx does not serve sm_{situation.arch}"
    if product.out.is_integer:
        return INTEGERS
    if a is not b:
        return f"cuBLASDx multiplies factors of one dtype on tensor cores, not {a.short} and {b.short}"
    if product.out is float64 and a is not float64:
        return f"cuBLASDx does not sum {a.short} in float64"
    if arch < AMPERE and a is bfloat16:
        return f"sm_{situation.arch} does not multiply bfloat16"
    if situation.threads and situation.threads % WARP:
        return f"a block of {situation.threads} threads is not whole warps"
    return None


def _precision(product: Product) -> tuple[Kind, str, str | None]:
    """What to multiply in, and why that is more than was asked for."""
    dtype, lost = product.a.dtype, None
    asked = product.precision if dtype is float32 else "default"
    if asked == "tf32" and not product.in_loop:
        asked, lost = "default", "cuBLASDx cuts bits off the factors, which only loops over arrays can round before"
    elif asked == "tf32x3":
        asked, lost = "default", "cuBLASDx does not multiply in parts"
    sums = PRECISIONS[accumulator(dtype, product.out)]
    kind = kind_of(dtype, dtype, product.out, asked, product.m * product.n)
    kind = replace(kind, warp=WARP_TILE[sums], depth=DEPTH_OF_HALVES if dtype.itemsize == 2 else kind.depth)
    return kind, "TF32" if asked in ROUNDED else PRECISIONS[dtype], lost


def _in_ring(product: Product, situation: Situation, warps: Warps, how: _How, lost: str | None) -> Served | str:
    """A loop as a whole, whose factors lie as cuBLASDx wants."""
    (a, a_packed), (b, b_packed) = along_k(product.a, 1), along_k(product.b, 0)
    left, right = Reading(product.a.dtype, a, "kUnit", a_packed), Reading(product.b.dtype, b, "kUnit", b_packed)
    ring = ring_of(product, situation, warps, left, right)
    if isinstance(ring, str):
        return ring
    alignment = PACK_BYTES, PACK_BYTES
    unit = Unit(warps.rows, warps.cols, ring.depth, *how, (a, not b), (0, 0), alignment)
    return Served(unit, warps, ring, left, right, lost)


def _in_memory(product: Product, warps: Warps, how: _How, lost: str | None) -> Served | str:
    """Tiles in shared memory, which lie as they do."""
    orders, factors = [], {"a": product.a, "b": product.b}
    for name, factor in factors.items():
        order = order_of(factor.map)
        if order is None:
            shape = "x".join(map(str, factor.map.shape))
            return f"{name}, of shape {shape}, has no leading dimension: {why_unordered(factor.map)}"
        orders.append(order)
    a, b = orders
    if _meets_bug(product, orders):
        strides = f"{product.a.map.strides} and {product.b.map.strides}"
        size = f"{product.m}x{product.n}x{product.k}"
        return f"compilers may get {size} with strides {strides} wrong (NVIDIA's bug 5218000)"
    alignment = _alignment(product.a, a), _alignment(product.b, b)
    rows, leading = (a.unit == 1, b.unit == 1), (a.leading, b.leading)
    unit = Unit(product.m, product.n, product.k, *how, rows, leading, alignment)
    left, right = (Reading(factor.dtype, False, "kTile") for factor in (product.a, product.b))
    return Served(unit, warps, None, left, right, lost)


def _meets_bug(product: Product, orders: Sequence[Order]) -> bool:
    apart = any(
        order.leading != factor.map.shape[order.unit]
        for order, factor in zip(orders, (product.a, product.b), strict=True)
    )
    odd = any(extent % SMALLEST_STEP for extent in (product.m, product.n, product.k))
    return apart and odd and product.a.dtype.itemsize <= 2


def _alignment(factor: Factor, order: Order) -> int:
    size = factor.dtype.itemsize
    return gcd(PACK_BYTES, order.leading * size, factor.map.offset * size)


def operand(reading: Reading, unit: Unit, left: bool) -> str:
    """The C++ type of a factor."""
    element = cpp_type(reading.dtype)
    if not unit.chooses_layout:
        return f"tk::UnitTile<{element}>"
    across = unit.m if left else unit.n
    flags = ", ".join(str(flag).lower() for flag in (reading.k_major, left))
    return f"tk::UnitOperand<{element}, {across}, {unit.k}, {unit.name}, {flags}>"
