"""The options and hooks of ``tests/conftest.py``, in runs of pytest of their own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.strict_skips import parse_allowed

TESTS = Path(__file__).parents[1]
SKIPPING = """
import pytest

@pytest.mark.parametrize("case", ["a", "b"])
def test_param(case):
    pytest.skip("no " + case)

@pytest.mark.xfail(strict=True)
def test_xfail():
    assert False
"""
SKIPPED_MODULE = "import pytest\npytest.skip('whole module', allow_module_level=True)\n"


def write_project(folder: Path, allowed: str = "", **modules: str) -> None:
    tests = folder / "tests"
    tests.mkdir()
    for name in ("__init__.py", "conftest.py", "gpu_record.py", "strict_skips.py"):
        shutil.copy(TESTS / name, tests / name)
    (folder / "pytest.ini").write_text("[pytest]\nmarkers =\n  deep: x\n  gpu: x\naddopts = --strict-markers\n")
    (tests / "allowed_skips.txt").write_text(allowed)
    for name, text in modules.items():
        (tests / f"{name}.py").write_text(text)


def run_pytest(folder: Path, *options: str, **environment: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("TILEKIT_", "PYTEST_"))}
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *options]
    return subprocess.run(command, cwd=folder, env=kept | environment, capture_output=True, text=True)


def test_skips_pass_unless_strict(tmp_path: Path) -> None:
    write_project(tmp_path, test_a=SKIPPING, test_b=SKIPPED_MODULE)
    assert run_pytest(tmp_path).returncode == 0


@pytest.mark.parametrize("workers", [(), ("-n", "1")], ids=["alone", "xdist"])
def test_strict_run_fails_and_names_each_unexpected_skip(tmp_path: Path, workers: tuple[str, ...]) -> None:
    write_project(tmp_path, "tests/test_a.py::test_param[a]  # no a here\n", test_a=SKIPPING, test_b=SKIPPED_MODULE)
    result = run_pytest(tmp_path, *workers, TILEKIT_STRICT_SKIPS="1")
    assert result.returncode == 1
    assert "tests/test_a.py::test_param[b]: Skipped: no b" in result.stdout
    assert "tests/test_b.py: Skipped: whole module" in result.stdout
    assert "test_param[a]:" not in result.stdout
    assert "test_xfail" not in result.stdout


def test_strict_run_passes_when_every_skip_is_listed(tmp_path: Path) -> None:
    allowed = "# comment\ntests/test_a.py::test_param[*]  # why\ntests/test_b.py  # why\n"
    write_project(tmp_path, allowed, test_a=SKIPPING, test_b=SKIPPED_MODULE)
    assert run_pytest(tmp_path, "--strict-skips").returncode == 0


def test_allowed_skip_without_a_reason_is_refused() -> None:
    with pytest.raises(pytest.UsageError, match="gives no reason"):
        parse_allowed("tests/test_a.py::test_x\n")


def test_deep_and_gpu_run_only_when_named(tmp_path: Path) -> None:
    names = ("plain", "deep", "gpu")
    marks = {name: "" if name == "plain" else f"@pytest.mark.{name}\n" for name in names}
    module = "import pytest\n" + "\n".join(f"{marks[name]}def test_{name}(): pass\n" for name in names)
    write_project(tmp_path, test_a=module)
    for options, expected in [((), "plain"), (("-m", "deep"), "deep"), (("-m", "gpu"), "gpu")]:
        shown = run_pytest(tmp_path, "-v", *options).stdout
        assert [name for name in names if f"test_{name} PASSED" in shown] == [expected]


def test_golden_is_compared_updated_and_shown_as_a_diff(tmp_path: Path) -> None:
    write_project(tmp_path, test_a="def test_text(golden): golden('one\\ntwo\\n', 'text.ir')\n")
    assert "no golden file tests/golden/test_a/text.ir" in run_pytest(tmp_path).stdout
    assert run_pytest(tmp_path, "--update-golden").returncode == 0
    path = tmp_path / "tests" / "golden" / "test_a" / "text.ir"
    assert path.read_bytes() == b"one\ntwo\n"
    assert run_pytest(tmp_path).returncode == 0
    path.write_text("one\nthree\n")
    result = run_pytest(tmp_path)
    assert result.returncode == 1
    assert "-three\n" in result.stdout
    assert "+two\n" in result.stdout


def test_numbers_do_not_depend_on_the_tests_before(tmp_path: Path) -> None:
    module = (
        "import random, numpy as np\n"
        "RNG = np.random.default_rng(1)\n"
        "first = RNG.random()\n"
        "numbers = set()\n"
        "def draw(): numbers.add((RNG.random(), np.random.random(), random.random()))\n"
        "def test_one(): draw()\n"
        "def test_two(): draw(); assert len(numbers) == 1 and first not in [number for number, *_ in numbers]\n"
    )
    write_project(tmp_path, test_a=module)
    assert run_pytest(tmp_path).returncode == 0


def test_workers_share_one_temporary_cache(tmp_path: Path) -> None:
    module = (
        "import os, pathlib\n"
        "def test_cache():\n"
        "    pathlib.Path('seen.txt').write_text(os.environ['TILEKIT_CACHE_DIR'])\n"
        "    assert pathlib.Path(os.environ['TILEKIT_CACHE_DIR']).is_dir()\n"
    )
    write_project(tmp_path, test_a=module)
    assert run_pytest(tmp_path, "-n", "1", TILEKIT_CACHE_DIR="/users/own").returncode == 0
    seen = (tmp_path / "seen.txt").read_text()
    assert "tilekit-tests-" in seen
    assert not Path(seen).exists()
