"""Which code computes a matrix product, and why: a pure function of the product, the block and the target."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tilekit.codegen.gemm.kinds import AMPERE, INTEGERS, ROUNDED, Kind, kind_of, turing_kind_of
from tilekit.codegen.gemm.product import Factor, Product, Situation, along_k
from tilekit.codegen.gemm.tiles import (
    MOST_REGISTERS,
    WARP,
    Reading,
    Ring,
    Warps,
    architecture,
    ring_of,
    round_up,
    warps_of,
)
from tilekit.codegen.gemm.units import Unit, operand, serve
from tilekit.codegen.layouts import AnyLayout, OpaqueLayout
from tilekit.codegen.orders import is_packed, order_of, why_unordered
from tilekit.errors import CompileError, Location
from tilekit.ir.types import DType, TileType, bfloat16, float32, float64

OLDEST_TENSOR_CORES = 75
"""The first architecture with instructions that ``mma`` uses."""
BACKENDS = ("mma", "cublasdx", "scalar")
"""In the order in which ``"auto"`` tries them."""
LEAST_USED = 0.25
"""Of what instructions multiply; less is warned of."""
LENIENT = ("cublasdx", "scalar")
"""What a product that cuBLASDx was asked for may be served by; all other backends serve, or it is an error."""


@dataclass(frozen=True)
class Plan:
    """The code that serves a product."""

    backend: str
    reason: str
    passed_over: tuple[tuple[str, str], ...] = ()
    """Other backends, with what kept each from serving."""
    lost_precision: str | None = None
    """Why float32 is computed where less precision was asked for."""
    warps: Warps | None = None
    ring: Ring | None = None
    """Where a loop is served as a whole."""
    a: Reading | None = None
    b: Reading | None = None
    unit: Unit | None = None
    """What cuBLASDx computes, and the kernel is linked with."""
    tile_k: int = 0
    """Extent of the factors' tiles along the sum."""
    product: Product | None = None
    """What is multiplied."""
    location: Location | None = None
    """The line of the kernel."""
    sums: tuple[str, ...] = ()
    """In an adjoint, what the launch of the product adds to: gathered, or scattered and why."""

    @property
    def m(self) -> int:
        return self.product.m if self.product else 0

    @property
    def n(self) -> int:
        return self.product.n if self.product else 0

    @property
    def k(self) -> int:
        return self.product.k if self.product else 0

    @property
    def types(self) -> tuple[TileType, ...]:
        """Of the factors and the result."""
        if self.product is None:
            return ()
        factors = (TileType(factor.dtype, factor.map.shape) for factor in (self.product.a, self.product.b))
        return (*factors, TileType(self.product.out, (self.m, self.n)))

    @property
    def layout(self) -> AnyLayout:
        """How threads hold the sums."""
        assert self.warps is not None, self.backend
        if self.unit is None:
            return self.warps.layout
        name = self.unit.name
        cpp = f"tk::UnitLayout<{name}, {self.m}, {self.n}>"
        return OpaqueLayout(cpp, self.warps.threads, f"{name}::registers")

    @property
    def threads(self) -> int | None:
        """That the block must have; None where any number will do."""
        return self.warps.threads if self.warps else None

    @property
    def shared(self) -> int:
        """Bytes of shared memory."""
        return self.ring.bytes if self.ring else 0

    @property
    def sum(self) -> str:
        """The C++ type of a sum."""
        return "tk::f64" if self.warps and self.warps.kind.item is float64 else "tk::f32"

    @property
    def depth(self) -> int:
        """Elements along the sum that are multiplied at once, with padding."""
        if self.ring is not None or self.warps is None:
            return self.ring.depth if self.ring else 0
        return self.unit.k if self.unit else round_up(self.tile_k, self.warps.kind.k)

    @property
    def kind(self) -> str:
        """The C++ type of the kind of product."""
        assert self.warps is not None and self.a is not None, self.backend
        if self.unit is not None:
            return f"tk::UnitKind<{self.unit.name}, {self.sum}, {self.unit.k}>"
        return f"tk::{self.warps.kind.name.format(self.a.dtype.short)}"

    @property
    def operands(self) -> tuple[str, str]:
        """The C++ types of the factors."""
        assert self.warps is not None and self.a is not None and self.b is not None, self.backend
        if self.unit is not None:
            return operand(self.a, self.unit, True), operand(self.b, self.unit, False)
        k = self.ring.k if self.ring else self.tile_k
        left = self.a.operand(self.warps.m, self.warps.rows, self.depth, k)
        return left, self.b.operand(self.warps.n, self.warps.cols, self.depth, k)

    @property
    def feeds(self) -> tuple[str, str]:
        """The C++ types of what fills the ring."""
        assert self.ring is not None and self.warps is not None and self.a is not None and self.b is not None
        rounds = ", true" if self.unit and self.unit.precision == "TF32" else ""
        ends = [
            f"{self.ring.k}, {self.warps.threads}, {str(factor.packed).lower()}{rounds}>" for factor in (self.a, self.b)
        ]
        left, right = self.operands
        return f"tk::Feed<{left}, {self.warps.m}, {ends[0]}", f"tk::Feed<{right}, {self.warps.n}, {ends[1]}"

    @property
    def ahead(self) -> bool:
        """Whether threads load registers ahead: not from one stage, nor where their sums leave too few."""
        return bool(self.ring and self.ring.stages > 1 and self.warps and self.warps.ahead and self.unit is None)

    @property
    def registers(self) -> int:
        """About how many registers a thread needs; 0 where that depends on the compiler alone."""
        return min(self.warps.registers(self.depth), MOST_REGISTERS) if self.warps else 0

    @property
    def used(self) -> float:
        """The part of what the instructions multiply that the product asks for; 1 where that is another's affair."""
        if self.warps is None or self.unit is not None:
            return 1.0
        k = self.ring.k if self.ring else self.tile_k
        return self.m * self.n * k / (self.warps.rows * self.warps.cols * self.depth)

    def __str__(self) -> str:
        a, b, out = (type.dtype.short for type in self.types) if self.types else ("", "", "")
        parts = [f"{self.m}x{self.n}x{self.k}, {a} x {b} -> {out}: {self.backend} ({self.reason})"]
        if self.unit is not None:
            parts.append(f"{self.unit.threads} threads")
        elif self.warps is not None:
            rows, cols = self.warps.tile
            parts.append(
                f"{self.warps.down} x {self.warps.right} warps of {rows} x {cols}, {self.warps.threads} threads"
            )
        if self.used < 1:
            parts.append(f"{_share(self.used)} of what its instructions multiply is used")
        if self.warps is not None:
            parts.append(f"about {self.registers} registers")
        if self.ring is not None:
            parts.append(f"{self.ring.stages} stages of {self.ring.k} along k, {self.ring.bytes} bytes shared")
            slow = [name for name, factor in (("a", self.a), ("b", self.b)) if factor and not factor.packed]
            parts += [f"{name} is copied element by element" for name in slow]
        parts += [f"not {name}: {why}" for name, why in self.passed_over]
        parts += self.sums
        return "; ".join(parts + ([f"float32: {self.lost_precision}"] if self.lost_precision else []))


