"""What every builtin must satisfy, as one base class: a family's test file lists cases and inherits the checks."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, ClassVar

import ml_dtypes
import numpy as np
import pytest

from tests.adjoints import Adjoint, AdjointLibrary, Answers, assert_equal_within_rounding, carries_gradient
from tests.compiled import Library
from tests.cuda_library import CudaLibrary, arch_of_first_gpu
from tests.numpy_alone import numpy_alone
from tests.on_gpu import GPUS
from tilekit.codegen.target import Target
from tilekit.errors import KernelNotImplementedError
from tilekit.frontend.calls import resolve_call
from tilekit.ir.builtin import REGISTRY, Builtin
from tilekit.ir.context import Builder, LaunchForm, using
from tilekit.ir.core import Function, Op, Value, walk
from tilekit.ir.handles import Array, Scalar, Tile
from tilekit.ir.interpret import HOST, interpret, look_up, run_op
from tilekit.ir.types import DTYPES, ArrayType, DType, ScalarType, Type, as_dtype, bfloat16, float64
from tilekit.ir.verify import verify
from tilekit.passes import run_pipeline
from tilekit.passes.differentiate import differentiate
from tilekit.runtime.cpu import generate

Bound = Callable[[Mapping[str, Any]], Any]


@dataclass(frozen=True)
class Spec:
    """An operand of a case: a tile, a scalar or an array."""

    kind: str
    dtype: DType
    shape: tuple[int, ...] = ()
    data: Any = "normal"
    """How its elements are chosen: see ``make_data``; or the elements themselves."""


def tile(dtype: Any, *shape: int, data: Any = "normal") -> Spec:
    return Spec("tile", DTYPES[dtype] if isinstance(dtype, str) else as_dtype(dtype), shape, data)


def scalar(dtype: Any, value: Any = "normal") -> Spec:
    return Spec("scalar", DTYPES[dtype] if isinstance(dtype, str) else as_dtype(dtype), (), value)


def array(dtype: Any, *shape: int, data: Any = "normal") -> Spec:
    return Spec("array", DTYPES[dtype] if isinstance(dtype, str) else as_dtype(dtype), shape, data)


@dataclass(frozen=True)
class Case:
    """One use of a builtin: its operands, its attributes, and how it is called."""

    builtin: str
    id: str
    operands: Mapping[str, Spec]
    arguments: Mapping[str, Any] = field(default_factory=dict)
    call: Callable[..., Any] | None = None
    """A function of the operands and arguments to trace; by default the builtin itself."""
    bound: Bound | None = None
    """How far compiled results may be from the reference, of the data by operand; by default not at all."""
    outputs: tuple[str, ...] = ()
    """Operands whose contents after the call are results too: arrays written, tiles updated."""
    expected: Callable[..., Any] | None = None
    """What the first result is, from the data of the operands, written without tilekit."""
    smooth: bool = True
    """Whether finite differences are meaningful at the data."""
    loaded: bool = False
    """Whether floating numbers come from arrays of one element, instead of from the launch."""

    def __str__(self) -> str:
        return f"{self.builtin}-{self.id}"

    @property
    def declared(self) -> Builtin:
        return REGISTRY[self.builtin]

    def data(self) -> dict[str, Any]:
        """The data of the operands, the same at each call."""
        rng = np.random.default_rng(11)
        found = {name: make_data(spec, rng) for name, spec in self.operands.items()}
        return {name: np.array([v]) if self.loads(self.operands[name]) else v for name, v in found.items()}

    def loads(self, spec: Spec) -> bool:
        return self.loaded and spec.kind == "scalar" and spec.dtype.is_float

    def in_float64(self) -> Case:
        def widen(spec: Spec) -> Spec:
            return replace(spec, dtype=float64) if spec.dtype.is_float else spec

        changed = {name: float64 for name, v in self.arguments.items() if _is_float_dtype(v)}
        operands = {name: widen(spec) for name, spec in self.operands.items()}
        return replace(self, operands=operands, arguments={**self.arguments, **changed}, loaded=True)


def _is_float_dtype(value: Any) -> bool:
    return isinstance(value, DType) and value.is_float


def memory_dtype(dtype: DType) -> np.dtype[Any]:
    """The NumPy dtype of an array's memory."""
    return np.dtype(ml_dtypes.bfloat16) if dtype is bfloat16 else dtype.numpy


