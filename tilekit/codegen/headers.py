"""The native headers that a piece of C++ needs, found by the names it uses: compilers read only those."""

from __future__ import annotations

import re
from collections import defaultdict
from functools import lru_cache
from pathlib import Path

NATIVE = Path(__file__).parents[1] / "native"
_OWN = "vector.h"
"""Only for the CPU's own loops: it comes with the headers that need it."""
_DECLARED = re.compile(
    r"^(?:template <.*> )?(?:"
    r"(?:TK_FN|TK_TILE|TK_COLD|TK_CONSTANT)\b[^(]*?\b(\w+)\("  # functions
    r"|struct (\w+)|typedef [^;]*\b(\w+);"
    r"|(?:constexpr|using|TK_TABLE)\b[^=]*?\b(\w+)(?:\[.*\])? ?="
    r")",
    re.MULTILINE,
)
_BY_MACRO = re.compile(r"\bTK_[A-Z0-9_]+\(([a-z]\w*)")
"""What a header declares through a macro of its own, as the forms of functions for 16-bit floats."""
_ENUM = re.compile(r"^enum (\w+) \{(.*?)\};", re.MULTILINE | re.DOTALL)


@lru_cache(maxsize=1)
def declared_names() -> dict[str, tuple[str, ...]]:
    """The headers that declare each name of the namespace ``tk``."""
    found: dict[str, set[str]] = defaultdict(set)
    for path in NATIVE.glob("*.h"):
        text = re.sub(r"(\(int\))?sizeof\.\.\.\(\w+\)", "", path.read_text(encoding="utf-8"))
        names = [name for groups in _DECLARED.findall(text) for name in groups if name]
        lines = [line for line in text.splitlines() if line.startswith("TK_")]
        names += [name for line in lines for name in _BY_MACRO.findall(line)]
        for kind, values in _ENUM.findall(text):
            names += [kind, *re.findall(r"\b[a-zA-Z]\w*", values)]
        for name in names:
            found[name].add(path.name)
    return {name: tuple(sorted(headers)) for name, headers in found.items()}


def includes(code: str) -> str:
    """``#include`` lines for what a kernel's code names in ``tk``; all headers where a name is not known."""
    declared = declared_names()
    used = set(re.findall(r"\btk::(\w+)", code))
    if used <= declared.keys():
        headers = {"base.h", "launch.h"} | {header for name in used for header in declared[name]}
    else:
        headers = {path.name for path in NATIVE.glob("*.h")}
    return "\n".join(f'#include "{header}"' for header in sorted(headers - {_OWN}))
