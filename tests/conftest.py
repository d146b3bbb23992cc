"""Options, fixtures and hooks that every test shares."""

from __future__ import annotations

import difflib
import os
import random
import re
import shutil
import signal
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import hypothesis
import numpy as np
import pytest

from tests import gpu_record
from tests.strict_skips import StrictSkips, wanted

TESTS = Path(__file__).parent
GOLDEN = TESTS / "golden"
ASKED_FOR_BY_NAME = ("deep", "gpu")
CACHE_VARIABLE = "TILEKIT_CACHE_DIR"
_CACHE = pytest.StashKey[tuple[str, str | None]]()

hypothesis.settings.register_profile("tilekit", deadline=None, derandomize=True)
hypothesis.settings.load_profile("tilekit")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="write golden files instead of comparing")
    parser.addoption(
        "--emulate-gpu", choices=("forward", "reversed"), help="have a GPU that is emulated, see tests/emulator/gpu.py"
    )
    parser.addoption("--strict-skips", action="store_true", help="fail when a test skips that allowed_skips.txt lacks")


def pytest_configure(config: pytest.Config) -> None:
    if order := config.getoption("--emulate-gpu"):
        from tests.emulator import gpu

        gpu.install(order)
    if wanted(config):
        config.pluginmanager.register(StrictSkips(config, TESTS / "allowed_skips.txt"), "tilekit-strict-skips")
    if not hasattr(config, "workerinput"):  # workers inherit the variable and so share one cache
        config.stash[_CACHE] = (tempfile.mkdtemp(prefix="tilekit-tests-"), os.environ.get(CACHE_VARIABLE))
        os.environ[CACHE_VARIABLE] = config.stash[_CACHE][0]


def pytest_unconfigure(config: pytest.Config) -> None:
    if _CACHE not in config.stash:
        return
    directory, before = config.stash[_CACHE]
    shutil.rmtree(directory, ignore_errors=True)
    if before is None:
        os.environ.pop(CACHE_VARIABLE, None)
    else:
        os.environ[CACHE_VARIABLE] = before


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    named = set(re.findall(r"\w+", config.option.markexpr or ""))
    left_out = [marker for marker in ASKED_FOR_BY_NAME if marker not in named]
    deselected = [item for item in items if any(item.get_closest_marker(marker) for marker in left_out)]
    if deselected:
        config.hook.pytest_deselected(items=deselected)
        items[:] = [item for item in items if item not in set(deselected)]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if text := gpu_record.notice(gpu_record.read(), gpu_record.digest(TESTS.parent / "tilekit")):
        terminalreporter.write_line(text)


_begun: dict[np.random.Generator, Mapping[str, Any]] = {}
"""The generators of test modules, as they were when the module's first test began."""


@pytest.fixture(autouse=True)
def _fixed_seeds(request: pytest.FixtureRequest) -> None:
    """A test sees the same numbers whichever tests ran before it in its process."""
    random.seed(0)
    np.random.seed(0)
    module = request.node.getparent(pytest.Module)
    for value in vars(module.module).values() if module is not None else ():
        if isinstance(value, np.random.Generator):
            value.bit_generator.state = _begun.setdefault(value, value.bit_generator.state)


@pytest.fixture
def interruptible() -> Iterator[None]:
    """SIGINT interrupts this process and its children: a shell ignores it for what it starts in the background."""
    kept = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, kept)


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """Compare text with ``golden/<path of the test module>/<name>``; ``--update-golden`` writes it."""
    folder = GOLDEN / request.path.relative_to(TESTS).with_suffix("")

    def check(text: str, name: str) -> None:
        path = folder / name
        if request.config.getoption("--update-golden"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8", newline="\n")
            return
        shown = path.relative_to(TESTS.parent).as_posix()
        if not path.exists():
            pytest.fail(f"no golden file {shown}; run pytest --update-golden and review what it writes", pytrace=False)
        expected = path.read_text(encoding="utf-8")
        if text != expected:
            lines = difflib.unified_diff(expected.splitlines(), text.splitlines(), shown, "this run", lineterm="")
            pytest.fail("\n".join([*lines, "if this is meant: pytest --update-golden"]), pytrace=False)

    return check
