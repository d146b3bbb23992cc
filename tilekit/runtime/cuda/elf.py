"""What a cubin says of its kernels: registers, shared and local memory. Read from the ELF file; no driver is asked.

NVIDIA does not document the records. They are read as ``nvcc`` 11 to 13 write them, and the tests compare them with
what the assembler prints.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

from tilekit.errors import CompileError

_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_RECORD = struct.Struct("<BBH")
_CUDA = 190
_SIZED = 4
"""The form of a record whose value has the size that its last two bytes state."""
_FRAME_SIZE, _REGISTERS = 0x11, 0x2F
_RESERVED = 1024
"""Bytes of shared memory that the system takes of each block, where a cubin counts them."""


@dataclass(frozen=True)
class Resources:
    """What one kernel of a cubin needs."""

    registers: int
    """Of a thread."""
    shared_bytes: int
    """Shared memory that the code declares itself, without what a launch adds."""
    local_bytes: int
    """Of a thread: arrays that do not fit registers, and spilled registers."""


@dataclass(frozen=True)
class _Section:
    name: str
    data: bytes
    size: int
    info: int


def read_resources(cubin: bytes) -> dict[str, Resources]:
    """The resources of each kernel of a cubin, and of each function that one calls, by name.

    Raises:
        CompileError: it is no cubin.
    """
    try:
        sections = {section.name: section for section in _sections(cubin)}
        symbols = _symbols(sections)
        stated = {(kind, symbols[at]): value for kind, at, value in _records(sections[".nv.info"].data)}
    except (struct.error, KeyError, IndexError, UnicodeDecodeError, ValueError) as error:
        raise CompileError(f"no cubin: {error}") from None
    reserved = _RESERVED if ".nv.shared.reserved.0" in sections else 0
    found = {}
    for name in (name.removeprefix(".text.") for name in sections if name.startswith(".text.")):
        shared = sections.get(f".nv.shared.{name}")
        size = max(shared.size - reserved, 0) if shared else 0
        found[name] = Resources(stated.get((_REGISTERS, name), 0), size, stated.get((_FRAME_SIZE, name), 0))
    return found


def _sections(cubin: bytes) -> Iterator[_Section]:
    head = _HEADER.unpack_from(cubin)
    if not head[0].startswith(b"\x7fELF\x02\x01") or head[2] != _CUDA:
        raise ValueError("this is not a 64-bit ELF file of CUDA")
    start, size, count, names = head[6], head[11], head[12], head[13]
    entries = [_SECTION.unpack_from(cubin, start + size * index) for index in range(count)]
    texts = cubin[entries[names][4] :]
    for name, kind, _, _, offset, length, _, info, _, _ in entries:
        data = b"" if kind == 8 else cubin[offset : offset + length]  # 8: takes no place in the file
        yield _Section(_text(texts, name), data, length, info)


def _text(table: bytes, offset: int) -> str:
    return table[offset : table.index(b"\0", offset)].decode()


def _symbols(sections: dict[str, _Section]) -> list[str]:
    texts = sections[".strtab"].data
    return [_text(texts, entry[0]) for entry in _SYMBOL.iter_unpack(sections[".symtab"].data)]


def _records(info: bytes) -> Iterator[tuple[int, int, int]]:
    """Kind, symbol and number of the records that hold these."""
    at = 0
    while at < len(info):
        form, kind, size = _RECORD.unpack_from(info, at)
        at += _RECORD.size
        if form == _SIZED:
            if kind in (_FRAME_SIZE, _REGISTERS):
                yield (kind, *struct.unpack_from("<II", info, at))
            at += size
