"""What the host's processor is and how much of it this process may use."""

from __future__ import annotations

import functools
import math
import os
import platform
import subprocess
import sys
from pathlib import Path

_CPUINFO_KEYS = (
    "vendor_id",
    "cpu family",
    "model",
    "model name",
    "flags",
    "CPU implementer",
    "CPU architecture",
    "CPU variant",
    "CPU part",
    "Features",
    "isa",
)


@functools.cache
def allowed_cpus() -> int:
    """Threads that can run at once: CPU affinity, limited by the cgroup's CPU quota. Read once, at least 1."""
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quota = cgroup_quota() if sys.platform == "linux" else None
    return max(1, count if quota is None else min(count, math.ceil(quota)))


def cgroup_quota(root: Path = Path("/")) -> float | None:
    """CPUs that the cgroup (version 1 or 2) of this process, or one above it, grants; None: no limit."""
    quotas: list[float] = []
    for line in _read(root / "proc/self/cgroup").splitlines():
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if controllers and "cpu" not in controllers.split(","):
            continue
        bases = ["sys/fs/cgroup/cpu", f"sys/fs/cgroup/{controllers}"] if controllers else ["sys/fs/cgroup"]
        for base in bases:
            folder = root / base / path.lstrip("/")
            # Inside a container the path may be the host's: then only the mount's own root is there.
            for level in (folder, *folder.parents):
                quotas += _quota_of(level)
                if level == root / base:
                    break
    return min(quotas, default=None)


def _quota_of(folder: Path) -> list[float]:
    quota, _, period = _read(folder / "cpu.max").strip().partition(" ")
    if not quota:
        quota = _read(folder / "cpu.cfs_quota_us").strip()
        period = _read(folder / "cpu.cfs_period_us").strip()
    try:
        value = int(quota) / int(period)
    except (ValueError, ZeroDivisionError):  # absent, or "max"
        return []
    return [value] if value > 0 else []  # version 1 writes -1 for no limit


@functools.cache
def cpu_identity() -> str:
    """Everything about the host's processor that ``-march=native`` depends on, as one line."""
    parts = [sys.platform, platform.machine()]
    if sys.platform == "linux":
        parts += _cpuinfo(Path("/proc/cpuinfo"))
    elif sys.platform == "darwin":
        command = ["/usr/sbin/sysctl", "-n", "machdep.cpu.brand_string"]
        result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=10)
        parts.append(result.stdout.strip())
    else:
        parts.append(platform.processor())
    return "; ".join(parts)


def cpu_name() -> str:
    """The processor's name as its maker writes it, or the machine's kind where nothing tells."""
    found = _first_processor(Path("/proc/cpuinfo")) if sys.platform == "linux" else {}
    return found.get("model name") or platform.processor() or platform.machine()


def cpu_features() -> tuple[str, ...]:
    """What the processor offers beyond its basic instructions, as the operating system spells it; empty if unknown."""
    found = _first_processor(Path("/proc/cpuinfo")) if sys.platform == "linux" else {}
    return tuple((found.get("flags") or found.get("Features") or found.get("isa") or "").split())


def _cpuinfo(path: Path) -> list[str]:
    """The first processor's model and features."""
    found = _first_processor(path)
    if not found:
        return [platform.processor()]
    return [f"{key}={' '.join(sorted(value.split()))}" for key, value in found.items()]


def _first_processor(path: Path) -> dict[str, str]:
    """What is told of the first processor. The kernel writes the file as it is read: big hosts take long."""
    try:
        with path.open("rb", buffering=0) as file:
            text = file.read(1 << 14).decode("utf-8", "replace")
    except OSError:
        return {}
    pairs = (line.partition(":") for line in text.strip().partition("\n\n")[0].splitlines())
    return {key.strip(): value.strip() for key, _, value in pairs if key.strip() in _CPUINFO_KEYS}


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except (OSError, UnicodeDecodeError):
        return ""
