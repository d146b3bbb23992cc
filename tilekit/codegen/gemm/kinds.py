"""The kinds of products that threads of a block compute from shared memory, and which one serves which dtypes."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tilekit.ir.types import DType, bfloat16, float16, float32, float64, int32

INTEGERS = "integers are not multiplied on tensor cores yet"
"""Why a product of integers falls to the ordinary cores."""
ROUNDED = ("tf32", "tf32x3")
"""Precisions that let float32 factors be rounded."""


@dataclass(frozen=True)
class Kind:
    """One way to multiply; the figures are what was fastest on an H200 (``docs/design/tensor_cores.md``)."""

    name: str
    """Its type in ``native/mma.h``; ``{}`` is the dtype of the factors."""
    instruction: str
    item: DType | None
    """What the instruction multiplies; factors of other dtypes are converted as they are read."""
    k: int
    """Extent of the instruction along the sum."""
    warp: tuple[int, int]
    """The most rows and columns of a warp; from 64 x 64 elements on, a block has two warps at least."""
    depth: int
    """Elements along the sum of one step of a ring, where they may be chosen."""
    ahead: bool
    """Whether threads load the next registers before they multiply the last."""
    unit: tuple[int, int] = (16, 8)
    """Rows and columns that a warp's are multiples of."""

    @property
    def is_fma(self) -> bool:
        """Whether it multiplies and adds on the ordinary cores."""
        return self.instruction.startswith("fma.")


TENSOR16 = Kind("Tensor16<tk::{}>", "mma.m16n8k16.f32.{0}.{0}.f32", None, 16, (64, 64), 32, True)
TURING = replace(TENSOR16, instruction="2 x mma.m16n8k8.f32.{0}.{0}.f32")
TF32 = Kind("Tf32", "mma.m16n8k8.f32.tf32.tf32.f32", float32, 8, (64, 32), 16, True)
TF32X3 = Kind("Tf32x3", "3 x mma.m16n8k8.f32.tf32.tf32.f32", float32, 8, (32, 32), 32, False)
TENSOR64 = Kind("Tensor64", "mma.m16n8k8.f64.f64.f64.f64", float64, 8, (32, 64), 16, False)
FMA32 = Kind("Fma32", "fma.rn.f32", float32, 4, (64, 64), 32, False, (16, 32))
TURING_FMA32 = replace(FMA32, depth=16)
"""Threads copy the next step's factors themselves: of longer ones their registers do not hold what is under way."""

AMPERE = 80
"""The first architecture whose tensor cores multiply more than float16."""
LARGE = 128 * 128
"""Elements of a tile from which steps are twice as deep for tf32, and warps twice as large for tf32x3."""


def accumulator(*dtypes: DType) -> DType:
    """The dtype a product is summed in: int32 of integers, float64 where one of the dtypes is, else float32.

    Example:
        >>> accumulator(float16, bfloat16), accumulator(float32, float64), accumulator(int32, int32)
        (float32, float64, int32)
    """
    if dtypes[0].is_integer:
        return int32
    return float64 if float64 in dtypes else float32


def kind_of(a: DType, b: DType, out: DType, precision: str, size: int) -> Kind:
    """The kind that serves a product of ``a`` and ``b`` with ``size`` elements, added to ``out``.

    float16 and bfloat16 are tf32 as they are, so where they meet the product is exact in tf32.

    Example:
        >>> kind_of(float16, float16, float32, "default", 4096).name
        'Tensor16<tk::{}>'
        >>> kind_of(float16, bfloat16, float32, "default", 4096).name
        'Tf32'
        >>> kind_of(float32, float32, float32, "default", 4096).name
        'Fma32'
    """
    if accumulator(a, b, out) is float64:
        return TENSOR64
    halves = {a, b} <= {float16, bfloat16}
    if halves and a is b:
        return TENSOR16
    if halves or precision == "tf32":
        return replace(TF32, depth=32) if size >= LARGE else TF32
    if precision == "tf32x3":
        return replace(TF32X3, warp=(64, 32)) if size >= LARGE else TF32X3
    return FMA32


def turing_kind_of(a: DType, b: DType, out: DType) -> Kind | None:
    """The kind on architectures before :data:`AMPERE`, whatever the precision; None where none serves.

    Example:
        >>> turing_kind_of(float16, float16, float32).instruction
        '2 x mma.m16n8k8.f32.{0}.{0}.f32'
        >>> turing_kind_of(bfloat16, bfloat16, float32).name, turing_kind_of(float64, float64, float64)
        ('Fma32', None)
    """
    if accumulator(a, b, out) is float64:
        return None
    return TURING if a is b is float16 else TURING_FMA32
