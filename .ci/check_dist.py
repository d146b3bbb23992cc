"""Checks that wheel and sdist hold every tracked file they should, above all the native headers and data files."""

from __future__ import annotations

import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

SDIST_ONLY = ("tests/", "docs/", "notebooks/", "README.md", "LICENSE", "CHANGELOG.md", "CONTRIBUTING.md")


def tracked() -> set[str]:
    # Untracked but not ignored files count too: a new header must not be forgotten before its first commit.
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    return {name for name in listed if Path(name).exists()}


def report(kind: str, expected: set[str], held: set[str]) -> bool:
    missing = sorted(expected - held)
    for name in missing:
        print(f"{kind} lacks {name}", file=sys.stderr)
    print(f"{kind}: {len(expected) - len(missing)} of {len(expected)} files")
    return not missing


def main(folder: str) -> int:
    (wheel,) = Path(folder).glob("*.whl")
    (sdist,) = Path(folder).glob("*.tar.gz")
    files = tracked()
    package = {name for name in files if name.startswith("tilekit/")}
    in_wheel = set(zipfile.ZipFile(wheel).namelist())
    with tarfile.open(sdist) as archive:
        in_sdist = {name.partition("/")[2] for name in archive.getnames()}
    stray = {name.partition("/")[0] for name in in_wheel} - {"tilekit"}
    if any(not name.endswith(".dist-info") for name in stray):
        print(f"the wheel holds more than tilekit: {sorted(stray)}", file=sys.stderr)
        return 1
    complete = [
        report("wheel", package, in_wheel),
        report("sdist", package | {name for name in files if name.startswith(SDIST_ONLY)}, in_sdist),
    ]
    return 0 if all(complete) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
