"""Limits of time on machines where other programs run too, the other workers of these tests among them."""

from __future__ import annotations

import os


def allowed(seconds: float) -> float:
    """So many seconds where a processor is free, and more where several programs wait for each."""
    return seconds * (1.0 + 2.0 * os.getloadavg()[0] / (os.cpu_count() or 1))
