"""Launches like an earlier one: quick, and never with anything that has changed meanwhile."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import numpy as np
import pytest

import tilekit as tk
from tilekit.frontend.kernel import Kernel
from tilekit.runtime import launch, warm
from tilekit.runtime.warm import Warm

FACTOR = 2.0


@tk.kernel
def scaled(a: tk.array1d[float], n: int, out: tk.array1d[float]):
    i = tk.tid()
    if i < n:
        out[i] = a[i] * FACTOR


@tk.kernel
def checked(a: tk.array1d[float], out: tk.array1d[float]):
    i = tk.tid()
    assert a[i] >= 0.0, "negative"
    out[i] = a[i]


@tk.kernel
def generic(a: tk.array(dtype=Any, ndim=1), x: Any, out: tk.array(dtype=tk.float64)):  # type: ignore[valid-type]
    i = tk.tid()
    out[i] = tk.float64(a[i]) + tk.float64(x)


class Other(np.ndarray[Any, Any]):
    """An array of another type, with a hash, as PyTorch's have one."""

    __hash__ = object.__hash__  # type: ignore[assignment]


def floats(size: int = 8) -> np.ndarray[Any, Any]:
    return np.arange(size, dtype=np.float32)


@pytest.fixture(autouse=True)
def _nothing_kept() -> None:
    for kernel in (scaled, checked, generic):
        kernel.cache.clear()


def warmed(kernel: Kernel, *arguments: Any, times: int = 4, **options: Any) -> None:
    """Launch until it is a warm launch."""
    for _ in range(times):
        tk.launch(kernel, dim=8, inputs=arguments, **options)
    assert any(type(found) is Warm for found in kernel.cache.known.values())


@pytest.fixture
def long_way(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The kernels that were launched the long way."""
    names: list[str] = []
    real = launch._run_anew
    monkeypatch.setattr(launch, "_run_anew", lambda kernel, *given: (names.append(kernel.key), real(kernel, *given))[1])
    return names


def test_the_third_launch_is_warm(long_way: list[str]) -> None:
    a, out = floats(), np.zeros(8, np.float32)
    tk.launch(scaled, dim=1, inputs=[a, 0], outputs=[out])
    long_way.clear()
    for n in range(9):
        tk.launch(scaled, dim=8, inputs=[a, n], outputs=[out])
        assert out.tolist() == [2.0 * x if x < n else 0.0 for x in range(8)]
    assert len(long_way) == 2


def test_other_arrays_and_numbers(long_way: list[str]) -> None:
    warmed(scaled, floats(), 8, floats())
    long_way.clear()
    for n in (8, np.int64(8)):
        a, out = floats() + 1, np.zeros(8, np.float32)
        tk.launch(scaled, dim=8, inputs=[a, n, out])
        assert np.array_equal(out, 2 * a)
    assert len(long_way) == 1  # a NumPy number has a type of its own


def test_arguments_of_many_types_in_turn(long_way: list[str]) -> None:
    """More than a kernel's attempts are for."""
    numbers = [True, 3, 2.5, np.float32(1.5), np.int16(4), np.float64(0.5)]
    outputs = [np.zeros(8), np.zeros(8).view(Other)]
    for step in range(4):
        if step == 3:
            long_way.clear()
        for x in numbers:
            for out in outputs:
                tk.launch(generic, dim=8, inputs=[floats(), x], outputs=[out])
                assert out.tolist() == [i + float(x) for i in range(8)]
    assert not long_way and len(generic.cache.attempts) == warm.FEW


def test_inputs_that_become_outputs() -> None:
    """What must not be an output may well be an input."""
    same, out = np.broadcast_to(floats(1), 8), np.zeros(8, np.float32)
    warmed(scaled, same, 8, out)
    with pytest.raises(ValueError, match="'a' of kernel 'scaled': is an output but read-only"):
        tk.launch(scaled, dim=8, inputs=[], outputs=[same, 8, out])
    with pytest.raises(TypeError, match="takes 3 arguments"):
        tk.launch(scaled, dim=8, inputs=[same, 8, out], outputs=[out])


def test_other_layouts() -> None:
    warmed(scaled, floats(), 8, floats())
    base = floats(40)
    for a in (base[::2][:8], base[::-1][:8], base[3:11], base[:1].repeat(8), np.broadcast_to(base[5:6], 8)):
        out = np.zeros(16, np.float32)
        tk.launch(scaled, dim=8, inputs=[a, 8, out[::2]])
        assert np.array_equal(out[::2], 2 * a) and not out[1::2].any()


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ([floats().astype(float), 8, floats()], TypeError, "'a' of kernel 'scaled': expects"),
        ([floats(), 2**31, floats()], TypeError, "'n' of kernel 'scaled': 2147483648 does not fit int32"),
        ([floats(), 1.5, floats()], TypeError, "'n' of kernel 'scaled'"),
        ([floats(), 8, np.broadcast_to(floats(1), 8)], ValueError, "'out' of kernel 'scaled': is written"),
        ([floats(), 8], TypeError, "takes 3 arguments"),
        ([None, 8, floats()], TypeError, "a is None"),
        ([floats().reshape(2, 4), 8, floats()], TypeError, "2 dimensions"),
        ((x for x in [floats(), 8, floats()]), TypeError, "inputs .* must be a list or tuple"),
        (None, TypeError, "inputs .* must be a list or tuple"),
    ],
)
def test_what_is_wrong_is_told_after_warm_launches(given: Any, error: type[Exception], message: str) -> None:
    warmed(scaled, floats(), 8, floats())
    with pytest.raises(error, match=message):
        tk.launch(scaled, dim=8, inputs=given)


