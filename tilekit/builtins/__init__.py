"""Everything a kernel can call, one family a file. A new family needs no line here: every module is imported."""

from __future__ import annotations

import importlib
import pkgutil

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")


def public_names() -> dict[str, object]:
    """What the families offer users: builtins that belong to a documented group, and functions beside them."""
    from tilekit.ir.builtin import REGISTRY

    found: dict[str, object] = {name: b for name, b in REGISTRY.items() if b.group != "internal"}
    for module in pkgutil.iter_modules(__path__):
        family = importlib.import_module(f"{__name__}.{module.name}")
        found.update({name: getattr(family, name) for name in getattr(family, "__all__", ())})
    return found
