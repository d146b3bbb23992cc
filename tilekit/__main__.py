"""``python -m tilekit``: see ``tilekit.cli``."""

from __future__ import annotations

import sys

from tilekit.cli import main as main, run_program

if __name__ == "__main__":
    sys.exit(run_program())
