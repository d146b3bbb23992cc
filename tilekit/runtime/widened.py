"""A kernel specialised again with float64 in place of float32."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilekit.forks import Lock
from tilekit.frontend.guards import Reads
from tilekit.frontend.kernel import Forms, Kernel
from tilekit.ir.annotations import ArrayAnnotation
from tilekit.ir.context import LaunchForm
from tilekit.ir.core import Function
from tilekit.ir.types import ArrayType, ScalarType
from tilekit.passes.widen import wide_dtype, widen

Type = ArrayType | ScalarType | None


class WideKernel(Kernel):
    """A kernel in float64, for arguments that have these types in the kernel itself."""

    def __init__(self, kernel: Kernel, types: Mapping[str, Type]) -> None:
        # Not Kernel's own: this one is no declaration that module options should find.
        self.narrow = kernel
        self.types = dict(types)
        self.function = kernel.function
        self.key = kernel.key
        own = dict(kernel.options.get("module_options") or {})
        kept = {name: value for name, value in own.items() if name not in ("gemm", "require_gemm")}
        self.options = {**kernel.options, "module_options": kept}  # not every product that was asked for has float64
        self.parameters = {name: _annotation(type, kernel.parameters[name]) for name, type in types.items()}
        self.cache = Forms()
        self.launch_plan = None
        self.lock = Lock()

    def capture_key(self) -> int:
        return self.narrow.capture_key()

    def recorder(self) -> Reads:
        return self.narrow.recorder()

    def guarded(self, guards: Any) -> None:
        self.narrow.guarded(guards)

    @property
    def captures(self) -> dict[str, Any]:
        return self.narrow.captures

    def trace(self, types: Mapping[str, Type], form: LaunchForm) -> Function:
        """The IR of the kernel as it is written, then in float64."""
        found = widen(self.narrow.trace(self.types, form))
        assert found is not None
        return found


def widened(kernel: Kernel, types: Mapping[str, Type], form: LaunchForm) -> WideKernel | None:
    """The kernel in float64, or None where it would then mean something else.

    Args:
        kernel: The kernel.
        types: Of its arguments.
        form: How it is launched.

    Raises:
        TilekitError: the kernel is wrong.
    """
    return WideKernel(kernel, types) if widen(kernel.trace(types, form)) is not None else None


def _annotation(type: Type, stated: Any) -> Any:
    if type is None:
        return stated
    dtype = wide_dtype(type.dtype)
    return ArrayAnnotation(dtype, type.ndim) if isinstance(type, ArrayType) else dtype
