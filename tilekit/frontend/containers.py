"""Lists and dicts that a kernel makes: they exist while it is compiled, and hold values of their own once they have a
name. A branch or loop on run-time values is traced once, whatever happens at run time, so it must not change those made
outside it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilekit.errors import KernelTypeError
from tilekit.frontend.binding import holds_tile, own
from tilekit.ir.context import active, fail
from tilekit.ir.handles import OPERATORS


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
        if name in _TAKEN:
            args = _TAKEN[name](*args)
        return method(self, *args, **kwargs)

    return call


def _all(items: Any) -> tuple[Any]:
    if isinstance(items, dict):
        return ({key: own(item) for key, item in items.items()},)
    return (list(map(own, items)),)


_TAKEN: dict[str, Callable[..., tuple[Any, ...]]] = {
    "append": lambda item: (own(item),),
    "insert": lambda at, item: (at, own(item)),
    "extend": _all, "__iadd__": _all,
    "update": lambda *items: tuple(_all(dict(part))[0] for part in items), "__ior__": lambda items: _all(dict(items)),
    "setdefault": lambda key, *item: (key, *map(own, item)),
    "__setitem__": lambda at, item: (at, *(_all(item) if isinstance(at, slice) else (own(item),))),
}  # fmt: skip
"""What lists and dicts take in, each item with a value of its own."""


class KernelList(list[Any]):
    """A list that only the region that made it may change."""

    def __init__(self, items: Any = ()) -> None:
        super().__init__(items)
        self.owner = active()
        self.owned = False
        """Whether its items are its own, or those of the expression that made it."""

    def __getitem__(self, index: Any) -> Any:
        found = super().__getitem__(index)
        return KernelList(found) if isinstance(index, slice) else found

    def __add__(self, other: Any) -> Any:
        return KernelList(super().__add__(other))

    def __mul__(self, count: Any) -> Any:
        return KernelList(super().__mul__(count))

    __rmul__ = __mul__


class KernelDict(dict[Any, Any]):
    """A dict that only the region that made it may change."""

    def __init__(self, items: Any = (), **named: Any) -> None:
        super().__init__(items, **named)
        self.owner = active()
        self.owned = False


def own_items(value: list[Any] | dict[Any, Any]) -> Any:
    """A list or dict with values of its own, once it has a name; one that a kernel did not make, if it holds tiles."""
    if not isinstance(value, KernelList | KernelDict):
        if not holds_tile(value):
            return value
        value = KernelList(value) if isinstance(value, list) else KernelDict(value)
    if not value.owned:
        value.owned = True
        if isinstance(value, KernelList):
            list.__setitem__(value, slice(None), list(map(own, value)))
        else:
            dict.update(value, {key: own(item) for key, item in value.items()})
    return value


OPERATORS["own items"] = own_items

for _kind, _names in (
    (KernelList, "append extend insert pop remove clear sort reverse __setitem__ __delitem__ __iadd__ __imul__"),
    (KernelDict, "update pop popitem clear setdefault __setitem__ __delitem__ __ior__"),
):
    for _name in _names.split():
        setattr(_kind, _name, _guarded(_kind.__base__, _name))  # type: ignore[arg-type]

__all__ = ["KernelDict", "KernelList"]