def make_data(spec: Spec, rng: np.random.Generator) -> Any:
    """Elements: ``"normal"``, ``"positive"``, ``"special"`` (zeros, infinities, NaN, extremes) or ``"index"``."""
    dtype, numpy = spec.dtype, memory_dtype(spec.dtype)
    if not isinstance(spec.data, str):
        found = np.broadcast_to(np.asarray(spec.data), spec.shape)
    elif dtype.kind == "b":
        found = rng.integers(0, 2, spec.shape)
    elif spec.data == "index":
        found = np.arange(int(np.prod(spec.shape))).reshape(spec.shape) % 100
    elif dtype.is_integer:
        low = -20 if dtype.kind == "i" and spec.data != "positive" else 1
        found = rng.integers(low, 21, spec.shape)
        if spec.data == "special":
            limits = np.iinfo(dtype.numpy)
            found = rng.choice(
                np.asarray([limits.min, limits.max, limits.max - 1, 0, 1, 2, 7], dtype.numpy), spec.shape
            )
    else:
        found = rng.standard_normal(spec.shape)
        found = np.abs(found) + 0.5 if spec.data == "positive" else found
        if spec.data == "special":
            limits = ml_dtypes.finfo(numpy)
            special = [0.0, -0.0, np.inf, -np.inf, np.nan, float(limits.max), float(limits.tiny), -1.5, 2.0, 3.0]
            found = rng.choice(np.asarray(special), spec.shape)
    with np.errstate(all="ignore"):
        values = np.asarray(found).astype(numpy)
    if spec.kind == "scalar":
        return values.astype(dtype.numpy)[()]  # bfloat16 numbers are held in float32
    return np.ascontiguousarray(values)


@dataclass
class Built:
    """A case as a function, with the arrays that its results are stored to."""

    function: Function
    results: dict[str, Type]

    def arrays(self) -> dict[str, Any]:
        return {n: np.zeros(t.shape, memory_dtype(t.dtype)) for n, t in self.results.items()}  # type: ignore[union-attr]


@cache
def _build(key: int) -> Built:
    case = _cases[key]
    params: dict[str, Value] = {}
    builder = Builder(form=LaunchForm())
    results: dict[str, Type] = {}

    def store(handle: Any) -> None:
        kept = handle if isinstance(handle, Tile) else REGISTRY["tile_full"](1, handle, handle.dtype)
        name = f"result{len(results)}"
        results[name] = kept.type
        params[name] = Value(ArrayType(kept.dtype, kept.ndim), name)
        REGISTRY["tile_store"](Array(params[name], name), kept)

    with using(builder):
        given = {name: _handle(name, spec, params, case.loads(spec)) for name, spec in case.operands.items()}
        run = resolve_call(case.call) if case.call is not None else case.declared
        found = run(**given, **case.arguments)
        for handle in found if isinstance(found, tuple) else (found,):
            if isinstance(handle, Tile | Scalar):
                store(handle)
        for name in case.outputs:
            if isinstance(given[name], Tile):
                store(given[name])
    return Built(Function(case.builtin, params, builder.block(())), results)


_cases: dict[int, Case] = {}


def build(case: Case) -> Built:
    """The function that loads the operands, uses the builtin and stores the results."""
    _cases[id(case)] = case
    return _build(id(case))


def _handle(name: str, spec: Spec, params: dict[str, Value], loaded: bool) -> Any:
    if loaded:
        return _handle(name, array(spec.dtype, 1), params, False)[0]
    if spec.kind == "scalar":
        params[name] = Value(ScalarType(spec.dtype), name)
        return Scalar(params[name])
    params[name] = Value(ArrayType(spec.dtype, len(spec.shape)), name)
    held = Array(params[name], name)
    return held if spec.kind == "array" else REGISTRY["tile_load"](held, spec.shape)


def interpreted(case: Case, function: Function | None = None) -> dict[str, Any]:
    """What the results are by the reference rules."""
    built, data = build(case), case.data()
    arrays = built.arrays()
    with numpy_alone():
        interpret(function or built.function, {**data, **arrays})
    return {**arrays, **{name: data[name] for name in case.outputs if case.operands[name].kind == "array"}}


