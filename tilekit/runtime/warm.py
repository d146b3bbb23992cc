"""Launches like earlier ones. What a launch has found out, of arguments, device and code, is kept under everything that
it depends on but addresses and numbers; where all of that is as before, the next launch only puts those in."""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from tilekit.errors import KernelTypeError
from tilekit.frontend.guards import GuardedForms
from tilekit.frontend.kernel import Kernel
from tilekit.ir.context import LaunchForm
from tilekit.ir.float_state import is_ieee
from tilekit.ir.types import DType, find_dtype
from tilekit.runtime.arguments import ByBlockDim, number_of, parameters_of, with_defaults
from tilekit.runtime.arrays import address_of, library_of, readers
from tilekit.runtime.gradients import hides_tapes, looked_at, seen, warps_state, watch
from tilekit.runtime.launch_options import options_now
from tilekit.runtime.placement import name_of

MOST = 512
"""Launches that one kernel keeps."""
FEW = 4
"""Attempts that a kernel's next launch is tried with before the right one is looked up."""
_ALWAYS_LONG = object()
"""What is kept of a launch that has no quick way."""

Again = Callable[[Sequence[int], Sequence[Any], Any], bool]
"""Launches once more, with the addresses of the arrays, the numbers as they are packed, and a stream or None; or says
False, for the long way."""


@dataclass(frozen=True)
class Like:
    """A launch that went well, and what may be otherwise in one like it."""

    values: list[Any]
    """What was packed: pointers, shapes, strides and numbers in order."""
    places: list[int]
    """Where the addresses are among them."""
    numbers: list[tuple[int, DType]]
    """Where the numbers are, and their dtypes."""
    grid: tuple[int, ...]
    points: int
    libraries: tuple[str | None, ...]
    """Those that the arrays are from."""

    def with_others(self, pointers: Sequence[int], numbers: Sequence[Any]) -> list[Any]:
        """The values with other addresses and numbers."""
        found = self.values.copy()
        for place, pointer in zip(self.places, pointers, strict=True):
            found[place] = pointer
        for (place, _), number in zip(self.numbers, numbers, strict=True):
            found[place] = number
        return found


class Warm:
    """A launch that needs nothing but addresses, numbers and a stream."""

    __slots__ = ("_again", "_dtypes", "_forms", "_mark", "_marked", "compiled")

    def __init__(self, again: Again, compiled: Any, forms: Any, dtypes: Sequence[Any], marked: Sequence[int]) -> None:
        self._again = again
        self.compiled = compiled
        self._forms = forms if type(forms) is GuardedForms else None
        self._dtypes = dtypes
        self._marked = marked
        if marked:
            self._mark = sys.modules["torch"].autograd.graph.increment_version

    def run(self, arguments: Sequence[Any], pointers: Sequence[int], numbers: Sequence[Any], stream: Any) -> bool:
        """Launch; False where the kernel or something else is not what it was, and nothing has been done."""
        if self._forms is not None and self._forms.current() is not self.compiled:
            return False
        if numbers:
            if not is_ieee():  # the long way sees to that they become bits as ever
                return False
            try:
                numbers = tuple(map(number_of, numbers, self._dtypes))
            except KernelTypeError:
                return False
        if not self._again(pointers, numbers, stream):
            return False
        for position in self._marked:
            self._mark(arguments[position])
        return True


Reading = tuple[Any, tuple[Any, ...], Any]
"""What a launch passes: a key that stands for all of it but addresses and numbers, the arguments, and what is kept
under the key: a ``Warm`` from the third such launch on.

The key has whatever the long way asks for, but for an address its lowest bits and that it is not 0, and for a number
its type.
"""
Outcome = Reading | Literal[True, False] | None
"""Of an attempt: True where it has launched; False where the arguments are of other types than it is for; their reading
where the long way must launch them; None where they are wrong or rare and have none."""
Attempt = Callable[[Kernel, Any, Any, Any, Any, Any, bool, bool, Any], Outcome]
"""Launches arguments of certain types as an earlier launch was, where there was one like it. It takes what
:func:`launch_again` does."""


