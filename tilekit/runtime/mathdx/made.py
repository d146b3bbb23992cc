"""What a provider makes of a unit."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Made:
    """A unit: LTO IR, and what the code that uses it must know."""

    code: bytes
    registers: int
    """Sums that a thread holds."""
    bytes_a: int
    """Of shared memory, for the left factor."""
    bytes_b: int
    version: str
    """Of what made it."""

    @property
    def facts(self) -> dict[str, int | str]:
        """All but the code."""
        return {"registers": self.registers, "bytes_a": self.bytes_a, "bytes_b": self.bytes_b, "version": self.version}
