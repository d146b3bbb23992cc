"""The digits example: the right answer, not merely a good one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tilekit.examples import digits

PNG = b"\x89PNG\r\n\x1a\n"


@pytest.fixture(scope="module")
def data() -> digits.Digits:
    return digits.load_digits()


def test_every_digit_is_used_once(data: digits.Digits) -> None:
    assert len(data.train_labels) + len(data.test_labels) == 1797
    assert data.test_pixels.shape == (449, 64)


def test_scores_are_those_of_numpy(data: digits.Digits) -> None:
    expected = digits.numpy_scores(data)
    # float32 rounds each product once and the solve magnifies that by its condition number, 986: at worst 6e-5.
    np.testing.assert_allclose(digits.scores(data, "cpu"), expected, rtol=0, atol=1e-5 * np.abs(expected).max())


def test_command_prints_equal_accuracies_and_saves_the_picture(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    picture = tmp_path / "misread.png"
    assert digits.main(["--picture", str(picture)]) == 0
    printed = capsys.readouterr().out
    accuracies = [line.rsplit(" ", 1)[1] for line in printed.splitlines() if line.startswith("test accuracy")]
    assert len(accuracies) == 2
    assert accuracies[0] == accuracies[1]
    assert float(accuracies[0].rstrip("%")) > 90
    assert picture.read_bytes().startswith(PNG)


def test_picture_of_nothing_misread(tmp_path: Path, data: digits.Digits) -> None:
    digits.draw_misread(data, data.test_labels, tmp_path / "none.png")
    assert (tmp_path / "none.png").exists()


def test_the_picture_says_what_it_shows(tmp_path: Path, data: digits.Digits, monkeypatch: pytest.MonkeyPatch) -> None:
    figure, drawn = pytest.importorskip("matplotlib.figure"), []
    monkeypatch.setattr(figure.Figure, "savefig", lambda self, *given, **options: drawn.append(self))
    predicted = data.test_labels.copy()
    predicted[0] = (predicted[0] + 3) % 10
    digits.draw_misread(data, predicted, tmp_path / "picture.png")
    assert drawn[0].get_suptitle() == "1 of 449 test digits were misread"
    assert drawn[0].axes[0].get_title() == f"{data.test_labels[0]} read as {predicted[0]}"
