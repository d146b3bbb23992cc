"""``@tk.kernel`` and ``@tk.func``."""

from __future__ import annotations

import ast
import functools
import sys
from collections.abc import Callable, Mapping
from types import FunctionType
from typing import Any, overload

from tilekit.config import config
from tilekit.errors import KernelTypeError, Location, TilekitError
from tilekit.forks import Lock
from tilekit.frontend.captures import Captures
from tilekit.frontend.guards import Guards, Reads
from tilekit.frontend.module_options import check_keywords, declare
from tilekit.frontend.outer_names import captures_of
from tilekit.frontend.overloads import Func
from tilekit.frontend.source import keep_source, read_source
from tilekit.frontend.trace import trace
from tilekit.ir.annotations import ArrayAnnotation
from tilekit.ir.context import LaunchForm
from tilekit.ir.core import Function
from tilekit.ir.operands import describe
from tilekit.ir.parameters import parse_parameters
from tilekit.ir.types import ArrayType, DType, ScalarType
from tilekit.options import FUNC_OPTIONS, KERNEL_OPTIONS

__all__ = ["Kernel", "func", "kernel"]


class Forms(dict[Any, Any]):
    """The compiled forms of one kernel by specialisation."""

    def __init__(self) -> None:
        super().__init__()
        self.known: dict[Any, Any] = {}
        """What the runtime keeps of earlier launches; another dict once the forms are gone."""
        self.seen: set[int] = set()
        """The hashes of the keys of launches that it may keep when they come again."""
        self.misses = 0
        """How many of the last launches were not like an earlier one."""
        self.attempts: tuple[Any, ...] = ()
        """What the runtime tries first at a launch."""
        self.may_save = False
        """Whether one of the forms may have a variant that keeps tiles for its gradient."""

    def clear(self) -> None:
        super().clear()
        self.known = {}
        self.seen.clear()
        self.misses = 0
        self.attempts = ()
        self.may_save = False


class Kernel:
    """A function that runs once for each block or point of a launch; made by ``@tk.kernel``."""

    def __init__(self, function: FunctionType, options: Mapping[str, Any], variables: Mapping[str, Any]) -> None:
        self.function = function
        self.options = dict(options)
        self.key = options.get("name") or function.__name__
        self.parameters = parse_parameters(function, "kernel", variables, functools.partial(_parameter, function))
        self.cache = Forms()
        """Filled by the runtime."""
        self.launch_plan: Any = None
        """What the runtime has looked up about the parameters."""
        self.lock = Lock()
        self._captures = Captures(function)
        functools.update_wrapper(self, function)
        self._own: dict[str, Any] = dict(options.get("module_options") or {})
        self.set_defaults({})
        declare(self, str(function.__module__))

    def set_defaults(self, defaults: Mapping[str, Any]) -> None:
        """Take module options where the kernel has none of its own, from the next launch on."""
        merged = {**defaults, **self._own}
        self.options["module_options"] = {name: value for name, value in merged.items() if value is not None}
        self.cache.clear()

    def capture_key(self) -> int:
        """A number for what the outer values that the kernel reads are now; the same for values that mean the same.

        Raises:
            KernelTypeError: one of them is a list, dict or array.
        """
        return self._captures.number()

    def recorder(self) -> Reads:
        """What records a trace's reads from outside that ``capture_key`` does not know."""
        return Reads(self._captures.known())

    def guarded(self, guards: Guards) -> None:
        """Note that another form of the kernel was compiled for these values."""
        for guarded, key in guards.found:
            self._captures.count(guarded, key)

    @property
    def captures(self) -> dict[str, Any]:
        """The outer values by the text that names them."""
        return {str(capture): capture.read() for capture in captures_of(self.function)}

    @property
    def max_unroll(self) -> int:
        """Loops over constants of at most this length are unrolled: the kernel's own option, else the one for all."""
        return int(config.chosen("max_unroll", self.options))

    def trace(self, types: Mapping[str, ArrayType | ScalarType | None], form: LaunchForm) -> Function:
        """The IR for parameters of these types."""
        with config.scoped(max_unroll=self.max_unroll):
            return trace(self.function, types, self.key, self.options, form)

    def default_types(
        self, given: Mapping[str, ArrayType | ScalarType | None] | None = None
    ) -> dict[str, ArrayType | ScalarType | None]:
        """The type of every parameter: the one given, else the one that its annotation states.

        Raises:
            KernelTypeError: an annotation is generic and no type given for it, or a name is given that is no parameter.
        """
        given = given or {}
        if unknown := [name for name in given if name not in self.parameters]:
            known = ", ".join(self.parameters)
            raise KernelTypeError(f"kernel {self.key!r} has no parameter {unknown[0]!r}; its parameters are {known}")
        types: dict[str, ArrayType | ScalarType | None] = {}
        for name, annotation in self.parameters.items():
            if name in given:
                types[name] = given[name]
            elif isinstance(annotation, DType):
                types[name] = ScalarType(annotation)
            elif isinstance(annotation, ArrayAnnotation) and not annotation.is_generic:
                types[name] = ArrayType(annotation.dtype, annotation.ndim or 1)
            else:
                raise KernelTypeError(f"parameter {name!r} of kernel {self.key!r} is generic; give its type")
        return types

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise KernelTypeError(
            f"kernel {self.key!r} cannot be called; launch it with tk.launch_tiled({self.key}, dim=..., inputs=[...])"
        )

    def __repr__(self) -> str:
        return f"<tilekit kernel {self.key}>"