def assert_same_bits(got: Any, want: Any, name: str) -> None:
    """Equal bit for bit, but for the payload and sign of a NaN."""
    got, want = np.asarray(got), np.asarray(want)
    assert got.dtype == want.dtype and got.shape == want.shape
    if got.dtype.kind == "f" or got.dtype == ml_dtypes.bfloat16:
        wide = [np.asarray(x, np.float64) for x in (got, want)]
        np.testing.assert_array_equal(*wide, err_msg=name)
        signs = [np.signbit(x) & ~np.isnan(x) for x in wide]
        np.testing.assert_array_equal(*signs, err_msg=f"{name}: signs")
    else:
        np.testing.assert_array_equal(got, want, err_msg=name)


def cases_of(module: str) -> list[Case]:
    """The cases of every conformance class of a test module."""
    classes = [c for c in vars(sys.modules[module]).values() if isinstance(c, type) and issubclass(c, Conformance)]
    return [case for found in classes if found is not Conformance for case in found.cases]


@cache
def library_of(module: str) -> tuple[Library, dict[int, int]]:
    cases = cases_of(module)
    return Library([build(case).function for case in cases]), {id(case): i for i, case in enumerate(cases)}


@cache
def gpu_library_of(module: str) -> tuple[CudaLibrary, dict[int, int]]:
    cases = cases_of(module)
    functions = [build(case).function for case in cases]
    return CudaLibrary(functions, arch_of_first_gpu()), {id(case): i for i, case in enumerate(cases)}


def target_ops(case: Case) -> list[Op]:
    return [op for op in walk(build(case).function.body) if op.builtin.name == case.builtin]


_wide: dict[int, Case] = {}
_adjoints: dict[int, Adjoint | None] = {}
_alike: dict[Any, Adjoint] = {}
"""Adjoints by what they are: cases that differ in dtypes alone are one in float64."""


def for_gradients(case: Case) -> Case:
    """The case in float64, its numbers loaded from arrays, so that they have gradients too."""
    return _wide.setdefault(id(case), case.in_float64())


def adjoint_of(case: Case) -> Adjoint | None:
    """The adjoint of a case at whose data it is smooth, if it has float results."""
    if id(case) not in _adjoints:
        wide = for_gradients(case)
        built = build(wide)
        seeds = [name for name, type in built.results.items() if type.dtype.is_float]
        seeds += [n for n in case.outputs if wide.operands[n].kind == "array" and wide.operands[n].dtype.is_float]
        refused = not case.declared.has("adjoint") and carries_gradient(target_ops(wide))
        data = {**wide.data(), **built.arrays()}
        found = Adjoint(built.function, data, seeds) if seeds and case.smooth and not refused else None
        _adjoints[id(case)] = found and _alike.setdefault(found.key, found)
    return _adjoints[id(case)]


def adjoints_among(cases: Sequence[Case]) -> list[Adjoint]:
    """The adjoints of some cases, each once."""
    found = [adjoint for case in cases if (adjoint := adjoint_of(case)) is not None]
    return list({id(adjoint): adjoint for adjoint in found}.values())


@cache
def adjoints_of(module: str) -> AdjointLibrary:
    return AdjointLibrary(adjoints_among(cases_of(module)))


@cache
def gpu_adjoints_of(module: str) -> AdjointLibrary:
    adjoints = adjoints_among(cases_of(module))
    return AdjointLibrary(adjoints, lambda functions: CudaLibrary(functions, arch_of_first_gpu()))


def check_run(case: Case, run: Callable[[dict[str, Any]], None]) -> None:
    """Whether code that ``run`` runs on the case's arrays gives what the reference rules do."""
    want, data = interpreted(case), case.data()
    got = build(case).arrays()
    run({**data, **got})
    got.update({name: data[name] for name in want if name in data})
    for name, value in want.items():
        if case.bound is None:
            assert_same_bits(got[name], value, name)
        else:
            exact, wide = np.asarray(got[name], np.float64), np.asarray(value, np.float64)
            error = np.where((exact == wide) | (np.isnan(exact) & np.isnan(wide)), 0.0, np.abs(exact - wide))
            assert (error <= case.bound(case.data())).all(), f"{name}: off by {error.max()}"


