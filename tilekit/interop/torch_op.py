"""A kernel as a custom op of PyTorch: what runs, what is known of fake tensors, what autograd keeps and calls."""

from __future__ import annotations

import hashlib
import inspect
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from types import FunctionType, NoneType
from typing import Any

from tilekit.errors import KernelNotImplementedError, KernelTypeError, KernelValueError
from tilekit.frontend.kernel import Kernel
from tilekit.ir.annotations import ArrayAnnotation
from tilekit.ir.context import LaunchForm
from tilekit.ir.core import Function
from tilekit.ir.operands import describe
from tilekit.ir.parameters import closure_variables
from tilekit.ir.types import ArrayType, DType, ScalarType, as_dtype
from tilekit.passes.activity import read_parameters, written_parameters
from tilekit.runtime.adjoint import launch_adjoint
from tilekit.runtime.launch import launch, launch_tiled

Tensor = Any
NAMESPACE = "tilekit"
_known: dict[str, Op] = {}
"""What is registered with PyTorch, by name: it keeps operators as long as the process lives."""


@dataclass
class Op:
    """A kernel with what PyTorch must know of it."""

    kernel: Kernel
    outputs: dict[str, Any]
    """How each is made, in the kernel's order."""
    dim: Any
    block_dim: int
    tiled: bool
    backward: Any = None
    """The operator that runs the kernel's adjoint."""
    _reread: dict[Any, tuple[str, ...]] = field(default_factory=dict)

    @cached_property
    def inputs(self) -> list[str]:
        return [name for name in self.kernel.parameters if name not in self.outputs]

    @cached_property
    def tensors(self) -> list[str]:
        """The inputs that are arrays."""
        return [name for name in self.inputs if isinstance(self.kernel.parameters[name], ArrayAnnotation)]

    # What PyTorch calls.

    def run(self, *given: Any) -> Any:
        """The outputs of new arguments."""
        import torch

        inputs = self.full(given)
        made = self.make(*inputs)
        self.reread(inputs, made)
        start = launch_tiled if self.tiled else launch
        arguments = self.arguments(inputs, made)
        with torch.no_grad():
            start(self.kernel, self.grid(inputs), arguments, record_tape=False, block_dim=self.block_dim)
        return made[0] if len(made) == 1 else tuple(made)

    def fake(self, *given: Any) -> Any:
        """The outputs' shapes, dtypes and strides."""
        made = self.make(*self.full(given))
        return made[0] if len(made) == 1 else tuple(made)

    def setup(self, ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        """Keep what backward needs."""
        values = dict(zip(self.inputs, inputs, strict=True))
        made = [output] if len(self.outputs) == 1 else list(output)
        ctx.kept = [place for place, name in enumerate(self.outputs) if name in self.reread(inputs, made)]
        ctx.save_for_backward(*(values[name] for name in self.tensors), *(made[place] for place in ctx.kept))
        ctx.numbers = [value for name, value in values.items() if name not in self.tensors]
        ctx.meaning = self.kernel.capture_key()
        ctx.like = [(tuple(tensor.shape), tensor.dtype) for tensor in made]

    def back(self, ctx: Any, *grads: Any) -> Any:
        """The gradients of the inputs, from those of the outputs."""
        import torch

        if self.kernel.capture_key() != ctx.meaning:
            raise KernelValueError(
                f"an outer value that kernel {self.kernel.key!r} reads has changed since it ran, so its gradient would "
                "be another one; pass what changes as an argument"
            )
        saved, numbers = list(ctx.saved_tensors), iter(ctx.numbers)
        tensors = iter(saved[: len(self.tensors)])
        given = [next(tensors) if name in self.tensors else next(numbers) for name in self.inputs]
        wanted = [*ctx.needs_input_grad, *[False] * (len(given) - len(ctx.needs_input_grad))]
        anchor = next(tensor for tensor in saved if tensor is not None)
        seeds = [
            torch.zeros(shape, dtype=dtype, device=anchor.device) if grad is None else grad
            for grad, (shape, dtype) in zip(grads, ctx.like, strict=True)
        ]
        found = iter(self.backward(*given, saved[len(self.tensors) :], seeds, wanted))
        return tuple(next(found) if want else None for want in ctx.needs_input_grad)

    def run_back(self, *given: Any) -> list[Tensor]:
        """The gradients of the inputs that want one; changes nothing that it is given."""
        import torch

        *inputs, kept, seeds, wanted = given
        gradients = {
            name: torch.zeros(value.shape, dtype=value.dtype, device=value.device)
            for name, value, want in zip(self.inputs, inputs, wanted, strict=True)
            if want
        }
        found = list(gradients.values())
        # Backward takes from the gradients of what was stored, which are the caller's.
        taken = [seed.clone(memory_format=torch.contiguous_format) for seed in seeds]
        made = [torch.empty_like(seed) for seed in taken]
        coming = {name: seed for name, seed in zip(self.outputs, taken, strict=True) if seed.is_floating_point()}
        reread = self.reread(inputs, made)
        for name, tensor in zip((name for name in self.outputs if name in reread), kept, strict=True):
            made[list(self.outputs).index(name)] = tensor
        with torch.no_grad():
            launch_adjoint(
                self.kernel,
                self.grid(inputs),
                self.arguments(inputs, made),
                {**gradients, **coming},
                block_dim=self.block_dim,
                tiled=self.tiled,
            )
        return found

    def fake_back(self, *given: Any) -> list[Tensor]:
        import torch

        *inputs, _, _, wanted = given
        return [
            torch.empty(value.shape, dtype=value.dtype, device=value.device)
            for value, want in zip(inputs, wanted, strict=True)
            if want
        ]

    def again(self, ctx: Any, *grads: Any) -> Any:
        raise KernelNotImplementedError(
            f"backward of backward: the gradient of kernel {self.kernel.key!r} cannot be differentiated; call backward "
            "without create_graph=True"
        )

    # What these stand on.

    def full(self, given: Sequence[Any]) -> list[Any]:
        """All inputs: PyTorch leaves out the last ones that are their defaults."""
        signature = inspect.signature(self.kernel.function).parameters
        return [*given, *(signature[name].default for name in self.inputs[len(given) :])]

    def make(self, *given: Any) -> list[Tensor]:
        """New tensors for the outputs."""
        return [self._made(name, how, given) for name, how in self.outputs.items()]

    def _made(self, name: str, how: Any, given: Sequence[Any]) -> Tensor:
        import torch

        if isinstance(how, str):
            like = given[self.inputs.index(how)]
            return torch.zeros(like.shape, dtype=like.dtype, device=like.device)
        found = how(*given) if callable(how) else how
        if isinstance(found, torch.Tensor):
            if any(found is value for value in given):
                raise KernelValueError(
                    f"outputs: the function for {name!r} returns an input; it must make a new tensor"
                )
            return found
        dtype = self.kernel.parameters[name].dtype
        if not isinstance(dtype, DType):
            raise KernelTypeError(
                f"outputs: parameter {name!r} of kernel {self.kernel.key!r} is of any dtype, so that a shape is not "
                f"enough; give a function that makes the tensor, such as lambda x: x.new_empty(x.shape)"
            )
        first = next((value for value in given if isinstance(value, torch.Tensor)), None)
        shape = (found,) if isinstance(found, int | torch.SymInt) else tuple(found)
        return torch.zeros(shape, dtype=getattr(torch, dtype.name), device=None if first is None else first.device)

    def grid(self, given: Sequence[Any]) -> Any:
        return self.dim(*given) if callable(self.dim) else self.dim

    def arguments(self, given: Sequence[Any], made: Sequence[Any]) -> list[Any]:
        """In the order of the kernel's parameters."""
        by_name = {**dict(zip(self.inputs, given, strict=True)), **dict(zip(self.outputs, made, strict=True))}
        return [by_name[name] for name in self.kernel.parameters]

    def reread(self, given: Sequence[Any], made: Sequence[Any]) -> tuple[str, ...]:
        """The outputs that the kernel reads as well, for arguments of these types; also for fake ones.

        Raises:
            KernelTypeError: the kernel writes an array that is no output, or does not write one.
        """
        types = {
            name: self._type(name, value)
            for name, value in zip(self.kernel.parameters, self.arguments(given, made), strict=True)
        }
        key = tuple(types.values()), self.kernel.capture_key()
        found = self._reread.get(key)
        if found is None:
            fn = self.kernel.trace(types, LaunchForm(self.tiled, None, self.block_dim))
            found = self._reread[key] = self._checked(fn)
        return found

    def _checked(self, fn: Function) -> tuple[str, ...]:
        written, read = written_parameters(fn), read_parameters(fn)
        if lost := [name for name in self.inputs if name in written]:
            raise KernelTypeError(
                f"kernel {self.kernel.key!r} writes {lost[0]!r}, which is not among outputs; name it there, and pass "
                "what it is to hold before in another parameter"
            )
        if kept := [name for name in self.outputs if name not in written]:
            raise KernelTypeError(f"outputs: kernel {self.kernel.key!r} does not write {kept[0]!r}")
        return tuple(name for name in self.outputs if name in read)

    def _type(self, name: str, value: Any) -> ArrayType | ScalarType | None:
        stated = self.kernel.parameters[name]
        if isinstance(stated, DType):
            return ScalarType(stated)
        return None if value is None else ArrayType(as_dtype(value.dtype), value.ndim)

    # How PyTorch is told.

    def register(self, name: str | None) -> Callable[..., Any]:
        """The function that users call."""
        import torch

        name = self._free_name(name)
        known = ", ".join(self._parameter(name) for name in self.inputs)
        made = ", ".join("Tensor" for _ in self.outputs)
        custom = torch.library.custom_op
        forward = custom(
            name, self.run, mutates_args=(), schema=f"({known}) -> {f'({made})' if len(self.outputs) > 1 else made}"
        )
        forward.register_fake(self.fake)
        forward.register_autograd(self.back, setup_context=self.setup)
        plain = ", ".join(self._parameter(name, default=False) for name in self.inputs)
        backward = custom(
            f"{name}_backward", self.run_back, mutates_args=(),
            schema=f"({plain}{', ' if plain else ''}Tensor[] kept, Tensor[] seeds, bool[] wanted) -> Tensor[]",
        )  # fmt: skip
        backward.register_fake(self.fake_back)
        backward.register_autograd(self.again, setup_context=lambda ctx, inputs, output: None)
        self.backward = _overload(f"{name}_backward")
        _known[name] = self
        return _called(_overload(name), self)

    def _free_name(self, given: str | None) -> str:
        if given is None:
            parts = [repr(part) for part in (self.kernel.options, self.block_dim, self.tiled)]
            parts += [_text(part) for part in (self.kernel.function, self.dim, *self.outputs.values())]
            digest = hashlib.sha256("\0".join([*self.outputs, *parts]).encode()).hexdigest()
            given = f"{self.kernel.key}_{digest[:16]}"
            names = itertools.chain([given], (f"{given}_{number}" for number in itertools.count(2)))
            given = next(name for name in names if f"{NAMESPACE}::{name}" not in _known)
        elif not given.isidentifier() or f"{NAMESPACE}::{given}" in _known:
            raise KernelValueError(f"name: {given!r} is taken, or no identifier")
        return f"{NAMESPACE}::{given}"

    def _parameter(self, name: str, default: bool = True) -> str:
        """A parameter in an operator's schema."""
        stated = self.kernel.parameters[name]
        value = inspect.signature(self.kernel.function).parameters[name].default
        if isinstance(stated, ArrayAnnotation):
            optional = "?" if value is None else ""
            return f"Tensor{optional} {name}" + ("=None" if optional and default else "")
        if not isinstance(stated, DType):
            raise KernelTypeError(
                f"function(): parameter {name!r} of kernel {self.kernel.key!r} may be an array or a number; annotate "
                "it as one of them"
            )
        kind = "float" if stated.is_float else "bool" if stated.kind == "b" else "SymInt"
        known = default and value is not inspect.Parameter.empty
        return f"{kind} {name}" + (f"={value!r}" if known else "")


def _overload(name: str) -> Any:
    """The operator itself, which ``torch.compile`` sees as one call."""
    import torch

    namespace, _, own = name.partition("::")
    return getattr(getattr(torch.ops, namespace), own).default


def _called(overload: Any, op: Op) -> Callable[..., Any]:
    import torch
    from torch.autograd.forward_ad import unpack_dual

    inputs, tensors = tuple(op.inputs), frozenset(op.tensors)  # torch.compile guards what it sees of `op`

    def call(*given: Any, **named: Any) -> Any:
        for name, value in (*zip(inputs, given, strict=False), *named.items()):
            if name in tensors and not isinstance(value, torch.Tensor | NoneType):
                raise KernelTypeError(
                    f"argument {name!r} of the function of kernel {op.kernel.key!r} must be a tensor of PyTorch's, "
                    f"such as torch.as_tensor({name}), got {describe(value)}"
                )
            if isinstance(value, torch.Tensor) and unpack_dual(value).tangent is not None:
                raise KernelNotImplementedError(
                    f"the gradient of kernel {op.kernel.key!r} goes backward only: forward-mode differentiation, as by "
                    "torch.func.jvp, has none for it"
                )
        return overload(*given, **named)

    call.__name__ = call.__qualname__ = op.kernel.key
    call.__doc__ = op.kernel.__doc__
    signature = inspect.signature(op.kernel.function)
    kept = [parameter for name, parameter in signature.parameters.items() if name in op.inputs]
    call.__signature__ = signature.replace(parameters=kept)  # type: ignore[attr-defined]
    return call


def _text(part: Any) -> str:
    """What an operator depends on, the same in every process that runs the same program."""
    if not isinstance(part, FunctionType):
        return repr(part)
    code = part.__code__
    held = [_text(value) for value in closure_variables(part).values()]
    return repr((part.__module__, part.__qualname__, code.co_code.hex(), _constants(code), code.co_names, held))


def _constants(code: Any) -> list[str]:
    return [repr(_constants(part)) if hasattr(part, "co_code") else repr(part) for part in code.co_consts]
