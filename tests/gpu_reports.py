"""A plugin of pytest for ``record_gpu``: counts and failures are on disk as soon as they are known.

A run that is stopped at its limit leaves what it had found until then.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

COUNTS, FAILURES = "TILEKIT_GPU_COUNTS", "TILEKIT_GPU_FAILURES"
"""Variables with the paths of the files."""


class Reports:
    """Writes the counts anew, and appends each failure, at every report."""

    def __init__(self, counts: Path, failures: Path) -> None:
        self.counts, self.failures = counts, failures
        self.found = {"passed": 0, "failed": 0, "skipped": 0, "xfailed": 0}
        self.why: dict[str, int] = {}

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.when != "call" and not report.failed and not report.skipped:
            return
        outcome = "xfailed" if report.skipped and hasattr(report, "wasxfail") else report.outcome
        self.found[outcome] += 1
        if outcome == "skipped" and isinstance(report.longrepr, tuple):
            self.why[report.longrepr[2]] = self.why.get(report.longrepr[2], 0) + 1
        if outcome == "failed":
            self._append(f"{report.nodeid} ({report.when})", report.longreprtext)
        self.counts.write_text(json.dumps({"counts": self.found, "skips": self.why}), encoding="utf-8")

    def pytest_collectreport(self, report: Any) -> None:
        if report.failed:
            self._append(f"{report.nodeid} (collection)", report.longreprtext)

    def _append(self, title: str, text: str) -> None:
        with self.failures.open("a", encoding="utf-8") as file:
            file.write(f"=== {title}\n{text}\n\n")


def pytest_configure(config: Any) -> None:
    if not hasattr(config, "workerinput") and COUNTS in os.environ:
        config.pluginmanager.register(Reports(Path(os.environ[COUNTS]), Path(os.environ[FAILURES])), "tilekit-reports")
