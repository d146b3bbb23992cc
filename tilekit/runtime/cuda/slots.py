"""Memory in which one launch is described to the driver."""

from __future__ import annotations

import ctypes
import struct

from tilekit.runtime.cpu import LAUNCH

CONFIG = "7I4xPPI4xP"
"""``CUlaunchConfig`` (grid, block, shared memory, stream, attributes), and the list of the one kernel parameter."""
STREAM = struct.calcsize("7I4x") // 8
"""The stream's word."""
_PARAMETERS = struct.calcsize("7I4xPPI4x")
ARGUMENTS = struct.calcsize(CONFIG)
LAUNCH_BYTES = struct.calcsize(LAUNCH)


class Slot:
    """Memory that one launch at a time is described in."""

    __slots__ = ("arguments", "config", "context", "context_place", "memory", "parameters", "words")

    def __init__(self, size: int) -> None:
        self.memory = ctypes.create_string_buffer(
            (size + 64) // 8 * 8
        )  # an empty parameter has some bytes all the same
        self.words = memoryview(self.memory).cast("B").cast("Q")
        self.arguments = ctypes.addressof(self.memory) + ARGUMENTS
        self.context = ctypes.c_void_p()
        # For the driver's functions whose arguments are made beforehand:
        self.config = ctypes.byref(self.memory)
        self.parameters = ctypes.byref(self.memory, _PARAMETERS)
        self.context_place = ctypes.byref(self.context)
