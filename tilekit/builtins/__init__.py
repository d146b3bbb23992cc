"""Everything a kernel can call, one family a file. A new family needs no line here: every module is imported."""

from __future__ import annotations

import importlib
import pkgutil

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")
