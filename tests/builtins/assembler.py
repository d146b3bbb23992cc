"""Assemble PTX with nvJitLink: which of many instructions it refuses, or their machine code."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache

import pytest

from tilekit.builtins.atoms import Atom

nvjitlink = pytest.importorskip("cuda.bindings.nvjitlink", reason="needs the extra cuda")

_HELD = {"f16": "b16", "bf16": "b16", "tf32": "b32", "u8": "u16", "s8": "s16", "b8": "b16", "f32x2": "b64"}
"""The register that holds a type which registers do not have."""
_ERROR = re.compile(r"line (\d+); (?:error|fatal)\s*: (.*)")
_REGISTERS = 9


def held(ptx_type: str) -> str:
    """The type of the register that holds a value of that type."""
    return _HELD.get(ptx_type, "b32" if ptx_type.endswith("x2") else ptx_type)


def operands(atom: Atom) -> list[list[str]]:
    """Registers for each operand; none for an address."""
    number = iter(range(_REGISTERS))
    return [
        [f"%{held(slot.ptx_type)}_{next(number)}" for _ in range(slot.lanes)] if slot.kind == "register" else []
        for slot in atom.slots
    ]


def instruction(atom: Atom) -> str:
    """The atom with registers for all of its operands."""
    texts = ["{" + ", ".join(found) + "}" if len(found) > 1 else "".join(found) or "[%at]" for found in operands(atom)]
    return f"{atom.spelling} {', '.join(texts)};"


def whole(atom: Atom) -> list[str]:
    """Loads of the operands, the atom, and a store of its result, which keeps the assembler from dropping it."""
    (result, *_), *sources = operands(atom)
    loads = [f"ld.global.{name[1:-2]} {name}, [%at+{8 * n}];" for n, (name,) in enumerate(sources, 1)]
    return ["ld.param.b64 %at, [at];", *loads, instruction(atom), f"st.global.{result[1:-2]} [%at], {result};"]


def _head(sm: str, ptx: tuple[int, int]) -> list[str]:
    return [".version {}.{}".format(*ptx), f".target sm_{sm}", ".address_size 64"]


def _kernel(name: str, instructions: list[str]) -> list[str]:
    """A kernel of one instruction a line, after two lines that say what registers it uses."""
    kinds = sorted(set(re.findall(r"%(\w+?)_\d", "\n".join(instructions))))
    registers = " ".join([".reg .b64 %at;", *(f".reg .{kind} %{kind}_<{_REGISTERS}>;" for kind in kinds)])
    return [f".visible .entry {name}(.param .b64 at) {{", registers, *instructions, "ret; }"]


def _assemble(lines: list[str], sm: str) -> tuple[bytes, str]:
    """The machine code, or none and the assembler's log."""
    text = "\n".join(lines)
    try:
        handle = nvjitlink.create(1, [f"-arch=sm_{sm}"])
    except nvjitlink.nvJitLinkError:  # it does not know this GPU
        return b"", ""
    try:
        nvjitlink.add_data(handle, nvjitlink.InputType.PTX, text.encode(), len(text), "atoms.ptx")
        nvjitlink.complete(handle)
        code = bytearray(nvjitlink.get_linked_cubin_size(handle))
        nvjitlink.get_linked_cubin(handle, code)
        return bytes(code), ""
    except nvjitlink.nvJitLinkError:
        log = bytearray(nvjitlink.get_error_log_size(handle))
        nvjitlink.get_error_log(handle, log)
        return b"", log.decode(errors="replace")
    finally:
        nvjitlink.destroy(handle)


def machine_code(atoms: Mapping[str, Atom], sm: str, ptx: tuple[int, int]) -> bytes:
    """One kernel for each atom, which loads the operands and stores the result, under the name given."""
    kernels = [line for name, atom in atoms.items() for line in _kernel(name, whole(atom))]
    code, log = _assemble([*_head(sm, ptx), *kernels], sm)
    assert code, log
    return code


def refused(instructions: list[str], sm: str, ptx: tuple[int, int]) -> dict[str, str]:
    """What the assembler does not take, with its reason: all of it where it does not know the target."""
    if not knows(sm, ptx):
        return dict.fromkeys(instructions, "this target is not known")
    lines = [*_head(sm, ptx), *_kernel("k", instructions)]
    first = lines.index(instructions[0]) + 1
    code, log = _assemble(lines, sm)
    found = {instructions[int(line) - first]: why for line, why in _ERROR.findall(log) if int(line) >= first}
    assert code or found, log
    return found


@cache
def knows(sm: str, ptx: tuple[int, int]) -> bool:
    """Whether the assembler takes that PTX for that target."""
    return bool(_assemble([*_head(sm, ptx), *_kernel("k", [])], sm)[0])
