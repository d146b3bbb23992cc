"""Arrays for gradients, of the library that the arrays are from, and what is done to them on any device."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from tilekit.ir.interpret import from_memory, to_memory
from tilekit.ir.types import DType
from tilekit.runtime.array_view import ArrayView, array_at
from tilekit.runtime.arrays import library_of, view_of


def zeros(like: ArrayView, count: int, dtype: DType) -> Any:
    """A dense array of zeros of the library and on the device of another."""
    array: Any = like.owner
    library = library_of.get(type(array))
    own = array.dtype if library or isinstance(array, np.ndarray) else None
    if library in ("torch", "warp"):
        module = sys.modules[library]
        given = own if dtype is like.dtype else getattr(module, dtype.name)
        return module.zeros(count, dtype=given, device=array.device)
    given = own if own is not None and dtype is like.dtype else dtype.numpy
    if library == "cupy":
        with array.device:
            return sys.modules["cupy"].zeros(count, given)
    if like.device == "cpu":
        return np.zeros(count, given)
    from tilekit.runtime.cuda.buffers import Buffer

    return Buffer(np.zeros(count, given), int(like.device.partition(":")[2]))


def dense(like: ArrayView, dtype: DType) -> ArrayView:
    """Zeros of the shape of another array."""
    made = zeros(like, like.size, dtype)
    strides = [dtype.itemsize]
    for extent in like.shape[:0:-1]:
        strides.append(strides[-1] * extent)
    pointer = view_of(made).pointer
    return ArrayView(pointer, like.shape, tuple(reversed(strides)), dtype, like.device, False, made)


def like_owner(array: Any, view: ArrayView, gradient: Any, offset: int) -> Any:
    """The part of a gradient that begins ``offset`` bytes after its start, as an array like ``array``."""
    library = library_of.get(type(array))
    width = view.dtype.itemsize
    if library == "torch" and library_of.get(type(gradient)) == "torch":
        return gradient.as_strided(array.shape, array.stride(), offset // width)
    if library == "warp":
        pointer = view_of(gradient).pointer + offset
        found = sys.modules["warp"].array(
            ptr=pointer, dtype=array.dtype, shape=array.shape, strides=array.strides, device=array.device
        )
        found._ref = gradient
        return found
    if library == "cupy":
        return type(array)(array.shape, array.dtype, gradient.data + offset, array.strides)
    if isinstance(gradient, np.ndarray):
        return np.ndarray(view.shape, gradient.dtype, gradient, offset, view.strides)
    pointer = view_of(gradient).pointer + offset
    return ArrayView(pointer, view.shape, view.strides, view.dtype, view.device, False, gradient)


def _as_rank_4(view: ArrayView) -> ArrayView:
    missing = 4 - view.ndim
    shape, strides = (1,) * missing + view.shape, (0,) * missing + view.strides
    return ArrayView(view.pointer, shape, strides, view.dtype, view.device, False, view.owner)


def _launch(name: str, inputs: Sequence[Any], target: ArrayView) -> None:
    from tilekit.runtime import gradient_kernels
    from tilekit.runtime.launch import launch

    target = _as_rank_4(target)
    launch(getattr(gradient_kernels, name), target.shape, inputs, [target], record_tape=False)


def _memory(view: ArrayView) -> np.ndarray[Any, Any]:
    return array_at(view.pointer, view.shape, view.strides, view.dtype)


def _numbers(view: ArrayView) -> np.ndarray[Any, Any]:
    """The elements of an array of the host; those of bfloat16 as float32."""
    return from_memory(_memory(view), view.dtype)  # type: ignore[no-any-return]


def _store(target: ArrayView, values: np.ndarray[Any, Any]) -> None:
    memory = _memory(target)
    memory[...] = to_memory(values, target.dtype, memory.dtype)


def assign(target: ArrayView, source: ArrayView) -> None:
    """Copy elements between arrays of one shape and device, rounding them to the target's dtype."""
    if target.device == "cpu":
        _store(target, _numbers(source))
    else:
        _launch("copied", [_as_rank_4(source)], target)


def add(target: ArrayView, source: ArrayView) -> None:
    """Add elements in the source's dtype, and round once."""
    if target.device == "cpu":
        _store(target, _numbers(target).astype(source.dtype.numpy) + _numbers(source))
    else:
        _launch("added", [_as_rank_4(source)], target)


def fill(target: ArrayView, value: float) -> None:
    """Set all elements."""
    if target.device == "cpu":
        _store(target, np.asarray(value, np.float32))
    else:
        _launch("filled", [value], target)
