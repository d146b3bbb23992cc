"""The units that a kernel is linked with: from the cache, else made side by side, each in a process of its own."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import hashlib
import json
import os
import sys
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from tilekit.codegen.gemm import units as gemm_units
from tilekit.codegen.gemm.units import Unit, Units
from tilekit.config import config
from tilekit.errors import CompileError, Location, MissingPackageError, TilekitError
from tilekit.runtime import cache as disk, process
from tilekit.runtime.cuda import nvrtc
from tilekit.runtime.keys import key_of
from tilekit.runtime.mathdx import providers, worker
from tilekit.runtime.parallel import in_parallel
from tilekit.runtime.progress import progress

KIND = "mathdx"
_ONE = threading.Lock()
"""Held while a unit is made in this process: libmathdx makes one at a time."""
WITHOUT = "without cuBLASDx: tk.config.enable_mathdx_gemm = False"
"""How to go on where it does not work."""
FACTS = ("registers", "bytes_a", "bytes_b")
"""What code that uses a unit must know of it."""


@dataclass(frozen=True)
class Ready:
    """A unit that was made."""

    unit: Unit
    folder: Path

    @property
    def code(self) -> bytes:
        """LTO IR."""
        return (self.folder / worker.CODE).read_bytes()

    @property
    def facts(self) -> Mapping[str, int]:
        found = json.loads((self.folder / worker.FACTS).read_text(encoding="utf-8"))
        return {name: int(found[name]) for name in FACTS}

    @property
    def options(self) -> tuple[str, ...]:
        """What NVRTC is told of it."""
        return tuple(f"-D{self.unit.name}_{name}={number}" for name, number in self.facts.items())


def make_units(units: Units) -> list[Ready]:
    """The units, made where the cache has them not.

    Raises:
        CompileError: MathDx refused one, or took longer than ``compile_timeout``; with the line of its product.
        MissingPackageError: MathDx is not installed, or what is installed beside it does not fit.
    """
    return in_parallel([functools.partial(_ready, unit, place) for unit, place in units.items()])


@contextlib.contextmanager
def at_product(place: Location | None) -> Iterator[None]:
    """Errors in the block are those of the product at a place."""
    try:
        yield
    except TilekitError as error:
        raise error.at(place) from None


def key_of_unit(unit: Unit) -> str:
    """The key of a unit in the cache; raises as :func:`make_units`."""
    found = _provider()
    assert found.provider is not None
    made_by = (found.provider.package, found.version, _template(found.provider.module))
    return key_of(unit=unit, made_by=made_by, nvrtc=nvrtc.version())


def _provider() -> providers.Found:
    found = providers.find()
    if found.provider is None:
        raise MissingPackageError(found.why_not)
    return found


@functools.cache
def _template(module: str) -> str:
    """The digest of what asks a provider for a unit: the code that it gets depends on that too."""
    files = Path(__file__).with_name(f"{module}.py"), Path(gemm_units.__file__)
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()


def _ready(unit: Unit, place: Location | None) -> Ready:
    with at_product(place):
        return _made(unit)


def _made(unit: Unit) -> Ready:
    found = _provider()
    assert found.provider is not None
    module, made_by = found.provider.module, f"{found.provider.package} {found.version}"
    describe = {
        "kernel": str(unit),
        "compiler": "{}, NVRTC {}.{}".format(made_by, *nvrtc.version()),
        "architecture": f"sm_{unit.arch}",
    }

    def build(folder: Path) -> None:
        (folder / worker.ASKED).write_text(json.dumps(dataclasses.asdict(unit)), encoding="utf-8")
        with progress(f"compiling the product {unit} with {made_by}, once for all kernels"):
            _work(module, folder, made_by, unit)

    return Ready(unit, disk.get_or_build(KIND, key_of_unit(unit), build, describe))


def _work(module: str, folder: Path, made_by: str, unit: Unit) -> None:
    python = process.interpreter()
    if python is None:
        try:
            with _ONE:
                worker.make(module, folder)
        except CompileError as error:
            raise _refused(unit, error.message) from None
        return
    command = (python, "-P", "-m", worker.__name__, module, str(folder))  # -P: no module of the current folder
    paths = os.pathsep.join(dict.fromkeys(path or os.getcwd() for path in sys.path))
    finished = process.run(command, config.compile_timeout, {"PYTHONPATH": paths})
    if finished.code != 0 or not (folder / worker.FACTS).exists():
        raise _refused(unit, process.failure(made_by, finished).message)


def _refused(unit: Unit, why: str) -> CompileError:
    return CompileError(f"the product {unit} could not be compiled: {why}\n{WITHOUT}")
