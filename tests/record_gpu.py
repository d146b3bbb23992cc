"""Run on a GPU what needs one, and record it: ``python -m tests.record_gpu FOLDER``.

Stages run one after the other, each with its own time limit; what each found is in FOLDER at once: ``log.txt`` has the
output, ``failures.txt`` the failed tests as they fail, ``gpu_record.json`` the record so far. Copy that over
``tests/gpu_record.json``. A stage that lacks something here is left out and says what it lacks. Stages of an earlier
run of the same code are kept in the record, so that runs with ``--stages``, or on two machines, add up.
"""

from __future__ import annotations

import argparse
import datetime
import importlib.metadata
import importlib.util
import json
import os
import platform
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests import gpu_record
from tests.gpu_reports import COUNTS, FAILURES

ROOT = Path(__file__).parents[1]
PACKAGES = ("numpy", "torch", "cupy-cuda13x", "jax", "warp-lang", "cuda-core", "cuda-bindings", "nvidia-cuda-nvrtc")
ALONE = (
    "tests/runtime/cuda/test_gpu_warm.py", "tests/bench/test_elementwise.py", "tests/bench/test_fused.py",
    "tests/cases/test_slow_cases.py",
)  # fmt: skip
"""Tests of time and of memory, which other processes would disturb."""
PYTEST = ("-m", "pytest", "-q", "-rfE", "--tb=short", "-p", "tests.gpu_reports", "-p", "no:cacheprovider")
ATOMS = ("tests/native/test_atoms.py", "tests/builtins/test_atom_values.py")
BENCH = ("-m", "tilekit", "bench")
GEMM = (*BENCH, "gemm", "--json")
SANITIZE = ("--under", "compute-sanitizer", "--error-exitcode", "99", "--print-limit", "20", "--tool")


@dataclass(frozen=True)
class Stage:
    """One thing to run."""

    name: str
    command: tuple[str, ...]
    """What Python runs; ``{folder}`` is where the results are."""
    limit: int
    """Seconds."""
    environment: dict[str, str] = field(default_factory=dict)
    needs: tuple[str, ...] = ()
    """Modules and programs without which it has nothing to do."""
    gpus: int = 1


def stages(workers: int) -> list[Stage]:
    """All of them, in the order of what they tell."""
    by_file = ("-n", str(workers), "--dist", "loadfile", "-m")  # where the tests of a file share what is compiled
    by_test = ("-n", str(workers), "--dist", "worksteal", "-m")
    ignored = tuple(f"--ignore={path}" for path in (*ALONE, "tests/builtins"))
    sanitized = ("-m", "tests.sanitized", "--workers", str(workers))
    launching = ("tests/runtime/cuda", "tests/cases")
    return [
        Stage("demo", ("-m", "tilekit", "demo"), 60, needs=("warp",)),
        Stage("conformance", (*PYTEST, *by_file, "gpu", "tests/builtins"), 300),
        Stage("tests", (*PYTEST, *by_test, "gpu", *ignored), 420),
        Stage("tests alone", (*PYTEST, "-m", "gpu", *ALONE), 180),
        Stage("sanitized programs", sanitized, 180),
        *(
            Stage(tool, (*sanitized, *SANITIZE, tool), 150, needs=("compute-sanitizer",))
            for tool in ("memcheck", "racecheck", "initcheck", "synccheck")
        ),
        Stage("builtins", (*PYTEST, *by_file, "not gpu and not deep", "tests/builtins", "tests/cases"), 300,
              {"TILEKIT_TEST_GPU": "1"}),
        # Atoms: the code for this machine's processor, and what its GPU does where the ISA leaves a choice.
        Stage("processor", (*PYTEST, *by_test, "not gpu and not deep", *ATOMS), 120),
        Stage("probes", ("-m", "tests.native.probe_atoms", "{folder}", "--forms", "1000"), 150),
        Stage("bench gemm", (*GEMM, "{folder}/gemm.json", "--sizes", "4096", "--batches", "--peers", "cublas"), 180,
              needs=("torch",)),
        Stage("bench gemm peers", (*GEMM, "{folder}/peers.json", "--budget", "200"), 300, needs=("torch", "triton")),
        Stage("bench launch", ("-m", "tilekit.bench.launch"), 60),
        Stage("bench elementwise", ("-m", "tilekit.bench.elementwise"), 90, needs=("torch",)),
        Stage("bench fused", ("-m", "tilekit.bench.fused"), 90, needs=("torch",)),
        Stage("bench functions", ("-m", "tilekit.bench.functions"), 120, needs=("torch",)),
        Stage("bench gradients", ("-m", "tilekit.bench.gradients"), 120, needs=("torch",)),
        Stage("bench attention", (*BENCH, "attention", "--budget", "30", "--json", "{folder}/attention.json"), 90,
              needs=("torch",)),
        Stage("bench epilogue", (*BENCH, "epilogue", "--budget", "30", "--json", "{folder}/epilogue.json"), 120,
              needs=("torch",)),
        Stage("bench rows", (*BENCH, "rows", "--budget", "75", "--json", "{folder}/rows.json"), 150, needs=("torch",)),
        Stage("warp", (*PYTEST, "-m", "gpu", "-k", "warp", *launching), 120, needs=("warp",)),
        Stage("two GPUs", (*PYTEST, "-m", "gpu", "-k", "two_gpus or second_gpu", *launching), 120, gpus=2),
    ]  # fmt: skip


