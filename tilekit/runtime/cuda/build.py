"""From emitted CUDA C++ to a cubin: options, and the cache on disk."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

from tilekit.codegen.gemm.tiles import MOST_REGISTERS, REGISTERS
from tilekit.codegen.gemm.units import Units
from tilekit.codegen.target import Target
from tilekit.config import config
from tilekit.ir.float_state import in_ieee_state
from tilekit.runtime import cache as disk
from tilekit.runtime.cuda import link, nvrtc
from tilekit.runtime.cuda.nvrtc import Cubin
from tilekit.runtime.keys import DIGITS, key_of
from tilekit.runtime.mathdx.units import at_product, key_of_unit, make_units
from tilekit.runtime.progress import progress
from tilekit.runtime.why import reason

KIND = "cuda"
CUBIN = "kernel.cubin"
NATIVE = Path(__file__).parents[2] / "native"


@cache
def headers() -> Mapping[str, str]:
    """The native headers by the name that code includes them under."""
    return {path.relative_to(NATIVE).as_posix(): path.read_text(encoding="utf-8") for path in _header_paths()}


def _header_paths() -> list[Path]:
    return sorted(NATIVE.rglob("*.h"))


@cache
def _header_digest() -> str:
    digest = hashlib.sha256()
    for name, text in headers().items():
        digest.update(f"{name} {len(text)}\n{text}".encode())
    return digest.hexdigest()


def options_of(target: Target, options: Mapping[str, Any]) -> tuple[str, ...]:
    """What NVRTC is told; ``options`` are the kernel's own."""
    found = [f"--gpu-architecture=sm_{target.arch}", "-std=c++17", "--ptxas-options=--verbose"]
    if config.chosen("fast_math", options):
        found += ["--use_fast_math"]  # it contracts too
    else:
        found += ["--fmad=false"]
    if config.chosen("lineinfo", options):
        found += ["--generate-line-info"]
    if limit := options.get("cuda_max_registers"):
        found += [f"--maxrregcount={int(limit)}"]
    return tuple(found)


@in_ieee_state
def build(
    source: str, name: str, target: Target, options: Mapping[str, Any], units: Units = MappingProxyType({})
) -> tuple[Cubin, Path]:
    """The cubin of emitted code, from the cache or the compiler, and the folder where it and its source lie.

    Args:
        source: The code.
        name: The kernel's name.
        target: What it was emitted for.
        options: The kernel's own.
        units: What it is linked with; errors of one have the line of its product.

    Raises:
        CompileError: NVRTC, nvJitLink or MathDx refused the code, or knows no such architecture.
        MissingPackageError: NVRTC is not installed, or what ``units`` need is not.
    """
    given = options_of(target, options)
    version = nvrtc.version()
    linked = None
    if units:
        with at_product(next(iter(units.values()))):
            linked = link.version(), tuple(map(key_of_unit, units))
    key = key_of(
        source=source,
        headers=_header_digest(),
        options=given,
        nvrtc=version,
        tilekit=disk.tilekit_version(),
        linked=linked,
    )
    describe = {
        "kernel": name,
        "compiler": "NVRTC {}.{}".format(*version),
        "architecture": f"sm_{target.arch}",
        "options": " ".join(given),
        "headers": _header_digest()[:DIGITS],
    }

    def compile_into(folder: Path) -> None:
        nvrtc.check_arch(target.arch)
        (folder / "kernel.cu").write_text(source, encoding="utf-8")  # also of what the compiler then refuses
        what = "compiling kernel {!r} for sm_{} with NVRTC {}.{}".format(name, target.arch, *version)
        with progress(what, lambda: reason(KIND, describe)):
            told = source, name, given
            found, text = _linked(*told, units) if units else _compiled(*told, target.threads)
        (folder / "kernel.cu").write_text(text, encoding="utf-8")
        (folder / CUBIN).write_bytes(found.code)
        (folder / "ptxas.txt").write_text(found.log, encoding="utf-8")

    folder = disk.get_or_build(KIND, key, compile_into, describe)
    code, log = (folder / CUBIN).read_bytes(), (folder / "ptxas.txt").read_text(encoding="utf-8")
    return Cubin(code, log), folder


def _compiled(source: str, name: str, given: Sequence[str], threads: int) -> tuple[Cubin, str]:
    """The cubin, and the source it is of: one that wants a single block where the assembler, for the sake of more of
    them, has spilled registers of which there are enough."""
    found = nvrtc.compile_cubin(source, name, headers(), given)
    limited = any(option.startswith("--maxrregcount") for option in given)
    if not found.spilled or limited or found.registers >= min(REGISTERS // threads // 8 * 8, MOST_REGISTERS):
        return found, source
    alone = source.replace(f"__launch_bounds__({threads})", f"__launch_bounds__({threads}, 1)")
    other = nvrtc.compile_cubin(alone, name, headers(), given)
    return (other, alone) if other.spilled < found.spilled else (found, source)


def _linked(source: str, name: str, given: Sequence[str], units: Units) -> tuple[Cubin, str]:
    """The cubin of a kernel with the units that it uses, and its source."""
    ready = make_units(units)
    told = [option for option in given if not option.startswith(("--ptxas-options", "--maxrregcount"))]
    told += [option for unit in ready for option in unit.options]
    kernel = nvrtc.compile_for_linking(source, name, headers(), told)
    parts = {name: kernel, **{each.unit.name: each.code for each in ready}}
    return link.link(parts, name, link.options_of(given)), source
