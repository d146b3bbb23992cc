"""What the tests of the interpreter share."""

from __future__ import annotations

import traceback
from pathlib import Path

import tilekit as tk


def line_of(file, text):
    """The line of the file that ends in ``# text``."""
    lines = Path(file).read_text(encoding="utf-8").splitlines()
    (found,) = [number for number, line in enumerate(lines, 1) if line.endswith(f"# {text}")]
    return found


def interpret(kernel, dim, *arguments, block_dim=32):
    tk.launch_tiled(kernel, dim=dim, inputs=arguments, block_dim=block_dim, device="interpret")


def places(error):
    """File and line of each frame of an error's traceback."""
    return [(entry.filename, entry.lineno) for entry in traceback.extract_tb(error.__traceback__)]
