"""Products in all the ways in which kernels have them, with what must come out, for every backend."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import ml_dtypes
import numpy as np

import tilekit as tk
from tests.cuda_library import CudaLibrary, arch_of_first_gpu
from tests.emulator import EmulatedKernels
from tilekit.codegen.gemm.plan import BACKENDS
from tilekit.codegen.target import ArrayClass, Target
from tilekit.frontend.kernel import Kernel
from tilekit.ir.context import LaunchForm
from tilekit.ir.types import DType
from tilekit.runtime.arrays import view_of
from tilekit.runtime.cuda.generate import generate
from tilekit.runtime.spec import class_of

DEVICES = {"emulator": tuple(name for name in BACKENDS if name in ("mma", "scalar")), "gpu": BACKENDS}
"""The backends that each can run: the emulator those whose code is all in the headers."""


@dataclass(frozen=True)
class Sample:
    """A kernel with a product, and the extents of the arrays."""

    a: DType
    b: DType
    out: DType
    tile: tuple[int, int, int]
    extents: tuple[int, int, int]
    total: DType = tk.float32
    precision: str = "default"
    transposed: str = "NN"
    """Of each factor, whether its array holds it as it is (N) or transposed (T)."""
    form: str = "loop"
    epilogue: str = "none"
    block_dim: int = 128
    columns: bool = False
    """Whether the elements of a column of the result lie side by side."""

    @property
    def grid(self) -> tuple[int, int]:
        return -(-self.extents[0] // self.tile[0]), -(-self.extents[1] // self.tile[1])

    @property
    def kernel(self) -> Kernel:
        return FORMS[self.form](self)


def epilogue(sample: Sample, acc: Any, d: Any, row: Any, column: Any) -> Any:
    """What the kernels do with their sums."""
    m, n, _ = sample.tile
    if sample.epilogue == "relu":
        return tk.tile_map(lambda x: tk.max(x, 0.0), acc)
    if sample.epilogue == "added":
        return acc + tk.tile_astype(tk.tile_load(d, shape=(m, n), offset=(row, column)), sample.total)
    if sample.epilogue == "reduced":
        return tk.tile_broadcast(tk.tile_max(acc, axis=0), shape=(m, n))
    return acc


def loop(sample: Sample) -> Kernel:
    m, n, k = sample.tile
    a_type, b_type, c_type = sample.a, sample.b, sample.out
    left, right = sample.transposed

    @tk.kernel
    def product(a: tk.array2d[a_type], b: tk.array2d[b_type], d: tk.array2d[float], c: tk.array2d[c_type], steps: int):
        i, j = tk.tid()
        acc = tk.tile_zeros(shape=(m, n), dtype=sample.total)
        for s in range(steps):
            if left == "N":
                x = tk.tile_load(a, shape=(m, k), offset=(i * m, s * k))
            else:
                x = tk.tile_load(a, shape=(k, m), offset=(s * k, i * m)).T
            if right == "N":
                y = tk.tile_load(b, shape=(k, n), offset=(s * k, j * n))
            else:
                y = tk.tile_load(b, shape=(n, k), offset=(j * n, s * k)).T
            tk.tile_matmul(x, y, acc, precision=sample.precision)
        acc = epilogue(sample, acc, d, i * m, j * n)
        tk.tile_store(c, tk.tile_astype(acc, c_type), offset=(i * m, j * n))

    return product


def computed(sample: Sample) -> Kernel:
    """Factors that no load gives as they are: the product multiplies tiles in shared memory."""
    m, n, k = sample.tile
    a_type, b_type, c_type = sample.a, sample.b, sample.out

    @tk.kernel
    def product(a: tk.array2d[a_type], b: tk.array2d[b_type], d: tk.array2d[float], c: tk.array2d[c_type], steps: int):
        i, j = tk.tid()
        acc = tk.tile_zeros(shape=(m, n), dtype=sample.total)
        for s in range(steps):
            x = tk.tile_load(a, shape=(m, k), offset=(i * m, s * k))
            y = tk.tile_load(b, shape=(k, n), offset=(s * k, j * n))
            tk.tile_matmul(x + x, y, acc, precision=sample.precision)
        acc = epilogue(sample, acc, d, i * m, j * n)
        tk.tile_store(c, tk.tile_astype(acc, c_type), offset=(i * m, j * n))

    return product


def scaled(sample: Sample) -> Kernel:
    """Products of which half is added to what is there, and one that is new."""
    m, n, k = sample.tile
    a_type, b_type, c_type = sample.a, sample.b, sample.out

    @tk.kernel
    def product(a: tk.array2d[a_type], b: tk.array2d[b_type], d: tk.array2d[float], c: tk.array2d[c_type], steps: int):
        i, j = tk.tid()
        acc = tk.tile_zeros(shape=(m, n), dtype=sample.total)
        for s in range(steps):
            x = tk.tile_load(a, shape=(m, k), offset=(i * m, s * k))
            y = tk.tile_load(b, shape=(k, n), offset=(s * k, j * n))
            tk.tile_matmul(x, y, acc, alpha=2.0, precision=sample.precision)
        first = tk.tile_load(a, shape=(m, k), offset=(i * m, 0))
        other = tk.tile_full(shape=(m, n), value=float("nan"), dtype=sample.total)
        tk.tile_matmul(first, tk.tile_load(b, shape=(k, n), offset=(0, j * n)), other, beta=0.0)
        acc = epilogue(sample, acc, d, i * m, j * n)
        tk.tile_store(c, tk.tile_astype(acc + other, c_type), offset=(i * m, j * n))

    return product


FORMS = {"loop": loop, "computed": computed, "scaled": scaled}

HALF, BF16, F32, F64 = tk.float16, tk.bfloat16, tk.float32, tk.float64
KINDS = [
    (HALF, HALF, HALF, F32, "default"),
    (BF16, BF16, F32, F32, "default"),
    (F32, F32, F32, F32, "tf32"),
    (F32, F32, F32, F32, "tf32x3"),
    (F32, F32, F32, F32, "default"),
    (F64, F64, F64, F64, "default"),
    (HALF, BF16, F32, F32, "default"),
    (F32, HALF, F32, F32, "default"),
    (HALF, HALF, HALF, HALF, "default"),
]
"""Dtypes of the factors, the array and the sums, and the precision."""

PEERS = [
    *(Sample(HALF, HALF, F32, (64, 64, k), (128, 128, 3 * k)) for k in (24, 40, 56)),
    *(Sample(HALF, HALF, F32, (64, n, 32), (128, 3 * n, 96)) for n in (24, 40, 56, 72, 104)),
    *(Sample(F32, F32, F32, (64, n, 16), (64, 2 * n, 48)) for n in (24, 104)),
    Sample(HALF, HALF, F32, (256, 64, 32), (512, 64, 64), block_dim=256),
    Sample(F64, F64, F64, (256, 32, 16), (256, 32, 32), F64, block_dim=256),
]
"""What other languages get wrong: tails along k and n, and two warpgroups down the rows."""


def of_kinds() -> list[Sample]:
    """Each kind in each form, with ragged arrays, in turn transposed and with each epilogue."""
    orders, ends = ("NN", "NT", "TN", "TT"), ("none", "relu", "added", "reduced")
    found = []
    for i, (a, b, out, total, precision) in enumerate(KINDS):
        packed, odd = (96, 88, 72), (75, 67, 53)
        common = {"total": total, "precision": precision}
        found += [
            Sample(a, b, out, (64, 32, 32), packed, transposed=orders[i % 4], epilogue=ends[i % 4], **common),
            Sample(a, b, out, (48, 40, 24), odd, transposed=orders[(i + 1) % 4], epilogue=ends[(i + 2) % 4], **common),
            Sample(a, b, out, (32, 48, 16), packed, form="computed", epilogue=ends[(i + 1) % 4], **common),
            Sample(a, b, out, (32, 40, 16), odd, form="scaled", epilogue=ends[i % 3], **common),
        ]
    return found


def random_samples(seed: int, count: int) -> Iterator[Sample]:
    """Products of any shapes."""
    rng = random.Random(seed)
    for _ in range(count):
        a, b, out, total, precision = rng.choice(KINDS)
        tile = (rng.randrange(1, 100), rng.randrange(1, 100), rng.choice((8, 16, 24, 32, 40, rng.randrange(1, 48))))
        extents = tuple(rng.choice((extent, rng.randrange(1, 3 * extent + 1))) for extent in tile)
        form = rng.choice(tuple(FORMS))
        block_dim = rng.choice((32, 64, 128, 256)) if form == "loop" else 256  # else it must hold the sums
        how = rng.choice(("NN", "NT", "TN", "TT")), form, rng.choice(("none", "relu", "added", "reduced")), block_dim
        yield Sample(a, b, out, tile, extents, total, precision, *how)


def numpy_of(dtype: DType) -> Any:
    return np.dtype(ml_dtypes.bfloat16 if dtype is BF16 else dtype.name)


def arguments(sample: Sample, exact: bool) -> dict[str, Any]:
    """Arrays for a sample: small integers with the rows coded in the first column, or normally distributed."""
    (m, n, k), (left, right) = sample.extents, sample.transposed if sample.form == "loop" else "NN"
    rng = np.random.default_rng(m + 7 * n + 49 * k)
    draw = (lambda shape: rng.integers(-2, 3, shape).astype(float)) if exact else rng.standard_normal
    a, b, d = draw((m, k)), draw((k, n)), draw((m, n))
    if exact:
        a[:, 0] = np.arange(m) % 61
    held = {
        "a": np.ascontiguousarray((a if left == "N" else a.T).astype(numpy_of(sample.a))),
        "b": np.ascontiguousarray((b if right == "N" else b.T).astype(numpy_of(sample.b))),
        "d": d.astype(np.float32),
    }
    c = np.full((m, n), np.nan, numpy_of(sample.out), order="F" if sample.columns else "C")
    return {**held, "c": c, "steps": -(-k // sample.tile[2])}


def expected(sample: Sample, given: dict[str, Any]) -> Any:
    """What the kernel's array must hold, in float64 until the last rounding."""
    (m, n, k), (left, right) = sample.extents, sample.transposed if sample.form == "loop" else "NN"
    a, b = given["a"].astype(np.float64), given["b"].astype(np.float64)
    found = (a if left == "N" else a.T) @ (b if right == "N" else b.T) * (1 if sample.form == "loop" else 2)
    if sample.epilogue == "relu":
        found = np.maximum(found, 0)
    if sample.epilogue == "added":
        found = found + given["d"]
    if sample.epilogue == "reduced":
        tile = sample.tile
        rows = np.zeros((sample.grid[0] * tile[0], n))
        rows[:m] = found
        most = rows.reshape(sample.grid[0], tile[0], n).max(1)
        found = np.repeat(most, tile[0], 0)[:m]
    return found + a[:, : sample.tile[2]] @ b[: sample.tile[2]] if sample.form == "scaled" else found