def _parameter(function: FunctionType, name: str) -> Location | None:
    """Where a parameter stands."""
    try:
        source = read_source(function)
    except (TilekitError, SyntaxError):
        return None
    found = [node for node in ast.walk(source.node.args) if isinstance(node, ast.arg) and node.arg == name]
    return source.location(found[0]) if found else None


@overload
def kernel(f: Callable[..., Any]) -> Kernel: ...
@overload
def kernel(f: None = None, **options: Any) -> Callable[[Callable[..., Any]], Kernel]: ...
def kernel(f: Callable[..., Any] | None = None, **options: Any) -> Kernel | Callable[[Callable[..., Any]], Kernel]:
    """Declare a kernel.

    Args:
        f: The function: every parameter annotated with an array type or a number type.
        options: Warp's keywords. ``name`` renames the kernel, ``module_options`` is what
            :func:`set_module_options` takes, for this kernel alone, ``deterministic`` refuses gradients that only
            atomics could sum, ``cuda_max_registers`` limits the registers of a thread on GPUs; ``enable_backward``,
            ``launch_bounds``, ``enable_cuda_smem_spilling``, ``cluster_dim``, ``module``, ``entry_point_abi`` and
            ``grid_stride`` are accepted without meaning.

    Raises:
        KernelTypeError: an unknown keyword or module option, or a parameter without annotation.
        KernelValueError: an option's value has the wrong type.

    Example:
        >>> import tilekit as tk
        >>> @tk.kernel
        ... def double(a: tk.array1d[float]):
        ...     i = tk.tid()
        ...     a[i] = 2.0 * a[i]
        >>> double
        <tilekit kernel double>
    """
    check_keywords(options, KERNEL_OPTIONS, "kernel")
    variables = dict(sys._getframe(1).f_locals)

    def make(function: Callable[..., Any]) -> Kernel:
        if isinstance(function, Kernel):
            function = function.function
        found = getattr(function, "func", function) if not isinstance(function, FunctionType) else function
        if not isinstance(found, FunctionType):
            raise KernelTypeError(f"@tk.kernel needs a function, got {describe(function)}")
        keep_source(found)
        return Kernel(found, options, variables)

    return make if f is None else make(f)


def func(f: Callable[..., Any] | None = None, **options: Any) -> Any:
    """Declare a helper that kernels may call; it is inlined. Plain functions work as well.

    Annotations hold in kernels: arguments and result have the types that are written there, and a number of another
    dtype is an error. A literal takes the annotated dtype, if it is of its kind and fits. ``Any`` takes everything.

    As in Warp, a second function of the same name whose parameters have other types does not replace the first: a call
    means the one that takes its arguments.

    Args:
        f: The function.
        options: Warp's keywords ``name``, ``module`` and ``inline``, accepted without meaning.

    Raises:
        KernelTypeError: an unknown keyword.

    Example:
        >>> import tilekit as tk
        >>> @tk.func
        ... def square(x: float):
        ...     return x * x
        >>> square(3.0)
        9.0
    """
    check_keywords(options, FUNC_OPTIONS, "func")
    variables = sys._getframe(1).f_locals

    def make(f: Callable[..., Any]) -> Func:
        if isinstance(f, Func):
            return f
        found = f if isinstance(f, FunctionType) else getattr(f, "func", None)
        if not isinstance(found, FunctionType):
            raise KernelTypeError(f"@tk.func needs a function, got {describe(f)}")
        keep_source(found)
        earlier = variables.get(found.__name__)
        return Func(found, earlier if isinstance(earlier, Func) else None, variables)

    return make if f is None else make(f)
