"""``@builtin``: the one way an operation is declared.

A builtin is a typed Python signature with a docstring, plus rules, of the kinds of ``ir/rules.py``.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any, TypeVar

import numpy as np

from tilekit.errors import KernelTypeError, KernelValueError, TilekitError, operand as marked
from tilekit.ir import handles
from tilekit.ir.context import Concrete, Context, active, fail, together
from tilekit.ir.core import Block, Const, Value, type_of
from tilekit.ir.float_state import in_ieee_state
from tilekit.ir.handles import Array, Scalar, Tile, wrap
from tilekit.ir.literals import adopt, derive, of_literals
from tilekit.ir.operands import (
    Kind,
    accepts,
    adapted,
    allows_none,
    common_dtype,
    constant,
    describe_for_number,
    describe_for_tile,
    index_operand,
    is_weak,
    kind_of,
    misuse,
    operand_of,
    parameter_names,
    shape_attribute,
)
from tilekit.ir.properties import Properties
from tilekit.ir.rules import LEADING
from tilekit.ir.types import ScalarType, TileType, Type, as_dtype, float64, int64, outside, uint64

Rule = TypeVar("Rule", bound=Callable[..., Any])

REGISTRY: dict[str, Builtin] = {}

_MOST_ELEMENTS = 2**31 - 1
"""As many as an int32 can number."""
OPERAND_KINDS = (Kind.OPERAND, Kind.INDEX, Kind.TILES)


class _Declares:
    """A decorator of builtins: it declares a rule of the kind that it is named after."""

    def __set_name__(self, owner: type, kind: str) -> None:
        self.kind = kind

    def __get__(self, builtin: Builtin, owner: type) -> Callable[[Rule], Rule]:
        return lambda rule: builtin._declare(self.kind, rule)


class Builtin(Properties):
    """A declared operation: a call records an op while a kernel is traced, and computes at once otherwise."""

    def __init__(self, signature: Callable[..., Any], **properties: Any) -> None:
        self.name = signature.__name__
        self.__name__ = self.name
        self.__doc__ = signature.__doc__
        self.__wrapped__ = signature
        self.__module__ = signature.__module__
        self._rules: dict[str, tuple[Callable[..., Any], tuple[str, ...]]] = {}
        self.no_adjoint: str | None = None
        super().__init__(**properties)
        if self.name in REGISTRY:
            raise ValueError(f"builtin {self.name!r} is declared twice")
        REGISTRY[self.name] = self
        if self.operator is not None:
            handles.OPERATORS[self.operator] = self

    # The signature, read at the first use: there are hundreds of builtins, and a program calls a few.

    @cached_property
    def signature(self) -> inspect.Signature:
        return inspect.signature(self.__wrapped__, eval_str=True)

    @cached_property
    def defaults(self) -> dict[str, Any]:
        """The parameters with their defaults."""
        return {name: parameter.default for name, parameter in self.signature.parameters.items()}

    @cached_property
    def kinds(self) -> dict[str, Kind]:
        return {name: kind_of(parameter.annotation) for name, parameter in self.signature.parameters.items()}

    @cached_property
    def accepted(self) -> dict[str, tuple[type, ...]]:
        return {name: accepts(parameter.annotation) for name, parameter in self.signature.parameters.items()}

    @cached_property
    def optional(self) -> set[str]:
        parameters = self.signature.parameters.values()
        return {p.name for p in parameters if p.default is None or allows_none(p.annotation)}

    @cached_property
    def operand_names(self) -> tuple[str, ...]:
        return tuple(name for name, kind in self.kinds.items() if kind in OPERAND_KINDS)

    # Calls.

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        try:
            context = active()
            if context is None:  # in a kernel, what runs or traces that has set the state
                return self._call_outside(args, kwargs)
            team = getattr(context, "team", None)
            return self.call(args, kwargs) if team is None else team.call(self, args, kwargs)
        except TilekitError as error:
            if error.builtin is None and error.location is None:
                error.builtin = self
            raise fail(error) from error.__cause__

    def call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call it in the active context, for one lane or for all at once."""
        if "arguments" in self._rules:
            args, kwargs = self.apply("arguments", {}, {}, args=args, kwargs=kwargs)
        given = self.bind(args, kwargs)
        if self.elementwise:
            if any(isinstance(given[name], Tile) for name in self.operand_names):
                return handles.OPERATORS["map"](self, *given.values())
            numbers = [given[name] for name in self.operand_names]
            if len(numbers) == len(given) and all(map(_is_weak, numbers)):
                return self._fold(numbers)
        operands, attrs = self._split(given)
        operands = self._coerce(operands, attrs)
        if "check" in self._rules:
            self.apply("check", given, {})
        result = self.record(operands, attrs)
        return self._update(given[self.updates], result) if self.updates else result

    _call_outside = in_ieee_state(call)

    def bind(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        """The arguments of a call by name, in the signature's order."""
        defaults = self.defaults
        if not kwargs and len(args) == len(defaults):
            return dict(zip(defaults, args, strict=True))
        given = {**defaults, **dict(zip(defaults, args, strict=False)), **kwargs}
        doubled = kwargs and any(name in kwargs for name in tuple(defaults)[: len(args)])
        missing = any(value is inspect.Parameter.empty for value in given.values())
        if doubled or missing or len(given) != len(defaults) or len(args) > len(defaults):
            raise KernelTypeError(misuse(self.name, self.signature, args, kwargs))
        return given

    def _fold(self, numbers: list[Any]) -> Any:
        """The result on Python numbers alone, again as a Python number."""
        floats = any(isinstance(number, float) for number in numbers)
        try:
            data = [float(number) if floats and not isinstance(number, bool) else number for number in numbers]
            named = dict(zip(self.operand_names, data, strict=True))
            with np.errstate(all="ignore"):
                result = self.apply("reference", named, {}, types=(ScalarType(float64),))
        except (OverflowError, TypeError):
            for number in numbers:  # NumPy takes longer integers for objects
                if isinstance(number, int) and not (int64.holds(number) or uint64.holds(number)):
                    held = float64 if number.bit_length() > 1023 else int64 if number < 0 else uint64
                    raise KernelValueError(f"{self.called}: {outside(number, held)}") from None
            raise
        return result.item() if hasattr(result, "item") else result

    def _split(self, given: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        operands: dict[str, Any] = {}
        attrs: dict[str, Any] = {}
        ignored = self.ignored(given, {})
        for name, value in given.items():
            what = f"the {name}" if self.group == "internal" else f"{self.name}(): {name}"
            what = f"{self.spelled}: {marked(name)}" if self.spelled != self.name else what
            match self.kinds[name]:
                case Kind.OPERAND:
                    unread = isinstance(value, Tile) and name in ignored
                    operands[name] = value.read(unread=True) if unread else self._operand(name, value, what)
                case Kind.INDEX:
                    operands[name] = index_operand(0 if value is None and name in self.optional else value, what)
                case Kind.TILES:
                    operands[name] = tuple(operand_of(item, what) for item in value)
                case Kind.SHAPE:
                    attrs[name] = None if value is None else shape_attribute(value, what)
                case Kind.DTYPE:
                    if isinstance(value, Scalar):
                        raise KernelTypeError(f"{what} must be a dtype, got a run-time {value.dtype.name}")
                    attrs[name] = None if value is None else as_dtype(value)
                case Kind.ATTRIBUTE:
                    attrs[name] = int(value) if isinstance(value, np.integer) else value
        return operands, attrs

    def _operand(self, name: str, value: Any, what: str) -> Any:
        """A handle, number or value of one of the classes that the parameter's annotation names."""
        accepted = self.accepted[name]
        if isinstance(value, (*accepted, Value, Const, Concrete)):
            return operand_of(value, what)
        if value is None and name in self.optional:
            return None
        if Scalar in accepted and (number := constant(value)) is not None:
            return number
        if Array in accepted and active() is None and isinstance(value, np.ndarray):
            return operand_of(value, what)
        wanted = " or ".join({Tile: "a tile", Scalar: "a number", Array: "an array"}[kind] for kind in accepted)
        shown = describe_for_tile(value) if Tile in accepted else describe_for_number(value)
        raise KernelTypeError(f"{what} must be {wanted}, got {shown}")

    def _coerce(self, operands: dict[str, Any], attrs: Mapping[str, Any]) -> dict[str, Any]:
        wanted: dict[str, Any] = {}
        partners: dict[str, Any] = {}
        if self.unify:
            named = {name: operands[name] for name in self.unify if operands[name] is not None}
            partners = {name: type_of(operand) for name, operand in named.items()}
            common = common_dtype(partners, self.spelled)
            wanted = dict.fromkeys(named, of_literals(common, named.values(), self.spelled) if common.weak else common)
        if "coerce" in self._rules:
            types = {name: type_of(operand) for name, operand in operands.items()}
            wanted.update(self.apply("coerce", types, attrs))
        return {name: self._convert(operand, wanted.get(name), partners) for name, operand in operands.items()}

    def _convert(self, operand: Any, wanted: ScalarType | None, partners: Mapping[str, Any]) -> Any:
        if wanted is None or operand is None or isinstance(operand, tuple):
            return operand
        if isinstance(operand, Const):
            return adapted(operand, wanted, self.called if self.group != "internal" else "", partners)
        return operand if isinstance(operand.type, TileType) else adopt(operand, wanted)

    @property
    def spelled(self) -> str:
        """The operation as errors name it: its operator where it has one."""
        symbol = self.operator
        return f"'{symbol}'" if symbol is not None and not symbol[0].isalpha() and len(symbol) <= 2 else self.name

    @property
    def called(self) -> str:
        """The operation at the head of an error: its operator where it has one, else its name as it is called."""
        return f"{self.name}()" if self.spelled == self.name else self.spelled

    def _update(self, target: Tile | None, result: Any) -> Any:
        if target is None:
            return result
        results = result if isinstance(result, tuple) else (result,)
        target.assign(results[0].read())
        return None if len(results) == 1 else results[1] if len(results) == 2 else results[1:]

    def record(
        self,
        operands: Mapping[str, Any],
        attrs: Mapping[str, Any],
        blocks: tuple[Block, ...] = (),
        weak: bool = False,
    ) -> Any:
        """Hand the op to the active context and wrap its results, which are ``weak`` where a literal is converted."""

        def run() -> Any:
            context: Context = active() or EAGER
            types = self.result_types({name: type_of(o) for name, o in operands.items()}, attrs, blocks)
            if weak or any(not is_weak(operands[name].type) for name in self.unify if operands[name] is not None):
                types = tuple(ScalarType(type.dtype, weak) if is_weak(type) or weak else type for type in types)
            results = context.apply(self, operands, attrs, types, blocks)
            if not weak:  # else the caller notes where they come from
                derive(results, operands, self.spelled)
            wrapped = tuple(map(wrap, results))
            return wrapped[0] if len(wrapped) == 1 else wrapped or None

        return together(run, self.spelled) if self.cooperative else run()

    # What passes ask of a builtin.

    def ignored(self, operands: Mapping[str, Any], attrs: Mapping[str, Any]) -> tuple[str, ...]:
        """The tile operands that this call does not read."""
        return tuple(self.apply("ignores", operands, attrs)) if "ignores" in self._rules else ()

    def has(self, kind: str) -> bool:
        return kind in self._rules

    def apply(self, kind: str, operands: Mapping[str, Any], attrs: Mapping[str, Any], **leading: Any) -> Any:
        """Run a rule on the parameters it names."""
        if kind not in self._rules:
            raise NotImplementedError(f"builtin {self.name!r} has no {kind!r} rule")
        rule, names = self._rules[kind]
        given = {**leading, **operands, **attrs}
        return rule(**{name: given[name] for name in names})

    def result_types(
        self, operands: Mapping[str, Any], attrs: Mapping[str, Any], blocks: tuple[Block, ...] = ()
    ) -> tuple[Type, ...]:
        found = self.apply("result", operands, attrs, blocks=blocks)
        types = () if found is None else tuple(found) if isinstance(found, tuple) else (found,)
        for type in types:
            if isinstance(type, TileType) and type.size > _MOST_ELEMENTS:
                raise KernelValueError(
                    f"{self.called}: a {type} has {type.size} elements, which is more than 2**31 - 1"
                )
        return types

    # How a builtin is declared.

    def result(self, rule: Rule, names: tuple[str, ...] | None = None) -> Rule:
        return self._declare("result", rule, names)

    arguments = _Declares()
    coerce = _Declares()
    check = _Declares()
    warns = _Declares()
    ignores = _Declares()
    reference = _Declares()
    neutral = _Declares()
    verify = _Declares()
    adds = _Declares()
    alone = _Declares()
    shared = _Declares()
    adjoint = _Declares()
    lower = _Declares()
    emit = _Declares()

    def has_no_adjoint(self, reason: str) -> None:
        """Declare that gradients cannot flow through this op, and why; reaching one is then an error."""
        self.no_adjoint = reason

    def missing_rules(self) -> list[str]:
        """What a complete declaration still lacks; the registry test asserts that this is empty."""
        missing = [kind for kind in ("result", "reference") if not self.has(kind)]
        if self.has("lower") == self.has("emit") and not (self.region and self.region.runs == "once"):
            missing.append("exactly one of lower / emit")
        return missing

    def _declare(self, kind: str, rule: Rule, names: tuple[str, ...] | None = None) -> Rule:
        """``names`` for a rule that takes keywords."""
        names = parameter_names(rule) if names is None else names
        known = {*LEADING[kind], *parameter_names(self.__wrapped__)}
        if unknown := [name for name in names if name not in known]:
            raise TypeError(f"{self.name}.{kind} takes {unknown}, which {self.name} lacks")
        self._rules[kind] = (rule, names)
        return rule

    def __repr__(self) -> str:
        return f"<builtin {self.name}{self.signature}>"


EAGER: Any = None
"""The context of calls outside any kernel; set by ``ir.eager``."""


def set_eager(context: Any) -> None:
    global EAGER
    EAGER = context


def builtin(**properties: Any) -> Callable[[Callable[..., Any]], Builtin]:
    """Declare a builtin from a typed signature whose docstring is its user documentation.

    The keyword arguments are the fields of :class:`Properties`.
    """
    return lambda signature: Builtin(signature, **properties)


__all__ = ["REGISTRY", "Array", "Builtin", "Scalar", "Tile", "builtin", "set_eager"]


def _is_weak(number: Any) -> bool:
    """Whether a number is one of Python's own, which has no dtype; NumPy's float64 is a ``float`` too."""
    return isinstance(number, int | float) and not isinstance(number, np.generic)
