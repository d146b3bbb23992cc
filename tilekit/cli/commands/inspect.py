"""What a kernel becomes: its IR, after each pass if asked for, its source, its machine code. Nothing is launched.

python -m tilekit inspect mykernels.py:gemm --ir --source
python -m tilekit inspect mykernels.py:gemm --arch 90 --cuda --sass
python -m tilekit inspect mykernels.py:scale --types x=array1d[float16] factor=float32
"""

from __future__ import annotations

import argparse
import difflib
import importlib.util
import os
import sys
import traceback
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from tilekit.errors import KernelNameError, KernelTypeError, KernelValueError, TilekitError
from tilekit.frontend.kernel import Kernel
from tilekit.ir.annotations import ArrayAnnotation
from tilekit.ir.parameters import parse_annotation
from tilekit.ir.types import ArrayType, DType, ScalarType
from tilekit.runtime.compiled import Compiled
from tilekit.runtime.cuda.build import CUBIN
from tilekit.runtime.cuda.disassemble import disassemble
from tilekit.runtime.explain import explanation
from tilekit.runtime.program import compile_kernel

DEFAULT_ARCH = "90"
"""For which GPU code is shown where none is named."""

Type = ArrayType | ScalarType | None


def configure(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("kernel", metavar="FILE:KERNEL", help="a Python file, and a kernel that it defines")
    add("--ir", action="store_true", help="print the IR after all passes (the default)")
    add("--passes", action="store_true", help="print the IR as traced and after each pass")
    add("--source", action="store_true", help="print the emitted code: C++, with --arch CUDA C++")
    add("--cuda", action="store_true", help="print the emitted CUDA C++")
    add("--sass", action="store_true", help="compile it for a GPU, and print the machine code")
    add("--explain", action="store_true", help="print products, tiles, memory and registers, as tk.explain does")
    add("--adjoint", action="store_true", help="print all this of the kernel's gradient instead")
    add("--library", action="store_true", help="compile it, and print where the library, or for a GPU the cubin, lies")
    add("--arch", metavar="ARCH", help="compile for a GPU of this compute capability without its dot, such as 90")
    add(
        "--types",
        nargs="+",
        action="extend",
        default=[],
        metavar="NAME=TYPE",
        help="types of generic parameters, for example a=array2d[float32] n=int32; None for an array that is not given",
    )
    add("--block-dim", type=int, default=256, metavar="N", help="lanes of a block (256)")
    add("--ndim", type=int, choices=range(1, 5), help="dimensions of the grid; by default those of tid()")
    add("--launch", action="store_true", help="as for tk.launch instead of tk.launch_tiled")


def run(arguments: argparse.Namespace) -> int:
    kernel = find_kernel(arguments.kernel)
    types = parse_types(kernel, arguments.types)
    device = "cuda" if arguments.arch or arguments.cuda or arguments.sass else "cpu"
    form = arguments.ndim, arguments.block_dim, not arguments.launch
    compiled = compile_kernel(kernel, types, *form, device, arguments.arch or DEFAULT_ARCH)
    compiled = compiled.adjoint if arguments.adjoint else compiled
    parts = {"": _summary(compiled), **_parts(compiled, arguments)}
    print("\n\n".join(f"== {title}\n{text.rstrip()}" if title else text for title, text in parts.items()))
    return 0


def _parts(compiled: Compiled, arguments: argparse.Namespace) -> dict[str, str]:
    """What was asked for, by title."""
    parts: dict[str, str] = {}
    shown = ("source", "cuda", "sass", "explain", "library")
    if arguments.passes:
        parts |= {f"IR, {name}": text for name, text in compiled.stages.items()}
    elif arguments.ir or not any(getattr(arguments, name) for name in shown):
        parts["IR"] = compiled.ir
    if arguments.source or arguments.cuda:
        parts["source"] = compiled.source
    if arguments.explain:
        parts["explained"] = explanation(compiled)
    if arguments.sass:
        parts["SASS"] = "\n".join(disassemble(part.cubin) for part in compiled.parts)
    if arguments.library:
        on_cpu = compiled.device == "cpu"
        paths = [part.library if on_cpu else part.folder / CUBIN for part in compiled.parts]
        parts["library" if on_cpu else "cubin"] = "\n".join(map(str, paths))
    return parts


def _summary(compiled: Compiled) -> str:
    form = "launch_tiled" if compiled.form.tiled else "launch"
    where = compiled.device if compiled.device == "cpu" else f"sm_{compiled.arch}, {compiled.threads} threads a block"
    lines = [
        compiled.title,
        f"  {form}, block_dim {compiled.form.block_dim}, device {where}",
        f"  tile storage: {compiled.arena_bytes} bytes a block",
    ]
    return "\n".join(lines)


def find_kernel(text: str) -> Kernel:
    """The kernel that ``FILE:KERNEL`` names; the name may be left out where the file has one kernel alone.

    Raises:
        KernelValueError: there is no such file, or it cannot be run.
        KernelNameError: the file defines no kernel of that name.
    """
    file, colon, name = text.rpartition(":")
    if not colon or os.path.exists(text):
        file, name = text, ""
    kernels = _kernels(load(Path(file)))
    if name in kernels:
        return kernels[name]
    if not name and len(kernels) == 1:
        return next(iter(kernels.values()))
    if not kernels:
        raise KernelNameError(f"{file} defines no kernel at its top level; a kernel is a function under @tk.kernel")
    if not name:
        raise KernelNameError(f"{file} defines several kernels; name one: {', '.join(f'{file}:{k}' for k in kernels)}")
    close = difflib.get_close_matches(name, kernels, 1)
    hint = f"did you mean {file}:{close[0]}?" if close else f"it defines {', '.join(kernels)}"
    raise KernelNameError(f"{file} defines no kernel {name!r}; {hint}")


def _kernels(owner: Any, prefix: str = "") -> dict[str, Kernel]:
    """Kernels of a module and of the classes that it defines, by dotted name."""
    found: dict[str, Kernel] = {}
    for name, value in vars(owner).items():
        if isinstance(value, Kernel):
            found[prefix + name] = value
        elif isinstance(value, type) and value.__module__ == getattr(owner, "__name__", None):
            found |= _kernels(value, f"{prefix}{name}.")
    return found


def load(path: Path) -> ModuleType:
    """Run a Python file as a module.

    Raises:
        KernelValueError: there is no such file, or running it fails.
        TilekitError: what tilekit itself finds wrong in it.
    """
    if not path.is_file():
        raise KernelValueError(f"there is no file {path}")
    spec = importlib.util.spec_from_file_location(path.stem, path.resolve())
    if spec is None or spec.loader is None:
        raise KernelValueError(f"{path} is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(path.resolve().parent))
    shadowed = sys.modules.get(path.stem)
    sys.modules[path.stem] = module
    try:
        spec.loader.exec_module(module)
    except TilekitError:
        raise
    except (Exception, SystemExit) as error:
        raise KernelValueError(f"{path} cannot be run: {_brief(error)}") from error
    finally:
        sys.path.remove(str(path.resolve().parent))
        if shadowed is not None:
            sys.modules[path.stem] = shadowed
    return module


def _brief(error: BaseException) -> str:
    """An error with the line where it arose, without the way there."""
    message = "".join(traceback.format_exception_only(error)).strip()
    frames = traceback.extract_tb(error.__traceback__)
    return message if isinstance(error, SyntaxError) else f"{message} ({frames[-1].filename}:{frames[-1].lineno})"


def parse_types(kernel: Kernel, given: list[str]) -> Mapping[str, Type]:
    """What ``NAME=TYPE`` arguments say of a kernel's parameters.

    Raises:
        KernelValueError: an argument of another form.
        KernelTypeError: no type, one that leaves something open, or one that contradicts the annotation.
    """
    types: dict[str, Type] = {}
    for item in given:
        name, equals, text = item.partition("=")
        if not equals:
            raise KernelValueError(f"--types takes NAME=TYPE, for example a=array2d[float32], not {item!r}")
        types[name] = _parse_type(kernel, name, text)
    return types


def _parse_type(kernel: Kernel, name: str, text: str) -> Type:
    import tilekit  # its names are those of a type

    stated = kernel.parameters.get(name)
    if text == "None":
        return None
    found = parse_annotation(text, vars(tilekit), {"tk": tilekit}, name, "--types")
    if isinstance(found, DType):
        fits = not isinstance(stated, ArrayAnnotation) and (not isinstance(stated, DType) or stated is found)
        type: Type = ScalarType(found)
    elif isinstance(found, ArrayAnnotation) and not found.is_generic:
        fits = not isinstance(stated, DType)
        fits = fits and (not isinstance(stated, ArrayAnnotation) or stated.accepts(found.dtype, found.ndim or 1))
        type = ArrayType(found.dtype, found.ndim or 1)
    else:
        raise KernelTypeError(
            f"--types {name}={text} leaves the type open; write, for example, {name}=array2d[float32]"
        )
    if not fits:
        raise KernelTypeError(f"--types {name}={text} contradicts the annotation of {name!r}, which is {stated}")
    return type