def launch_again(
    kernel: Kernel,
    dim: Any,
    inputs: Any,
    outputs: Any,
    device: Any,
    block_dim: Any,
    tiled: bool,
    taped: bool,
    stream: Any,
) -> Outcome:
    """Launch as an earlier launch was, where there was one like it; a tape that is active and to know of it does.

    A kernel's attempts are those for the types that its arguments had last: one that is for others says so in half the
    time that it takes to look up the right one.
    """
    forms = kernel.cache
    for attempt in forms.attempts:
        outcome: Outcome = attempt(kernel, dim, inputs, outputs, device, block_dim, tiled, taped, stream)
        if outcome is not False:
            return outcome
    found = attempt_for(inputs, outputs)
    if found is None:
        return None
    forms.attempts = (found, *forms.attempts[: FEW - 1])
    return found(kernel, dim, inputs, outputs, device, block_dim, tiled, taped, stream)


_attempts: dict[tuple[int, tuple[type, ...]], Attempt] = {}
_ORDERED = (list, tuple)
"""What arguments come in at a quick launch; the long way takes more, and refuses what has no order."""
_ATTEMPT = """
def attempt(kernel, dim, inputs, outputs, device, block_dim, tiled, taped, stream):
    try:
        if not (isinstance(inputs, ORDERED) and isinstance(outputs, ORDERED)):  # iterators are left as they are
            return None
        if len(inputs) != {inputs} or len(outputs) != {outputs}:
            return False
        [{first}] = inputs
        [{last}] = outputs
        if not ({types}):
            return False
        if not ({addresses}):
            return None
        {tensors}
        {warps}
        if type(dim) is not int:
            dim = plain_dim(dim)
        if device is not None and type(device) is not str:
            device = name_of(device)
        key = (
            kernel.capture_key(), options_now().with_device, attempt, tiled, dim, block_dim, type(block_dim), device,
            {layout}
        )
        found = kernel.cache.known.get(key)
    except Warning:  # one that the program makes an error, and that would not come again
        raise
    except Exception:  # the long way fails too, with words
        return None
    if type(found) is Warm and found.run(({arguments}), ({pointers}), ({numbers}), stream):
        if {busy}:
            seen(kernel, dim, ({arguments}), found.compiled, (device, block_dim, tiled, taped))
        return True
    return key, ({arguments}), found
"""


def plain_dim(dim: Any) -> int | tuple[int, ...]:
    """A launch's ``dim`` in integers, as a key knows it; what else is equal to them is not taken for them."""
    if not isinstance(dim, tuple | list):
        return operator.index(dim)
    found = tuple(map(operator.index, dim))
    return found[0] if len(found) == 1 else found


def attempt_for(inputs: Any, outputs: Any) -> Attempt | None:
    """The attempt for arguments of their types; None where one has not been seen, or there is no array."""
    try:
        count = len(inputs)
        len(outputs)
        kinds = tuple(map(type, (*inputs, *outputs)))
    except Exception:  # the long way fails too, with words
        return None
    found = _attempts.get((count, kinds))
    if found is None and all(kind in readers for kind in kinds):
        found = _make_attempt(count, kinds)
    return found


