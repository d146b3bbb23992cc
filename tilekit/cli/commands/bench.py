"""Measure tilekit beside other libraries.

python -m tilekit bench gemm
python -m tilekit bench gemm --kinds fp16 fp32 --sizes 4096 --backends mma scalar
"""

from __future__ import annotations

import argparse


def configure(parser: argparse.ArgumentParser) -> None:
    what = parser.add_subparsers(title="benchmarks", metavar="BENCHMARK", required=True)
    gemm = what.add_parser("gemm", help="matrix products on a GPU, beside PyTorch's")
    gemm.add_argument("--kinds", nargs="+", help="fp16, bf16, tf32, tf32x3, fp32, fp64; all by default")
    gemm.add_argument("--sizes", nargs="+", type=int, help="rows and columns; 1024, 2048 and 4096 by default")
    gemm.add_argument("--backends", nargs="+", default=["mma"], help="values of the option gemm; mma by default")
    gemm.set_defaults(benchmark=_gemm)


def run(arguments: argparse.Namespace) -> int:
    found: int = arguments.benchmark(arguments)
    return found


def _gemm(arguments: argparse.Namespace) -> int:
    from tilekit.bench import gemm

    kinds = arguments.kinds or list(gemm.KINDS)
    if unknown := [kind for kind in kinds if kind not in gemm.KINDS]:
        print(f"unknown kind {unknown[0]!r}; there are {', '.join(gemm.KINDS)}")
        return 2
    try:
        gemm.main(kinds, arguments.sizes or gemm.SIZES, arguments.backends)
    except (ImportError, RuntimeError) as error:
        print(f"this benchmark needs PyTorch and a GPU: {error}")
        return 1
    return 0
