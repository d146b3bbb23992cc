"""Kernels written twice, for TIRx and for tilekit, and the PTX that each becomes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import tilekit as tk

pytest.importorskip("tvm_tirx", reason="needs the extra tirx")
import tvm_tirx
from tvm_tirx.script import tirx as T

Step = tuple[str, str, tuple[Any, ...]]
"""The opcode, how it is predicated, and the bits of the register operands that are constants, by their place."""


@dataclass(frozen=True)
class Pair:
    """What is meant to be the same: a function of TIRx, and a kernel with the arch it is compiled for."""

    name: str
    theirs: Callable[[], Any]
    ours: Any

    def __str__(self) -> str:
        return self.name


PAIRS: list[Pair] = []
BITS = {"float32": "b32", "uint32": "b32", "float64": "b64", "uint64": "b64", "uint16": "b16"}


def constant(dtype: str, value: float) -> tuple[Any, Any]:
    """A constant for both."""
    return getattr(T, dtype)(value), getattr(np, dtype)(value)


def add(name: str, shape: tuple[int, ...], dtype: str, *values: float, out: str = "") -> None:
    """Load, one atom of the loaded tile and constants, store; ``out`` is the result's dtype."""
    to = out or dtype
    load, store = f"ld.global.{BITS[dtype]}", f"st.global.{BITS[to]}"
    pairs = [constant(dtype, value) for value in values]
    theirs = {0: _unary, 1: _binary, 2: _ternary}[len(values)]
    given, ours = [first for first, _ in pairs], [second for _, second in pairs]
    read = getattr(tk, dtype)
    kernel = _kernel(name, shape, read, getattr(tk, to), load, store, tuple(ours))
    shown = "x".join(map(str, shape))
    PAIRS.append(Pair(f"{name}-{shown}", lambda: theirs(name, shape, dtype, to, load, store, *given), kernel))


def _unary(name: Any, shape: Any, dtype: Any, out: Any, load: Any, store: Any) -> Any:
    @T.function
    def f(A: T.Tensor(shape, dtype), Out: T.Tensor(shape, out)):
        T.device_entry(launch=T.cuda.LaunchConfig(grid=1, block=1))
        r = T.alloc_local(shape, dtype, layout="default")
        d = T.alloc_local(shape, out, layout="default")
        T.cuda.tile.apply(T.ptx[load], r, A)
        T.cuda.tile.apply(T.ptx[name], d, r)
        T.cuda.tile.apply(T.ptx[store], Out, d)

    return f


def _binary(name: Any, shape: Any, dtype: Any, out: Any, load: Any, store: Any, b: Any) -> Any:
    @T.function
    def f(A: T.Tensor(shape, dtype), Out: T.Tensor(shape, out)):
        T.device_entry(launch=T.cuda.LaunchConfig(grid=1, block=1))
        r = T.alloc_local(shape, dtype, layout="default")
        T.cuda.tile.apply(T.ptx[load], r, A)
        T.cuda.tile.apply(T.ptx[name], r, r, b)
        T.cuda.tile.apply(T.ptx[store], Out, r)

    return f


def _ternary(name: Any, shape: Any, dtype: Any, out: Any, load: Any, store: Any, b: Any, c: Any) -> Any:
    @T.function
    def f(A: T.Tensor(shape, dtype), Out: T.Tensor(shape, out)):
        T.device_entry(launch=T.cuda.LaunchConfig(grid=1, block=1))
        r = T.alloc_local(shape, dtype, layout="default")
        T.cuda.tile.apply(T.ptx[load], r, A)
        T.cuda.tile.apply(T.ptx[name], r, r, b, c)
        T.cuda.tile.apply(T.ptx[store], Out, r)

    return f


def _kernel(name: str, shape: Any, dtype: Any, out: Any, load: str, store: str, values: tuple[Any, ...]) -> Any:
    @tk.kernel
    def f(A: tk.array(dtype=dtype, ndim=len(shape)), Out: tk.array(dtype=out, ndim=len(shape))):
        r = tk.tile_empty(shape, dtype=dtype)
        d = tk.tile_empty(shape, dtype=out)
        tk.tile_apply(tk.ptx[load], r, A)
        tk.tile_apply(tk.ptx[name], d, r, *values)
        tk.tile_apply(tk.ptx[store], Out, d)

    return f


