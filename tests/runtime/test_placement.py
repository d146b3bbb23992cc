"""Where a launch runs."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

import tilekit as tk
from tests.runtime.cuda.fake_driver import FakeLibrary, fake as fake
from tilekit.errors import KernelTypeError, KernelValueError
from tilekit.runtime.cuda.devices import device
from tilekit.runtime.placement import name_of, place


class Named:
    """A device that says its name, as Warp's and PyTorch's do."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __str__(self) -> str:
        return self.name


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ("cpu", "cpu"),
        ("cuda", "cuda"),
        ("cuda:3", "cuda:3"),
        ("interpret", "interpret"),
        (2, "cuda:2"),
        (Named("cuda:1"), "cuda:1"),
        (Named("cuda:1.2"), "cuda:1"),
        (SimpleNamespace(id=4), "cuda:4"),
        (SimpleNamespace(device_id=5), "cuda:5"),
    ],
)
def test_spellings(given: Any, name: str) -> None:
    assert name_of(given) == name


@pytest.mark.parametrize("given", ["gpu", "cuda:", "cuda:x", "CPU", -1, "cuda:1\n"])
def test_what_names_no_device(given: Any) -> None:
    with pytest.raises(KernelValueError, match=r"device must be 'cpu', 'cuda', 'cuda:N' or 'interpret'"):
        name_of(given)


@pytest.mark.parametrize("given", [True, 1.5, Named("xla:0")])
def test_what_is_no_device(given: Any) -> None:
    with pytest.raises(KernelTypeError, match="device must be"):
        name_of(given)


@pytest.mark.parametrize(
    ("given", "option", "found", "expected"),
    [
        (None, None, None, "cpu"),
        (None, None, "cuda:1", "cuda:1"),
        (None, "cpu", "cuda:1", "cuda:1"),
        (None, "cuda:1", "cpu", "cpu"),
        (None, "cuda:1", None, "cuda:1"),
        (None, "cuda", None, "cuda:0"),
        (None, "interpret", "cuda:1", "interpret"),
        (None, "interpret", None, "interpret"),
        ("cpu", "cuda:1", "cpu", "cpu"),
        ("cuda", None, "cuda:1", "cuda:1"),
        ("cuda", None, None, "cuda:0"),
        (1, None, "cuda:1", "cuda:1"),
        ("interpret", None, "cuda:1", "interpret"),
    ],
)
def test_the_choice(fake: FakeLibrary, given: Any, option: str | None, found: str | None, expected: str) -> None:
    with tk.config.scoped(device=option):
        assert place(given, found) == expected


def test_cuda_alone_is_the_current_device(fake: FakeLibrary) -> None:
    with device(1).current():
        assert place("cuda", None) == "cuda:1"


@pytest.mark.parametrize(
    ("given", "found", "advice"),
    [
        ("cpu", "cuda:0", "leave out device=, or pass arrays in host memory"),
        ("cuda:1", "cuda:0", r"make the arrays there, as in tk.array\(x, device='cuda:1'\)"),
        ("cuda", "cpu", r"make the arrays there, as in tk.array\(x, device='cuda'\)"),
    ],
)
def test_arrays_elsewhere(given: str, found: str, advice: str) -> None:
    with pytest.raises(
        KernelValueError, match=f"the launch is on '{given}', but .* arrays are on '{found}'; .*{advice}"
    ):
        place(given, found)
