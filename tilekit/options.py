"""The table of options: name, type, default, environment variable and meaning. ``tilekit.config`` reads it.

``OPTIONS`` are tilekit's own. ``WARP_OPTIONS`` are names of ``wp.config`` that a program written for Warp 1.19 may set:
they are accepted so that such a program runs after changing its import, and each says why it has no effect here.
``MODULE_OPTIONS`` are what a module or kernel may set for itself, ``KERNEL_OPTIONS`` and ``FUNC_OPTIONS`` are the
keywords of ``@tk.kernel`` and ``@tk.func``.
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from tilekit.errors import KernelValueError, shown

GEMMS = ("auto", "mma", "cublasdx", "scalar")
DUMPS = ("ir", "cuda", "cpu")

_TRUE = ("1", "true", "yes", "on")
_FALSE = ("0", "false", "no", "off")


@dataclass(frozen=True)
class Option:
    """One option: ``kind`` is the type of its value, ``optional`` says that None is a value too."""

    name: str
    kind: str
    default: Any
    doc: str
    env: str | None = None
    choices: tuple[str, ...] = ()
    minimum: int | None = None
    optional: bool = False
    effective: bool = True
    """False for Warp's options that are accepted without effect."""
    of_module: bool = False
    """May a module or kernel set it for itself?"""

    def check(self, value: object) -> Any:
        """``value`` in the form it is stored in; raises KernelValueError for a wrong type or value."""
        if value is None and self.optional:
            return None
        return _CHECKS[self.kind](self, value)

    def from_text(self, text: str) -> Any:
        """The value that the environment variable's ``text`` stands for."""
        try:
            return self.check(_PARSERS.get(self.kind, str)(text))
        except ValueError:
            expected = "one of 0, 1, true, false, yes, no, on, off" if self.kind == "bool" else self.expected()
            raise KernelValueError(f"environment variable {self.env} must be {expected}, not {text!r}") from None

    def expected(self) -> str:
        """What a value must be, in words."""
        what = " or ".join(map(repr, self.choices)) if self.choices else _WORDS[self.kind]
        what = f"names out of {what}, separated by commas" if self.kind == "names" else what
        if self.minimum is not None:
            what += f" of at least {self.minimum}"
        return what + (" or None" if self.optional else "")

    def refuse(self, value: object) -> KernelValueError:
        return KernelValueError(f"option {self.name!r} must be {self.expected()}, not {shown(value)}")


def _check_bool(option: Option, value: object) -> bool:
    # NumPy's booleans are welcome; 0 and 1 are not, as they are more often a mistake than a wish.
    if isinstance(value, bool) or type(value).__name__ in ("bool", "bool_"):
        return bool(value)
    raise option.refuse(value)


def _check_switch(option: Option, value: object) -> bool:
    """A bool, or Warp's number for one."""
    return (
        bool(_check_int(option, value))
        if isinstance(value, int) and not isinstance(value, bool)
        else _check_bool(option, value)
    )


def _check_int(option: Option, value: object) -> int:
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise option.refuse(value)
    number = int(value.__index__())
    if option.minimum is not None and number < option.minimum:
        raise option.refuse(value)
    return number


