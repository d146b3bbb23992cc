"""What only differentiation asks about."""

from __future__ import annotations

from tests.conformance import Case, Conformance, scalar, tile


class TestStopGradient(Conformance):
    """Finite differences know nothing of it; ``tests/passes/test_stop_gradient.py`` tests its gradient."""

    cases = (
        Case("stop_gradient", "tile", {"x": tile("float16", 2, 3)}, smooth=False, expected=lambda x: x),
        Case("stop_gradient", "number", {"x": scalar("int32")}, smooth=False, expected=lambda x: x),
    )
