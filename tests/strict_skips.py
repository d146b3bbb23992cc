"""Fails a run in which a test skips that ``allowed_skips.txt`` does not name."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest

SHARED_KEY = "tilekit_skipped_modules"


def parse_allowed(text: str) -> list[re.Pattern[str]]:
    """The patterns of a list of allowed skips; a line without a reason is an error."""
    patterns = []
    for line in text.splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        pattern, separator, reason = line.partition("# ")
        if not separator or not reason.strip():
            raise pytest.UsageError(f"allowed_skips.txt: {line!r} gives no reason; write 'NODEID  # why it may skip'")
        # Not fnmatch: the brackets of a parametrised test are no character class.
        parts = re.split(r"([*?])", pattern.strip())
        patterns.append(re.compile("".join({"*": ".*", "?": "."}.get(part, re.escape(part)) for part in parts)))
    return patterns


def _reason(report: Any) -> str:
    longrepr = report.longrepr
    return str(longrepr[2]) if isinstance(longrepr, tuple) else str(longrepr)


class StrictSkips:
    """Collects every skip of a run, of all workers, and fails the run for those not allowed."""

    def __init__(self, config: pytest.Config, allowed: Path) -> None:
        self.config = config
        self.allowed = parse_allowed(allowed.read_text(encoding="utf-8"))
        self.skipped: dict[str, str] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.skipped and not hasattr(report, "wasxfail"):
            self.skipped[report.nodeid] = _reason(report)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.skipped:
            self.skipped[report.nodeid] = _reason(report)
            if hasattr(self.config, "workeroutput"):  # xdist does not pass on skips at collection
                self.config.workeroutput.setdefault(SHARED_KEY, {})[report.nodeid] = _reason(report)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        self.skipped.update(getattr(node, "workeroutput", {}).get(SHARED_KEY, {}))

    def unexpected(self) -> dict[str, str]:
        return {
            nodeid: reason
            for nodeid, reason in sorted(self.skipped.items())
            if not any(pattern.fullmatch(nodeid) for pattern in self.allowed)
        }

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if not hasattr(self.config, "workeroutput") and self.unexpected() and session.exitstatus == 0:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        unexpected = self.unexpected()
        if unexpected:
            terminalreporter.section("skips that tests/allowed_skips.txt does not name", red=True)
        for nodeid, reason in unexpected.items():
            terminalreporter.write_line(f"{nodeid}: {reason}", red=True)


def wanted(config: pytest.Config) -> bool:
    return bool(config.getoption("--strict-skips")) or os.environ.get("TILEKIT_STRICT_SKIPS", "0") not in ("", "0")
