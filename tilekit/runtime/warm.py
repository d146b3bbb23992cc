"""Launches like earlier ones. What a launch has found out, of arguments, device and code, is kept under everything that
it depends on but addresses and numbers; where all of that is as before, the next launch only puts those in."""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tilekit.errors import KernelTypeError
from tilekit.frontend.guards import GuardedForms
from tilekit.frontend.kernel import Kernel
from tilekit.ir.types import DType, find_dtype
from tilekit.runtime.arguments import ByBlockDim, number_of, parameters_of
from tilekit.runtime.arrays import address_of, library_of, readers
from tilekit.runtime.launch_options import options_now
from tilekit.runtime.placement import name_of

MOST = 512
"""Launches that one kernel keeps."""
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

    __slots__ = ("_again", "_compiled", "_dtypes", "_forms", "_mark", "_marked")

    def __init__(self, again: Again, compiled: Any, forms: Any, dtypes: Sequence[Any], marked: Sequence[int]) -> None:
        self._again = again
        self._compiled = compiled
        self._forms = forms if type(forms) is GuardedForms else None
        self._dtypes = dtypes
        self._marked = marked
        if marked:
            self._mark = sys.modules["torch"].autograd.graph.increment_version

    def run(self, reading: Reading, stream: Any) -> bool:
        """Launch; False where the kernel or something else is not what it was, and nothing has been done."""
        if self._forms is not None and self._forms.current() is not self._compiled:
            return False
        _, arguments, pointers, numbers, _ = reading
        if numbers:
            try:
                numbers = tuple(map(number_of, numbers, self._dtypes))
            except KernelTypeError:
                return False
        if not self._again(pointers, numbers, stream):
            return False
        for position in self._marked:
            self._mark(arguments[position])
        return True


Reading = tuple[Any, tuple[Any, ...], tuple[int, ...], tuple[Any, ...], Any]
"""What a launch passes: a key that stands for all of it but addresses and numbers, the arguments, the addresses, the
numbers, and what is kept under the key: a ``Warm`` from the third such launch on."""


def read(
    kernel: Kernel, dim: Any, inputs: Any, outputs: Any, device: Any, block_dim: Any, tiled: bool
) -> Reading | None:
    """The reading of a launch; None for arguments that are wrong or rare, which the long way looks into.

    The key has whatever the long way asks for, but for an address its lowest bits and that it is not 0, and for a
    number its type.
    """
    try:
        if type(dim) is not int:
            dim = tuple(map(operator.index, dim)) if isinstance(dim, tuple | list) else operator.index(dim)
        split = len(inputs), len(outputs)  # so that iterators are left as they are
        arguments = (*inputs, *outputs)
        kinds = tuple(map(type, arguments))
        look = _lookers.get(kinds) or _looker(kinds)
        if look is None or not (found := look(*arguments)):
            return None
        pointers, numbers, layout = found
        if device is not None and type(device) is not str:
            device = name_of(device)
        how = (block_dim, type(block_dim), device)
        key = (kernel.capture_key(), options_now().with_device, look, layout, tiled, dim, split, how)
        return key, arguments, pointers, numbers, kernel.cache.known.get(key)
    except Exception:  # the long way fails too, with words
        return None


_lookers: dict[tuple[type, ...], Callable[..., Any]] = {}


def _looker(kinds: tuple[type, ...]) -> Callable[..., Any] | None:
    """A function that takes the arguments and gives addresses, numbers, and what else is asked of arrays, or something
    false where an array has no address. None where a type has not been seen, or there is no array.

    It is Python code made for these types: a loop over the arguments takes half as long again.
    """
    if not all(kind in readers for kind in kinds):
        return None
    places = [(f"a{index}", f"p{index}", readers[kind]) for index, kind in enumerate(kinds)]
    arrays = [(name, pointer, texts) for name, pointer, texts in places if texts is not None]
    numbers = [f"a{index}" for index, kind in enumerate(kinds) if readers[kind] is None and kind is not type(None)]
    if not arrays:
        return None
    found = [
        "".join(f"{pointer}," for _, pointer, _ in arrays),
        "".join(f"{name}," for name in numbers),
        "".join(f"{texts[1].format(name)}, {pointer} & 15," for name, pointer, texts in arrays),
    ]
    addresses = " and ".join(f"({pointer} := {texts[0].format(name)})" for name, pointer, texts in arrays)
    parameters = ", ".join(name for name, _, _ in places)
    text = f"lambda {parameters}: {addresses} and ({', '.join(f'({part})' for part in found)})"
    look = _lookers[kinds] = eval(text, {"address_of": address_of})
    return look  # type: ignore[no-any-return]


def still_holds(reading: Reading, kernel: Kernel) -> bool:
    """Whether options, captured values and the arrays are what they were."""
    (captures, options, look, layout, *_), arguments, pointers, _, _ = reading
    if kernel.capture_key() != captures or options_now().with_device != options:
        return False
    try:
        found = look(*arguments)
    except Exception:  # the long way fails too, with words
        return False
    return bool(found) and found[0] == pointers and found[2] == layout


def remember(
    kernel: Kernel,
    reading: Reading,
    form: Any,
    compiled: Any,
    values: list[Any],
    grid: tuple[int, ...],
    points: int,
) -> None:
    """Keep a launch that went well the long way; from the second time on, as programs may have many that differ.

    Args:
        form: The key of its specialisation.
        compiled: What ran.
        values: What was packed.
        grid, points: What it ran over.
    """
    key, arguments, _, _, warm = reading
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
    places, numbers, kinds = _places(kernel, arguments)
    libraries = {library_of.get(kind) for kind in kinds.values()}
    like = Like(values, places, numbers, grid, points, tuple(libraries))
    again = compiled.again(like) if hasattr(compiled, "again") else None
    if again is None:  # as in the interpreter
        known[key] = _ALWAYS_LONG
        return
    forms = kernel.cache.get(form)
    if isinstance(forms, ByBlockDim):
        forms = forms.get(compiled.block_dim)
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
    for position, (value, parameter) in enumerate(zip(arguments, parameters_of(kernel), strict=True)):
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