def _check_float(option: Option, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or value != value:
        raise option.refuse(value)
    if (option.minimum is not None and value < option.minimum) or sys.float_info.max < value < math.inf:
        raise option.refuse(value)
    return float(value)


def _check_str(option: Option, value: object) -> str:
    if not isinstance(value, str) or (option.choices and value not in option.choices):
        raise option.refuse(value)
    return value


def _check_path(option: Option, value: object) -> str:
    if not isinstance(value, (str, os.PathLike)) or not isinstance(text := os.fspath(value), str) or not text:
        raise option.refuse(value)
    return os.path.abspath(os.path.expanduser(text))


def _check_names(option: Option, value: object) -> tuple[str, ...]:
    names = tuple(value.split(",")) if isinstance(value, str) else value
    if not isinstance(names, (tuple, list, set, frozenset)):
        raise option.refuse(value)
    stripped = {name.strip() if isinstance(name, str) else name for name in names} - {""}
    if not stripped <= set(option.choices):
        raise option.refuse(value)
    return tuple(name for name in option.choices if name in stripped)


def _check_ints(option: Option, value: object) -> Any:
    numbers = value if isinstance(value, (tuple, list)) else (value,)
    if not numbers or any(isinstance(number, bool) or not hasattr(number, "__index__") for number in numbers):
        raise option.refuse(value)
    return value


def _check_any(option: Option, value: object) -> Any:
    return value


def _parse_bool(text: str) -> bool:
    lowered = text.strip().lower()
    if lowered not in _TRUE + _FALSE:
        raise ValueError(text)
    return lowered in _TRUE


_CHECKS: dict[str, Callable[[Option, object], Any]] = {
    "bool": _check_bool,
    "switch": _check_switch,
    "int": _check_int,
    "float": _check_float,
    "str": _check_str,
    "path": _check_path,
    "names": _check_names,
    "ints": _check_ints,
    "any": _check_any,
}
_PARSERS: dict[str, Callable[[str], Any]] = {"bool": _parse_bool, "switch": _parse_bool, "int": int, "float": float}
_WORDS = {
    "bool": "True or False",
    "switch": "True or False",
    "int": "an integer",
    "float": "a number",
    "str": "a string",
    "path": "a path",
    "names": "names",
    "ints": "an integer or a tuple of them",
    "any": "anything",
}


OPTIONS = (
    Option("gemm", "str", "auto", "The backend of tile_matmul on CUDA.", "TILEKIT_GEMM", GEMMS, of_module=True),
    Option(
        "require_gemm",
        "str",
        None,
        "The backend that must compute tile_matmul on CUDA; another one is an error.",
        choices=GEMMS[1:],
        optional=True,
        of_module=True,
    ),
    Option("enable_mathdx_gemm", "bool", True, "Whether cuBLASDx may compute tile_matmul.", of_module=True),
    Option("checked", "bool", False, "Check bounds, reads before writes and overlaps.", "TILEKIT_CHECKED"),
    Option("index_checks", "bool", True, "Check element accesses to arrays on the CPU.", "TILEKIT_INDEX_CHECKS"),
    Option(
        "fast_math",
        "bool",
        False,
        "Allow contraction of a * b + c; on a GPU approximate functions, and subnormals as zero too.",
        of_module=True,
    ),
    Option(
        "max_unroll",
        "int",
        16,
        "Loops over constants of at most this length are unrolled.",
        minimum=0,
        of_module=True,
    ),
    Option(
        "checkpoints",
        "int",
        32,
        "The most states of a loop that each block keeps for its gradient; other states are computed again.",
        minimum=1,
        of_module=True,
    ),
    Option("enable_backward", "bool", True, "No effect: a gradient is derived when it is asked for.", of_module=True),
    Option(
        "deterministic",
        "switch",
        False,
        "A gradient that only atomic additions could sum is an error; others have the same bits in every run.",
        "TILEKIT_DETERMINISTIC",
        of_module=True,
    ),
    Option("device", "str", None, "Device of launches and arrays that name none.", "TILEKIT_DEVICE", optional=True),
    Option(
        "num_threads",
        "int",
        None,
        "Threads that run CPU kernels. None: as many as affinity and cgroup quota allow.",
        "TILEKIT_NUM_THREADS",
        minimum=1,
        optional=True,
    ),
    Option(
        "cache_dir",
        "path",
        None,
        "Folder of the on-disk cache. None: the user's cache folder.",
        "TILEKIT_CACHE_DIR",
        optional=True,
    ),
    Option(
        "cxx",
        "str",
        None,
        "Host compiler, a path or a command with arguments. None: clang++, g++ or the ziglang wheel.",
        "TILEKIT_CXX",
        optional=True,
    ),
    Option(
        "compile_timeout",
        "float",
        300.0,
        "Seconds after which a host compiler is stopped.",
        "TILEKIT_COMPILE_TIMEOUT",
        minimum=1,
    ),
    Option("dump", "names", (), "What each compile writes to dump_dir.", "TILEKIT_DUMP", DUMPS),
    Option("dump_dir", "path", None, "Folder of dumps. None: ./tilekit-dump", "TILEKIT_DUMP_DIR", optional=True),
    Option(
        "mode",
        "str",
        "release",
        "'debug' builds CPU kernels for a debugger.",
        "TILEKIT_MODE",
        ("release", "debug"),
        of_module=True,
    ),
    Option("lineinfo", "bool", False, "Add line tables to CUDA code, for profilers.", of_module=True),
    Option("line_directives", "bool", True, "Generated code names the lines of the kernel's Python source."),
)

ALIASES = {"kernel_cache_dir": "cache_dir"}
"""Warp's name of an option -> tilekit's name of the same."""

_LOGGING = "messages go to logging.getLogger('tilekit'), which has a level of its own"
_ALWAYS = "tilekit always does so"
_WARP_RUNTIME = "concerns Warp's own runtime: set it on warp.config"
_CHECKED = "see tilekit's option `checked`"
_GRID = "the grid is always what the launch asked for"
_COMPILER = "tilekit's compilers take fixed flags, so that results do not depend on them"

_WARP: tuple[tuple[str, str, Any, str], ...] = (
    ("verify_fp", "bool", False, _CHECKED),
    ("verify_cuda", "bool", False, "errors of launches are always reported"),
    ("verify_autograd_array_access", "bool", False, _CHECKED),
    ("print_launches", "bool", False, _LOGGING),
    ("log_level", "int", 20, _LOGGING),
    ("quiet", "bool", False, _LOGGING),
    ("verbose", "bool", False, _LOGGING),
    ("verbose_warnings", "bool", False, "warnings always name the kernel's line"),
    ("launch_array_access_mode", "int", 0, "arrays are always checked against the launch's device"),
    ("cache_kernels", "bool", True, _ALWAYS),
    ("default_grid_stride", "bool", True, _GRID),
    ("enable_cpu_blocks", "bool", False, "a CPU launch has the block_dim it asked for"),
    ("enable_tiles_in_stack_memory", "any", True, "tilekit plans the memory of tiles itself"),
    ("enable_vector_component_overwrites", "bool", False, _ALWAYS),
    ("legacy_scalar_return_types", "bool", False, "functions outside kernels return typed scalars"),
    ("enable_mathdx_solver", "bool", True, "tilekit does not use cuSolverDx"),
    ("enable_mathdx_fft", "bool", True, "tilekit does not use cuFFTDx"),
    ("optimization_level", "any", None, _COMPILER),
    ("cpu_compiler_flags", "any", None, _COMPILER),
    ("llvm_cuda", "bool", False, "CUDA code is compiled by NVRTC"),
    ("cuda_output", "any", None, "CUDA code is compiled to a cubin for the running device"),
    ("ptx_target_arch", "any", None, "CUDA code is compiled to a cubin for the running device"),
    ("cuda_arch_suffix", "any", None, "chosen from the device"),
    ("compile_time_trace", "bool", False, "not offered"),
    ("use_precompiled_headers", "bool", True, "tilekit's headers are small enough to do without"),
    ("legacy_cpu_linker", "bool", False, "CPU code is a shared library, loaded by the system"),
    ("load_module_max_workers", "any", 0, "kernels are compiled one by one, at first use"),
    ("deterministic_max_records", "int", 0, "kernels without floating-point atomics always give the same bits"),
    ("deterministic_debug", "bool", False, "kernels without floating-point atomics always give the same bits"),
    ("enable_graph_capture_module_load_by_default", "bool", True, _WARP_RUNTIME),
    ("enable_mempools_at_init", "bool", True, _WARP_RUNTIME),
    ("track_memory", "bool", False, _WARP_RUNTIME),
)

WARP_OPTIONS = tuple(
    Option(name, kind, default, f"Warp's; no effect: {why}.", effective=False) for name, kind, default, why in _WARP
)

_OF_WARPS_MODULES = (
    "default_grid_stride", "enable_mathdx_solver", "enable_mathdx_fft", "optimization_level", "cpu_compiler_flags",
    "cuda_output", "compile_time_trace", "deterministic_max_records",
)  # fmt: skip
"""Those of them that are options of Warp's modules too."""
_OF_MODULES_ALONE: tuple[tuple[str, str, Any, str], ...] = (
    ("block_dim", "int", 256, "each launch says it"),
    ("extra_build_options", "any", None, _COMPILER),
    ("fuse_fp", "bool", False, "see tilekit's option `fast_math`"),
    ("strip_hash", "bool", False, "the cache names its files itself"),
)


def _warps(name: str, kind: str, default: Any, why: str) -> Option:
    return Option(name, kind, default, f"Warp's; no effect: {why}.", effective=False, optional=True)


MODULE_OPTIONS = {
    option.name: replace(option, optional=True)  # None leaves it to ``tilekit.config``
    for option in (
        *(option for option in OPTIONS if option.of_module),
        *(option for option in WARP_OPTIONS if option.name in _OF_WARPS_MODULES),
        *(_warps(*row) for row in _OF_MODULES_ALONE),
    )
}
KERNEL_OPTIONS = {
    option.name: option
    for option in (
        Option("name", "str", None, "The kernel's name; else the function's.", optional=True),
        Option("enable_backward", "bool", None, "Without meaning, as in ``tk.config``.", optional=True),
        _warps("launch_bounds", "ints", None, "threads are those of the launch"),
        Option("deterministic", "switch", None, "As in ``tk.config``, for this kernel.", optional=True),
        Option("cuda_max_registers", "int", None, "Of a thread on a GPU.", minimum=1, optional=True),
        _warps("enable_cuda_smem_spilling", "bool", None, _COMPILER),
        _warps("cluster_dim", "int", None, "blocks are not launched in clusters"),
        _warps("module", "any", None, "each kernel is compiled by itself"),
        Option("module_options", "any", None, "Options of a module, for this kernel alone.", optional=True),
        _warps("entry_point_abi", "str", None, "tilekit launches its kernels itself"),
        _warps("grid_stride", "bool", None, _GRID),
    )
}
FUNC_OPTIONS = {
    option.name: option
    for option in (
        _warps("name", "str", None, "helpers go by their own names"),
        KERNEL_OPTIONS["module"],
        _warps("inline", "bool", None, "helpers are always inlined"),
    )
}