def plan(product: Product, situation: Situation) -> Plan:
    """The plan of a product.

    Args:
        product: Dtypes, shapes, and how the factors lie in memory.
        situation: The target, the block and the options.

    Returns:
        The first backend that can serve, of those that the options allow; the reasons against the others before it.

    Raises:
        CompileError: the options demand a backend that cannot serve.

    Example:
        >>> from tilekit.ir.types import float16
        >>> from tilekit.ir.views import ViewMap
        >>> square = Factor(float16, ViewMap.identity((64, 64)))
        >>> print(plan(Product(square, square, float32), Situation("90a")))
        64x64x64, f16 x f16 -> f32: mma (mma.m16n8k16.f32.f16.f16.f32); 1 x 2 warps of 64 x 32, ...
    """
    assert product.out is not bfloat16, "bfloat16 cannot accumulate"
    strict = situation.gemm not in ("auto", *LENIENT)
    demanded = situation.require or (situation.gemm if strict else None)
    allowed = {"auto": BACKENDS, "cublasdx": LENIENT}.get(situation.gemm, (situation.gemm,))
    passed: list[tuple[str, str]] = []
    for backend in allowed:
        if backend not in BACKENDS or demanded not in (None, backend):
            continue
        found = _SERVE[backend](product, situation)
        if isinstance(found, Plan):
            return replace(found, passed_over=tuple(passed), product=product)
        passed.append((backend, found))
    missing = f"{situation.gemm!r} was asked for" if demanded in BACKENDS else "this version does not have it"
    why = dict(passed).get(demanded or "", missing)
    raise CompileError(f"tile_matmul(): {demanded!r} is required, but cannot serve: {why}")


