"""The benchmark of elementwise kernels says where it has nothing to measure, and measures where it has."""

import importlib

import pytest

from tests.on_gpu import GPUS
from tilekit.bench import elementwise


def has_torch() -> bool:
    try:
        return bool(importlib.import_module("torch").cuda.is_available())
    except ImportError:
        return False


@pytest.mark.skipif(bool(GPUS) and has_torch(), reason="there is something to measure")
def test_without_a_gpu(capsys):
    assert elementwise.main([]) == 1
    assert "needs a GPU and PyTorch" in capsys.readouterr().out


@pytest.mark.gpu
@pytest.mark.skipif(not (GPUS and has_torch()), reason="needs a CUDA device and PyTorch")
def test_on_a_gpu(capsys):
    assert elementwise.main(["--side", "1024"]) == 0
    assert "of the copy" in capsys.readouterr().out
