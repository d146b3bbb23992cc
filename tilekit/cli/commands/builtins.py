"""What kernels can call: a table, or the whole documentation of one name.

python -m tilekit builtins
python -m tilekit builtins tile_matmul
python -m tilekit builtins --group 'Tile memory'
"""

from __future__ import annotations

import argparse
import difflib

from tilekit.cli.text import table, width, wrap
from tilekit.errors import KernelNameError, KernelValueError
from tilekit.public import Documented, documented


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", nargs="?", help="print the documentation of this builtin")
    parser.add_argument("--group", help="list this group alone")


def run(arguments: argparse.Namespace) -> int:
    entries = documented()
    if arguments.name:
        print(_page(_find(entries, arguments.name.removeprefix("tk."))))
        return 0
    if arguments.group:
        groups = list(dict.fromkeys(entry.group for entry in entries))
        entries = [entry for entry in entries if entry.group.lower() == arguments.group.lower()]
        if not entries:
            raise KernelValueError(f"no group {arguments.group!r}; the groups are {', '.join(groups)}")
    print(_listing(entries))
    return 0


def _listing(entries: list[Documented]) -> str:
    columns = width()
    longest = max(len(entry.signature) for entry in entries)
    head = ["name", "group", "signature", "what it does"]
    if columns is None or longest < columns // 3:
        return table(head, [[e.name, e.group, e.signature, e.summary] for e in entries])
    # Too narrow for a column of its own: the signature stands above what the builtin does.
    head = ["name", "group", "signature, what it does"]
    return table(head, [[e.name, e.group, f"{e.signature}\n{e.summary}"] for e in entries])


def _find(entries: list[Documented], name: str) -> Documented:
    known = {entry.name: entry for entry in entries}
    if name not in known:
        close = difflib.get_close_matches(name, known, 3)
        hint = f"did you mean {' or '.join(close)}?" if close else "`python -m tilekit builtins` lists them"
        raise KernelNameError(f"no builtin is called {name!r}; {hint}")
    return known[name]


def _page(entry: Documented) -> str:
    about = [f"group: {entry.group}", *([f"gradient: {entry.gradient}"] if entry.gradient else [])]
    lines = [*wrap(f"tk.{entry.signature}", width()), *about, "", entry.doc]
    return "\n".join(lines)
