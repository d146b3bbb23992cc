"""nvJitLink: a kernel and the units of device code that it uses, to one cubin."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from tilekit.errors import CompileError, MissingPackageError
from tilekit.runtime.cuda import nvrtc
from tilekit.runtime.cuda.nvrtc import Cubin


@cache
def _bindings() -> Any:
    try:
        module = importlib.import_module("cuda.bindings.nvjitlink")
        module.version()
    except Exception as error:  # each version has an error of its own for a library that is not there
        raise MissingPackageError(f"nvJitLink cannot be loaded ({error}): {nvrtc.REMEDY}") from error
    return module


@cache
def version() -> tuple[int, int]:
    """The version of CUDA whose nvJitLink is installed.

    Raises:
        MissingPackageError: none is.
    """
    major, minor = _bindings().version()
    return int(major), int(minor)


def options_of(options: Sequence[str]) -> tuple[str, ...]:
    """What nvJitLink is told where NVRTC is told ``options``: machine code is made by the one that comes last.

    Example:
        >>> options_of(["--gpu-architecture=sm_90a", "--fmad=false", "--maxrregcount=64"])[:3]
        ('-arch=sm_90a', '-fma=0', '-maxrregcount=64')
    """
    said = {
        "--fmad=false": ("-fma=0",),
        "--use_fast_math": ("-ftz=1", "-prec-div=0", "-prec-sqrt=0", "-fma=1"),
        "--generate-line-info": ("-lineinfo",),
        "--ptxas-options=--verbose": ("-Xptxas=-v", "-verbose"),
    }
    found: list[str] = []
    for option in options:
        name, _, value = option.partition("=")
        if name == "--gpu-architecture":
            found.append(f"-arch={value}")
        elif name == "--maxrregcount":
            found.append(f"-maxrregcount={value}")
        else:
            found += said.get(option, ())
    return (*found, "-lto", "-O3", "-optimize-unused-variables", "-no-cache")  # as for NVRTC


def link(parts: Mapping[str, bytes], name: str, options: Sequence[str]) -> Cubin:
    """Link LTO IR.

    Args:
        parts: The code, by name.
        name: Of the kernel, for messages.
        options: As :func:`options_of` gives them.

    Raises:
        CompileError: nvJitLink refused it; the message has its log.
        MissingPackageError: nvJitLink is not installed.
    """
    _bindings()  # not on the thread, as for NVRTC
    return nvrtc.on_thread(lambda: _link(parts, name, options), f"nvJitLink, linking {name!r},")


def _link(parts: Mapping[str, bytes], name: str, options: Sequence[str]) -> Cubin:
    linker = _bindings()
    handle = linker.create(len(options), list(options))
    try:
        for label, code in parts.items():
            linker.add_data(handle, linker.InputType.LTOIR, code, len(code), label)
        linker.complete(handle)
        made = bytearray(linker.get_linked_cubin_size(handle))
        linker.get_linked_cubin(handle, made)
        return Cubin(bytes(made), _log(linker.get_info_log_size, linker.get_info_log, handle))
    except linker.nvJitLinkError as error:
        said = _log(linker.get_error_log_size, linker.get_error_log, handle)
        head = "nvJitLink {}.{} could not link kernel {!r}: {}".format(*version(), name, error)
        raise CompileError("\n".join([head, "options: " + " ".join(options), said])) from None
    finally:
        linker.destroy(handle)


def _log(size_of: Any, read: Any, handle: Any) -> str:
    text = bytearray(size_of(handle))
    if text:
        read(handle, text)
    return bytes(text).rstrip(b"\0 \n").decode("utf-8", "replace")
