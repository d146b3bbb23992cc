"""``device="interpret"``: kernels run as Python, block after block, so that debuggers work inside them."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from tilekit.codegen.target import Target
from tilekit.errors import FallbackWarning, TilekitError
from tilekit.frontend.eager import Forms, Interpreter
from tilekit.frontend.eager_syntax import Place
from tilekit.frontend.joins import Joins, recording
from tilekit.frontend.kernel import Kernel
from tilekit.frontend.source import in_kernels, locate_error
from tilekit.frontend.trace import split
from tilekit.ir.context import Concrete, LaunchForm, using
from tilekit.ir.core import Function, walk
from tilekit.ir.float_state import ieee_state
from tilekit.ir.handles import Array, Scalar
from tilekit.ir.interpret import Machine, from_memory
from tilekit.ir.nesting import nesting, room_for
from tilekit.ir.notices import warn_at
from tilekit.ir.types import ArrayType, DType, ScalarType, bfloat16, to_numpy_scalar
from tilekit.passes import run_pipeline
from tilekit.passes.activity import written_positions
from tilekit.passes.uniformity import Uniformity, runs_lanes
from tilekit.runtime.array_view import array_at
from tilekit.runtime.toolchain import absence, find_toolchain
from tilekit.runtime.turns import Member, Turns

_told = False


def stands_in() -> bool:
    """Whether the interpreter runs what should run on the CPU, because there is no compiler; tells so once."""
    global _told
    if find_toolchain() is not None:
        return False
    if not _told:
        _told = True
        text = f"kernels run in the interpreter, which is slow: {absence()}"
        warn_at(FallbackWarning, text, None)
    return True


@contextmanager
def undebugged() -> Iterator[None]:
    """Inside, no debugger stops: tracing runs a kernel's lines without values, which nobody wants to see."""
    tracer = sys.gettrace()
    monitoring: Any = getattr(sys, "monitoring", None)  # how debuggers watch since Python 3.12
    watched = monitoring is not None and monitoring.get_tool(monitoring.DEBUGGER_ID) is not None
    events = monitoring.get_events(monitoring.DEBUGGER_ID) if watched else 0
    sys.settrace(None)
    if watched:
        monitoring.set_events(monitoring.DEBUGGER_ID, 0)
    try:
        yield
    finally:
        if watched:
            monitoring.set_events(monitoring.DEBUGGER_ID, events)
        sys.settrace(tracer)


def compile_eager(
    kernel: Kernel, types: Mapping[str, ArrayType | ScalarType | None], form: LaunchForm
) -> InterpretedKernel:
    """Trace a kernel, which finds all compile-time errors, and make its eager form."""
    joins = Joins()
    launch = (form.block_dim or 1, form.tiled, form.ndim or 1)
    checks = (True, True)
    target = Target("cpu", "", *launch, *checks, ragged=form.ragged, whole=form.whole)
    with undebugged(), recording(joins):
        function = kernel.trace(types, form)
        with room_for(nesting(function.body)):
            run_pipeline(function, target)
            forms = Forms(joins, _apart(function, form.whole), kernel.max_unroll)
    return InterpretedKernel(kernel, function, types, form, forms)


def _apart(function: Function, whole: int) -> frozenset[Place]:
    """Where the lanes of a block may take different ways."""
    places = (op.location for op in Uniformity(function, whole).divergent)
    return frozenset((place.file, place.line, place.column) for place in places if place is not None)


Arguments = tuple[list[Any], dict[str, Any]]
"""What a kernel is called with: by position, and by name."""


