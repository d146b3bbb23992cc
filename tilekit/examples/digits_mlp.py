"""Trains a two-layer network on handwritten digits; layers, loss, gradients and Adam's updates are tilekit kernels.

Run it with ``python -m tilekit.examples.digits_mlp``, with ``--dtype bfloat16`` in mixed precision: weights, pixels and
hidden values are then bfloat16, products are summed in float32, and Adam keeps the weights in float32 besides. The data
are the 1,797 digits that scikit-learn ships. Where PyTorch is installed, it trains the same network from the same
weights, and the losses of both are drawn.
"""

from __future__ import annotations

import argparse
import importlib.util
import math
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import tilekit as tk
from tilekit.cli.installed import install_command
from tilekit.examples.digits import PIXELS, Digits, draw_misread, load_digits

HIDDEN = 64
CLASSES = 10
TILE = 32
ROWS = 16
WIDTH = 16
"""Columns of a tile of scores; those past the classes count for nothing."""
VECTOR = 256
BATCH = 96
EPOCHS = 30
RATE = 4e-3
DECAYS = (0.9, 0.999)
EPSILON = 1e-6
DTYPES = {"float32": tk.float32, "bfloat16": tk.bfloat16}

Array = np.ndarray[Any, Any]


@tk.func
def relu(value: float):
    if value > 0.0:
        return value
    return 0.0 * value


