"""Loads and stores of atoms touch only elements that exist, at addresses that their width allows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tilekit.builtins.atoms import Atom, Slot
from tilekit.builtins.memory import emitted_offset, spread
from tilekit.codegen.checks import require
from tilekit.codegen.repeats import registers_of
from tilekit.errors import KernelIndexError, KernelValueError
from tilekit.ir.types import ScalarType


def repeats_of(shape: tuple[int, ...], lanes: int) -> tuple[int, ...]:
    """The repeats over a tile of which each takes so many neighbours of the last axis."""
    return shape if lanes == 1 else (*shape[:-1], shape[-1] // lanes)


def over_elements(pred: Any, shape: tuple[int, ...], lanes: int) -> Any:
    """A predicate of the repeats for each element of a tile."""
    mask = np.broadcast_to(True if pred is None else pred, repeats_of(shape, lanes))
    return np.repeat(mask, lanes, axis=-1) if lanes > 1 else mask


@dataclass(frozen=True)
class Access:
    """A load or store: the atom, its registers' slot, the shape of the tile and the array's name."""

    atom: Atom
    slot: Slot
    shape: tuple[int, ...]
    name: str

    @property
    def _size(self) -> int:
        return self.slot.lanes * self.slot.carriers[0].itemsize

    @property
    def _outside(self) -> str:
        shown = (self.name or "the array").replace("{", "{{").replace("}", "}}")
        return (
            f"{self.atom}: a repeat is at index {{index}} of axis {{axis}} of {shown}, which has extent {{extent}}; "
            "exclude it with pred=, or use tk.tile_load and tk.tile_store"
        )

    @property
    def _misaligned(self) -> str:
        return (
            f"{self.atom}: {self.name or 'the array'} must hold {self.slot.lanes} neighbours of its last axis in "
            f"consecutive memory, aligned to {self._size} bytes; the form without .v{self.slot.lanes} needs neither"
        )

    # In the interpreter.

    def elements(self, a: Any, offset: tuple[Any, ...], pred: Any) -> tuple[Any, Any]:
        """Which elements of the tile are accessed, and their indices in the array.

        Raises:
            KernelIndexError: one is not in the array.
            KernelValueError: several are accessed at once that are not side by side, or not aligned.
        """
        at = tuple(min(int(start), 2**63 - 1) for start in spread(offset, a.ndim))  # compiled code saturates as well
        mask = over_elements(pred, self.shape, self.slot.lanes)
        index = tuple(start + axis for start, axis in zip(at, np.nonzero(mask), strict=True))
        for axis, (found, extent) in enumerate(zip(index, a.shape, strict=True)):
            wrong = found[(found < 0) | (found >= extent)]
            if wrong.size:
                raise KernelIndexError(self._outside.format(index=int(wrong[0]), axis=axis, extent=extent))
        first = a.ctypes.data + sum(start * step for start, step in zip(at, a.strides, strict=True))
        apart = [step for step, extent in zip(a.strides[:-1], self.shape, strict=False) if extent > 1]
        aligned = a.strides[-1] == a.itemsize and not any(step % self._size for step in (first, *apart))
        if self.slot.lanes > 1 and mask.any() and not aligned:
            raise KernelValueError(self._misaligned)
        return mask, index

    # In emitted code.

    def emit_start(self, cx: Any, a: str, offset: tuple[str, ...], types: tuple[ScalarType, ...], pred: Any) -> str:
        """Name the index of the tile's first element, and check what is the same for all repeats."""
        at = cx.fresh("at")
        cx.line(f"const tk::i64 {at}[] = {{{', '.join(emitted_offset(offset, types, len(self.shape)))}}};")
        guard = f"!{pred} || " if isinstance(pred, str) else ""
        if pred is None or isinstance(pred, str):
            self._emit_inside(cx, a, at, guard)
            if self.slot.lanes > 1:
                require(cx, f"{guard}({self._aligned(a, at)})", self._misaligned, "kValueError")
        elif self.slot.lanes > 1:
            cx.line(f"const bool {at}_aligned = {self._aligned(a, at)};")
        return str(at)

    def _emit_inside(self, cx: Any, a: str, at: str, guard: str) -> None:
        for axis, extent in enumerate(self.shape):
            start, limit = f"{at}[{axis}]", f"{a}.shape[{axis}]"
            ok = f"{guard}({start} >= 0 && {start} <= {limit} - {extent})"
            wrong = f"({start} < 0 || {start} > {limit} ? {start} : {limit})"
            require(cx, ok, self._outside, "kIndexError", wrong, limit, axis)

    def _aligned(self, a: str, at: str) -> str:
        """Whether what starts there is where its width allows it, as all repeats then are."""
        last = len(self.shape) - 1
        first = ", ".join((a, *(f"{at}[{axis}]" for axis in range(last + 1))))
        wanted = [f"(tk::u64)tk::element({first}) % {self._size} == 0"]
        wanted += [f"{a}.stride[{axis}] % {self._size} == 0" for axis in range(last) if self.shape[axis] > 1]
        return " && ".join([*wanted, f"{a}.stride[{last}] == {self.slot.carriers[0].itemsize}"])

    def emit_address(self, cx: Any, a: str, at: str, repeat: Any, pred: Any) -> str:
        """A pointer to the first element of a repeat, which is in the array where its predicate is true."""
        first, *_ = registers_of(repeat, self.slot.lanes)
        index = [f"{at}[{axis}]" + (f" + {item}" if item != "0" else "") for axis, item in enumerate(first)]
        each = pred is not None and not isinstance(pred, str)
        for axis, item in enumerate(index if each else ()):
            limit = f"{a}.shape[{axis}]"
            beyond = self.slot.lanes - 1 if axis == len(index) - 1 else 0
            ok = f"!{pred.at(repeat)} || ({item} >= 0 && {item} < {limit} - {beyond})"
            wrong = f"({item} < 0 || {item} >= {limit} ? {item} : {limit})"
            require(cx, ok, self._outside, "kIndexError", wrong, limit, axis)
        if each and self.slot.lanes > 1:
            require(cx, f"!{pred.at(repeat)} || {at}_aligned", self._misaligned, "kValueError")
        return f"tk::element({', '.join((a, *index))})"
