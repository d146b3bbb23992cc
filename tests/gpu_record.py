"""What is known of the last run on a GPU: ``gpu_record.json``, which ``python -m tests.record_gpu`` writes."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

TESTS = Path(__file__).parent
RECORD = TESTS / "gpu_record.json"
SOURCES = ("builtins", "codegen", "native", "passes")
"""The folders of tilekit whose text decides what a GPU runs."""
HOW = "python -m tests.record_gpu FOLDER writes one on a machine with a GPU"


def digest(package: Path) -> str:
    """One digest of every source file of the folders that are recorded."""
    found = hashlib.sha256()
    for folder in SOURCES:
        for path in sorted(package.joinpath(folder).rglob("*")):
            if path.suffix in (".py", ".h"):
                text = path.read_bytes()
                found.update(f"{path.relative_to(package).as_posix()} {len(text)}\n".encode() + text)
    return found.hexdigest()


def read(path: Path = RECORD) -> dict[str, Any]:
    """A record, or an empty one."""
    if not path.exists():
        return {}
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def notice(record: dict[str, Any], current: str) -> str | None:
    """What to tell of a record beside the code as it is now; None where it is of this code and all went well."""
    if not record:
        return f"{RECORD.name}: no run on a GPU is recorded; {HOW}"
    run = f"the last run on a GPU ({', '.join(record['gpus'])}, {record['date']})"
    if record["code"] != current:
        return f"{RECORD.name}: {' or '.join(SOURCES)} has changed since {run}; {HOW}"
    bad = [f"{name} {stage['result']}" for name, stage in record["stages"].items() if stage["result"] != "passed"]
    return f"{RECORD.name}: in {run}: {', '.join(bad)}" if bad else None