@pytest.mark.parametrize("kind", [dict.fromkeys, set, frozenset])
def test_arguments_without_an_order(kind: Any) -> None:
    a, out = floats().view(Other), floats().view(Other)
    warmed(scaled, a, 8, out)
    with pytest.raises(TypeError, match="inputs of kernel 'scaled' must be a list or tuple"):
        tk.launch(scaled, dim=8, inputs=kind([a, 8, out]))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"dim": 8.0}, "dim must be an int"),
        ({"dim": (8.0,)}, "dim must be an int"),
        ({"dim": np.array([8])}, "dim must be an int"),
        ({"dim": {8}}, "dim must be an int"),
        ({"dim": iter([8])}, "dim must be an int"),
        ({"dim": -1}, "must not be negative"),
        ({"dim": 8, "block_dim": 256.0}, "block_dim must be an int"),
        ({"dim": 8, "block_dim": True}, "block_dim must be an int, got True"),
        ({"dim": 8, "block_dim": 2000}, "at most 1024"),
        ({"dim": 8, "device": "gpu"}, "device must be"),
        ({"dim": 8, "device": True}, "device must be"),
        ({"dim": 8, "device": "cuda:0"}, "the launch is on 'cuda:0'"),
    ],
)
def test_wrong_options_are_told_after_warm_launches(options: Any, message: str) -> None:
    for _ in range(4):
        tk.launch(scaled, dim=8, inputs=[floats(), 8, floats()], block_dim=256)
        tk.launch(scaled, dim=(8,), inputs=[floats(), 8, floats()])
    with pytest.raises((TypeError, ValueError), match=message):
        tk.launch(scaled, inputs=[floats(), 8, floats()], **options)


def test_a_captured_value_that_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    a, out = floats(), floats()
    command = tk.launch(scaled, dim=8, inputs=[a, 8, out], record_cmd=True)
    assert command is not None
    for factor in (2.0, 5.0, 2.0):
        monkeypatch.setitem(globals(), "FACTOR", factor)
        for launched in (lambda: tk.launch(scaled, dim=8, inputs=[a, 8, out]), command.launch):
            for _ in range(4):
                out[:] = 0
                launched()
                assert np.array_equal(out, factor * a)


