"""What is known of one PTX instruction: the record, and those of its operands."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from tilekit.codegen.architectures import arch_name
from tilekit.errors import KernelValueError
from tilekit.ir.types import DType


@dataclass(frozen=True)
class Slot:
    """An operand of an atom.

    Example:
        >>> import tilekit as tk
        >>> tk.ptx["ld.global.v4.f32"].slots[0]
        Slot(name='d', access='w', ptx_type='f32', carriers=(float32,), lanes=4, kind='register')
    """

    name: str
    access: Literal["r", "w"]
    ptx_type: str
    """The type that the instruction takes the bits for: ``f32``, ``f16x2``, ``b32``, ``s32``."""
    carriers: tuple[DType, ...]
    """Dtypes whose values may be passed, the natural one first."""
    lanes: int = 1
    """Registers: ``ld.global.v4.f32`` writes four."""
    kind: Literal["register", "memory"] = "register"

    def __str__(self) -> str:
        text = f"{self.name}: {self.ptx_type}" + (f" x {self.lanes}" if self.lanes > 1 else "")
        return f"[{text}]" if self.kind == "memory" else text


def needs_text(sm: str, ptx: tuple[int, int]) -> str:
    """A minimum in words.

    Example:
        >>> needs_text("107a", (9, 4))
        'sm_107a or sm_107f, PTX 9.4'
    """
    family = f" or sm_{sm[:-1]}f" if sm.endswith("a") else ""
    return f"sm_{sm}{family}, PTX {ptx[0]}.{ptx[1]}"


@dataclass(frozen=True)
class Atom:
    """One PTX instruction, completely spelled. ``tk.ptx["..."]`` finds it; kernels may capture it.

    Example:
        >>> import tilekit as tk
        >>> atom = tk.ptx["fma.rn.ftz.f32"]
        >>> atom.rounding, sorted(atom.flags), atom.min_sm, [str(slot) for slot in atom.slots]
        ('rn', ['ftz'], '20', ['d: f32', 'a: f32', 'b: f32', 'c: f32'])
    """

    spelling: str
    """As it is emitted: modifiers in the order of the PTX ISA, ``add.f32`` as ``add.rn.f32``."""
    mnemonic: str
    family: str
    modifiers: tuple[str, ...]
    """All but the types, in the order of the spelling."""
    rounding: str | None
    flags: frozenset[str]
    """Modifiers other than the rounding, the state space and the vector width."""
    types: tuple[str, ...]
    """As spelled, the destination's first."""
    slots: tuple[Slot, ...]
    """In the order of PTX, the destination first."""
    min_sm: str
    """``"53"``; ``"107a"`` is for that architecture and its family alone."""
    min_ptx: tuple[int, int]
    exact: bool
    """The ISA fixes every bit of the result."""
    error: str
    """How far off the result may be by the ISA where it is not exact, such as ``"2 ulp"``; else empty."""
    cpu: str
    """The function of ``tk::atom`` that computes it; empty for loads and stores."""
    adjoint: str | None
    """The rule of its gradient, or None where it has none."""
    variants: tuple[Atom, ...] = ()
    """The same spelling with other operands: ``mov.b32`` of one register, of two, to two."""

    @property
    def operands(self) -> str:
        """The operands with their types, as text."""
        return ", ".join(map(str, self.slots))

    @property
    def needs(self) -> str:
        """The oldest GPU and PTX that have it, as text."""
        return needs_text(self.min_sm, self.min_ptx)

    def runs_on(self, arch: str | int) -> bool:
        """Whether a GPU has it.

        Args:
            arch: A compute capability without its dot: ``90``, ``"sm_90a"``.

        Returns:
            False where the GPU is too old, or of another family for what only one family has.

        Raises:
            KernelValueError: ``arch`` is written in another way.

        Example:
            >>> import tilekit as tk
            >>> tk.ptx["fma.rn.f32x2"].runs_on("sm_90a"), tk.ptx["fma.rn.bf16"].runs_on(90)
            (False, True)
        """
        name = arch_name(arch)
        if self.min_sm[-1].isdigit():
            return int(name.rstrip("af")) >= int(self.min_sm)
        return name[-1] in "af" and name[:-1] == self.min_sm[:-1]

    def check_arch(self, arch: str | int) -> None:
        """Refuse a GPU that does not have it.

        Args:
            arch: A compute capability without its dot: ``90``, ``"sm_90a"``.

        Raises:
            KernelValueError: the GPU does not have it; the message says which have.

        Example:
            >>> import tilekit as tk
            >>> tk.ptx["fma.rn.f32x2"].check_arch(90)
            Traceback (most recent call last):
            tilekit.errors.KernelValueError: fma.rn.f32x2 needs sm_100 (PTX 8.6); target is sm_90
        """
        if not self.runs_on(arch):
            ptx = "{}.{}".format(*self.min_ptx)
            raise KernelValueError(
                f"{self.spelling} needs sm_{self.min_sm} (PTX {ptx}); target is sm_{arch_name(arch)}"
            )

    def __str__(self) -> str:
        return self.spelling

    def __repr__(self) -> str:
        return f'tk.ptx["{self.spelling}"]'

    def __getattr__(self, name: str) -> Any:
        # tk.ptx.fma.rn.f32.f16: what is spelled so far is an atom of its own.
        if name.startswith("_"):
            raise AttributeError(name)
        from tilekit.builtins.atoms import ptx

        return ptx.extend(self.spelling, name)
