"""What was found on this machine, and what is missing for what.

The exit status is 1 where something that was asked for, or is installed, does not work; nothing that is merely absent
counts as a failure.
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import shlex
import sys

from tilekit.cli.installed import Requirement, install_command, missing, requirements, version
from tilekit.cli.text import size, table
from tilekit.config import config
from tilekit.errors import TilekitError
from tilekit.runtime import cache, cpus, nvidia, store, toolchain
from tilekit.runtime.cuda import nvrtc

NEEDED_FOR = {
    "": "always needed",
    "cpu": "compiling kernels where the system has no C++ compiler",
    "cuda": "compiling kernels for GPUs",
    "mathdx": "matrix products by cuBLASDx on GPUs; proprietary",
    "torch": "launching kernels on PyTorch tensors",
    "examples": "python -m tilekit.examples.digits",
    "test": "running the tests",
    "tirx": "the tests that compare PTX atoms with Apache TVM TIRx",
    "docs": "building the documentation",
}
_SIMD = re.compile(r"sse4_2|avx\w*|fma|f16c|amx\w*|asimd\w*|sve\w*|fphp|bf16")

Rows = list[list[str]]


def configure(parser: argparse.ArgumentParser) -> None:
    """It takes no arguments."""


def run(arguments: argparse.Namespace) -> int:
    problems: list[str] = []
    sections = {
        "tilekit": _tilekit(),
        "machine": _machine(),
        "C++ compilers, in the order in which they are tried": _compilers(problems),
        "cache": _cache(problems),
        "GPU": _gpu(problems),
        "packages": _packages(problems),
    }
    for title, rows in sections.items():
        print(f"{title}\n" + "\n".join(f"  {line}" for line in table([], rows).splitlines()) + "\n")
    print("\n".join(f"problem: {problem}" for problem in problems) or "No problem was found.")
    return 1 if problems else 0


def _tilekit() -> Rows:
    options = [f"{name}={value!r}" for name, value in config.values().items() if value != config.describe(name).default]
    return [
        ["version", version()],
        ["folder", os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))],
        ["options changed", ", ".join(options) or "none"],
    ]


def _machine() -> Rows:
    limit = config.num_threads
    allowed = cpus.allowed_cpus()
    threads = f"{limit} (option num_threads), of {allowed}" if limit else f"{allowed} (affinity and cgroup quota)"
    features = sorted(name for name in cpus.cpu_features() if _SIMD.fullmatch(name))
    return [
        ["Python", f"{platform.python_implementation()} {platform.python_version()} ({sys.executable})"],
        ["platform", platform.platform()],
        ["processor", cpus.cpu_name()],
        ["features", " ".join(features) or "unknown"],
        ["threads", threads],
    ]


def _compilers(problems: list[str]) -> Rows:
    found = toolchain.candidates()
    used = next((candidate for candidate in found if candidate.works), None)
    rows = []
    for candidate in found:
        command = shlex.join(candidate.command)
        if candidate is used:
            verdict = "works and is used"
        elif candidate.works:
            verdict = "works"
        elif candidate.hindrance is not None:
            verdict = f"was not tried: {candidate.reason}"
        else:
            verdict = candidate.reason
        if candidate.note:
            verdict += f", {candidate.note}"
        rows.append([candidate.name, f"{verdict}\n{candidate.version} ({command})" if candidate.works else verdict])
        if not candidate.works and (candidate.name == "TILEKIT_CXX" or (candidate.command and used is None)):
            problems.append(f"the compiler {candidate.name} ({command}) does not work")
    if used is None:
        rows.append(["missing", f"a C++ compiler: install g++ or clang++, or run {install_command('cpu')}"])
    return rows


def _cache(problems: list[str]) -> Rows:
    wanted, used = config.cache_folder(), store.root()
    rows = [["folder", str(wanted)]]
    if wanted != used:
        reason = (wanted.exists() and store.distrust(wanted)) or "it cannot be written"
        rows.append(["state", f"not used: {reason}; compiled kernels are kept for this process only"])
        problems.append(f"the cache folder {wanted} is not used: {reason}")
        return rows
    sizes = ", ".join(f"{kind} {size(count)}" for kind, count in cache.sizes().items())
    return [*rows, ["state", f"usable, compiled kernels: {len(cache.list_entries())}{f' ({sizes})' if sizes else ''}"]]


def _gpu(problems: list[str]) -> Rows:
    driver = nvidia.find_driver()
    cuda = ["driver", driver.reason if driver.cuda is None else "NVIDIA, serves CUDA {}.{}".format(*driver.cuda)]
    rows = [cuda] if driver.cuda is None or not driver.reason else [cuda, ["devices", driver.reason]]
    for gpu in driver.gpus:
        rows.append([gpu.device, "{}, compute capability {}.{}, ".format(gpu.name, *gpu.capability) + size(gpu.memory)])
    return [*rows, ["NVRTC", _nvrtc(driver, problems)]]


def _nvrtc(driver: nvidia.Driver, problems: list[str]) -> str:
    """What the compiler for GPUs can do here. That it is missing is no problem, even where there is a GPU."""
    if absent := missing("cuda"):
        return f"missing: {', '.join(absent)}; for GPUs, run {install_command('cuda')}"
    try:
        found = "{}.{}".format(*nvrtc.version())
        if driver.cuda is not None:
            nvrtc.check_driver(driver.cuda[0] * 1000 + driver.cuda[1] * 10)
        served = [f"sm_{nvrtc.arch_of(gpu.capability)} for {gpu.device}" for gpu in driver.gpus]
    except TilekitError as error:
        problems.append(f"kernels cannot be compiled for GPUs: {error}")
        return str(error)
    return (
        f"{found}, compiles {', '.join(served)}"
        if served
        else f"{found}, compiles for every architecture from "
        + (f"sm_{min(nvrtc.architectures())} to sm_{max(nvrtc.architectures())}")
    )


def _packages(problems: list[str]) -> Rows:
    extras: dict[str, list[Requirement]] = {}
    for requirement in requirements():
        extras.setdefault(requirement.extra, []).append(requirement)
    rows = []
    for extra, members in extras.items():
        present = [f"{item.name} {found}" for item in members if (found := item.version())]
        lines = [NEEDED_FOR.get(extra, ""), ", ".join(present) or "not installed"]
        if absent := missing(extra):
            lines.append(f"missing: {', '.join(absent)}")
            if extra:
                lines.append(install_command(extra))
            else:
                problems.append(f"missing packages that tilekit needs: {', '.join(absent)}")
        rows.append([f"extra {extra}" if extra else "base", "\n".join(filter(None, lines))])
    return rows
