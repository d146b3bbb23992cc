"""Break a copy of the package on purpose, and see that tests notice: ``python -m tests.mutate [NAME...] [--quick]``.

The mutations are in ``mutations.toml``, which says what its keys mean. First the tests that they name pass on an
unchanged copy. Then each mutation is made in a copy of its own, where the tests that it names must fail.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
TABLE = Path(__file__).with_name("mutations.toml")
COPIED = ("tilekit", "tests", "pyproject.toml")
PYTEST = ("-m", "pytest", "-x", "-q", "--tb=no", "--no-header", "-p", "no:cacheprovider")
PASSED, FAILED = 0, 1
"""Exit statuses of pytest; any other says that the tests did not run."""
SECONDS = 300
"""That the tests of one mutation may take."""


class Rotten(ValueError):
    """A mutation does not apply to the package as it is."""


@dataclass(frozen=True)
class Mutation:
    """One wrong change."""

    name: str
    file: str
    text: str
    replacement: str
    tests: tuple[str, ...]
    """Files of tests or single tests, as pytest names them."""
    quick: bool = False

    def applied(self, root: Path) -> str:
        """The text of its file, changed.

        Raises:
            Rotten: what it replaces is not in the file exactly once.
        """
        whole = (root / self.file).read_text(encoding="utf-8")
        if (count := whole.count(self.text)) != 1:
            raise Rotten(f"{self.name}: {self.file} has the text to replace {count} times, not once")
        return whole.replace(self.text, self.replacement)


def mutations(table: Path = TABLE) -> list[Mutation]:
    """Those of the table, in its order."""
    listed = tomllib.loads(table.read_text(encoding="utf-8"))
    return [Mutation(name, **{**each, "tests": tuple(each["tests"])}) for name, each in listed.items()]


@contextmanager
def copy_of(root: Path) -> Iterator[Path]:
    """A copy of the package and its tests, for a while."""
    with tempfile.TemporaryDirectory(prefix="tilekit-mutated-") as folder:
        for name in COPIED:
            if (root / name).is_dir():
                shutil.copytree(root / name, Path(folder, name), ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy2(root / name, folder)
        yield Path(folder)


def run_tests(folder: Path, tests: Iterable[str]) -> int | None:
    """The exit status of pytest in a copy; None where its time is over."""
    command = [sys.executable, *PYTEST, *tests]
    # PYTEST_ADDOPTS is for the run that calls this one: with its `-n`, -x ends with another status than FAILED.
    environment = {**os.environ, "PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1", "PYTEST_ADDOPTS": ""}
    with (folder / "output.txt").open("wb") as output:
        process = subprocess.Popen(
            command, cwd=folder, env=environment, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
        )
        try:
            return process.wait(SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            return None


def try_out(mutation: Mutation, root: Path) -> tuple[bool, str]:
    """Whether the tests notice a mutation, and a line that says so."""
    began = time.monotonic()
    with copy_of(root) as folder:
        try:
            (folder / mutation.file).write_text(mutation.applied(folder), encoding="utf-8")
        except (Rotten, OSError) as error:
            return False, f"{'ROTTEN':9} {'':6} {error}"
        status = run_tests(folder, mutation.tests)
        last = (folder / "output.txt").read_text(encoding="utf-8", errors="replace").strip().rpartition("\n")[2]
    found = {FAILED: "noticed", PASSED: "UNNOTICED", None: "TOO SLOW"}.get(status, "BROKEN")
    return status == FAILED, f"{found:9} {time.monotonic() - began:5.1f}s {mutation.name}: {last}"


def unchanged_pass(chosen: list[Mutation], root: Path) -> bool:
    """Whether the tests of some mutations pass without them."""
    with copy_of(root) as folder:
        passed = run_tests(folder, dict.fromkeys(test for each in chosen for test in each.tests)) == PASSED
        if not passed:
            print((folder / "output.txt").read_text(encoding="utf-8", errors="replace"))
        return passed


def main(arguments: list[str] | None = None, root: Path = ROOT, table: Path = TABLE) -> int:
    """1 where a mutation is not noticed or does not apply, or where a test fails without one."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutate", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="of mutations; all without")
    parser.add_argument("--quick", action="store_true", help="those that the table calls quick")
    parser.add_argument("--workers", type=int, default=len(os.sched_getaffinity(0)), help="mutations tried at once")
    asked = parser.parse_args(arguments)
    listed = mutations(table)
    if unknown := set(asked.names) - {each.name for each in listed}:
        parser.error(f"no such mutation: {', '.join(sorted(unknown))}")
    chosen = [
        each for each in listed if each.name in asked.names or (not asked.names and (each.quick or not asked.quick))
    ]
    began = time.monotonic()
    if not unchanged_pass(chosen, root):
        print("tests fail without any mutation")
        return 1
    print(f"the tests pass without mutations ({time.monotonic() - began:.0f}s)", flush=True)
    good = True
    with ThreadPoolExecutor(asked.workers) as pool:
        for noticed, line in pool.map(lambda each: try_out(each, root), chosen):
            good &= noticed
            print(line, flush=True)
    print(f"{len(chosen)} mutations in {time.monotonic() - began:.0f}s: {'all noticed' if good else 'NOT ALL NOTICED'}")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
