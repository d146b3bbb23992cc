"""The layouts of tiles in registers: which thread holds which element in which register (docs/design/layouts.md)."""

from tilekit.codegen.layouts.core import Bit, Core
from tilekit.codegen.layouts.layout import Layout, Part
from tilekit.codegen.layouts.opaque import AnyLayout, OpaqueLayout

__all__ = ["AnyLayout", "Bit", "Core", "Layout", "OpaqueLayout", "Part"]
