"""Measure tilekit beside other libraries.

python -m tilekit bench gemm
python -m tilekit bench gemm --kinds fp16 fp32 --sizes 4096 --backends mma scalar
python -m tilekit bench gemm --kinds fp16 --peers cublas --budget 60 --json gemm.json --picture gemm.svg
python -m tilekit bench rows --kernels softmax --shapes 16384x4096 --blocks 1x128 1x256
python -m tilekit bench attention --backward
python -m tilekit bench epilogue --compile
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any


def configure(parser: argparse.ArgumentParser) -> None:
    what = parser.add_subparsers(title="benchmarks", metavar="BENCHMARK", required=True)
    gemm = what.add_parser("gemm", help="matrix products on a GPU, beside those of cuBLAS, Triton and Warp")
    gemm.add_argument("--kinds", nargs="+", help="fp16, bf16, tf32, tf32x3, fp32, fp64; all by default")
    gemm.add_argument("--sizes", nargs="*", type=int, help="rows and columns; 1024, 2048 and 4096 by default")
    gemm.add_argument("--batches", nargs="*", type=int, help="of small products, one a block: 32, 64, 128 by default")
    gemm.add_argument("--backends", nargs="+", default=["mma"], help="values of the option gemm; mma by default")
    gemm.add_argument("--peers", nargs="*", help="cublas, triton, warp; all by default, one that is missing is skipped")
    _add_common(gemm, _gemm)
    gemm.add_argument("--picture", type=Path, help="where a picture goes, such as gemm.svg; needs Matplotlib")
    _add_rows(what.add_parser("rows", help="softmax, norms, column sums and transposes on a GPU, beside a copy"))
    _add_attention(what.add_parser("attention", help="attention on a GPU, beside PyTorch's"))
    _add_epilogue(what.add_parser("epilogue", help="a linear layer with bias, GELU and residual on a GPU"))


def _add_common(parser: argparse.ArgumentParser, benchmark: Callable[[argparse.Namespace], int]) -> None:
    parser.add_argument("--rounds", type=int, help="of which the median counts; 5 by default")
    parser.add_argument("--budget", type=float, help="seconds after which nothing more is compiled")
    parser.add_argument("--json", type=Path, help="where all that was measured goes")
    parser.set_defaults(benchmark=benchmark)


def _add_rows(rows: argparse.ArgumentParser) -> None:
    kernels = "softmax, layer_norm, rms_norm, column_sum, transpose, threads (softmax with several); all by default"
    rows.add_argument("--kernels", nargs="+", help=kernels)
    rows.add_argument("--dtypes", nargs="+", help="fp32, bf16; both by default")
    rows.add_argument("--shapes", nargs="+", type=_extents(2), help="rows and columns, such as 16384x4096")
    rows.add_argument("--passes", nargs="+", help="forward, backward; both by default")
    rows.add_argument("--blocks", nargs="+", type=_extents(2), help="rows and threads of a block, such as 1x128")
    rows.add_argument("--peers", nargs="*", help="torch, triton; both by default, one that is missing is skipped")
    _add_common(rows, _rows)


def _add_attention(attention: argparse.ArgumentParser) -> None:
    attention.add_argument("--dtypes", nargs="+", default=["bf16"], help="fp32, bf16; bf16 by default")
    attention.add_argument("--depths", nargs="+", type=int, help="of a head; 128 and 64 by default")
    attention.add_argument("--heads", type=int, help="of all sequences together; 192 by default")
    attention.add_argument("--length", type=int, help="queries and keys; 4096 by default")
    tile = "queries of a block, keys of a step, threads; 128x64x256 by default"
    attention.add_argument("--tiles", nargs="+", type=_extents(3), help=tile)
    attention.add_argument("--powers", nargs="+", help="exp2 (with a folded scale), exp; both by default")
    attention.add_argument("--backward", action="store_true", help="gradients as well")
    _add_common(attention, _attention)


def _add_epilogue(epilogue: argparse.ArgumentParser) -> None:
    epilogue.add_argument("--dtype", help="fp32, bf16; bf16 by default")
    epilogue.add_argument("--size", type=int, help="rows and columns; 4096 by default")
    epilogue.add_argument("--gelu", help="erf, tanh; erf by default")
    epilogue.add_argument("--tiles", nargs="+", type=_extents(3), help="128x128x32 and 128x256x32 by default")
    epilogue.add_argument("--backend", default="mma", help="a value of the option gemm; mma by default")
    epilogue.add_argument("--peers", nargs="*", help="torch, compile (torch.compile); both by default")
    epilogue.add_argument("--compile", action="store_true", help="time compilations instead, which needs no GPU")
    _add_common(epilogue, _epilogue)


def run(arguments: argparse.Namespace) -> int:
    found: int = arguments.benchmark(arguments)
    return found


def _extents(count: int) -> Callable[[str], tuple[int, ...]]:
    """What reads so many positive numbers with an x between them."""

    def read(text: str) -> tuple[int, ...]:
        found = tuple(int(part) if part.isdecimal() else 0 for part in text.split("x"))
        if len(found) != count or min(found) < 1:
            raise argparse.ArgumentTypeError(
                f"{text!r} is not {count} positive numbers, such as {'x'.join(['64'] * count)}"
            )
        return found

    return read


def _known(*asked: tuple[str, Iterable[Any] | None, Iterable[Any]]) -> bool:
    """Whether all that was asked for is there; if not, says what there is."""
    for name, given, allowed in asked:
        for item in given or ():
            if item not in allowed:
                print(f"tilekit: unknown {name} {item!r}; there are {', '.join(map(str, allowed))}", file=sys.stderr)
                return False
    return True


def _given(arguments: argparse.Namespace, *names: str) -> dict[str, Any]:
    """Of some options those that were given."""
    return {name: getattr(arguments, name) for name in names if getattr(arguments, name) is not None}


def _on_gpu(measure: Callable[[], None]) -> int:
    """Measure; 1, and what is missing, where that cannot be."""
    try:
        measure()
    except ImportError as error:
        remedy = "python -m pip install 'tilekit-lang[torch]'"
        print(f"tilekit: this benchmark needs PyTorch and a GPU: {error}; {remedy}", file=sys.stderr)
        return 1
    except RuntimeError as error:
        print(f"tilekit: this benchmark needs a GPU: {error}", file=sys.stderr)
        return 1
    return 0


def _gemm(arguments: argparse.Namespace) -> int:
    from tilekit.bench import gemm, gemm_contenders, gemm_problems

    if not _known(
        ("kind", arguments.kinds, list(gemm_problems.KINDS)),
        ("batch", arguments.batches, list(gemm_problems.BATCHES)),
        ("peer", arguments.peers, list(gemm_contenders.PEERS)),
    ):
        return 2
    options = _given(arguments, "kinds", "sizes", "batches", "backends", "peers", "rounds", "budget")
    return _on_gpu(lambda: gemm.main(gemm.Benchmark(**options), arguments.json, arguments.picture))


def _rows(arguments: argparse.Namespace) -> int:
    from tilekit.bench import formats, rounds, rows, rows_contenders, rows_problems

    if not _known(
        ("kernel", arguments.kernels, rows_problems.ALL),
        ("dtype", arguments.dtypes, formats.FORMATS),
        ("pass", arguments.passes, rows_problems.PASSES),
        ("peer", arguments.peers, rows_contenders.PEERS),
    ):
        return 2
    asked = {"kernels": "kinds", "dtypes": "formats", "shapes": "shapes", "passes": "ways", "blocks": "blocks"}
    problems = list(rows_problems.problems(**{asked[name]: x for name, x in _given(arguments, *asked).items()}))
    peers = rows_contenders.PEERS if arguments.peers is None else arguments.peers
    comparison = rounds.Comparison(**_given(arguments, "rounds", "budget"))
    return _on_gpu(lambda: rows.main(problems, peers, comparison, arguments.json))


def _attention(arguments: argparse.Namespace) -> int:
    from tilekit.bench import attention, formats, rounds

    if not _known(("dtype", arguments.dtypes, formats.FORMATS), ("power", arguments.powers, attention.POWERS)):
        return 2
    tiles: Sequence[attention.Tile] = arguments.tiles or [attention.TILE]
    length = attention.LENGTH if arguments.length is None else arguments.length
    for rows, columns, _ in tiles:
        if length <= 0 or length % rows or length % columns:
            print(
                f"tilekit: --length {length} is no positive multiple of {rows} queries and {columns} keys",
                file=sys.stderr,
            )
            return 2
    problems = [
        attention.Problem(form, depth, arguments.heads or attention.HEADS, length, way)
        for way in ("forward", "backward")[: 1 + arguments.backward]
        for depth in arguments.depths or attention.DEPTHS
        for form in arguments.dtypes
    ]
    comparison = rounds.Comparison(**_given(arguments, "rounds", "budget"))
    powers = arguments.powers or attention.POWERS
    return _on_gpu(lambda: attention.main(problems, tiles, powers, comparison, arguments.json))


def _epilogue(arguments: argparse.Namespace) -> int:
    from tilekit.bench import epilogue, formats, rounds

    if not _known(
        ("dtype", [arguments.dtype or "bf16"], formats.FORMATS),
        ("GELU", [arguments.gelu or "erf"], epilogue.GELUS),
        ("peer", arguments.peers, epilogue.PEERS),
    ):
        return 2
    named = {"dtype": "format", "size": "size", "gelu": "gelu"}
    problem = epilogue.Problem(**{named[name]: x for name, x in _given(arguments, *named).items()})
    tiles = arguments.tiles or epilogue.TILES
    if arguments.compile:
        epilogue.show_compile_times(problem, tiles, arguments.backend)
        return 0
    peers = epilogue.PEERS if arguments.peers is None else arguments.peers
    comparison = rounds.Comparison(**_given(arguments, "rounds", "budget"))
    return _on_gpu(lambda: epilogue.main(problem, tiles, arguments.backend, peers, comparison, arguments.json))
