"""``tk.torch``: kernels as functions of PyTorch tensors that autograd and ``torch.compile`` know."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tilekit.errors import KernelTypeError, KernelValueError
from tilekit.frontend.kernel import Kernel
from tilekit.interop.torch_op import Op
from tilekit.ir.annotations import ArrayAnnotation
from tilekit.ir.operands import describe
from tilekit.runtime.grids import block_dim_of, dims_of

__all__ = ["function"]


def function(
    kernel: Kernel,
    outputs: Mapping[str, Any] | None = None,
    dim: Any = None,
    block_dim: int | None = None,
    tiled: bool = True,
    name: str | None = None,
) -> Callable[..., Any]:
    """A kernel as a differentiable function of PyTorch tensors.

    The function takes the kernel's arguments without its outputs and returns the outputs, new tensors that are zero
    where the kernel writes nothing. It is a custom op of PyTorch (``torch.ops.tilekit``) with a fake implementation, so
    that ``torch.compile(fullgraph=True)`` keeps it in its graph, and with the kernel's gradient as its backward: for
    each tensor of floats that requires grad. Tensors may have any strides. They are kept by ``save_for_backward``, so
    that a write in place before backward is an error. Numbers are constants. Kernels run on PyTorch's current stream.

    Args:
        kernel: The kernel. Parameters are annotated as arrays or numbers.
        outputs: For each array that the kernel writes its shape, as a tuple; the name of an input of the same shape,
            dtype and device; or a function of the inputs, in the kernel's order, that gives a shape or a new tensor.
            A shape gives a tensor of the annotation's dtype, on the device of the first tensor.
        dim: The grid: an int, a tuple of ints, or a function of the inputs that gives one.
        block_dim: As for a launch.
        tiled: Whether the kernel is launched by ``launch_tiled``.
        name: The operator's name; by default the kernel's, and a digest of its code and of ``outputs``.

    Returns:
        A function of the inputs. It returns one tensor, or a tuple of them in the order of the kernel's parameters.

    Raises:
        KernelTypeError, KernelValueError: ``outputs`` or ``dim`` do not fit the kernel; when it is called, arguments
            that do not, or an array that is written and not among ``outputs``.
        KernelNotImplementedError: in backward, a kernel that cannot be differentiated, and backward of backward.

    Example:
        >>> import pytest, tilekit as tk
        >>> torch = pytest.importorskip("torch")
        >>> @tk.kernel
        ... def scale(x: tk.array1d[float], factor: float, out: tk.array1d[float]):
        ...     i = tk.tid()
        ...     tk.tile_store(out, factor * tk.tile_load(x, shape=4, offset=4 * i), offset=4 * i)
        >>> scaled = tk.torch.function(scale, outputs={"out": "x"}, dim=lambda x, factor: (len(x) + 3) // 4)
        >>> x = torch.ones(6, requires_grad=True)
        >>> scaled(x, 3.0).sum().backward()
        >>> x.grad
        tensor([3., 3., 3., 3., 3., 3.])
    """
    if not isinstance(kernel, Kernel):
        raise KernelTypeError(f"function() takes a kernel made by @tk.kernel, got {describe(kernel)}")
    op = Op(kernel, _outputs(kernel, outputs), dim, block_dim_of(block_dim), tiled)
    if dim is None:
        raise KernelTypeError(f"function() needs dim: the grid of kernel {kernel.key!r}, or a function that gives it")
    if not callable(dim):
        dims_of(dim)
    return op.register(name)


def _outputs(kernel: Kernel, given: Mapping[str, Any] | None) -> dict[str, Any]:
    arrays = [name for name, annotation in kernel.parameters.items() if isinstance(annotation, ArrayAnnotation)]
    if not isinstance(given, Mapping) or not given:
        raise KernelTypeError(
            f"function() needs outputs: for each array that kernel {kernel.key!r} writes its shape, the name of an "
            f"input like it, or a function of the inputs; as in outputs={{{arrays[-1] if arrays else 'out'!r}: ...}}"
        )
    for name, made in given.items():
        if name not in arrays:
            raise KernelValueError(
                f"outputs: kernel {kernel.key!r} has no array parameter {name!r}; its arrays are {', '.join(arrays)}"
            )
        if isinstance(made, str) and (made not in arrays or made in given):
            inputs = ", ".join(other for other in arrays if other not in given)
            raise KernelValueError(
                f"outputs: {name!r} is to be like {made!r}, which is not an input; the inputs are {inputs}"
            )
    return {name: given[name] for name in kernel.parameters if name in given}
