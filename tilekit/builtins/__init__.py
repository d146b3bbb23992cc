"""Everything a kernel can call, one family a file. A new family needs no line here: every module is imported."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator
from types import ModuleType

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")


def families() -> Iterator[ModuleType]:
    """The modules of this package."""
    for module in pkgutil.iter_modules(__path__):
        yield importlib.import_module(f"{__name__}.{module.name}")


def public_names() -> dict[str, object]:
    """What the families offer users: builtins that belong to a documented group, and what stands beside them."""
    from tilekit.ir.builtin import REGISTRY

    found: dict[str, object] = {name: b for name, b in REGISTRY.items() if b.group != "internal"}
    for family in families():
        found.update({name: getattr(family, name) for name in getattr(family, "__all__", ())})
    return found


def public_groups() -> dict[str, str]:
    """The group of each public name: a builtin's own, else its family's ``GROUP``."""
    from tilekit.ir.builtin import REGISTRY

    beside = {name: getattr(f, "GROUP", "Other") for f in families() for name in getattr(f, "__all__", ())}
    return beside | {name: b.group for name, b in REGISTRY.items() if b.group != "internal"}
