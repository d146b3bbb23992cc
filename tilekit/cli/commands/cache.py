"""Compiled kernels on disk: list them, explain one, tell why it was compiled, or remove them.

python -m tilekit cache list
python -m tilekit cache explain 4e1ff9
python -m tilekit cache why gemm
python -m tilekit cache clear
"""

from __future__ import annotations

import argparse

from tilekit.cli.text import size, table
from tilekit.runtime import cache, store
from tilekit.runtime.keys import DIGITS
from tilekit.runtime.why import why


def configure(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)
    listing = actions.add_parser("list", help="all entries, the newest first")
    listing.set_defaults(action=_list)
    explaining = actions.add_parser("explain", help="what an entry is, and where its source lies")
    explaining.add_argument("key", help="the first digits of its key, as `cache list` prints them")
    explaining.set_defaults(action=_explain)
    asking = actions.add_parser("why", help="why a kernel was compiled although an earlier one was there")
    asking.add_argument("name", help="a kernel, of which the newest entry is meant, or the first digits of a key")
    asking.set_defaults(action=_why)
    clearing = actions.add_parser("clear", help="remove all entries")
    clearing.add_argument("--kind", help="of this kind alone, for example cpu")
    clearing.set_defaults(action=_clear)


def run(arguments: argparse.Namespace) -> int:
    arguments.action(arguments)
    return 0


def _list(arguments: argparse.Namespace) -> None:
    entries = cache.list_entries()
    rows = [
        [
            entry.key[:DIGITS],
            entry.kind,
            entry.created_at,
            size(entry.size),
            entry.describe.get("kernel", ""),
            ", ".join(entry.describe[name] for name in ("compiler", "architecture") if name in entry.describe),
        ]
        for entry in entries
    ]
    if rows:
        print(table(["key", "kind", "created (UTC)", "size", "kernel", "compiler"], rows))
    sizes = cache.sizes()
    shown = ", ".join(f"{kind} {size(count)}" for kind, count in sizes.items()) or "empty"
    print(f"{len(entries)} {'entry' if len(entries) == 1 else 'entries'} in {store.root()} ({shown})")


def _explain(arguments: argparse.Namespace) -> None:
    print(cache.explain(arguments.key))


def _why(arguments: argparse.Namespace) -> None:
    print(why(arguments.name))


def _clear(arguments: argparse.Namespace) -> None:
    count, bytes_removed = cache.clear(arguments.kind)
    print(f"removed {count} {'entry' if count == 1 else 'entries'}, {size(bytes_removed)}, from {store.root()}")