def _scalar(product: Product, situation: Situation) -> Plan:
    lost = "only tensor cores multiply tf32" if product.precision in ROUNDED else None
    how = "multiply and add integers" if product.out.is_integer else "sum with fused multiply-adds in order of k"
    reason = f"threads {how}" if situation.arch else "on the CPU there is no other"
    return Plan("scalar", reason, lost_precision=lost)


def _mma(product: Product, situation: Situation) -> Plan | str:
    """The plan of ``mma``, or why it cannot serve."""
    arch = architecture(situation.arch)
    if not situation.arch:
        return "the CPU has no tensor cores"
    if arch < OLDEST_TENSOR_CORES:
        return f"sm_{situation.arch} is older than sm_{OLDEST_TENSOR_CORES}"
    if situation.threads and situation.threads % WARP:
        return f"a block of {situation.threads} threads is not whole warps"
    if product.out.is_integer:
        return INTEGERS
    kind = _kind(product, arch)
    if kind is None:
        return f"the tensor cores of sm_{situation.arch} multiply float16 alone"
    a, b = _reading(kind, product.a, 1), _reading(kind, product.b, 0)
    warps = warps_of(kind, product.m, product.n, situation.threads, (_weight(a), _weight(b)))
    if isinstance(warps, str):
        return warps
    ring = None
    if product.in_loop:
        found = ring_of(product, situation, warps, a, b)
        if isinstance(found, str):
            return found
        ring = found
    else:
        a = _in_memory(a, product.a, 1, product.m == warps.rows, kind)
        b = _in_memory(b, product.b, 0, product.n == warps.cols, kind)
    dtype = product.a.dtype.short if kind.item is None else ""
    lost = "its tensor cores multiply float16 alone" if product.precision in ROUNDED and kind.is_fma else None
    return Plan("mma", kind.instruction.format(dtype), (), lost, warps, ring, a, b, None, product.k)


def _kind(product: Product, arch: int) -> Kind | None:
    dtypes = product.a.dtype, product.b.dtype, product.out
    return turing_kind_of(*dtypes) if arch < AMPERE else kind_of(*dtypes, product.precision, product.m * product.n)


def _cublasdx(product: Product, situation: Situation) -> Plan | str:
    """The plan of ``cublasdx``, or why it cannot serve."""
    found = serve(product, situation)
    if isinstance(found, str):
        return found
    reason = f"cuBLASDx, {found.unit.precision} in {found.unit.sums}"
    lost = found.lost_precision
    return Plan("cublasdx", reason, (), lost, found.warps, found.ring, found.a, found.b, found.unit, product.k)


_SERVE = {"mma": _mma, "cublasdx": _cublasdx, "scalar": _scalar}


def _reading(kind: Kind, factor: Factor, k_axis: int) -> Reading:
    """How a factor that a loop loads is read; ``k_axis`` is its axis along the sum."""
    k_major, packed = along_k(factor, k_axis)
    return Reading(factor.dtype, k_major, _access(kind, factor.dtype, k_major) if factor.source else "", packed)


def _access(kind: Kind, dtype: DType, k_major: bool) -> str:
    if kind.k == 4:
        return "kRuns"
    return "kMatrices" if dtype.itemsize == 2 or (dtype is float32 and k_major and kind.k == 8) else "kElements"