def test_options_that_change(long_way: list[str]) -> None:
    a, out = floats(), floats()
    warmed(scaled, a, 8, out)
    with tk.config.scoped(index_checks=True), pytest.raises(IndexError):
        tk.launch(scaled, dim=9, inputs=[a, 9, out])
    long_way.clear()
    with tk.config.scoped(device="interpret"):
        for _ in range(4):
            tk.launch(scaled, dim=8, inputs=[a, 8, out])
    assert len(long_way) == 4  # the interpreter has no quick way
    tk.launch(scaled, dim=8, inputs=[a, 8, out])
    assert len(long_way) == 4


def test_devices_of_every_spelling(long_way: list[str]) -> None:
    """Warp's have no hash, and are equal to names."""

    class Device:
        alias = "cpu"
        __hash__ = None  # type: ignore[assignment]

        def __str__(self) -> str:
            return self.alias

    a, out = floats(), floats()
    for device in ("cpu", Device(), None):
        for _ in range(4):
            tk.launch(scaled, dim=8, inputs=[a, 8, out], device=device)
        long_way.clear()
        tk.launch(scaled, dim=8, inputs=[a, 8, out], device=device)
        assert not long_way
    Device.alias = "cuda:0"
    with pytest.raises(ValueError, match="the launch is on 'cuda:0', but"):
        tk.launch(scaled, dim=8, inputs=[a, 8, out], device=Device())


def test_launches_without_a_quick_way_are_looked_into_once(monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[int] = []
    real = warm._places
    monkeypatch.setattr(warm, "_places", lambda *given: (looks.append(1), real(*given))[1])
    a, out = floats(), floats()
    for _ in range(5):
        tk.launch(scaled, dim=8, inputs=[a, 8, out], device="interpret")
    assert len(looks) == 1 and out.tolist() == (2 * a).tolist()


def test_forms_that_are_cleared(long_way: list[str]) -> None:
    warmed(scaled, floats(), 8, floats())
    scaled.cache.clear()
    long_way.clear()
    tk.launch(scaled, dim=8, inputs=[floats(), 8, floats()])
    assert long_way == ["scaled"]


def test_what_helpers_of_arguments_read() -> None:
    """What guards a form is asked at warm launches too."""

    class Settings:
        scale = 3.0

        def of(self) -> float:
            return self.scale

    settings = Settings()

    @tk.kernel
    def guarded(out: tk.array1d[float]):
        out[tk.tid()] = tk.static(settings.of())

    out = np.zeros(8, np.float32)
    for scale in (3.0, 4.0, 3.0):
        settings.scale = scale
        for _ in range(4):
            tk.launch(guarded, dim=8, outputs=[out])
            assert (out == scale).all()


def test_generic_parameters_and_arrays_left_out() -> None:
    for dtype in (np.float32, np.int32, np.float64):
        for x in (1, 2.5, True):
            for _ in range(4):
                out = np.zeros(8)
                tk.launch(generic, dim=8, inputs=[np.arange(8, dtype=dtype), x], outputs=[out])
                assert out.tolist() == [i + float(x) for i in range(8)]


def test_a_failed_check_is_told_and_forgotten() -> None:
    good = floats()
    warmed(checked, good, floats())
    with pytest.raises(AssertionError, match="negative"):
        tk.launch(checked, dim=8, inputs=[good - 1, floats()])
    tk.launch(checked, dim=8, inputs=[good, floats()])


def test_arrays_are_not_kept() -> None:
    a, out = floats(), floats()
    warmed(scaled, a, 8, out)
    there = [weakref.ref(a), weakref.ref(out)]
    del a, out
    gc.collect()
    assert [found() for found in there] == [None, None]


def test_launches_that_differ_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch, "SOMETIMES", 1)
    monkeypatch.setattr(warm, "MOST", 20)
    a, out = floats(), floats()
    most = 0
    for _ in range(4):
        for dim in range(15):
            tk.launch(scaled, dim=dim, inputs=[a, 8, out])
            most = max(most, len(scaled.cache.known))
    assert 10 < most <= 20
    for dim in range(100):
        tk.launch(scaled, dim=dim, inputs=[a, 8, out])
    assert len(scaled.cache.known) <= 20 and len(scaled.cache.seen) <= 20
    monkeypatch.setattr(warm, "_attempts", {})
    for count in range(1, 50):
        assert warm.attempt_for([a] * count, []) is not None and len(warm._attempts) <= 20