def find_program(name: str) -> str | None:
    """Where a program is, on the PATH or in a CUDA toolkit."""
    roots = [os.environ[root] for root in ("CUDA_HOME", "CUDA_PATH") if root in os.environ]
    folders = os.pathsep.join(f"{root}/bin" for root in (*roots, "/usr/local/cuda"))
    return shutil.which(name) or shutil.which(name, path=folders)


def lacking(stage: Stage, gpus: int) -> str | None:
    """What a stage needs and this machine lacks."""
    for name in stage.needs:
        if find_program(name) is None and importlib.util.find_spec(name) is None:
            return f"no {name}"
    return f"{gpus} of {stage.gpus} GPUs" if gpus < stage.gpus else None


def run(stage: Stage, folder: Path, seconds: float) -> dict[str, Any]:
    """Run a stage for at most some seconds; its result, as the record has it."""
    counts, failures = folder / ".counts.json", folder / "failures.txt"
    counts.unlink(missing_ok=True)
    environment = {**os.environ, "PYTHONUNBUFFERED": "1", "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
                   COUNTS: str(counts), FAILURES: str(failures), **stage.environment}  # fmt: skip
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, (str(ROOT), environment.get("PYTHONPATH"))))
    given = [find_program(part) or part if part in stage.needs else part for part in stage.command]
    given = [part.replace("{folder}", str(folder)) for part in given]
    command = (sys.executable, *given)
    began = time.monotonic()
    with (folder / "log.txt").open("ab") as log:
        log.write(f"\n##### {stage.name}: {' '.join(command)}\n".encode())
        log.flush()
        place = log.tell()
        process = subprocess.Popen(
            command, cwd=ROOT, env=environment, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
        )
        code = wait(process, seconds)
    found: dict[str, Any] = {"result": {0: "passed", None: "out of time"}.get(code, f"failed (exit status {code})")}
    found["seconds"] = round(time.monotonic() - began, 1)
    if counts.exists():
        found |= json.loads(counts.read_text(encoding="utf-8"))
        counts.unlink()
        if code == 0 and not found["counts"]["passed"]:
            found["result"] = "nothing ran"
    with (folder / "log.txt").open("rb") as log:
        log.seek(place)
        lines = [line for line in log.read().decode("utf-8", "replace").splitlines() if line.strip()]
    shown = [line for line in lines if line.startswith(("FAILED", "ERROR"))]
    print(*(shown[:20] or lines[-12:]), sep="\n", flush=True)
    found["last line"] = lines[-1] if lines else ""
    return found


def wait(process: subprocess.Popen[bytes], seconds: float) -> int | None:
    """The exit status, or None where the time was over and the process and its children were ended."""
    try:
        return process.wait(seconds)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        return None


def describe(gpus: list[Any], cuda: tuple[int, int] | None) -> dict[str, Any]:
    """The machine and the versions."""
    versions = {}
    for name in PACKAGES:
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return {
        "code": gpu_record.digest(ROOT / "tilekit"),
        "date": datetime.date.today().isoformat(),
        "gpus": [gpu.name for gpu in gpus],
        "capability": "{}.{}".format(*gpus[0].capability),
        "driver": "CUDA {}.{}".format(*cuda) if cuda else "",
        "python": platform.python_version(),
        "versions": versions,
    }


def main(arguments: list[str] | None = None) -> int:
    """Run the stages; 0 where all that ran have passed."""
    parser = argparse.ArgumentParser(prog="python -m tests.record_gpu", description=__doc__)
    parser.add_argument("folder", type=Path, help="where results are written, as they come")
    names = [stage.name for stage in stages(1)]
    parser.add_argument("--stages", nargs="+", choices=names, default=names, metavar="STAGE", help=", ".join(names))
    parser.add_argument("--limit", type=float, default=3600, help="seconds for all stages together")
    parser.add_argument("--workers", type=int, default=max(1, min(12, len(os.sched_getaffinity(0)) - 2)))
    asked = parser.parse_args(arguments)
    from tilekit.runtime import nvidia

    driver = nvidia.find_driver()
    if not driver.gpus:
        print(f"nothing to record: {driver.reason}")
        return 2
    return record(asked, describe(list(driver.gpus), driver.cuda), len(driver.gpus))


def record(asked: argparse.Namespace, head: dict[str, Any], gpus: int) -> int:
    """Run what is asked for, writing the record after each stage."""
    folder: Path = asked.folder.absolute()
    folder.mkdir(parents=True, exist_ok=True)
    earlier = [gpu_record.read(path) for path in (gpu_record.RECORD, folder / gpu_record.RECORD.name)]
    kept = {name: stage for old in earlier if old.get("code") == head["code"] for name, stage in old["stages"].items()}
    end = time.monotonic() + asked.limit
    good = True
    with tempfile.TemporaryDirectory(prefix="tilekit-record-") as cache:
        os.environ["TILEKIT_CACHE_DIR"] = cache
        for stage in stages(asked.workers):
            if stage.name not in asked.stages:
                continue
            left = end - time.monotonic()
            lack = lacking(stage, gpus) or ("no time is left" if left < 5 else None)
            print(f"##### {stage.name}" + (f": left out, {lack}" if lack else ""), flush=True)
            if lack:
                continue
            found = run(stage, folder, min(stage.limit, left))
            kept[stage.name] = {**found, "gpus": gpus}
            good &= found["result"] == "passed"
            print(f"----- {stage.name}: {found['result']}, {found['seconds']} s, {found.get('counts', '')}", flush=True)
            text = json.dumps({**head, "stages": kept}, indent=1) + "\n"
            (folder / gpu_record.RECORD.name).write_text(text, encoding="utf-8")
    return 0 if good else 1


if __name__ == "__main__":
    raise SystemExit(main())
