"""Launches under a tape keep tiles for their gradient: same bits, kept apart, used again, and let go of."""

from __future__ import annotations

import gc
from typing import Any
from weakref import ref

import numpy as np
import pytest

import tilekit as tk
from tests.runtime.tapes import of_torch
from tilekit.errors import KernelValueError
from tilekit.runtime import saving
from tilekit.runtime.gradients import watch

M, N, K = 16, 24, 12


@tk.kernel
def layer(x: tk.array2d[float], w: tk.array2d[float], y: tk.array2d[float], n: int):
    i, j = tk.tid()
    acc = tk.tile_zeros(shape=(8, 8), dtype=float)
    for k in range(n):
        acc += tk.tile_load(x, (8, 4), (8 * i, 4 * k)) @ tk.tile_load(w, (4, 8), (4 * k, 8 * j))
    tk.tile_store(y, tk.tile_map(tk.tanh, acc), offset=(8 * i, 8 * j))


@tk.kernel
def square_of_sum(x: tk.array2d[float], y: tk.array1d[float], n: int):
    total = tk.tile_zeros(shape=4, dtype=float)
    for k in range(n):
        total += tk.tile_load(x[k], shape=4)
    tk.tile_store(y, total * total)


def arrays(seed: int = 0) -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(seed)
    return tuple(rng.standard_normal(shape).astype(np.float32) for shape in ((M, K), (K, N), (M, N)))  # type: ignore[return-value]


def go(x: Any, w: Any, y: Any, record_cmd: bool = False, **options: Any) -> None:
    command = tk.launch_tiled(layer, (2, 3), [x, w], [y, 3], record_cmd=record_cmd, block_dim=32, **options)
    if command is not None:
        command.launch()


def kept(tape: tk.Tape) -> list[Any]:
    return [record.saved for record in tape.launches]  # type: ignore[union-attr]


@pytest.mark.parametrize("way", ["cold", "warm", "recorded"])
def test_the_same_bits_as_without(way: str) -> None:
    x, w, seed = arrays()
    found = {}
    for save in ("auto", "none"):
        y = np.zeros((M, N), np.float32)
        if way == "warm":
            for _ in range(3):
                go(x, w, y)
            y[:] = 0.0
        with tk.Tape(save=save) as tape:
            go(x, w, y, record_cmd=way == "recorded")
        assert [saved is not None for saved in kept(tape)] == [save == "auto"]
        for _ in range(2):
            tape.backward(grads=[(y, seed)])
        found[save] = y, tape.gradients[x], tape.gradients[w]
    inner = 2.0 * seed * (1.0 - np.tanh(x @ w) ** 2)
    for one, other, right in zip(*found.values(), (np.tanh(x @ w), inner @ w.T, x.T @ inner), strict=True):
        np.testing.assert_array_equal(one, other)
        np.testing.assert_allclose(one, right, rtol=1e-4, atol=1e-5)


def test_launches_of_one_kernel_keep_apart_and_let_go() -> None:
    """The kernel runs twice on its own result; what both have kept goes when the tape is reset, not with backward."""
    x, w, seed = arrays()
    w = np.ascontiguousarray(w[:, :K])
    first, second = np.zeros((M, K), np.float32), np.zeros((M, K), np.float32)
    with tk.Tape() as tape:
        for given, out in ((x, first), (first, second)):
            tk.launch_tiled(layer, (2, 2), [given, w], [out, 3], block_dim=32)
    seed = np.ascontiguousarray(seed[:, :K])
    tape.backward(grads=[(second, seed)])
    inner = seed * (1.0 - np.tanh(np.tanh(x @ w) @ w) ** 2) @ w.T
    np.testing.assert_allclose(tape.gradients[x], inner * (1.0 - np.tanh(x @ w) ** 2) @ w.T, rtol=1e-4, atol=1e-5)
    owners = [ref(next(iter(saved.views.values())).owner) for saved in kept(tape)]
    assert len({owner() for owner in owners}) == 2 and None not in {owner() for owner in owners}
    tape.reset()
    gc.collect()
    assert [owner() for owner in owners] == [None, None]


def test_what_is_not_read_again_may_be_written() -> None:
    """The gradient of a kept sum's square needs no more than the sum."""
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    for save in ("auto", "none"):
        given, y = x.copy(), np.zeros(4, np.float32)
        with tk.Tape(save=save) as tape:
            tk.launch_tiled(square_of_sum, 1, [given], [y, 3], block_dim=32)
        given[:] = 0.0
        if save == "none":
            with pytest.raises(KernelValueError, match="reads its argument 'x' again, but its contents have changed"):
                tape.backward(grads=[(y, np.ones(4, np.float32))])
        else:
            tape.backward(grads=[(y, np.ones(4, np.float32))])
            np.testing.assert_array_equal(tape.gradients[given], np.tile(2.0 * x.sum(0), (3, 1)))


def test_launches_that_keep_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """What would take more memory than the limit; the interpreter; launches that no tape is to know of, or none is
    there for."""
    x, w, seed = arrays()
    y = np.zeros((M, N), np.float32)
    monkeypatch.setattr(saving, "MOST_BYTES", M * N * 4 - 1)
    with tk.Tape() as tape:
        go(x, w, y)
        go(x, w, y, device="interpret")
        go(x, w, y, record_tape=False)
    assert kept(tape) == [None, None]
    monkeypatch.setattr(saving, "MOST_BYTES", M * N * 4)
    with tk.Tape() as tape:
        go(x, w, y)
        assert watch.saves
    assert not watch.saves and kept(tape) != [None]
    tape.backward(grads=[(y, seed)])
    go(x, w, y)


def test_tensors_without_gradients_keep_nothing() -> None:
    """Those that an earlier launch has written may have some."""
    for wanted in (False, True):
        x, w = (of_torch(array, requires_grad=wanted) for array in arrays()[:2])
        y, z = (of_torch(np.zeros((M, N)), requires_grad=False) for _ in range(2))
        with tk.Tape() as tape:
            go(x, w, y)
            if wanted:
                tk.launch_tiled(layer, (2, 3), [y, w.detach()], [z, 3], block_dim=32)
        assert [saved is not None for saved in kept(tape)] == [wanted, *[True] * wanted]


def test_save_is_one_of_two_words() -> None:
    with pytest.raises(KernelValueError) as caught:
        tk.Tape(save="all")
    assert caught.value.message == "save must be 'auto' or 'none', got 'all'"
