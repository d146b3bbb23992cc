"""The machine code of a cubin as text, by NVIDIA's disassembler where one is installed."""

from __future__ import annotations

import importlib.util
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tilekit.config import config
from tilekit.errors import MissingPackageError
from tilekit.runtime import process

TOOLS = {"nvdisasm": ("--print-code",), "cuobjdump": ("-sass",)}
"""The disassemblers, the preferred one first, with what they are told."""
REMEDY = "install the package nvidia-cuda-nvdisasm, or put nvdisasm or cuobjdump of a CUDA toolkit on the PATH"


def find_disassembler() -> tuple[str, ...] | None:
    """The command, without the file; None where there is none.

    Looked for on the PATH, below ``CUDA_HOME`` and ``CUDA_PATH``, and among the installed packages.
    """
    folders = [*_toolkits(), *_packages()]
    for tool, options in TOOLS.items():
        found = shutil.which(tool) or shutil.which(tool, path=os.pathsep.join(map(str, folders)))
        if found:
            return (found, *options)
    return None


def _toolkits() -> Iterator[Path]:
    for name in ("CUDA_HOME", "CUDA_PATH"):
        if os.environ.get(name):
            yield Path(os.environ[name]) / "bin"


def _packages() -> Iterator[Path]:
    """Where NVIDIA's packages put programs."""
    found = importlib.util.find_spec("nvidia")
    for place in (found.submodule_search_locations or ()) if found is not None else ():
        yield from sorted(Path(place).glob("cu*/bin"), reverse=True)


def disassemble(cubin: bytes) -> str:
    """The machine code of a cubin that tilekit has compiled, one instruction a line.

    Raises:
        MissingPackageError: no disassembler is installed.
        CompileError: it failed.
    """
    command = find_disassembler()
    if command is None:
        raise MissingPackageError(f"no disassembler for GPU code is installed: {REMEDY}")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "kernel.cubin"
        file.write_bytes(cubin)
        finished = process.run([*command, str(file)], config.compile_timeout)
    if finished.code != 0:
        raise process.failure(Path(command[0]).name, finished)
    return finished.output
