"""What code is generated for."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Target:
    """A device kind and what is fixed about a launch at compile time."""

    kind: str = "cpu"
    arch: str = ""
    block_dim: int = 1
    """Lanes of a block; part of the meaning only of kernels that observe lanes."""
    tiled: bool = True
    """Whether launched by ``launch_tiled``: one block a grid point."""
    ndim: int = 1
    """Grid dimensions of the launch."""
    index_checks: bool = True
    checked: bool = False
    line_directives: bool = True
    """Whether the code names the lines of the kernel's source."""
    threads: int = 1
    """Threads that run a block; 1 on the CPU."""

    @property
    def is_cpu(self) -> bool:
        return self.kind == "cpu"