for _name, _shape, _values in (
    ("fma.rn.f32", (4, 1), (2.0, 1.0)),
    ("fma.rz.f32", (2, 3, 1), (0.1, -0.5)),
    ("fma.rm.sat.f32", (1, 1), (-3.5, 1e-30)),
    ("fma.rp.ftz.f32", (2, 2, 2, 1), (1e-42, 0.0)),
    ("add.rn.f32", (5, 1), (0.3,)),
    ("sub.rz.ftz.f32", (2, 2, 1), (-1.0,)),
    ("mul.rm.sat.f32", (3, 1), (0.7,)),
    ("div.rn.f32", (3, 1), (3.0,)),
    ("div.full.f32", (2, 1), (3.0,)),
    ("min.f32", (2, 1), (0.5,)),
    ("max.NaN.f32", (2, 1), (0.5,)),
    ("sqrt.rp.f32", (2, 1), ()),
    ("rcp.approx.ftz.f32", (2, 1), ()),
    ("ex2.approx.f32", (3, 1), ()),
    ("lg2.approx.f32", (3, 1), ()),
    ("abs.f32", (2, 2, 1), ()),
    ("neg.ftz.f32", (2, 1), ()),
    ("mov.f32", (4, 1), ()),
    ("cvt.rni.f32.f32", (4, 1), ()),
):
    add(_name, _shape, "float32", *_values)
add("fma.rm.f64", (3, 1), "float64", 2.0, 0.5)
add("mul.rp.f64", (2, 2, 1), "float64", 0.25)
add("fma.rn.f16", (3, 1), "uint16", 0x3C00, 0x8000)
add("fma.rn.relu.bf16", (2, 1), "uint16", 0x3F80, 0x4000)
add("fma.rn.f16x2", (3, 1), "uint32", 0x40003C00, 0)
add("fma.rn.ftz.sat.f16x2", (2, 2, 1), "uint32", 0x3C003C00, 0x80008000)
add("fma.rn.bf16x2", (2, 1), "uint32", 0x3F804000, 0x3F803F80)
add("mul.rn.f16x2", (2, 1), "uint32", 0x40003C00)
add("fma.rn.f32x2", (3, 1), "uint64", 0x3F8000003F800000, 0x40000000C0000000)
add("add.rz.f32x2", (2, 1), "uint64", 0x3F8000003F800000)
add("cvt.rn.f16.f32", (3, 1), "float32", out="uint16")
add("cvt.rzi.u32.f32", (3, 1), "float32", out="uint32")


def paired(theirs: Callable[[], Any]) -> Callable[[Any], Any]:
    def declare(ours: Any) -> Any:
        PAIRS.append(Pair(theirs.__name__, theirs, ours))
        return ours

    return declare


def gapped_registers() -> Any:
    @T.function
    def f(A: T.Tensor((4, 1), "float32"), Out: T.Tensor((4, 1), "float32")):
        T.device_entry(launch=T.cuda.LaunchConfig(grid=1, block=1))
        r = T.alloc_local((4, 1), "float32", layout=T.TileLayout(T.S[(4, 1) : (2, 1)]))
        T.cuda.tile.apply(T.ptx["ld.global.f32"], r, A)
        T.cuda.tile.apply(T.ptx["fma.rn.f32"], r, r, T.float32(2), T.float32(1))
        T.cuda.tile.apply(T.ptx["st.global.f32"], Out, r)

    return f


@paired(gapped_registers)
@tk.kernel
def _gapped(A: tk.array2d[tk.float32], Out: tk.array2d[tk.float32]):
    r = tk.tile_zeros((7, 1))[::2]
    tk.tile_apply(tk.ptx["ld.global.f32"], r, A)
    tk.tile_apply(tk.ptx["fma.rn.f32"], r, r, tk.float32(2), tk.float32(1))
    tk.tile_apply(tk.ptx["st.global.f32"], Out, r)


