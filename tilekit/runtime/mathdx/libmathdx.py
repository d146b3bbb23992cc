"""libmathdx: a C library that writes and compiles the device code of a unit. It runs in a process of its own."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

from tilekit.codegen.gemm.units import Unit
from tilekit.errors import CompileError
from tilekit.runtime.cuda import nvrtc
from tilekit.runtime.mathdx.made import Made

Handle = ctypes.c_longlong
PACKAGE = "nvidia-libmathdx-cu13"
HEADERS = ("libcommondx.h", "libcublasdx.h")
_ENUM = re.compile(r"typedef enum \w+\s*\{(.*?)\}\s*\w+;", re.DOTALL)
_VALUE = re.compile(r"(\w+)\s*=\s*(-?\d+)")
_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
FUNCTIONS = {
    "execute": ("EXECUTE", "abc"),
    "where": ("MAP_IDX2CRD_PARTITIONER", "c"),
    "active": ("IS_THREAD_ACTIVE", "c"),
    "inside": ("IS_INDEX_IN_BOUNDS", "c"),
}
"""The functions of a unit: what the library calls them, and the tensors that they are made for."""
PLACES = {"place_a": ("MAP_CRD2IDX", "a"), "place_b": ("MAP_CRD2IDX", "b")}
"""Those of a unit that chooses how its factors lie."""


class Library:
    """The library's functions, each checked, and its constants by name."""

    def __init__(self, path: Path, headers: Path) -> None:
        self.functions = ctypes.CDLL(str(path))
        self.functions.commondxStatusToStr.restype = ctypes.c_char_p
        text = "\n".join(_COMMENT.sub("", (headers / name).read_text(encoding="utf-8")) for name in HEADERS)
        self.constants = {name: int(value) for body in _ENUM.findall(text) for name, value in _VALUE.findall(body)}

    def call(self, name: str, *arguments: Any) -> None:
        """Call a function.

        Raises:
            CompileError: it failed; the message has what the library says.
        """
        status = getattr(self.functions, name)(*arguments)
        if status:
            said = self.functions.commondxStatusToStr(status) or b""
            raise CompileError(f"{name}: {said.decode('utf-8', 'replace')}\n{self._last_error()}".rstrip())

    def _last_error(self) -> str:
        size, status = ctypes.c_size_t(), ctypes.c_int()
        if self.functions.commondxGetLastErrorStrSize(ctypes.byref(size)) or not size.value:
            return ""
        text = ctypes.create_string_buffer(size.value)
        self.functions.commondxGetLastErrorStr(ctypes.byref(status), size, text)
        return text.value.decode("utf-8", "replace")

    def constant(self, name: str) -> int:
        """A constant of the headers.

        Raises:
            CompileError: there is none of that name.
        """
        try:
            return self.constants[name]
        except KeyError:
            raise CompileError(f"libmathdx has no {name}; another version is needed") from None

    def make(self, name: str, *arguments: Any) -> Handle:
        """What a function creates."""
        handle = Handle()
        self.call(name, *arguments, ctypes.byref(handle))
        return handle

    def version(self) -> str:
        """Of the library and of cuBLASDx."""
        found = []
        for name in ("mathdxGetVersionEx", "cublasdxGetVersion"):
            parts = [ctypes.c_int() for _ in range(3)]
            self.call(name, *map(ctypes.byref, parts))
            found.append(".".join(str(part.value) for part in parts))
        return "libmathdx {}, cuBLASDx {}".format(*found)


def load() -> Library:
    """The installed library.

    Raises:
        CompileError: it cannot be loaded.
    """
    nvrtc.version()  # libmathdx looks for NVRTC by its name among what is loaded
    try:
        found = distribution(PACKAGE)
        files = [Path(str(found.locate_file(file))) for file in found.files or ()]
        library = next(file for file in files if ".so" in file.name)
        headers = next(file for file in files if file.name == HEADERS[0])
        return Library(library, headers.parent)
    except (PackageNotFoundError, StopIteration, OSError) as error:
        raise CompileError(f"{PACKAGE} cannot be loaded: {error}") from error


def compile_unit(unit: Unit, library: Library | None = None) -> Made:
    """Compile a unit.

    Raises:
        CompileError: the library refused it, or cannot be loaded.
    """
    library = library or load()
    descriptor = _descriptor(library, unit)
    tensors = {name: _tensor(library, descriptor, unit, name) for name in "abc"}
    handles = (Handle * 3)(*(tensor.value for tensor in tensors.values()))
    library.call("cublasdxFinalizeTensors", ctypes.c_size_t(3), handles)
    sizes = {name: _trait(library, tensor, "STORAGE_BYTES") for name, tensor in tensors.items()}
    wanted = FUNCTIONS | (PLACES if unit.chooses_layout else {})
    made = [
        _function(library, descriptor, f"{unit.name}_{name}", kind, [tensors[each] for each in used])
        for name, (kind, used) in wanted.items()
    ]
    code = _compiled(library, unit, made)
    registers = sizes["c"] // (8 if unit.sums == "F64" else 4)
    return Made(code, registers, sizes["a"], sizes["b"], library.version())