@tk.kernel
def hidden_layer(x: tk.array2d[Any], w: tk.array2d[Any], b: tk.array1d[float], out: tk.array2d[Any]):
    """``out = relu(x @ w + b)``, one tile of ``out`` a block."""
    i, j = tk.tid()
    total = tk.tile_zeros(shape=(TILE, TILE), dtype=float)
    for k in range((x.shape[1] + TILE - 1) // TILE):
        x_tile = tk.tile_load(x, shape=(TILE, TILE), offset=(i * TILE, k * TILE))
        tk.tile_matmul(x_tile, tk.tile_load(w, shape=(TILE, TILE), offset=(k * TILE, j * TILE)), total)
    bias = tk.tile_load(b, shape=TILE, offset=j * TILE)
    values = tk.tile_map(relu, total + tk.tile_broadcast(bias, shape=(TILE, TILE)))
    tk.tile_store(out, tk.tile_astype(values, out.dtype), offset=(i * TILE, j * TILE))


@tk.func
def scores(h: tk.array2d[Any], w: tk.array2d[Any], b: tk.array1d[float], row: int):
    """``h @ w + b`` for some rows; columns past the classes are far below all others."""
    total = tk.tile_zeros(shape=(ROWS, WIDTH), dtype=float)
    for k in range((h.shape[1] + TILE - 1) // TILE):
        h_tile = tk.tile_load(h, shape=(ROWS, TILE), offset=(row, k * TILE))
        tk.tile_matmul(h_tile, tk.tile_load(w, shape=(TILE, WIDTH), offset=(k * TILE, 0)), total)
    total += tk.tile_broadcast(tk.tile_load(b, shape=WIDTH), shape=(ROWS, WIDTH))
    total[:, CLASSES:WIDTH] = -1.0e9
    return total


@tk.kernel
def cross_entropy(
    h: tk.array2d[Any], w: tk.array2d[Any], b: tk.array1d[float], wanted: tk.array2d[float], loss: tk.array1d[float]
):
    """The second layer, softmax and cross-entropy: ``loss[row] = log(sum(exp(scores))) - scores[label]``."""
    row = tk.tid() * ROWS
    total = scores(h, w, b, row)
    most = tk.stop_gradient(tk.tile_max(total, axis=1))  # any number gives the same loss
    sums = tk.tile_sum(tk.exp(total - most[:, None]), axis=1)
    labels = tk.tile_load(wanted, shape=(ROWS, WIDTH), offset=(row, 0))
    tk.tile_store(loss, most + tk.log(sums) - tk.tile_sum(labels * total, axis=1), offset=row)


@tk.kernel
def classify(h: tk.array2d[Any], w: tk.array2d[Any], b: tk.array1d[float], out: tk.array2d[float]):
    row = tk.tid() * ROWS
    tk.tile_store(out, scores(h, w, b, row), offset=(row, 0))


@tk.kernel
def adam(
    gradient: tk.array1d[Any],
    rate: float,
    rest: tk.array1d[float],
    weight: tk.array1d[float],
    mean: tk.array1d[float],
    square: tk.array1d[float],
    used: tk.array1d[Any],
):
    """One step; ``rest`` are what the decays have left of the zeros that mean and square began with."""
    at = tk.tid() * VECTOR
    g = tk.tile_astype(tk.tile_load(gradient, shape=VECTOR, offset=at), tk.float32)
    m = DECAYS[0] * tk.tile_load(mean, shape=VECTOR, offset=at) + (1.0 - DECAYS[0]) * g
    v = DECAYS[1] * tk.tile_load(square, shape=VECTOR, offset=at) + (1.0 - DECAYS[1]) * (g * g)
    step = (m / rest[0]) / (tk.sqrt(v / rest[1]) + EPSILON)
    w = tk.tile_load(weight, shape=VECTOR, offset=at) - rate * step
    tk.tile_store(weight, w, offset=at)
    tk.tile_store(mean, m, offset=at)
    tk.tile_store(square, v, offset=at)
    tk.tile_store(used, tk.tile_astype(w, used.dtype), offset=at)
    tk.tile_store(gradient, tk.tile_zeros(shape=VECTOR, dtype=gradient.dtype), offset=at)


def blocks(extent: int, tile: int) -> int:
    return -(-extent // tile)


def initial_weights(seed: int = 1) -> list[Array]:
    """Weights and biases of both layers."""
    rng = np.random.default_rng(seed)
    shapes = (PIXELS, HIDDEN), (HIDDEN,), (HIDDEN, CLASSES), (CLASSES,)
    scales = (math.sqrt(2 / PIXELS), 0.0, math.sqrt(1 / HIDDEN), 0.0)
    return [
        (scale * rng.standard_normal(shape)).astype(np.float32) for shape, scale in zip(shapes, scales, strict=True)
    ]


def prepared(pixels: Array) -> Array:
    return (pixels / 8 - 0.6).astype(np.float32)


def batches(count: int) -> Iterator[Array]:
    """The rows of each step, in an order that does not depend on who trains."""
    rng = np.random.default_rng(2)
    for _ in range(EPOCHS):
        order = rng.permutation(count)
        yield from (order[start : start + BATCH] for start in range(0, count, BATCH))


@dataclass
class Parameter:
    """A weight with what Adam keeps of it."""

    weight: Any
    used: Any
    """What the layers read, with its gradient: the weight, or a copy in fewer bits."""
    mean: Any
    square: Any

    @classmethod
    def of(cls, value: Array, dtype: Any, device: str) -> Parameter:
        used = tk.array(value, dtype=dtype, device=device, requires_grad=True)
        zeros = (tk.zeros(value.shape, dtype=float, device=device) for _ in range(2))
        return cls(tk.array(value, device=device), used, *zeros)

    def flat(self) -> list[Any]:
        """The gradient and all of them as vectors of the same memory."""
        return [array.flatten() for array in (self.used.grad, self.weight, self.mean, self.square, self.used)]


@dataclass
class Network:
    """Two layers on a device."""

    dtype: Any
    device: str
    parameters: list[Parameter]
    steps: int = 0

    @classmethod
    def of(cls, dtype: Any, device: str) -> Network:
        # Biases are added to sums in float32, and stay so.
        dtypes = (dtype, tk.float32, dtype, tk.float32)
        pairs = zip(initial_weights(), dtypes, strict=True)
        return cls(dtype, device, [Parameter.of(value, each, device) for value, each in pairs])

    def run(self, kernel: Any, dim: Any, inputs: list[Any], output: Any) -> None:
        tk.launch_tiled(kernel, dim=dim, inputs=inputs, outputs=[output], block_dim=64, device=self.device)

    def hidden(self, x: Any) -> Any:
        w, b = self.parameters[:2]
        out = tk.zeros((len(x), HIDDEN), dtype=self.dtype, device=self.device, requires_grad=True)
        self.run(hidden_layer, (blocks(len(x), TILE), HIDDEN // TILE), [x, w.used, b.used], out)
        return out

    def train(self, x: Any, wanted: Any) -> float:
        """One step on a batch; returns the mean loss before it."""
        w, b = self.parameters[2:]
        loss = tk.zeros(len(x), dtype=float, device=self.device, requires_grad=True)
        with tk.Tape() as tape:
            h = self.hidden(x)
            self.run(cross_entropy, blocks(len(x), ROWS), [h, w.used, b.used, wanted], loss)
        tape.backward(grads={loss: tk.full(len(x), 1.0 / len(x), dtype=float, device=self.device)})
        self.update()
        return float(loss.numpy().mean())

    def update(self) -> None:
        self.steps += 1
        rest = tk.array([1.0 - decay**self.steps for decay in DECAYS], dtype=float, device=self.device)
        for parameter in self.parameters:
            gradient, *others = parameter.flat()
            inputs = [gradient, RATE, rest, *others]
            tk.launch_tiled(adam, dim=blocks(len(gradient), VECTOR), inputs=inputs, device=self.device)

    def classes(self, x: Any) -> Array:
        """What each row is read as."""
        w, b = self.parameters[2:]
        out = tk.zeros((len(x), CLASSES), dtype=float, device=self.device)
        self.run(classify, blocks(len(x), ROWS), [self.hidden(x), w.used, b.used], out)
        return np.asarray(out.numpy().argmax(axis=1))


def train(
    digits: Digits, dtype: Any, device: str, told: Callable[[int, int, float], None]
) -> tuple[list[float], Array]:
    """Train; returns the loss of each step and what each test digit is read as. ``told`` hears the mean of an epoch."""
    network = Network.of(dtype, device)
    pixels, wanted = prepared(digits.train_pixels), np.eye(CLASSES, dtype=np.float32)[digits.train_labels]
    steps, losses = list(batches(len(pixels))), []
    for rows in steps:
        x, labels = tk.array(pixels[rows], dtype=dtype, device=device), tk.array(wanted[rows], device=device)
        losses.append(network.train(x, labels))
        told(len(losses), len(steps), float(np.mean(losses[-(len(steps) // EPOCHS) :])))
    return losses, network.classes(tk.array(prepared(digits.test_pixels), dtype=dtype, device=device))


def train_with_torch(digits: Digits, dtype: Any) -> list[float]:
    """The loss of each step of the same network in PyTorch, on the CPU; what tilekit rounds is rounded."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # its products are too small for several
    narrow = getattr(torch, dtype.name)
    weights = [torch.tensor(value, requires_grad=True) for value in initial_weights()]
    adam = torch.optim.Adam(weights, lr=RATE, betas=DECAYS, eps=EPSILON)
    pixels, labels = torch.tensor(prepared(digits.train_pixels)).to(narrow).float(), torch.tensor(digits.train_labels)
    losses = []
    for rows in batches(len(pixels)):
        w, b, v, c = weights
        h = torch.relu(pixels[rows] @ w.to(narrow).float() + b).to(narrow).float()
        loss = torch.nn.functional.cross_entropy(h @ v.to(narrow).float() + c, labels[rows])
        adam.zero_grad()
        loss.backward()
        adam.step()
        losses.append(float(loss.detach()))
    torch.set_num_threads(threads)
    return losses


class Bar:
    """A line that grows while the network is trained; where nobody watches, a few lines."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.watched = sys.stderr.isatty()

    def __call__(self, step: int, steps: int, loss: float) -> None:
        if not self.watched and step % (steps // 5):
            return
        filled = 30 * step // steps
        line = f"{self.name:<9} [{'#' * filled}{'.' * (30 - filled)}] step {step}/{steps}, loss {loss:.4f}"
        start, end = ("\r", "" if step < steps else "\n") if self.watched else ("", "\n")
        print(f"{start}{line}", end=end, file=sys.stderr, flush=True)


def draw_losses(curves: dict[str, list[float]], path: Path) -> None:
    """Save a picture of the loss of each step."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4), layout="constrained")
    axis = figure.subplots()
    for number, (name, losses) in enumerate(curves.items()):
        axis.semilogy(losses, label=name, linewidth=3 - 2 * number / max(len(curves) - 1, 1))
    axis.set_xlabel("step")
    axis.set_ylabel("cross-entropy of the batch")
    axis.legend()
    figure.savefig(path, dpi=120)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tilekit.examples.digits_mlp", description=__doc__)
    parser.add_argument("--device", default="cpu", help="where the kernels run (default: cpu)")
    parser.add_argument("--dtype", choices=list(DTYPES), default="float32", help="of weights and hidden values")
    parser.add_argument(
        "--misread", type=Path, default=Path("digits_mlp_misread.png"), help="picture of misread digits"
    )
    parser.add_argument("--losses", type=Path, default=Path("digits_mlp_losses.png"), help="picture of the loss")
    options = parser.parse_args(arguments)
    if importlib.util.find_spec("matplotlib") is None:
        raise SystemExit(f"the pictures need matplotlib: {install_command('examples')}")
    digits = load_digits()
    dtype: Any = DTYPES[options.dtype]
    losses, predicted = train(digits, dtype, options.device, Bar(dtype.name))
    accuracy = float(np.mean(predicted == digits.test_labels))
    curves = {f"tilekit, {options.device}": losses}
    print(f"trained on {len(digits.train_labels)} digits in {dtype.name}, tested on {len(digits.test_labels)}")
    print(f"test accuracy: {accuracy:.2%}")
    if importlib.util.find_spec("torch"):
        curves["PyTorch"] = train_with_torch(digits, dtype)
        apart = max(abs(a - b) for a, b in zip(*curves.values(), strict=True))
        print(f"largest difference of the loss from PyTorch's: {apart:.1e}")
    draw_losses(curves, options.losses)
    draw_misread(digits, predicted, options.misread)
    print(f"loss drawn in {options.losses}")
    print(f"misread digits: {np.sum(predicted != digits.test_labels)}, drawn in {options.misread}")
    return 0 if accuracy >= 0.97 else 1


if __name__ == "__main__":
    raise SystemExit(main())