def zero_stride() -> Any:
    @T.function
    def f(A: T.Tensor((4, 1), "float32"), Out: T.Tensor((4, 1), "float32")):
        T.device_entry(launch=T.cuda.LaunchConfig(grid=1, block=1))
        r = T.alloc_local((4, 1), "float32", layout="default")
        q = T.alloc_local((4, 1), "float32", layout=T.TileLayout(T.S[(4, 1) : (0, 1)]))
        T.cuda.tile.apply(T.ptx["ld.global.f32"], r, A)
        T.cuda.tile.apply(T.ptx["fma.rn.f32"], r, r, q, T.float32(1))
        T.cuda.tile.apply(T.ptx["st.global.f32"], Out, r)

    return f


@paired(zero_stride)
@tk.kernel
def _zero_stride(A: tk.array2d[tk.float32], Out: tk.array2d[tk.float32]):
    r = tk.tile_empty((4, 1))
    q = tk.tile_broadcast(tk.tile_zeros((1, 1)), (4, 1))
    tk.tile_apply(tk.ptx["ld.global.f32"], r, A)
    tk.tile_apply(tk.ptx["fma.rn.f32"], r, r, q, tk.float32(1))
    tk.tile_apply(tk.ptx["st.global.f32"], Out, r)


def _predicated(keep: bool) -> Any:
    @T.function
    def f(A: T.Tensor((2, 2, 1), "float32"), Out: T.Tensor((2, 2, 1), "float32"), p: T.int32):
        T.device_entry(launch=T.cuda.LaunchConfig(grid=1, block=1))
        r = T.alloc_local((2, 2, 1), "float32", layout="default")
        T.cuda.tile.apply(T.ptx["ld.global.f32"], r, A, pred=p, preserve_dst=keep)
        T.cuda.tile.apply(T.ptx["fma.rn.f32"], r, r, T.float32(2), T.float32(1), pred=p, preserve_dst=keep)
        T.cuda.tile.apply(T.ptx["st.global.f32"], Out, r, pred=p)

    return f


def _predicated_kernel(keep: bool) -> Any:
    @tk.kernel
    def f(A: tk.array3d[tk.float32], Out: tk.array3d[tk.float32], p: tk.int32):
        r = tk.tile_empty((2, 2, 1))
        tk.tile_apply(tk.ptx["ld.global.f32"], r, A, pred=p, preserve_dst=keep)
        tk.tile_apply(tk.ptx["fma.rn.f32"], r, r, tk.float32(2), tk.float32(1), pred=p, preserve_dst=keep)
        tk.tile_apply(tk.ptx["st.global.f32"], Out, r, pred=p)

    return f


PAIRS.append(Pair("predicated-keep", lambda: _predicated(True), _predicated_kernel(True)))
PAIRS.append(Pair("predicated-undefined", lambda: _predicated(False), _predicated_kernel(False)))


def vectors() -> Any:
    @T.function
    def f(A: T.Tensor((2, 4), "uint32", align=16), Out: T.Tensor((4, 2), "uint32", align=16)):
        T.device_entry(launch=T.cuda.LaunchConfig(grid=1, block=1))
        r = T.alloc_local((2, 4), "uint32", layout="default")
        s = T.alloc_local((4, 2), "uint32", layout="default")
        T.cuda.tile.apply(T.ptx["ld.global.v4.b32"], r, A)
        T.cuda.tile.apply(T.ptx["mov.b32"], s[0:4, 0:1], T.uint32(7))
        T.cuda.tile.apply(T.ptx["mov.b32"], s[0:4, 1:2], r[0:1, 0:4])
        T.cuda.tile.apply(T.ptx["st.global.v2.b32"], Out, s)

    return f


def registers_together() -> Any:
    @T.function
    def f(A: T.Tensor((3, 2), "uint32", align=8), Out: T.Tensor((3, 1), "uint64", align=8)):
        T.device_entry(launch=T.cuda.LaunchConfig(grid=1, block=1))
        r = T.alloc_local((3, 2), "uint32", layout="default")
        s = T.alloc_local((3, 1), "uint64", layout="default")
        T.cuda.tile.apply(T.ptx["ld.global.v2.b32"], r, A)
        T.cuda.tile.apply(T.ptx["mov.b64"], s, r)
        T.cuda.tile.apply(T.ptx["st.global.b64"], Out, s)

    return f


