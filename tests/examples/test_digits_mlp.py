"""The trained network: it reads digits, and its loss is PyTorch's."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilekit as tk
from tests.on_gpu import GPUS
from tilekit.examples import digits_mlp
from tilekit.examples.digits import Digits, load_digits

PNG = b"\x89PNG\r\n\x1a\n"
WARP = importlib.util.find_spec("warp") is not None
on_a_gpu = [pytest.mark.gpu, pytest.mark.skipif(not (GPUS and WARP), reason="needs a CUDA device and NVIDIA Warp")]
Trained = tuple[list[float], Any]


@pytest.fixture(scope="module")
def data() -> Digits:
    return load_digits()


@pytest.fixture(scope="module", params=["cpu", pytest.param("cuda", marks=on_a_gpu)])
def trained(data: Digits, request: pytest.FixtureRequest) -> Trained:
    return digits_mlp.train(data, tk.float32, request.param, lambda step, steps, loss: None)


def test_in_float32(trained: Trained, data: Digits) -> None:
    losses, predicted = trained
    assert np.mean(predicted == data.test_labels) >= 0.97
    assert losses[0] > 2.0 and np.mean(losses[-10:]) < 0.02


def test_the_loss_is_that_of_torch(trained: Trained, data: Digits) -> None:
    """Each of 450 steps rounds sums of some hundred products differently."""
    pytest.importorskip("torch")
    want = digits_mlp.train_with_torch(data, tk.float32)
    np.testing.assert_allclose(trained[0], want, rtol=0, atol=len(want) * 2.0**-24)


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=on_a_gpu)])
def test_the_command_in_bfloat16(device: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pictures = [tmp_path / "misread.png", tmp_path / "losses.png"]
    options = ["--dtype", "bfloat16", "--device", device, "--misread", str(pictures[0]), "--losses", str(pictures[1])]
    assert digits_mlp.main(options) == 0
    printed = capsys.readouterr()
    lines = dict(line.split(": ") for line in printed.out.splitlines() if ": " in line)
    assert float(lines["test accuracy"].rstrip("%")) >= 97
    # A sum that is rounded to bfloat16 the other way changes what follows by a part in 256.
    assert float(lines.get("largest difference of the loss from PyTorch's", 0)) < 2.0**-6
    assert printed.err.splitlines()[-1].startswith("bfloat16  [##############################] step 450/450, loss 0.0")
    assert all(picture.read_bytes().startswith(PNG) for picture in pictures)


def test_the_bar_is_one_line_where_somebody_watches(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    bar = digits_mlp.Bar("float32")
    monkeypatch.setattr(bar, "watched", True)
    for step in (1, 2):
        bar(step, 2, 0.5)
    first, second = "#" * 15 + "." * 15, "#" * 30
    assert capsys.readouterr().err == (
        f"\rfloat32   [{first}] step 1/2, loss 0.5000\rfloat32   [{second}] step 2/2, loss 0.5000\n"
    )


def test_without_matplotlib_it_does_not_begin(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(digits_mlp, "train", None)
    with pytest.raises(SystemExit, match=r"the pictures need matplotlib: python -m pip install .*examples"):
        digits_mlp.main([])