class Conformance:
    """A test class with ``cases``; each check below runs on each case."""

    cases: ClassVar[list[Case]] = []

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        if "case" in metafunc.fixturenames:
            metafunc.parametrize("case", type(self).cases, ids=str)
        if "family" in metafunc.fixturenames:
            first = {case.builtin: case for case in reversed(type(self).cases)}
            metafunc.parametrize("family", list(first.values()), ids=str)

    def test_the_case_uses_the_builtin(self, case: Case) -> None:
        assert target_ops(case)
        verify(build(case).function)

    def test_result_rule_agrees_with_reference(self, case: Case) -> None:
        """Also before results are brought into the type that the rule says."""
        built, data = build(case), {**case.data(), **build(case).arrays()}
        env = {value: data[name] for name, value in built.function.params.items()}
        for op in built.function.body.ops:
            tiles_or_numbers = not any(isinstance(value.type, ArrayType) for value in op.results)
            if op.builtin.name == case.builtin and not op.blocks and op.results and tiles_or_numbers:
                inputs = {name: look_up(operand, env) for name, operand in op.operands.items()}
                types = tuple(value.type for value in op.results)
                with np.errstate(all="ignore"):
                    raw = op.builtin.apply("reference", inputs, op.attrs, machine=HOST, blocks=(), types=types)
                for found, type in zip(raw if isinstance(raw, tuple) else (raw,), types, strict=True):
                    assert np.shape(found) == getattr(type, "shape", ())
                    assert np.asarray(found).dtype.kind == type.dtype.numpy.kind
            run_op(op, env, HOST)

    def test_passes_keep_the_meaning(self, case: Case) -> None:
        lowered, _ = run_pipeline(build(case).function, Target())
        before, after = interpreted(case), interpreted(case, lowered)
        for name, value in before.items():
            assert_same_bits(after[name], value, name)

    def test_compiled_code_agrees_with_reference(self, case: Case) -> None:
        library, numbers = library_of(type(self).__module__)
        check_run(case, lambda arguments: library.run(numbers[id(case)], arguments))

    @pytest.mark.gpu
    @pytest.mark.skipif(not GPUS, reason="needs a CUDA device")
    def test_gpu_agrees_with_reference(self, case: Case) -> None:
        library, numbers = gpu_library_of(type(self).__module__)
        check_run(case, lambda arguments: library.run(numbers[id(case)], arguments))

    def test_reference_is_what_is_expected(self, case: Case) -> None:
        """Against the case's own formula; a case without one is its builtin's plain meaning in NumPy."""
        if case.expected is None:
            return
        found = next(iter(interpreted(case).values()))
        with np.errstate(all="ignore"):
            want = case.expected(**{**case.data(), **case.arguments})
        np.testing.assert_array_equal(np.asarray(found, np.float64), np.asarray(want, np.float64).reshape(found.shape))

    def test_adjoint_agrees_with_finite_differences(self, case: Case) -> None:
        """Every float operand is perturbed; a builtin without an adjoint must refuse, not answer zero."""
        wide = for_gradients(case)
        if carries_gradient(target_ops(wide)) and not case.declared.has("adjoint"):
            assert case.declared.no_adjoint or case.declared.late, (
                "neither an adjoint rule nor a reason for having none"
            )
            with pytest.raises(KernelNotImplementedError, match="cannot differentiate"):
                differentiate(build(wide).function)
        elif (adjoint := adjoint_of(case)) is not None:
            adjoint.compared()

    def test_the_adjoint_answers_for_every_operand(self, family: Case) -> None:
        if family.declared.has("adjoint"):
            with Answers(family.declared) as answers, suppress(KernelNotImplementedError):
                differentiate(build(for_gradients(family)).function)
            assert not list(answers.missing())

    def test_compiled_adjoint_agrees_with_reference(self, case: Case) -> None:
        if (adjoint := adjoint_of(case)) is not None:
            found = adjoints_of(type(self).__module__).run(adjoint)
            assert_equal_within_rounding(found, adjoint.interpreted)

    @pytest.mark.gpu
    @pytest.mark.skipif(not GPUS, reason="needs a CUDA device")
    def test_gpu_adjoint_agrees_with_reference(self, case: Case) -> None:
        if (adjoint := adjoint_of(case)) is not None:
            found = gpu_adjoints_of(type(self).__module__).run(adjoint)
            assert_equal_within_rounding(found, adjoint.interpreted)

    def test_ir_and_code(self, family: Case, golden: Callable[[str, str], None]) -> None:
        """The first case of each builtin after the passes, and what is compiled of it; without lines of test files."""
        generated = generate(build(family).function, Target())
        lines = generated.source.splitlines()
        start, end = lines.index("    const tk::Team team;"), lines.index("    return true;")
        body = "\n".join(line for line in lines[start + 2 : end] if not line.startswith("#line"))
        golden(f"{generated.function}\n{body}\n", f"{family.builtin}.txt")
