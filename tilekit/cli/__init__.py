"""The command line: ``python -m tilekit COMMAND``.

Each command is a module of ``tilekit.cli.commands`` with a docstring (its help), ``configure(parser)`` for its
arguments and ``run(arguments)``, which gives the exit status. A new command needs no line anywhere else.
"""

from __future__ import annotations

import argparse
import importlib
import os
import pkgutil
import sys
import warnings
from collections.abc import Sequence
from types import ModuleType
from typing import Any

from tilekit.cli import commands
from tilekit.cli.text import OneLineHelp, show_warning
from tilekit.errors import TilekitError, TilekitWarning

INTERRUPTED = 130
"""The exit status of a program that Ctrl-C ended, as shells count it."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command.

    Args:
        argv: The arguments after ``python -m tilekit``; by default those of this process.

    Returns:
        The exit status: 0, or 1 where the command failed.

    Raises:
        SystemExit: with status 2 for wrong arguments, and with 0 after ``--help`` and ``--version``.

    Example:
        >>> main(["cache", "explain", 64 * "0"])  # no entry has this key
        1
    """
    parser = _parser()
    arguments = parser.parse_args(argv)
    if arguments.run is None:
        parser.print_help()
        return 0
    with warnings.catch_warnings():
        # One line each, as an error is; and also those that an earlier command of this process has shown.
        warnings.simplefilter("always", TilekitWarning)
        warnings.showwarning = show_warning
        try:
            return int(arguments.run(arguments))
        except TilekitError as error:
            print(f"tilekit: {error}", file=sys.stderr)
            return 1


def run_program() -> int:
    """``main`` for this process: whatever happens to its output is no traceback."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")  # a terminal that cannot show every character
    try:
        status = main()
        sys.stdout.flush()
        return status
    except BrokenPipeError:  # the reader, for example head, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except KeyboardInterrupt:
        return INTERRUPTED


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("tilekit", description="A kernel language for tiles.", formatter_class=OneLineHelp)
    parser.add_argument("--version", action=_Version, nargs=0, help="print the version and leave")
    parser.set_defaults(run=None)
    subparsers = parser.add_subparsers(title="commands", metavar="COMMAND")
    for module in pkgutil.iter_modules(commands.__path__):
        _add(subparsers, module.name, importlib.import_module(f"{commands.__name__}.{module.name}"))
    return parser


def _add(subparsers: Any, name: str, command: ModuleType) -> None:
    text = (command.__doc__ or "").strip()
    summary = text.partition("\n")[0]
    parser = subparsers.add_parser(name, help=summary, description=text, formatter_class=OneLineHelp)
    command.configure(parser)
    parser.set_defaults(run=command.run)


class _Version(argparse.Action):
    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from tilekit.cli.installed import version

        print(f"tilekit {version()}")
        parser.exit()
