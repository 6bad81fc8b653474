"""The entry point: selects the command, and prints errors as one line.

A command's module is imported when the command is selected, so that the plugin, for which a runtime
waits, never loads the output for people. A plugin that a runtime launched has no arguments.
"""

from __future__ import annotations

import errno
import importlib
import os
import sys
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING

from nri_numamem.config.errors import UsageError
from nri_numamem.daemon.processes import PLUGIN, set_process_name
from nri_numamem.version import VERSION, is_single_file

if TYPE_CHECKING:
    from types import ModuleType

    from nri_numamem.cli.parser import Parser
    from nri_numamem.daemon.supervisor_status import SupervisorStatus

_STDERR = 2

# The option that only the single file has.
_LICENSES = "--licenses"
# A full or broken disk.
_OUTPUT_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)

# Name -> summary. Each is a module here with EXAMPLES (command lines for its help),
# add_arguments(parser) and main(args) -> status.
COMMANDS = {
    "run": "serve the container runtime as an NRI plugin",
    "agent": "do what export does, and serve resource claims to the kubelet",
    "claim": "print a ResourceClaimTemplate for memory, CPUs and devices on one NUMA node",
    "config": "check, show or write a configuration file",
    "demo": "show the plugin at work on a simulated machine with 4 NUMA nodes",
    "doctor": "check this host for problems that keep the plugin from working",
    "earmark": "set room aside on NUMA nodes for a pod, list and drop what is set aside",
    "explain": "show why a container was placed, refused or not managed",
    "export": "write this host as a NodeResourceTopology, for NUMA-aware scheduling",
    "gather": "write an archive with what a bug report needs",
    "inspect": "show this host's NUMA nodes as the plugin sees them",
    "install": "make the runtime or systemd start the plugin on this host",
    "rebalance": "restart pods so that a refused one fits, or show which",
    "reserve": "compare reservedMemory with what the kubelet demands, and propose it",
    "reset": "unpin containers: let them use all NUMA nodes again",
    "simulate": "show where pods would be placed on a described machine",
    "state": "verify, show or write a memory manager state file of the kubelet",
    "status": "show what the plugin has placed where, what fits, and what differs",
    "uninstall": "remove the plugin from this host and unpin its containers",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; return its exit status: 0 done, 1 failed, 2 wrong usage."""
    arguments = sys.argv[1:] if argv is None else list(argv)
    is_launched = not arguments and "NRI_PLUGIN_SOCKET" in os.environ
    chosen = next((word for word in arguments if word in COMMANDS), None)
    if is_launched or chosen in ("run", "agent", "export"):
        _ignore_signals()
    if argv is None:  # in a process of its own
        set_process_name(_process_name(chosen, is_launched))
    if is_launched:
        return _launched()
    watched: dict[str, object] = {}
    if chosen == "run" and argv is None:
        watched = _start_observer()  # before the imports, which would make it large
    if arguments == [_LICENSES] and is_single_file():
        return _run(_print_licenses)
    args = new_parser([] if chosen is None else [chosen]).parse(arguments)
    vars(args).update(watched)
    return _run(lambda: _module(args.command).main(args))


def _run(command: Callable[[], int]) -> int:
    """Return the exit status of a command; print expected errors as one line."""
    try:
        status = command()
        sys.stdout.flush()
    except UsageError as error:
        print(f"nri-numamem: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # The reader, such as head, has read enough.
        _discard_output()
        return 0
    except OSError as error:
        if error.errno not in _OUTPUT_ERRORS:
            raise
        _discard_output()
        print(f"nri-numamem: cannot write the output: {error.strerror}", file=sys.stderr)
        return 1
    return status


def _print_licenses() -> int:
    """Print the licences of everything inside the single file; ImportError without one."""
    # The build writes this module. It has LICENSES, a text, and VERSIONS, package -> version.
    print(importlib.import_module("single_file_contents").LICENSES)
    return 0


def _discard_output() -> None:
    """Keep Python from writing at exit what could not be written."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _process_name(command: str | None, is_launched: bool) -> str:
    """Return the name of a process: a search for the plugin finds no other command."""
    if is_launched or command == "run":
        return PLUGIN
    return "numamem" if command is None else f"numamem-{command}"


def _ignore_signals() -> None:
    """Ignore the signals for operators: in the plugin until it handles them, in others always.

    Supervisor and observer inherit this. Before this call, while the interpreter starts, the
    kernel's default applies: such a signal ends the process.
    """
    import signal  # noqa: PLC0415 - other commands keep the default

    for number in (signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(number, signal.SIG_IGN)


def _start_observer() -> dict[str, object]:
    """Start the process that ends this one when it is stuck; return arguments of ``cli.run``."""
    import faulthandler  # noqa: PLC0415 - only for the plugin

    from nri_numamem.daemon import supervisor  # noqa: PLC0415 - only for the plugin

    try:
        watched: dict[str, object] = {"status": supervisor.start_observer()}
    except OSError as error:
        watched = {"unwatched": str(error)}
    faulthandler.enable(_STDERR)
    return watched


def _launched() -> int:
    """Serve the runtime that launched this process; fork the supervisor before the imports."""
    import faulthandler  # noqa: PLC0415 - see above

    from nri_numamem.daemon import supervisor  # noqa: PLC0415 - see above

    def make_worker(status: SupervisorStatus, runtime_pid: int) -> supervisor.Worker:
        faulthandler.enable(status.crash_descriptor)
        from nri_numamem.daemon.restarted import Restarted  # noqa: PLC0415 - not in the supervisor

        return Restarted(os.environ, status, runtime_pid)

    supervisor.raise_weight()  # needs a capability that is dropped next
    from nri_numamem.daemon.privileges import drop_capabilities  # noqa: PLC0415 - see above

    problem = drop_capabilities()
    status, unwatched = None, ""
    try:
        status = supervisor.start(os.environ, make_worker)
    except OSError as error:
        unwatched = str(error)
    faulthandler.enable(_STDERR if status is None else status.crash_descriptor)
    from nri_numamem.daemon.launched import main as launched  # noqa: PLC0415 - after the fork

    return launched(os.environ, status, problem, unwatched)


def _module(command: str) -> ModuleType:
    return importlib.import_module(f"nri_numamem.cli.{command}")


def new_parser(
    complete: Collection[str] = COMMANDS, parser_class: type[Parser] | None = None
) -> Parser:
    """Return the parser of the command line, with the options of the commands in `complete`."""
    from nri_numamem.cli.parser import Parser  # noqa: PLC0415 - see the module's docstring

    parser = (parser_class or Parser)(
        prog="nri-numamem",
        description="Places the memory and hugepages of Guaranteed containers on as few NUMA nodes "
        "as possible.",
    )
    parser.add_argument("--version", action="version", version=f"nri-numamem {VERSION}")
    if is_single_file():
        parser.add_argument(
            _LICENSES, action="store_true", help="print the licences of what this file contains"
        )
    commands = parser.add_subparsers(
        prog="nri-numamem", dest="command", metavar="COMMAND", required=True
    )
    for name, summary in COMMANDS.items():
        command = commands.add_parser(
            name,
            help=summary,
            description=f"{summary[0].upper()}{summary[1:]}.",
            allow_abbrev=False,
        )
        command.set_defaults(parser=command)
        if name in complete:
            module = _module(name)
            command.examples = module.EXAMPLES
            module.add_arguments(command)
    return parser
