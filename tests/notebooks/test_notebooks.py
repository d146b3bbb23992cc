"""Every notebook runs from its first cell to its last, on a GPU where there is one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

nbformat = pytest.importorskip("nbformat")
nbclient = pytest.importorskip("nbclient")
pytest.importorskip("ipykernel")

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
SHOWN = {
    "01_first_kernel.ipynb": ["block 0 has", "block 1 has", "tile_matmul", "^"],
    "02_exact_arithmetic.ipynb": ["the interval proves", "of which wrong: 0", "nothing is known from step"],
    "03_gradients.ipynb": [
        "adj_a: gathered",
        "kept of loops: 33024 bytes",
        "write to another array",
        "in float64: passed",
    ],
}
"""Texts that a run shows besides where it ran; 01's last two are of an error that shows its line."""


def run(path: Path, folder: Path) -> Any:
    """The notebook after its run; raises what a cell raises."""
    notebook = nbformat.read(path, as_version=4)
    resources = {"metadata": {"path": str(folder)}}
    return nbclient.NotebookClient(notebook, timeout=300, kernel_name="python3", resources=resources).execute()


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_it_runs(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    done = run(path, tmp_path)
    cells = [cell for cell in done.cells if cell.cell_type == "code"]
    assert all(cell.execution_count for cell in cells)
    shown = "".join(output.get("text", "") for cell in cells for output in cell.outputs)
    assert shown.startswith("kernels run on c")
    assert all(text in shown for text in SHOWN[path.name])


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_it_is_kept_without_output(path: Path) -> None:
    """So that it says nothing of the machine that it was written on."""
    for cell in nbformat.read(path, as_version=4).cells:
        assert not cell.get("outputs") and cell.get("execution_count") is None
