"""Which kernels run several points a thread on a GPU, and that their reads are then under way together."""

import pytest

import tilekit as tk
from tests.native.mma_source import instructions, needs_nvdisasm
from tests.nvrtc import needs_nvrtc
from tilekit.runtime.compile import prepare


@tk.kernel
def scaled(a: tk.array1d[float], b: tk.array1d[float]):
    i = tk.tid()
    b[i] = 2.0 * a[i]


@tk.kernel
def in_half(a: tk.array2d[tk.float16], b: tk.array2d[tk.float16]):
    i, j = tk.tid()
    b[i, j] = a[j, i] * tk.float16(2.0) + tk.float16(i)


@tk.kernel
def mixed(a: tk.array1d[tk.float64], b: tk.array1d[tk.float16], n: int):
    i = tk.tid()
    a[i] = tk.float64(b[(i * 7) % n]) + a[i]


@tk.kernel
def filled(a: tk.array1d[tk.uint8]):
    i = tk.tid()
    a[i] = tk.uint8(7)


@tk.kernel
def reads_what_it_wrote(a: tk.array1d[float], b: tk.array1d[float]):
    i = tk.tid()
    b[i] = a[i]
    a[i] = b[i] + 1.0


@tk.kernel
def with_a_branch(a: tk.array1d[float]):
    i = tk.tid()
    if a[i] > 0.0:
        a[i] = 0.0


@tk.kernel
def with_a_loop(a: tk.array2d[float], out: tk.array1d[float], n: int):
    i = tk.tid()
    total = 0.0
    for j in range(n):
        total += a[i, j]
    out[i] = total


@tk.kernel
def with_a_check(a: tk.array1d[float]):
    i = tk.tid()
    assert a[i] > 0.0
    a[i] = 1.0


@tk.kernel
def with_a_length(a: tk.array1d[float]):
    i = tk.tid()
    a[i] = float(len(a))


@tk.kernel
def counted(a: tk.array1d[float], n: tk.array1d[int]):
    i = tk.tid()
    tk.atomic_add(n, 0, 1)
    a[i] = 1.0


@pytest.mark.parametrize(
    ("kernel", "together"),
    [
        (scaled, 4), (in_half, 8), (mixed, 2), (filled, 8), (reads_what_it_wrote, 1), (with_a_branch, 1),
        (with_a_loop, 1), (with_a_check, 1), (with_a_length, 1), (counted, 1),
    ],
    ids=lambda value: getattr(value, "key", str(value)),
)  # fmt: skip
def test_how_many(kernel: tk.Kernel, together: int) -> None:
    compiled = prepare(kernel, tiled=False)
    assert compiled.generated.together == together
    assert ("run_points" in compiled.source) == (together > 1)


def test_checked_points_run_alone() -> None:
    with tk.config.scoped(checked=True):
        assert prepare(scaled, tiled=False).generated.together == 1


@needs_nvrtc
@needs_nvdisasm
@pytest.mark.parametrize(("kernel", "together"), [(scaled, 4), (in_half, 8)], ids=["scaled", "in_half"])
def test_all_points_are_read_before_the_first_is_written(kernel: tk.Kernel, together: int) -> None:
    ops = [op.split(".")[0] for op in instructions(tk.compile(kernel, tiled=False, arch="90a").cubin)]
    runs = "".join(op[0] for op in ops if op in ("LDG", "STG"))
    assert "L" * together + "S" * together in runs
    assert not {"LDL", "STL"} & set(ops)
