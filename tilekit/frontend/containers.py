"""Lists and dicts that a kernel makes: they exist while it is compiled. A branch or loop on run-time values is traced
once, whatever happens at run time, so it must not change those made outside it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilekit.errors import KernelTypeError
from tilekit.ir.context import active, fail


def _guarded(kind: type, name: str) -> Callable[..., Any]:
    method = getattr(kind, name)

    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        if active() is not self.owner:
            raise fail(
                KernelTypeError(
                    f"this branch or loop on run-time values is traced once, so it cannot change a {kind.__name__} "
                    "made outside it; use an array, a tile or a number, or unroll the loop with tk.static_range"
                )
            )
        return method(self, *args, **kwargs)

    return call


class KernelList(list[Any]):
    """A list that only the region that made it may change."""

    def __init__(self, items: Any = ()) -> None:
        super().__init__(items)
        self.owner = active()


class KernelDict(dict[Any, Any]):
    """A dict that only the region that made it may change."""

    def __init__(self, items: Any = (), **named: Any) -> None:
        super().__init__(items, **named)
        self.owner = active()


for _kind, _names in (
    (KernelList, "append extend insert pop remove clear sort reverse __setitem__ __delitem__ __iadd__ __imul__"),
    (KernelDict, "update pop popitem clear setdefault __setitem__ __delitem__ __ior__"),
):
    for _name in _names.split():
        setattr(_kind, _name, _guarded(_kind.__base__, _name))  # type: ignore[arg-type]

__all__ = ["KernelDict", "KernelList"]
