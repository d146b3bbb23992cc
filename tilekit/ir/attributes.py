"""What the handles of a kernel do not offer, and what was meant."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Any

from tilekit.errors import KernelAttributeError, KernelTypeError
from tilekit.ir.context import fail


def suggestion(name: str, known: Iterable[str]) -> str:
    """``; did you mean `x`?``, where one of the known names is close."""
    close = difflib.get_close_matches(name, [n for n in known if not n.startswith("_")], 1)
    return f"; did you mean `{close[0]}`?" if close else ""


def no_numpy_array(handle: Any) -> Exception:
    """Where NumPy would make an array of objects, or find that it cannot, without a place."""
    from tilekit.ir.operands import describe  # which knows the handles

    return fail(KernelTypeError(f"{describe(handle)} is not a NumPy array inside a kernel; use functions of tk"))


class Attributes:
    """A handle that says what it offers where it is asked for something else."""

    __slots__ = ()
    offered = ""
    """The attributes that its users know of."""
    prefix = ""
    """What the names of builtins for such handles begin with."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # Python and NumPy ask for protocols; nobody reads the message
            raise AttributeError(name)
        from tilekit.ir.builtin import REGISTRY
        from tilekit.ir.operands import describe  # which knows the handles

        public = [known for known in dir(self) if not known.startswith("_") and known not in ("offered", "prefix")]
        hint = suggestion(name, public) or (f"; it has {self.offered}" if self.offered else "")
        if self.prefix and self.prefix + name in REGISTRY:
            hint = f"; use tk.{self.prefix}{name}"
        error = KernelAttributeError(f"{describe(self)} has no attribute {name!r}{hint}")
        error.name, error.obj = name, self
        raise error

    def __iter__(self) -> Any:
        """Refused: without this, Python would ask for elements without end."""
        from tilekit.ir.operands import describe  # which knows the handles

        raise fail(KernelTypeError(f"cannot loop over {describe(self)}; loop over range(n) and index it"))

    __reversed__ = __iter__

    def __contains__(self, item: object) -> bool:
        return item in iter(self)  # which says why not