class Library:
    """The kernels of some samples, served by a backend on a device."""

    def __init__(self, samples: Sequence[Sample], backend: str, device: str) -> None:
        self.samples = samples
        functions, arrays = [], []
        for sample in samples:
            kernel = sample.kernel
            functions.append(kernel.trace(kernel.default_types(), LaunchForm(True, 2, sample.block_dim)))
            arrays.append({name: _class(value) for name, value in arguments(sample, True).items() if name != "steps"})
        with ExitStack() as stack:
            stack.enter_context(tk.config.scoped(gemm=backend))
            if device == "gpu":
                self.gpu = CudaLibrary(functions, arch_of_first_gpu(), 2, 128, together=1, arrays=arrays)
                self.generated = self.gpu.generated
                return
            targets = [Target("cuda", "90a", s.block_dim, True, 2, False, arrays=known) for s, known in
                       zip(samples, arrays, strict=True)]  # fmt: skip
            self.generated = [generate(*pair) for pair in zip(functions, targets, strict=True)]
            folder = stack.enter_context(TemporaryDirectory())
            self.emulated = EmulatedKernels(self.generated, Path(folder))
        self.gpu = None

    def run(self, number: int, given: dict[str, Any]) -> Any:
        """The array that a sample's kernel has written."""
        grid = self.samples[number].grid
        if self.gpu is not None:
            self.gpu.run(number, given, grid)
        else:
            self.emulated.launch(number, grid, given)
        return given["c"]


def _class(array: Any) -> ArrayClass:
    plain = array.view(np.uint16) if array.dtype == ml_dtypes.bfloat16 else array
    return class_of(view_of(plain))