def _in_memory(reading: Reading, factor: Factor, k_axis: int, whole: bool, kind: Kind) -> Reading:
    """How a tile in shared memory is read: rows of 16 bytes where they are whole and aligned, else elements."""
    map = factor.map
    strides = (map.strides[1 - k_axis], map.strides[k_axis])
    order = order_of(map)
    fits = (
        order is not None
        and whole
        and map.shape[k_axis] % kind.k == 0
        and is_packed(order, factor.dtype.itemsize, map.offset, map.shape[order.unit])
    )
    if not fits or order is None:
        return Reading(factor.dtype, reading.k_major, "", False, strides)
    across, along = (0, order.leading) if order.unit != k_axis else (order.leading, 0)
    return Reading(factor.dtype, order.unit == k_axis, "kDense", False, (across, along))


def _weight(reading: Reading) -> int:
    """What reading costs a warp: single elements take twice the instructions of matrices."""
    return 1 if reading.how in ("kMatrices", "kRuns") else 2


def scalar_warning(chosen: Plan, name: str, product: Product) -> str | None:
    """What to warn of where a product on a GPU fell to ``scalar``, or None.

    Example:
        >>> from tilekit.ir.types import float64
        >>> from tilekit.ir.views import ViewMap
        >>> square = Factor(float64, ViewMap.identity((64, 64)))
        >>> product = Product(square, square, float64)
        >>> print(scalar_warning(plan(product, Situation("75")), "tile_matmul()", product))
        tile_matmul(): the product of a, a 64x64xf64 tile of ... is computed without tensor cores: the tensor cores ...
    """
    if chosen.backend != "scalar" or not chosen.passed_over or _has_no_tensor_cores(product):
        return None
    tiles = (("a", product.a), ("b", product.b))
    shown = " and ".join(
        f"{operand}, a {'x'.join(map(str, f.map.shape))}x{f.dtype.short} tile of strides {f.map.strides},"
        for operand, f in tiles
    )
    why = "; ".join(dict.fromkeys(reason for _, reason in chosen.passed_over))
    return f"{name}: the product of {shown} is computed without tensor cores: {why}"


def waste_warning(chosen: Plan, name: str) -> str | None:
    """What to warn of where instructions multiply mostly what nobody asked for, or None.

    Example:
        >>> from tilekit.ir.views import ViewMap
        >>> small = Factor(float32, ViewMap.identity((8, 8)))
        >>> print(waste_warning(plan(Product(small, small, float32), Situation("90a")), "tile_matmul()"))
        tile_matmul(): of what its instructions (fma.rn.f32) multiply, a product of 8x8x8 uses 12%: a warp ...
    """
    if chosen.used >= LEAST_USED or chosen.warps is None:
        return None
    rows, cols = chosen.warps.tile
    return (
        f"{name}: of what its instructions ({chosen.reason}) multiply, a product of {chosen.m}x{chosen.n}x{chosen.k} "
        f"uses {_share(chosen.used)}: a warp makes {rows}x{cols} at a time; larger tiles, or several products side by "
        "side in one, use more"
    )


def _has_no_tensor_cores(product: Product) -> bool:
    """Whether no architecture multiplies such factors on tensor cores: integers of more than 8 bits."""
    return product.out.is_integer and max(product.a.dtype.bits, product.b.dtype.bits) > 8


def unordered(product: Product) -> dict[str, str]:
    """Of each factor whose tile has no order in memory, why: such tiles are read element by element.

    Example:
        >>> from tilekit.ir.types import float16
        >>> from tilekit.ir.views import ViewMap
        >>> row = Factor(float16, ViewMap((64, 64), (0, 1)))
        >>> unordered(Product(row, row, float32))["a"]
        'its strides (0, 1) repeat elements (a broadcast)'
    """
    factors = {"a": product.a, "b": product.b}
    return {
        name: why_unordered(factor.map)
        for name, factor in factors.items()
        if factor.source is None and order_of(factor.map) is None
    }


def _share(part: float) -> str:
    """A part of a whole in percent.

    Example:
        >>> _share(0.125), _share(0.0035), _share(0.4)
        ('12%', '0.4%', '40%')
    """
    return f"{part:.0%}" if part >= 0.01 else f"{part:.1%}"
