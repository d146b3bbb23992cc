"""How long kernels take to compile on the CPU, by their size: ``python -m tilekit.bench.compile_time``.

Each kernel is compiled anew, without a cache. Times are of the CPU, of Python and of the C++ compiler. Growth is 1
where ten times the lines take ten times as long, and 10 where they take a hundred times as long.
"""

from __future__ import annotations

import argparse
import linecache
import os
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from typing import Any

import tilekit as tk
from tilekit.cli.text import table
from tilekit.runtime.cpus import cpu_name
from tilekit.runtime.program import compile_kernel
from tilekit.runtime.toolchain import find_toolchain

_HEAD = "@tk.kernel\ndef k(a: tk.array1d[float], o: tk.array1d[float], n: int):\n    i = tk.tid()\n"


def _lines(count: int) -> str:
    return "    o[i] = o[i] + a[i] * 0.5\n" * count


def _branches(count: int) -> str:
    return "".join(f"    if n > {j}:\n        o[i] = o[i] + a[i]\n" for j in range(count))


def _chained(count: int) -> str:
    return "".join(f"    {'el' if j else ''}if n == {j}:\n        o[i] = a[i] * {j}.0\n" for j in range(count))


def _returns(count: int) -> str:
    return "".join(f"    if n == {j}:\n        return\n    o[i] = o[i] + a[i]\n" for j in range(count))


def _loops(count: int) -> str:
    loops = "".join(f"    for j{j} in range(n):\n        v = v * 2.0 + float(j{j})\n" for j in range(count))
    return f"    v = a[i]\n{loops}    o[i] = v\n"


def _tiles(count: int) -> str:
    steps = "    t = t * 0.5 + 1.0\n" * count
    return f"    t = tk.tile_load(a, shape=64)\n{steps}    tk.tile_store(o, t)\n"


SHAPES: dict[str, tuple[Callable[[int], str], tuple[int, ...]]] = {
    "lines": (_lines, (500, 5000)),
    "branches": (_branches, (50, 500)),
    "elif branches": (_chained, (50, 500)),
    "early returns": (_returns, (50, 500)),
    "loops": (_loops, (50, 500)),
    "tile operations": (_tiles, (50, 500)),
}
"""Bodies of kernels, and of how many statements."""


def kernel(body: str) -> tk.Kernel:
    """A kernel of this body, as if it stood in a file.

    Example:
        >>> kernel("    o[i] = a[i]\\n")
        <tilekit kernel k>
    """
    text, name = _HEAD + body, f"<kernel of {body.count(chr(10))} lines>"
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    names: dict[str, Any] = {"tk": tk, "__name__": "bench"}
    exec(compile(text, name, "exec"), names)
    found: tk.Kernel = names["k"]
    return found


def seconds(body: str) -> tuple[float, float]:
    """CPU time of Python and of the compiler."""
    with tempfile.TemporaryDirectory() as folder, tk.config.scoped(cache_dir=folder):
        find_toolchain()
        made = kernel(body)
        start = os.times()
        compiled = compile_kernel(made, tiled="tile_" in body)
        middle = os.times()
        _ = compiled.library
        end = os.times()
    python = middle.user + middle.system - start.user - start.system
    return python, end.children_user + end.children_system - middle.children_user - middle.children_system


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser("python -m tilekit.bench.compile_time")
    parser.add_argument("shapes", nargs="*", help=f"of {', '.join(SHAPES)}; all by default")
    parser.add_argument("--divide", type=int, default=1, help="sizes by so much, for a quick look (1)")
    arguments = parser.parse_args(argv)
    toolchain = find_toolchain()
    print(f"{cpu_name()}; {toolchain.version if toolchain is not None else 'no compiler'}; tilekit {tk.__version__}")
    rows = []
    start = time.perf_counter()
    for name in arguments.shapes or SHAPES:
        body, counts = SHAPES[name]
        before = (0, 0.0)
        for count in (max(count // arguments.divide, 1) for count in counts):
            python, compiler = seconds(body(count))
            total = python + compiler
            growth = f"{total / before[1] / (count / before[0]):.2f}" if before[0] else "-"
            rows.append([name, str(count), f"{python:.2f} s", f"{compiler:.2f} s", growth])
            before = count, total
    print(table(["kernel of", "many", "Python", "compiler", "growth"], rows))
    print(f"all in {time.perf_counter() - start:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
