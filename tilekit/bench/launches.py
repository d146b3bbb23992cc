"""Entries of tilekit's launches and PyTorch's, forward and backward, on arrays that are taken in turn."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import tilekit as tk
from tilekit.bench.rounds import Entry
from tilekit.runtime.adjoint import prepare_adjoint

Run = Callable[[], object]
Sets = Sequence[tuple[Sequence[Any], Any]]
"""The arguments of each launch but the last, and that, where its result goes."""


class Turns:
    """Launches on several sets of arrays, one after the other."""

    def __init__(self, runs: Sequence[Run]) -> None:
        self._runs, self._next = list(runs), 0

    def __call__(self) -> object:
        run = self._runs[self._next]
        self._next = (self._next + 1) % len(self._runs)
        return run()


def started(by: str, how: str, runs: Sequence[Run], result: Any = None) -> Entry:
    """An entry whose first launch has run, and has written ``result``; without that, it has returned what it found."""
    turns = Turns(runs)
    returned = turns()
    return Entry(by, how, turns, returned if result is None else result)


def spoil(arrays: Sequence[Any]) -> None:
    """Fill tensors with NaNs, so that what a launch leaves out is seen."""
    for each in arrays:
        each.fill_(float("nan"))


def commands(kernel: Any, grid: Any, sets: Sets, threads: int, device: str) -> list[Any]:
    """A recorded launch for each set."""
    how: dict[str, Any] = {"device": device, "block_dim": threads, "record_cmd": True}
    return [tk.launch_tiled(kernel, grid, inputs, [out], **how) for inputs, out in sets]


def forward(by: str, how: str, kernel: Any, grid: Any, sets: Sets, threads: int, device: str) -> Entry:
    """Launches of a kernel, on the results of which NaNs were."""
    outs = [out for _, out in sets]
    spoil(outs)
    return started(by, how, [each.launch for each in commands(kernel, grid, sets, threads, device)], outs[:1])


def backward(
    by: str,
    how: str,
    kernel: Any,
    grid: Any,
    sets: Sets,
    found: Sequence[Mapping[str, Any]],
    seed: Any,
    threads: int,
    device: str,
) -> Entry:
    """Launches of a kernel's adjoint; its results are those of the first set.

    Args:
        by, how: Of the entry.
        kernel: The kernel, which is launched once for each set.
        grid: Its grid.
        sets: Its arguments.
        found: For each set zeros to which gradients are added, by parameter.
        seed: The gradient that comes in. A launch clears a copy of it; a round gets it again.
        threads: Of a block.
        device: Where it runs.
    """
    for command in commands(kernel, grid, sets, threads, device):
        command.launch()
    taken, runs, last = [seed.clone() for _ in sets], [], list(kernel.parameters)[-1]
    for (inputs, out), gradients, given in zip(sets, found, taken, strict=True):
        gradients = {**gradients, last: given}
        runs.append(partial(prepare_adjoint(kernel, grid, [*inputs, out], gradients, device, threads, True).run, None))
    entry = started(by, how, runs, list(found[0].values()))
    entry.most = len(runs)

    def renew() -> None:
        for each in taken:
            each.copy_(seed)

    entry.renew = renew
    return entry


def of_torch(by: str, compute: Callable[..., Any], sets: Sequence[Sequence[Any]]) -> Entry:
    """What PyTorch computes of tensors."""

    def listed(inputs: Sequence[Any]) -> list[Any]:
        return [compute(*inputs)]

    return started(by, "", [partial(listed, inputs) for inputs in sets])


def backward_of_torch(
    torch: Any, by: str, compute: Callable[..., Any], sets: Sequence[Sequence[Any]], seed: Any
) -> Entry:
    """PyTorch's gradients of what it computes, of all tensors of each set; the forward pass is not measured."""
    runs = []
    for inputs in sets:
        leaves = [each.detach().requires_grad_() for each in inputs]
        runs.append(partial(torch.autograd.grad, compute(*leaves), leaves, seed, retain_graph=True))
    return started(by, "", runs)
