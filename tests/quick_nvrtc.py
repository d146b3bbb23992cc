"""NVRTC optimising little, for code that is only looked at, which takes a third of the time.

It runs in a process of its own: in NVRTC 13.5, whatever a process compiles after ``--Ofast-compile`` without it is
optimised less too, and tests of machine code then see other code.
"""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from tilekit.runtime.cuda import build, nvrtc
from tilekit.runtime.parallel import in_parallel

Job = tuple[str, str, Sequence[str]]
"""A source, its name, and NVRTC's options."""


def compile_quickly(jobs: Sequence[Job]) -> list[nvrtc.Cubin]:
    """The machine code of each, side by side; raises as ``nvrtc.compile_cubin``."""
    command = [sys.executable, "-m", "tests.quick_nvrtc"]
    done = subprocess.run(command, cwd=Path(__file__).parents[1], input=pickle.dumps(jobs), stdout=subprocess.PIPE)
    found = pickle.loads(done.stdout) if done.returncode == 0 else RuntimeError(f"exit status {done.returncode}")
    if isinstance(found, Exception):
        raise found
    return found  # type: ignore[no-any-return]


def main() -> None:
    """Compile what standard input has, to standard output."""
    jobs: list[Job] = pickle.load(sys.stdin.buffer)
    work = [
        partial(nvrtc.compile_cubin, source, name, build.headers(), (*options, "--Ofast-compile=max"))
        for source, name, options in jobs
    ]
    found: list[nvrtc.Cubin] | Exception
    try:
        found = in_parallel(work)
    except Exception as error:
        found = error
    sys.stdout.buffer.write(pickle.dumps(found))


if __name__ == "__main__":
    main()