class InterpretedKernel:
    """A kernel in its eager form: unpacks arguments and runs block after block."""

    def __init__(
        self,
        kernel: Kernel,
        function: Function,
        types: Mapping[str, ArrayType | ScalarType | None],
        form: LaunchForm,
        forms: Forms,
    ) -> None:
        self.kernel = kernel
        self.function = function
        self.types = types
        self.form = form
        self.forms = forms
        self.written = written_positions(function)
        """Which of its arrays it may write."""
        self.cooperates = any(op.builtin.cooperative for op in walk(function.body))
        """Whether the lanes of a block do something together."""

    def run(self, values: Sequence[Any], grid: tuple[int, ...], blocks: int) -> None:
        """Run ``blocks`` blocks over ``grid``; ``values`` are pointers, shapes, strides and numbers in order."""
        arguments = split(self.kernel.function, unpack(self.types, values))
        with room_for(nesting(self.function.body)):
            for machines in self._blocks(grid):
                if len(machines) > 1 and self.cooperates:
                    self._run_together(machines, arguments)
                else:
                    for machine in machines:
                        self._run_lane(machine, arguments, None, len(machines) > 1)

    def _blocks(self, grid: tuple[int, ...]) -> Iterator[list[Machine]]:
        """The lanes of each block that run the kernel; one where they would all do the same."""
        lanes = self.form.block_dim or 1
        points = not self.form.tiled
        if not runs_lanes(self.function, self.form.tiled):
            yield from ([Machine(block, grid, lanes, points=points)] for block in np.ndindex(*grid))
        elif points:
            found = np.ndindex(*grid)
            while members := list(itertools.islice(found, lanes)):
                present = len(members) if len(members) < lanes else None
                yield [Machine(point, grid, lanes, lane, True, present) for lane, point in enumerate(members)]
        else:
            for block in np.ndindex(*grid):
                yield [Machine(block, grid, lanes, lane) for lane in range(lanes)]

    def _run_lane(self, machine: Machine, arguments: Arguments, turns: Turns | None = None, many: bool = False) -> None:
        context = Interpreter(self.forms, machine)
        if turns is not None:
            context.team = Member(turns, machine.lane, context.support)
        try:
            with using(context), np.errstate(all="ignore"), ieee_state():
                context.support.bind(self.kernel.function)(*arguments[0], **arguments[1])
        except Exception as error:
            if turns is not None:
                raise
            raise self._placed(error, machine, machine.lane if many else None) from error.__cause__

    def _run_together(self, machines: list[Machine], arguments: Arguments) -> None:
        turns = Turns(len(machines), lambda lane, turns: self._run_lane(machines[lane], arguments, turns))
        try:
            turns.run()
        except Exception as error:
            raise self._placed(error, machines[0], turns.failed) from error.__cause__

    def _placed(self, error: Exception, machine: Machine, lane: int | None) -> Exception:
        """The error, saying which block of which kernel it is from."""
        block = machine.block[0] if len(machine.block) == 1 else machine.block
        where = f"in block {block}{'' if lane is None else f', lane {lane}'} of kernel {self.kernel.key!r}"
        if not isinstance(error, TilekitError):
            error.add_note(where)
            return error
        error.at(locate_error(error.__traceback__))
        error.message += f", {where}"
        return error.with_traceback(in_kernels(error.__traceback__))


def unpack(types: Mapping[str, ArrayType | ScalarType | None], values: Sequence[Any]) -> dict[str, Any]:
    """The handles of a kernel's parameters, from what a launch packs; arrays are not copied."""
    found: dict[str, Any] = {}
    for name, data in data_of(types, values).items():
        type = types[name]
        if type is None:
            found[name] = None
        else:
            held = Concrete(type, data)
            found[name] = Array(held, name) if isinstance(type, ArrayType) else Scalar(held)
    return found


def data_of(types: Mapping[str, Any], values: Sequence[Any]) -> dict[str, Any]:
    """The NumPy data of parameters, from what a launch packs; arrays are not copied."""
    found: dict[str, Any] = {}
    place = 0
    for name, type in types.items():
        if type is None:
            found[name] = None
        elif isinstance(type, ArrayType):
            pointer, *extents = values[place : place + 1 + 2 * type.ndim]
            found[name] = array_at(pointer, tuple(extents[: type.ndim]), tuple(extents[type.ndim :]), type.dtype)
            place += 1 + 2 * type.ndim
        else:
            found[name] = _number(values[place], type.dtype)
            place += 1
    return found


def _number(value: Any, dtype: DType) -> Any:
    if dtype is bfloat16:
        return from_memory(np.asarray([value], np.uint16), dtype)[0]
    return to_numpy_scalar(value, dtype)