def _make_attempt(inputs: int, kinds: tuple[type, ...]) -> Attempt | None:
    """It is Python code made for these types: loops, and functions for its parts, take half as long again."""
    places = [(f"a{index}", f"p{index}", readers[kind]) for index, kind in enumerate(kinds)]
    arrays = [(name, pointer, texts) for name, pointer, texts in places if texts is not None]
    numbers = [f"a{index}" for index, kind in enumerate(kinds) if readers[kind] is None and kind is not type(None)]
    if not arrays:
        return None
    tensors = [f"a{index}.requires_grad" for index, kind in enumerate(kinds) if library_of.get(kind) == "torch"]
    warps = [f"a{index}.requires_grad" for index, kind in enumerate(kinds) if library_of.get(kind) == "warp"]
    state = warps_state() if warps else None
    arguments = "".join(f"{name}, " for name, _, _ in places)
    text = _ATTEMPT.format(
        inputs=inputs,
        outputs=len(kinds) - inputs,
        first=", ".join(f"a{index}" for index in range(inputs)),
        last=", ".join(f"a{index}" for index in range(inputs, len(kinds))),
        arguments=arguments,
        tensors=f"if ({' or '.join(tensors)}) and looked_at(taped): return None" if tensors else "",
        warps=f"if taped and watch.tape is None and ({' or '.join(warps)}): return None"
        if warps and hides_tapes()
        else "",
        busy="watch.busy or (taped and state.tape is not None)" if state is not None else "watch.busy",
        types=" and ".join(f"type(a{index}) is k{index}" for index in range(len(kinds))),
        addresses=" and ".join(f"({pointer} := {texts[0].format(name)})" for name, pointer, texts in arrays),
        layout=", ".join(f"{texts[1].format(name)}, {pointer} & 15" for name, pointer, texts in arrays),
        pointers="".join(f"{pointer}, " for _, pointer, _ in arrays),
        numbers="".join(f"{name}, " for name in numbers),
    )
    names: dict[str, Any] = {"__name__": __name__, **{f"k{index}": kind for index, kind in enumerate(kinds)}}
    names.update(address_of=address_of, options_now=options_now, name_of=name_of, plain_dim=plain_dim)
    names.update(Warm=Warm, ORDERED=_ORDERED, looked_at=looked_at, seen=seen, state=state, watch=watch)
    exec(compile(text, "<tilekit launch>", "exec"), names)
    attempt: Attempt = names["attempt"]
    if len(_attempts) >= MOST:  # a program may make types without end
        _attempts.clear()
    _attempts[inputs, kinds] = attempt
    return attempt


def remember(
    kernel: Kernel,
    reading: Reading,
    form: Any,
    launch: LaunchForm,
    compiled: Any,
    values: list[Any],
    grid: tuple[int, ...],
    points: int,
) -> None:
    """Keep a launch that went well the long way; from the second time on, as programs may have many that differ.

    Args:
        form, launch: The key of its specialisation, and what its code may depend on about the launch.
        compiled: What ran.
        values: What was packed.
        grid, points: What it ran over.
    """
    key, arguments, warm = reading
    known = kernel.cache.known
    if warm is _ALWAYS_LONG:
        return
    seen, number = kernel.cache.seen, hash(key)
    if number not in seen:  # not the key: what lives on costs the garbage collector time
        if len(seen) >= MOST:
            seen.clear()
        seen.add(number)
        return
    if len(known) >= MOST:
        known.clear()
    if any(readers.get(type(value)) is not None for value in with_defaults(kernel, arguments)[len(arguments) :]):
        known[key] = _ALWAYS_LONG  # an array that no launch gives
        return
    places, numbers, kinds = _places(kernel, arguments)
    libraries = {library_of.get(kind) for kind in kinds.values()}
    like = Like(values, places, numbers, grid, points, tuple(libraries))
    again = compiled.again(like) if hasattr(compiled, "again") else None
    if again is None:  # as in the interpreter
        known[key] = _ALWAYS_LONG
        return
    forms = kernel.cache.get(form)
    if isinstance(forms, ByBlockDim):
        forms = forms.get(forms.key(launch))
    if forms is compiled or isinstance(forms, GuardedForms):
        arrays = list(kinds)
        written = [arrays[position] for position in compiled.written]
        marked = [position for position in written if library_of.get(kinds[position]) == "torch"]
        known[key] = Warm(again, compiled, forms, [dtype for _, dtype in numbers], marked)


def _places(kernel: Kernel, arguments: Sequence[Any]) -> tuple[list[int], list[tuple[int, DType]], dict[int, type]]:
    """Where addresses and numbers stand among the values that are packed, and the types of the arrays by their position
    among the arguments."""
    places, numbers, kinds = [], [], {}
    place = 0
    for position, (value, parameter) in enumerate(zip(arguments, parameters_of(kernel), strict=False)):
        kind = type(value)
        if value is None:
            continue
        if readers[kind] is None:
            dtype = parameter.dtype or find_dtype(kind)
            assert dtype is not None, "the launch went well"
            numbers.append((place, dtype))
            place += 1
        else:
            places.append(place)
            kinds[position] = kind
            place += 1 + 2 * len(value.shape)
    return places, numbers, kinds