def operators(unit: Unit) -> dict[str, Sequence[int | str]]:
    """What describes a unit to cuBLASDx, by operator; texts are names of constants."""
    found: dict[str, Sequence[int | str]] = {
        "FUNCTION": ["CUBLASDX_FUNCTION_MM"],
        "EXECUTION": ["COMMONDX_EXECUTION_BLOCK"],
        "API": ["CUBLASDX_API_TENSORS"],
        "TYPE": ["CUBLASDX_TYPE_REAL"],
        "PRECISION": [f"COMMONDX_PRECISION_{name}" for name in (unit.precision, unit.precision, unit.sums)],
        "SM": [unit.arch * 10],
        "SIZE": [unit.m, unit.n, unit.k],
        "BLOCK_DIM": [unit.threads, 1, 1],
        "STATIC_BLOCK_DIM": [1],
        "ARRANGEMENT": [f"CUBLASDX_ARRANGEMENT_{'ROW' if row else 'COL'}_MAJOR" for row in (*unit.rows, True)],
        "ALIGNMENT": [*unit.alignment, 16],
    }
    if unit.leading_apart:
        found["LEADING_DIMENSION"] = [*unit.leading, unit.n]
    return found


def _descriptor(library: Library, unit: Unit) -> Handle:
    descriptor = library.make("cublasdxCreateDescriptor")
    for name, given in operators(unit).items():
        values = [library.constant(value) if isinstance(value, str) else value for value in given]
        operator = library.constant(f"CUBLASDX_OPERATOR_{name}")
        if len(values) == 1:
            library.call("cublasdxSetOperatorInt64", descriptor, operator, Handle(values[0]))
        else:
            count = ctypes.c_size_t(len(values))
            library.call("cublasdxSetOperatorInt64s", descriptor, operator, count, (Handle * len(values))(*values))
    return descriptor


def _tensor(library: Library, descriptor: Handle, unit: Unit, name: str) -> Handle:
    kind = f"{'SUGGESTED_' if unit.chooses_layout else ''}{'RMEM' if name == 'c' else 'SMEM'}_{name.upper()}"
    return library.make("cublasdxCreateTensor", descriptor, library.constant(f"CUBLASDX_TENSOR_{kind}"))


def _trait(library: Library, tensor: Handle, name: str) -> int:
    value = Handle()
    trait = library.constant(f"CUBLASDX_TENSOR_TRAIT_{name}")
    library.call("cublasdxGetTensorTraitInt64", tensor, trait, ctypes.byref(value))
    return value.value


def _function(library: Library, descriptor: Handle, symbol: str, kind: str, tensors: Sequence[Handle]) -> Handle:
    handles = (Handle * len(tensors))(*(tensor.value for tensor in tensors))
    what = library.constant(f"CUBLASDX_DEVICE_FUNCTION_{kind}")
    made = library.make("cublasdxCreateDeviceFunction", descriptor, what, ctypes.c_size_t(len(tensors)), handles)
    option = library.constant("CUBLASDX_DEVICE_FUNCTION_OPTION_SYMBOL_NAME")
    library.call("cublasdxSetDeviceFunctionOptionStr", made, option, symbol.encode())
    return made


def _compiled(library: Library, unit: Unit, functions: Sequence[Handle]) -> bytes:
    code = library.make("commondxCreateCode")
    generic = library.constant("COMMONDX_ARCH_MODIFIER_GENERIC")
    target = (Handle * 2)(unit.arch * 10, generic)
    option = library.constant("COMMONDX_OPTION_TARGET_SM")
    library.call("commondxSetCodeOptionInt64s", code, option, ctypes.c_size_t(2), target)
    extra = (ctypes.c_char_p * 1)(b"--gen-opt-lto")  # half the size, and quicker to link
    option = library.constant("COMMONDX_OPTION_EXTRA_NVRTC_ARGS")
    library.call("commondxSetCodeOptionStrs", code, option, ctypes.c_size_t(1), extra)
    handles = (Handle * len(functions))(*(function.value for function in functions))
    library.call("cublasdxFinalizeDeviceFunctions", code, ctypes.c_size_t(len(functions)), handles)
    size = ctypes.c_size_t()
    library.call("commondxGetCodeLTOIRSize", code, ctypes.byref(size))
    data = ctypes.create_string_buffer(size.value)
    library.call("commondxGetCodeLTOIR", code, size, data)
    return data.raw
