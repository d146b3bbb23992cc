"""Classifies handwritten digits by ridge regression whose products and elementwise steps are tilekit kernels.

Run it with ``python -m tilekit.examples.digits``. The data are the 1,797 digits of 8 x 8 pixels that scikit-learn
ships. Neither the rows nor the 65 features nor the 10 classes are multiples of the tiles: what a tile reads outside an
array is zero, and what it writes there is dropped, so no kernel treats an edge.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import tilekit as tk
from tilekit.cli.installed import install_command

PIXELS = 64
TILE = 16
DEPTH = 32
RIDGE = 10.0

Array = np.ndarray[Any, Any]


@tk.func
def standard(value: float, mean: float, deviation: float):
    return (value - mean) / deviation


@tk.kernel
def standardise(
    pixels: tk.array2d[float], mean: tk.array1d[float], deviation: tk.array1d[float], features: tk.array2d[float]
):
    """Center and scale a band of rows; columns of ``features`` past the pixels keep what they hold."""
    row = tk.tid() * TILE
    values = tk.tile_load(pixels, shape=(TILE, PIXELS), offset=(row, 0))
    means = tk.tile_broadcast(tk.tile_load(mean, shape=PIXELS), shape=(TILE, PIXELS))
    deviations = tk.tile_broadcast(tk.tile_load(deviation, shape=PIXELS), shape=(TILE, PIXELS))
    tk.tile_store(features, tk.tile_map(standard, values, means, deviations), offset=(row, 0))


@tk.kernel
def add_transposed_product(x: tk.array2d[float], y: tk.array2d[float], out: tk.array2d[float]):
    """``out += x.T @ y``, one tile of ``out`` a block."""
    i, j = tk.tid()
    total = tk.tile_load(out, shape=(TILE, TILE), offset=(i * TILE, j * TILE))
    for k in range((x.shape[0] + DEPTH - 1) // DEPTH):
        x_tile = tk.tile_load(x, shape=(DEPTH, TILE), offset=(k * DEPTH, i * TILE))
        y_tile = tk.tile_load(y, shape=(DEPTH, TILE), offset=(k * DEPTH, j * TILE))
        tk.tile_matmul(tk.tile_transpose(x_tile), y_tile, total)
    tk.tile_store(out, total, offset=(i * TILE, j * TILE))


@tk.kernel
def product(x: tk.array2d[float], y: tk.array2d[float], out: tk.array2d[float]):
    """``out = x @ y``, one tile of ``out`` a block."""
    i, j = tk.tid()
    total = tk.tile_zeros(shape=(TILE, TILE), dtype=float)
    for k in range((x.shape[1] + DEPTH - 1) // DEPTH):
        x_tile = tk.tile_load(x, shape=(TILE, DEPTH), offset=(i * TILE, k * DEPTH))
        y_tile = tk.tile_load(y, shape=(DEPTH, TILE), offset=(k * DEPTH, j * TILE))
        tk.tile_matmul(x_tile, y_tile, total)
    tk.tile_store(out, total, offset=(i * TILE, j * TILE))


@dataclass(frozen=True)
class Digits:
    """Pixels and labels, every fourth digit kept back for the test."""

    train_pixels: Array
    train_labels: Array
    test_pixels: Array
    test_labels: Array


def load_digits() -> Digits:
    try:
        from sklearn.datasets import load_digits as load
    except ImportError as error:
        raise SystemExit(f"the digits come with scikit-learn: {install_command('examples')}") from error
    pixels, labels = load(return_X_y=True)
    pixels = pixels.astype(np.float32)
    test = np.arange(len(labels)) % 4 == 3
    return Digits(pixels[~test], labels[~test], pixels[test], labels[test])


def tiles(extent: int) -> int:
    return -(-extent // TILE)


def launch(kernel: Any, dim: Any, inputs: list[Any], output: Any, device: str) -> None:
    tk.launch_tiled(kernel, dim=dim, inputs=inputs, outputs=[output], block_dim=64, device=device)


def features(pixels: Array, mean: Array, deviation: Array, device: str) -> Any:
    """Standardised pixels and, as the last column, ones for the bias."""
    out = tk.ones((len(pixels), PIXELS + 1), dtype=float, device=device)
    inputs = [tk.array(np.ascontiguousarray(array), device=device) for array in (pixels, mean, deviation)]
    launch(standardise, tiles(len(pixels)), inputs, out, device)
    return out


def scores(digits: Digits, device: str) -> Array:
    """Fit on the training digits; return a score for each test digit and class, shape ``(449, 10)``."""
    mean, deviation = statistics(digits.train_pixels)
    x = features(digits.train_pixels, mean, deviation, device)
    y = tk.array(one_hot(digits.train_labels), device=device)
    size, classes = x.shape[1], y.shape[1]
    gram = tk.array(RIDGE * np.eye(size, dtype=np.float32), device=device)
    launch(add_transposed_product, (tiles(size), tiles(size)), [x, x], gram, device)
    moments = tk.zeros((size, classes), dtype=float, device=device)
    launch(add_transposed_product, (tiles(size), tiles(classes)), [x, y], moments, device)
    weights = np.linalg.solve(gram.numpy().astype(np.float64), moments.numpy()).astype(np.float32)
    x_test = features(digits.test_pixels, mean, deviation, device)
    out = tk.zeros((len(digits.test_labels), classes), dtype=float, device=device)
    inputs = [x_test, tk.array(weights, device=device)]
    launch(product, (tiles(len(digits.test_labels)), tiles(classes)), inputs, out, device)
    return np.array(out.numpy())


def numpy_scores(digits: Digits) -> Array:
    """The same regression in NumPy and float64."""
    mean, deviation = statistics(digits.train_pixels)
    x, x_test = (
        np.column_stack([(pixels.astype(np.float64) - mean) / deviation, np.ones(len(pixels))])
        for pixels in (digits.train_pixels, digits.test_pixels)
    )
    gram = x.T @ x + RIDGE * np.eye(x.shape[1])
    return np.asarray(x_test @ np.linalg.solve(gram, x.T @ one_hot(digits.train_labels)))


def statistics(pixels: Array) -> tuple[Array, Array]:
    deviation = pixels.std(axis=0)
    return pixels.mean(axis=0), np.where(deviation > 0, deviation, np.float32(1))  # a pixel may be blank in every digit


def one_hot(labels: Array) -> Array:
    return np.eye(10, dtype=np.float32)[labels]


def draw_misread(digits: Digits, predicted: Array, path: Path) -> None:
    """Save a picture of the misread digits, each with what was read and what it is."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise SystemExit(f"the picture needs matplotlib: {install_command('examples')}") from error
    wrong = np.flatnonzero(predicted != digits.test_labels)
    columns = 8
    rows = max(-(-len(wrong) // columns), 1)
    figure = Figure(figsize=(columns * 1.2, rows * 1.5 + 0.4), layout="constrained")
    figure.suptitle(f"{len(wrong)} of {len(predicted)} test digits were misread")
    axes = figure.subplots(rows, columns, squeeze=False).ravel()
    for axis in axes:
        axis.axis("off")
    for axis, index in zip(axes, wrong, strict=False):
        axis.imshow(digits.test_pixels[index].reshape(8, 8), cmap="gray_r")
        axis.set_title(f"{digits.test_labels[index]} read as {predicted[index]}", fontsize=9)
    figure.savefig(path, dpi=120)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tilekit.examples.digits", description=__doc__)
    parser.add_argument("--device", default="cpu", help="where the kernels run (default: cpu)")
    parser.add_argument("--picture", type=Path, default=Path("digits_misread.png"), help="where the picture is saved")
    options = parser.parse_args(arguments)
    digits = load_digits()
    predicted = scores(digits, options.device).argmax(axis=1)
    accuracy = np.mean(predicted == digits.test_labels)
    expected = np.mean(numpy_scores(digits).argmax(axis=1) == digits.test_labels)
    print(f"trained on {len(digits.train_labels)} digits, tested on {len(digits.test_labels)}")
    print(f"test accuracy, tilekit on {options.device}: {accuracy:.2%}")
    print(f"test accuracy, NumPy: {expected:.2%}")
    draw_misread(digits, predicted, options.picture)
    print(f"misread digits: {np.sum(predicted != digits.test_labels)}, drawn in {options.picture}")
    return 0 if accuracy == expected else 1


if __name__ == "__main__":
    raise SystemExit(main())
