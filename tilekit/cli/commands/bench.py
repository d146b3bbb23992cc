"""Measure tilekit beside other libraries.

python -m tilekit bench gemm
python -m tilekit bench gemm --kinds fp16 fp32 --sizes 4096 --backends mma scalar
python -m tilekit bench gemm --kinds fp16 --peers cublas --budget 60 --json gemm.json --picture gemm.svg
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path


def configure(parser: argparse.ArgumentParser) -> None:
    what = parser.add_subparsers(title="benchmarks", metavar="BENCHMARK", required=True)
    gemm = what.add_parser("gemm", help="matrix products on a GPU, beside those of cuBLAS, Triton and Warp")
    gemm.add_argument("--kinds", nargs="+", help="fp16, bf16, tf32, tf32x3, fp32, fp64; all by default")
    gemm.add_argument("--sizes", nargs="*", type=int, help="rows and columns; 1024, 2048 and 4096 by default")
    gemm.add_argument("--batches", nargs="*", type=int, help="of small products, one a block: 32, 64, 128 by default")
    gemm.add_argument("--backends", nargs="+", default=["mma"], help="values of the option gemm; mma by default")
    gemm.add_argument("--peers", nargs="*", help="cublas, triton, warp; all by default, one that is missing is skipped")
    gemm.add_argument("--rounds", type=int, help="of which the median counts; 5 by default")
    gemm.add_argument("--budget", type=float, help="seconds after which nothing more is compiled")
    gemm.add_argument("--json", type=Path, help="where all that was measured goes")
    gemm.add_argument("--picture", type=Path, help="where a picture goes, such as gemm.svg; needs Matplotlib")
    gemm.set_defaults(benchmark=_gemm)


def run(arguments: argparse.Namespace) -> int:
    found: int = arguments.benchmark(arguments)
    return found


def _gemm(arguments: argparse.Namespace) -> int:
    from tilekit.bench import gemm, gemm_contenders, gemm_problems

    known = (
        ("kind", arguments.kinds, list(gemm_problems.KINDS)),
        ("batch", arguments.batches, list(gemm_problems.BATCHES)),
        ("peer", arguments.peers, list(gemm_contenders.PEERS)),
    )
    for name, given, allowed in known:
        for item in given or ():
            if item not in allowed:
                print(f"tilekit: unknown {name} {item!r}; there are {', '.join(map(str, allowed))}", file=sys.stderr)
                return 2
    asked = ("kinds", "sizes", "batches", "backends", "peers", "rounds", "budget")
    options = {name: getattr(arguments, name) for name in asked if getattr(arguments, name) is not None}
    try:
        gemm.main(gemm.Benchmark(**options), arguments.json, arguments.picture)
    except ImportError as error:
        remedy = "python -m pip install 'tilekit-lang[torch]'"
        print(f"tilekit: this benchmark needs PyTorch and a GPU: {error}; {remedy}", file=sys.stderr)
        return 1
    except RuntimeError as error:
        print(f"tilekit: this benchmark needs a GPU: {error}", file=sys.stderr)
        return 1
    return 0
