"""The layouts of tiles in registers: which thread holds which element in which register (docs/design/layouts.md)."""

from tilekit.codegen.layouts.core import Bit, Core
from tilekit.codegen.layouts.layout import Layout, Part

__all__ = ["Bit", "Core", "Layout", "Part"]