def test_launches_that_always_differ_are_soon_left_alone(monkeypatch: pytest.MonkeyPatch, long_way: list[str]) -> None:
    looked: list[Any] = []
    real = launch.launch_again
    monkeypatch.setattr(launch, "launch_again", lambda *given: (looked.append(given), real(*given))[1])
    a, out = floats(), floats()
    for dim in range(launch.PATIENCE + 800):
        tk.launch(scaled, dim=dim, inputs=[a, 8, out])
    assert len(looked) == launch.PATIENCE + 100 and len(long_way) == launch.PATIENCE + 800
    for _ in range(40):
        tk.launch(scaled, dim=8, inputs=[a, 8, out])
    looked.clear()
    long_way.clear()
    for _ in range(10):
        tk.launch(scaled, dim=8, inputs=[a, 8, out])
    assert len(looked) == 10 and not long_way


def test_a_recorded_launch_sees_what_became_of_its_arrays(long_way: list[str]) -> None:
    a, out = floats(), np.zeros((2, 4), np.float32)[0]
    command = tk.launch(scaled, dim=4, inputs=[a, 8], outputs=[out], record_cmd=True)
    assert command is not None
    for _ in range(4):
        command.launch()
    long_way.clear()
    command.launch()
    assert not long_way and out.tolist() == [0, 2, 4, 6]
    a.resize(16, refcheck=False)  # other memory
    a[:4] = [5, 6, 7, 8]
    command.launch()
    assert out.tolist() == [10, 12, 14, 16]
    a.shape = (4, 4)
    with pytest.raises(TypeError, match="2 dimensions"):
        command.launch()
    command.set_param_by_name("a", floats() + 1)
    command.launch()
    assert out.tolist() == [2, 4, 6, 8]
    command.set_dim(1)
    out[:] = 0
    command.launch()
    assert out.tolist() == [2, 0, 0, 0]


def test_a_recorded_launch_with_arguments_of_other_types(long_way: list[str]) -> None:
    command = tk.launch(scaled, dim=(8,), inputs=[floats(), 8], outputs=[floats()], record_cmd=True)
    assert command is not None
    for n in (8, np.int64(4), 8):
        out = np.zeros(8, np.float32).view(Other) if n == 4 else np.zeros(8, np.float32)
        command.set_params([floats(), n, out])
        for _ in range(4):
            out[:] = 0
            long_way.clear()
            command.launch()
            assert out.tolist() == [2.0 * x if x < n else 0.0 for x in range(8)]
        assert not long_way
    command.set_param_at_index(1, 1.5)
    with pytest.raises(TypeError, match="'n' of kernel 'scaled'"):
        command.launch()


def test_the_device_of_a_recorded_launch_is_checked_when_it_is_recorded() -> None:
    for device, message in (("gpu", "device must be"), (True, "device must be")):
        with pytest.raises((TypeError, ValueError), match=message):
            tk.launch(scaled, dim=8, inputs=[floats(), 8], outputs=[floats()], device=device, record_cmd=True)


def test_a_recorded_launch_sees_module_options(long_way: list[str]) -> None:
    try:
        command = tk.launch(scaled, dim=8, inputs=[floats(), 8], outputs=[floats()], record_cmd=True)
        assert command is not None
        for _ in range(4):
            command.launch()
        long_way.clear()
        command.launch()
        assert not long_way
        scaled.set_defaults({"fast_math": True})
        command.launch()
        assert long_way == ["scaled"]
    finally:
        scaled.set_defaults({})


def test_numpy_integers_as_dim(long_way: list[str]) -> None:
    a, out = floats(), np.zeros(8, np.float32)
    warmed(scaled, a, 8, out)
    long_way.clear()
    tk.launch(scaled, dim=np.int64(8), inputs=[a, 8, out])
    assert not long_way and out.tolist() == (2 * a).tolist()
