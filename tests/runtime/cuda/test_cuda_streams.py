"""Which stream a launch takes; the libraries are stand-ins that say what their current streams are."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest

from tests.runtime.cuda.fake_driver import FakeLibrary, fake as fake
from tilekit.errors import KernelTypeError
from tilekit.ir.types import float32
from tilekit.runtime import arrays
from tilekit.runtime.array_view import ArrayView, StreamView
from tilekit.runtime.cuda import streams
from tilekit.runtime.cuda.devices import device
from tilekit.runtime.cuda.streams import choose, handle_of, order

OWNERS = {name: type(name, (), {}) for name in ("torch", "cupy", "warp", "other")}


def view(library: str, stream: int | None = None) -> ArrayView:
    found = ArrayView(4096, (4,), (4,), float32, "cuda:1", owner=OWNERS[library]())
    return found if stream is None else StreamView(found, stream)


@pytest.fixture
def current(fake: FakeLibrary, monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """The current stream of each library on cuda:1."""
    found = {"torch": 11, "cupy": 12, "warp": 13}

    def of(name: str) -> Any:
        def stream(ordinal: int) -> int:
            assert ordinal == 1
            return found[name]

        return stream

    torch = SimpleNamespace(_C=SimpleNamespace(_cuda_getCurrentRawStream=of("torch")))
    cupy = SimpleNamespace(cuda=SimpleNamespace(get_current_stream=lambda n: SimpleNamespace(ptr=of("cupy")(n))))
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    monkeypatch.setattr(streams, "_of_warp", of("warp"))
    monkeypatch.setitem(streams.CURRENT, "warp", of("warp"))
    for name in found:
        monkeypatch.setitem(arrays.library_of, OWNERS[name], name)
    return found


@pytest.mark.parametrize(
    ("libraries", "expected"),
    [
        (["torch"], (11, ())),
        (["torch", "torch"], (11, ())),
        (["cupy"], (12, ())),
        (["warp"], (13, ())),
        ([], (13, ())),
        (["other"], (13, ())),
        (["torch", "other"], (11, ())),
        (["warp", "torch"], (11, (13,))),
        (["warp", "cupy"], (12, (13,))),
        (["cupy", "torch"], (11, (12,))),
    ],
)
def test_the_choice(current: dict[str, int], libraries: list[str], expected: tuple[int, tuple[int, ...]]) -> None:
    assert choose([view(library) for library in libraries], device(1)) == expected


def test_libraries_on_one_stream_need_no_order(current: dict[str, int]) -> None:
    current["warp"] = 11
    assert choose([view("warp"), view("torch")], device(1)) == (11, ())


def test_a_stream_that_the_protocol_names(current: dict[str, int]) -> None:
    assert choose([view("other", 5)], device(1)) == (13, (5,))
    assert choose([view("other", 13)], device(1)) == (13, ())
    assert choose([view("torch"), view("other", 5)], device(1)) == (11, (5,))


def test_pytorch_without_the_quick_way(current: dict[str, int], monkeypatch: pytest.MonkeyPatch) -> None:
    cuda = SimpleNamespace(current_stream=lambda ordinal: SimpleNamespace(cuda_stream=20 + ordinal))
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(_C=SimpleNamespace(), cuda=cuda))
    assert choose([view("torch")], device(1)) == (21, ())


@pytest.mark.parametrize(
    ("stream", "expected"),
    [
        (5, 5),
        (SimpleNamespace(cuda_stream=6), 6),
        (SimpleNamespace(cuda_stream=None), 0),
        (SimpleNamespace(ptr=7), 7),
        (SimpleNamespace(__cuda_stream__=lambda: (0, 8)), 8),
    ],
)
def test_streams_of_every_library(stream: Any, expected: int) -> None:
    assert handle_of(stream) == expected


@pytest.mark.parametrize("stream", [True, -1, 2**64, "cuda:0", SimpleNamespace(), 1.5])
def test_what_is_no_stream(stream: Any) -> None:
    with pytest.raises(KernelTypeError, match="stream must be a stream of Warp, PyTorch, CuPy or cuda-core"):
        handle_of(stream)


def test_order_by_an_event(fake: FakeLibrary) -> None:
    order(device(0), 3, 4)
    order(device(0), 4, 3)
    names = [call[0] for call in fake.calls]
    assert names.count("cuEventCreate") == 1
    assert [call for call in fake.calls if call[0] in ("cuEventRecord", "cuStreamWaitEvent")] == [
        ("cuEventRecord", 0x99, 3),
        ("cuStreamWaitEvent", 4, 0x99, 0),
        ("cuEventRecord", 0x99, 4),
        ("cuStreamWaitEvent", 3, 0x99, 0),
    ]


def test_what_is_captured_waits_for_nothing_that_is_not(fake: FakeLibrary) -> None:
    fake.capturing.add(3)
    order(device(0), 3, 4)
    order(device(0), 4, 3)
    assert not [call for call in fake.calls if "Event" in call[0]]
    fake.capturing.add(4)
    order(device(0), 3, 4)
    assert [call for call in fake.calls if call[0] == "cuEventRecord"]


def test_the_default_stream_while_another_is_captured(fake: FakeLibrary) -> None:
    """The driver refuses to say anything of it then, and an event on it would break the capture."""
    fake.fails["cuStreamIsCapturing"] = 906
    order(device(0), 0, 4)
    assert streams.is_capturing(device(0), 0)
    assert not [call for call in fake.calls if call[0] == "cuEventRecord"]
