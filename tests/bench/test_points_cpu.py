"""The benchmarks of point kernels and of compile times measure what they say."""

from __future__ import annotations

import pytest

from tilekit.bench import compile_time, points_cpu


def test_points(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("warp")
    assert points_cpu.main(["--size", "64", "--rounds", "2"]) == 0
    text = capsys.readouterr().out
    for name in points_cpu.CASES:
        assert [line.removeprefix(name).split()[0] for line in text.splitlines() if line.startswith(name)] == [
            "tilekit", "NumPy", "Warp",
        ]  # fmt: skip


def test_a_wrong_result_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    name, (kernel, _, fewer) = next(iter(points_cpu.CASES.items()))
    monkeypatch.setitem(points_cpu.CASES, name, (kernel, lambda u, o, c: None, fewer))
    with pytest.raises(AssertionError, match=f"{name}, tilekit"):
        points_cpu.measure(name, 8, 1, None)


def test_compile_times(capsys: pytest.CaptureFixture[str]) -> None:
    assert compile_time.main(["--divide", "50"]) == 0
    text = capsys.readouterr().out
    assert all(text.count(f"\n{name} ") == 2 for name in compile_time.SHAPES)
