"""The table of mutations fits the code, and the script that tries them tells who notices."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import mutate
from tests.mutate import Mutation


@pytest.mark.parametrize("mutation", mutate.mutations(), ids=lambda each: each.name)
def test_it_applies_to_the_code_as_it_is(mutation: Mutation) -> None:
    changed = mutation.applied(mutate.ROOT)
    if mutation.file.endswith(".py"):
        compile(changed, mutation.file, "exec")
    for test in mutation.tests:
        path, _, name = test.partition("::")
        assert f"def {name}" in (mutate.ROOT / path).read_text(encoding="utf-8"), test


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A small one with a table of mutations, where the tests that try them run in parallel themselves."""
    monkeypatch.setenv("PYTEST_ADDOPTS", "-n 1")
    (tmp_path / "tilekit").mkdir()
    (tmp_path / "tests").mkdir()
    (tmp_path / "pyproject.toml").touch()
    (tmp_path / "tilekit" / "__init__.py").write_text("def two():\n    return 1 + 1\n")
    (tmp_path / "tests" / "test_two.py").write_text("import tilekit\ndef test_two():\n    assert tilekit.two() == 2\n")
    return tmp_path


def tried(project: Path, text: str, replacement: str) -> int:
    table = project / "mutations.toml"
    table.write_text(
        f'[one]\nfile = "tilekit/__init__.py"\ntext = "{text}"\nreplacement = "{replacement}"\n'
        'tests = ["tests/test_two.py"]\n'
    )
    return mutate.main([], project, table)


@pytest.mark.parametrize(
    ("text", "replacement", "status", "printed"),
    [
        ("1 + 1", "1 - 1", 0, "noticed "),
        ("1 + 1", "3 - 1", 1, "UNNOTICED "),
        ("1", "2", 1, "has the text to replace 2 times, not once"),
        ("def two", "def (", 1, "BROKEN "),
    ],
)
def test_what_is_told(
    project: Path, capsys: pytest.CaptureFixture[str], text: str, replacement: str, status: int, printed: str
) -> None:
    assert tried(project, text, replacement) == status
    assert printed in capsys.readouterr().out
    assert (project / "tilekit" / "__init__.py").read_text() == "def two():\n    return 1 + 1\n"
