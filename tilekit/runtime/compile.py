"""``tk.compile``: kernels to machine code, with or without the device that runs it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tilekit.codegen.architectures import arch_name
from tilekit.errors import KernelTypeError, KernelValueError
from tilekit.frontend.kernel import Kernel
from tilekit.ir.operands import describe
from tilekit.runtime.cuda import nvrtc
from tilekit.runtime.grids import block_dim_of, dims_of
from tilekit.runtime.parallel import in_parallel
from tilekit.runtime.spec import class_of, state

if TYPE_CHECKING:
    from tilekit.runtime.compiled import Compiled

__all__ = ["compile"]


def compile(
    kernel: Kernel | Sequence[Kernel],
    args: Sequence[Any] | None = None,
    dim: Any = None,
    arch: int | str = 90,
    block_dim: int | None = 128,
    arrays: Mapping[str, Any] | None = None,
    tiled: bool = True,
    device: str | None = None,
) -> Any:
    """Compile a kernel without launching it. For CUDA this needs no GPU, only NVRTC (the extra ``cuda``).

    Args:
        kernel: The kernel, or a list of kernels, which are compiled side by side; all else holds for each of them.
        args: One entry for each parameter: an array, ``tk.spec(...)`` or a type such as ``tk.array2d[float]`` for one,
            a number or a dtype, or None for an array that is not given. Without it the annotations must say it all.
        dim: The grid, an int or 1 to 4 of them. Without it every name that ``tk.tid()`` is unpacked into is a
            coordinate of the grid, and none is the lane.
        arch: The compute capability of the GPU without its dot: 90 is what every GPU of 9.0 and later of 9.x runs,
            ``"90a"`` what a launch on a GPU of 9.0 compiles.
        block_dim: Lanes of a block, as for a launch; on a GPU its threads, where no others suit the kernel better.
        arrays: As ``args``, by name, for some parameters.
        tiled: Compile what ``tk.launch_tiled`` runs, else what ``tk.launch`` runs.
        device: ``"cpu"``, or ``"cuda"``, the default.

    Returns:
        What the kernel became, a list for a list: ``ir``, ``source``, ``cubin`` (bytes; ``library``, a path, on the
        CPU), ``launches``, ``plans`` (of each matrix product: ``backend`` and ``reason``), ``threads``,
        ``shared_bytes``, ``registers``, ``local_bytes``, ``spilled_bytes``, ``barriers``, ``tiles``, ``assumptions``.
        ``adjoint`` is the same of its gradient, which is derived when first asked for; where that is several launches,
        ``parts`` are these.
        CUDA code is made for arrays of a class: row-major ones without gaps and aligned to 16 bytes, except where
        ``args`` or ``arrays`` say otherwise; ``assumptions`` lists it. The class holds for rows of any number of
        whole 16 bytes.

    Raises:
        TilekitError: the kernel is wrong; the error carries the place in its source.
        KernelTypeError: ``args`` or ``arrays`` do not fit the parameters, or leave a type open.
        KernelValueError: a block needs more shared memory than the architecture has; the tiles are listed.
        CompileError: the compiler refused the code, or knows no such architecture.
        MissingPackageError: NVRTC is not installed.

    Example:
        >>> import tilekit as tk
        >>> @tk.kernel
        ... def product(a: tk.array2d[float], b: tk.array2d[float], out: tk.array2d[float]):
        ...     x, y = tk.tile_load(a, shape=(8, 8)), tk.tile_load(b, shape=(8, 8))
        ...     tk.tile_store(out, tk.tile_matmul(x, y))
        >>> compiled = tk.compile(product, device="cpu")
        >>> compiled.plans[0].backend, compiled.shared_bytes
        ('scalar', 768)
    """
    check_arch(device, arch)
    how = {"args": args, "dim": dim, "arch": arch, "block_dim": block_dim, "arrays": arrays, "tiled": tiled}
    if isinstance(kernel, Kernel):
        return prepare(kernel, device=device, **how).build()
    if not isinstance(kernel, Sequence) or isinstance(kernel, str):
        raise KernelTypeError(f"tk.compile takes a kernel made by @tk.kernel or a list of them, got {describe(kernel)}")
    prepared = [prepare(item, device=device, **how) for item in kernel]
    return in_parallel([item.build for item in prepared])


def check_arch(device: str | None, arch: int | str) -> None:
    """Refuse an architecture that no code is made for, before passes warn of what it lacks.

    Raises:
        KernelValueError, CompileError, MissingPackageError: as :func:`compile`.
    """
    if device is None or str(device) == "cuda":
        nvrtc.check_arch(arch_name(arch))


def prepare(
    kernel: Any,
    args: Sequence[Any] | None = None,
    dim: Any = None,
    arch: int | str = 90,
    block_dim: int | None = 128,
    arrays: Mapping[str, Any] | None = None,
    tiled: bool = True,
    device: str | None = None,
) -> Compiled:
    """As :func:`compile` for one kernel, up to where a compiler is asked."""
    from tilekit.runtime.program import compile_kernel  # all passes, which programs that launch may never need

    if not isinstance(kernel, Kernel):
        raise KernelTypeError(f"a kernel made by @tk.kernel is needed, got {describe(kernel)}")
    if not isinstance(tiled, bool):
        raise KernelTypeError(f"tiled must be True or False, got {describe(tiled)}")
    where = "cuda" if device is None else str(device)
    if where not in ("cpu", "cuda"):
        raise KernelValueError(
            f"device must be 'cpu' or 'cuda', not {device!r}; for which GPU is said by arch, such as arch=90"
        )
    stated = state(kernel, args, arrays)
    grid = None if dim is None else dims_of(dim)
    return compile_kernel(
        kernel,
        stated.types,
        None if grid is None else len(grid),
        block_dim_of(block_dim),
        tiled,
        where,
        "" if where == "cpu" else arch_name(arch),
        {name: class_of(view) for name, view in stated.views.items()},
        grid,
    )
