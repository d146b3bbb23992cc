"""Kernels of every kind, small, for compute-sanitizer: ``compute-sanitizer --tool memcheck python -m tests.sanitized``.

The first case of each builtin's conformance, and kernels with loops, views, edges and products, each checked. Needs
neither PyTorch nor Warp. What a first run has compiled is in the cache, so that under the sanitizer a second one only
launches. ``--workers N`` runs N parts at once, and ``--under COMMAND ...`` each below a command.
"""

from __future__ import annotations

import argparse
import importlib
import itertools
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np

import tilekit as tk
from tests.conformance import Case, build, cases_of, check_run
from tests.cuda_library import CudaLibrary, arch_of_first_gpu
from tilekit.ir.sizes import MANY_POINTS

FAMILIES = sorted(path.stem for path in (Path(__file__).parent / "builtins").glob("test_conform_*.py"))
Run = Callable[[], object]


def cases() -> list[Case]:
    """One case of each builtin."""
    found: dict[str, Case] = {}
    for family in FAMILIES:
        name = f"tests.builtins.{family}"
        importlib.import_module(name)
        for case in cases_of(name):
            found.setdefault(case.builtin, case)
    return list(found.values())


def conformance(part: int, parts: int) -> Iterator[tuple[str, Run]]:
    """The cases, each a module of its own."""
    chosen = cases()[part::parts]
    library = CudaLibrary([build(case).function for case in chosen], arch_of_first_gpu(), together=1)
    for number, case in enumerate(chosen):
        yield str(case), partial(check_run, case, partial(library.run, number))


def launches() -> Iterator[tuple[str, Run]]:
    """Points, tiles over an edge, and arrays that start anywhere."""
    from tests.on_gpu import there
    from tests.runtime.cuda.test_gpu_launch import axpy, doubled
    from tests.runtime.cuda.test_gpu_warm import row_sums

    def points(size: int) -> None:
        x, y = np.arange(size, dtype=np.float32), np.ones(size, np.float32)
        held = [there(x), there(y)]
        tk.launch(axpy, dim=size, inputs=[2.0, held[0]], outputs=[held[1]])
        assert np.array_equal(held[1].numpy(), 2 * x + y)

    def tiles(rows: int, columns: int) -> None:
        a = np.arange(rows * columns, dtype=np.float32).reshape(rows, columns)
        held = [there(a), there(np.zeros_like(a))]
        grid = (-(-rows // 8), -(-columns // 16))
        tk.launch_tiled(doubled, dim=grid, inputs=held[:1], outputs=held[1:], block_dim=64)
        assert np.array_equal(held[1].numpy(), 2 * a)

    def halves() -> None:
        a = np.arange(8 * 24).reshape(8, 24).astype(np.float16)
        held = [there(a), there(np.zeros(8, np.float32))]
        tk.launch(row_sums, dim=8, inputs=held[:1], outputs=held[1:])
        assert np.array_equal(held[1].numpy(), a.astype(np.float32).sum(1))

    yield from ((f"points {size}", partial(points, size)) for size in (1, 255, 1000, MANY_POINTS + 77))
    yield from ((f"tiles {rows}x{columns}", partial(tiles, rows, columns)) for rows, columns in ((8, 16), (37, 53)))
    yield "halves", halves


def products() -> Iterator[tuple[str, Run]]:
    """Loops on tensor cores and on ordinary ones, with whole and ragged tiles."""
    from tests.codegen import test_fragment_reductions as reduced
    from tests.runtime.cuda import test_gpu_products as on

    kinds = [d for d in on.DTYPES if tk.bfloat16 not in d]
    for dtypes in kinds:
        for tile, sizes in (((64, 64, 32), (128, 64, 96)), ((40, 56, 24), (50, 61, 37))):
            title = f"{tile} {sizes} {'-'.join(d.short for d in dtypes[:3])} {dtypes[3]}"
            yield title, partial(on.check, tile, sizes, *dtypes[:3], precision=dtypes[3])
    for order in ("NT", "TN", "TT"):
        yield order, partial(on.check, (64, 64, 32), (70, 77, 45), tk.float16, tk.float16, tk.float32, order=order)
    for backend in ("mma", "scalar"):
        given = ((32, 32, 16), (40, 47, 33), tk.float32, tk.float32, tk.float32, backend)
        yield f"epilogue {backend}", partial(on.check, *given, after=on.relu, numpy_after=relu)
        yield f"shared sums {backend}", partial(on.check, *given, after=on.shared, numpy_after=lambda t: t + 1.0)
    yield "attention", partial(on.test_factors_that_the_block_computes, tk.float16, 128)
    yield "residual", on.test_a_tile_is_added
    for case, axis in itertools.product(reduced.CASES, (0, 1)):
        yield f"reduced {case} along {axis}", partial(reduced.test_the_bits_on_a_gpu, case, axis)


def relu(t: np.ndarray) -> np.ndarray:
    return np.maximum(t * 0.5 - 1.0, 0.0)


def run_part(part: int, parts: int) -> int:
    """Run each of ``parts`` kernels; how many were wrong."""
    wrong, began, count = [], time.monotonic(), 0
    others = itertools.islice(itertools.chain(launches(), products()), part, None, parts)
    for title, run in itertools.chain(conformance(part, parts), others):
        count += 1
        try:
            run()
        except Exception:
            wrong.append(title)
            traceback.print_exc(limit=-4)
            print(f"FAILED {title}", flush=True)
    tk.synchronize()
    seconds = time.monotonic() - began
    print(f"part {part}: {count} kernels in {seconds:.1f} s, {len(wrong)} wrong: {', '.join(wrong) or 'none'}")
    return len(wrong)


def run_parts(workers: int, under: list[str]) -> int:
    """Run all parts, each in a process of its own; how many failed."""
    commands = [
        [*under, sys.executable, "-m", "tests.sanitized", "--part", str(part), str(workers)] for part in range(workers)
    ]
    running = [
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) for command in commands
    ]
    failed = 0
    for process in running:
        output = process.communicate()[0]
        print(output if process.returncode else "\n".join(output.splitlines()[-2:]), flush=True)
        failed += process.returncode != 0
    print(f"{workers} parts, {failed} failed")
    return failed


def main() -> int:
    """1 where a kernel was wrong, or what it ran under found something."""
    parser = argparse.ArgumentParser("python -m tests.sanitized")
    parser.add_argument("--workers", type=int, default=1, help="processes, each with a part of the kernels")
    parser.add_argument("--part", type=int, nargs=2, default=(0, 1), metavar=("PART", "PARTS"), help="this part alone")
    parser.add_argument("--under", nargs=argparse.REMAINDER, default=[], help="a command that runs each process")
    asked = parser.parse_args()
    wrong = run_parts(asked.workers, asked.under) if asked.workers > 1 else run_part(*asked.part)
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