@paired(registers_together)
@tk.kernel
def _together(A: tk.array2d[tk.uint32], Out: tk.array2d[tk.uint64]):
    r = tk.tile_empty((3, 2), dtype=tk.uint32)
    s = tk.tile_empty((3, 1), dtype=tk.uint64)
    tk.tile_apply(tk.ptx["ld.global.v2.b32"], r, A)
    tk.tile_apply(tk.ptx["mov.b64"], s, r)
    tk.tile_apply(tk.ptx["st.global.b64"], Out, s)


# What each becomes.


def their_steps(pair: Pair) -> list[Step]:
    target = tvm_tirx.target.Target({"kind": "cuda", "arch": "sm_100a"})
    source = tvm_tirx.tirx.compile(pair.theirs(), target=target).mod.imports[0].inspect_source("cuda")
    declared = re.findall(r'void (tvm_builtin_ptx_\w+)\(.*?asm(?: volatile)?\("(.*?)" : (.*?) : ', source, re.DOTALL)
    helpers = {name: (_spelling(text), _guard(text, outputs)) for name, text, outputs in declared}
    steps = []
    for name, given in re.findall(r"^  (tvm_builtin_ptx_\w+)\((.*)\);$", source, re.MULTILINE):
        spelling, guard = helpers[name]
        operands = [text for text in re.sub(r"/\*.*?\*/", "", given).split(", ") if "&(" not in text]
        steps.append((spelling, guard, _known(map(_their_constant, operands))))
    return steps


def _spelling(text: str) -> str:
    return re.sub(r"^.*@p ", "", text).partition(" ")[0]


def _guard(text: str, outputs: str) -> str:
    return "" if "@p" not in text else "keep" if "+" in outputs else "guard"


def _their_constant(text: str) -> int | None:
    if match := re.fullmatch(r"\((?:uint|ushort|uint64_t)\)(\d+)(?:ULL)?", text):
        return int(match[1])
    if match := re.fullmatch(r"(-?0x[0-9a-f.]+p[+-]\d+)f", text):
        return int(np.float32(float.fromhex(match[1])).view(np.uint32))
    if re.fullmatch(r"-?\d+\.\d+", text):
        return int(np.float64(text).view(np.uint64))
    return None


def our_steps(pair: Pair) -> list[Step]:
    source = tk.compile(pair.ours, device="cuda", arch="100a", block_dim=1).source
    steps = []
    for text, rest in re.findall(r'asm(?: volatile)?\("([^"]*)"(.*)\);$', source, re.MULTILINE):
        _, outputs, inputs, *_ = rest.replace(" :: ", " :  : ").split(" : ")
        spelling = _spelling(text)
        operands = [*re.findall(r'"[=+]\w"\((\w+)\)', outputs), *re.findall(r'"\w"\((.*?)\)(?:, (?=")|$)', inputs)]
        given = [item.strip() for item in re.findall(r"\{[^}]*\}|\[[^]]*\]|[^,{}]+", _operands(text)) if item.strip()]
        registers = [item for item in given if item[0] != "["]
        steps.append((spelling, _guard(text, outputs), _known(_our_constant(item, operands) for item in registers)))
    return steps


def _known(constants: Iterable[int | None]) -> tuple[tuple[int, int], ...]:
    return tuple((place, bits) for place, bits in enumerate(constants) if bits is not None)


def _operands(text: str) -> str:
    return re.sub(r"^.*@p ", "", text).partition(" ")[2].partition(";")[0]


def _our_constant(text: str, given: list[str]) -> int | None:
    if match := re.fullmatch(r"0[fd]([0-9A-F]+)", text):
        return int(match[1], 16)
    if text[0] == "{":
        return None
    expression = given[int(text.removeprefix("%"))]
    match = re.fullmatch(r"(?:tk::\w+[({])?(0x[0-9a-f]+|\d+)u?l*[)}]?(?:\.bits)?", expression)
    return int(match[1], 0) if match else None
