"""The entry point: which subcommand, and how errors become one line.

Subcommands are imported when they are chosen, so that the plugin, which a runtime waits for,
never loads what only people look at. One that a runtime launched is given no arguments, and reads
none.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Protocol, cast

from nri_numamem.cli.errors import UsageError
from nri_numamem.version import VERSION

if TYPE_CHECKING:
    import argparse

# Name -> what it does; each is a module here with add_arguments(parser) and main(args) -> status.
COMMANDS = {
    "run": "serve the container runtime as an NRI plugin",
    "demo": "show the plugin at work on a simulated machine with 4 NUMA nodes",
    "inspect": "show this host's NUMA nodes as the plugin sees them",
    "simulate": "show what would become of pods on a described machine",
    "state": "verify, show or write a memory manager state file of the kubelet",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; return its exit status: 0 done, 1 failed, 2 used wrongly."""
    arguments = sys.argv[1:] if argv is None else list(argv)
    if not arguments and "NRI_PLUGIN_SOCKET" in os.environ:
        return _launched()
    chosen = next((word for word in arguments if word in COMMANDS), None)
    if chosen == "run":
        _be_asked_too_early()
    parser = _parser(chosen)
    args = parser.parse_args(arguments)
    try:
        return _module(args.command).main(args)
    except UsageError as error:
        print(f"nri-numamem: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # The reader (head, less) has seen enough. Keep Python from flushing into the pipe at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def _be_asked_too_early() -> None:
    """Survive a request for the books (SIGUSR1) that comes before there are any."""
    import signal  # noqa: PLC0415 - large for the keeper, which needs none

    signal.signal(signal.SIGUSR1, signal.SIG_IGN)


def _launched() -> int:
    """Serve the runtime that started us, with a keeper that was forked off before the imports."""
    from nri_numamem.cli import keeper  # noqa: PLC0415 - see above

    def make_worker(tether: keeper.Tether, runtime_pid: int) -> keeper.Worker:
        from nri_numamem.cli.restarted import Restarted  # noqa: PLC0415 - not in the keeper

        return Restarted(os.environ, tether, runtime_pid)

    tether = keeper.start(os.environ, make_worker)
    _be_asked_too_early()
    from nri_numamem.cli.launched import main as launched  # noqa: PLC0415 - after the fork

    return launched(os.environ, tether)


class _Command(Protocol):
    """What each command's module offers."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None: ...
    def main(self, args: argparse.Namespace) -> int: ...


def _module(command: str) -> _Command:
    return cast("_Command", importlib.import_module(f"nri_numamem.cli.{command}"))


def _columns() -> int:
    """Return the width of the terminal, as argparse would find it by shutil.

    That imports everything that packs files, and argparse asks with each option that is added.
    """
    given = os.environ.get("COLUMNS", "")
    if given.isdecimal() and int(given) > 0:
        return int(given)
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns or 80
    except (AttributeError, OSError, ValueError):  # closed, or no terminal
        return 80


def _parser(chosen: str | None) -> argparse.ArgumentParser:
    import argparse  # noqa: PLC0415 - see the module's docstring

    formatter = partial(argparse.HelpFormatter, width=_columns() - 2)
    parser = argparse.ArgumentParser(
        prog="nri-numamem",
        formatter_class=formatter,
        description="Gives Guaranteed containers their memory and hugepages on as few NUMA nodes "
        "as can hold them.",
    )
    parser.add_argument("--version", action="version", version=f"nri-numamem {VERSION}")
    commands = parser.add_subparsers(
        prog="nri-numamem", dest="command", metavar="COMMAND", required=True
    )
    for name, summary in COMMANDS.items():
        description = f"{summary[0].upper()}{summary[1:]}."
        command = commands.add_parser(
            name,
            help=summary,
            description=description,
            allow_abbrev=False,
            formatter_class=formatter,
        )
        if name == chosen:
            _module(name).add_arguments(command)
    return parser
