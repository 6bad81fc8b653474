"""``nri-numamem status``: what the plugin has placed where, what fits, and what differs.

The command reads the plugin's state directory, sysfs and cgroups. It connects to nothing, and
works when the plugin does not run. ``live`` reads, ``judge`` compares, ``screen`` shows.
"""

import argparse
import sys
import time
from collections.abc import Callable

from nri_numamem.cli.live import collect as live
from nri_numamem.cli.output import add_output_argument, print_document
from nri_numamem.cli.status.document import report_document
from nri_numamem.cli.status.judge import judge
from nri_numamem.cli.status.report import Report

_REDRAW_S = 2.0
_SEPARATORS = {"table": "", "json": "", "yaml": "---"}

EXAMPLES = (
    "nri-numamem status",
    "nri-numamem status --watch",
    "nri-numamem status --output json | jq .largestRequest.memory",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument(
        "--watch", action="store_true", help=f"show it again every {_REDRAW_S:.0f} s, until Ctrl-C"
    )
    add_output_argument(parser)
    live.add_arguments(parser)
    parser.epilog = (
        "Needs root, because the state directory is readable by root only. Exit status: 0 if the "
        "plugin runs and its state could be read, 1 if not, 2 if the command line or the "
        "configuration is wrong, or a permission is missing."
    )


def main(args: argparse.Namespace) -> int:
    """Show the status; return 1 if the plugin does not run or its state cannot be read."""
    if args.watch:
        return _watch(args, time.sleep)
    report = judge(live.collect(args))
    _show(report, args.output)
    return status_of(report)


def status_of(report: Report) -> int:
    """Return the exit status."""
    facts = report.facts
    return 0 if facts.holder is not None and not report.problems else 1


def _watch(args: argparse.Namespace, sleep: Callable[[float], None]) -> int:
    """Show the status again and again; Ctrl-C ends it with status 0."""
    is_redrawn = args.output == "table" and sys.stdout.isatty()
    is_first = True
    try:
        while True:
            report = judge(live.collect(args))
            if is_redrawn:
                sys.stdout.write("\x1b[H\x1b[2J")
            elif not is_first:
                print(_SEPARATORS[args.output])
            _show(report, args.output)
            sys.stdout.flush()
            is_first = False
            sleep(_REDRAW_S)
    except KeyboardInterrupt:
        return 0


def _show(report: Report, output: str) -> None:
    if output != "table":
        print_document(report_document(report), output)
        return
    from nri_numamem.cli.render.screen import new_console  # noqa: PLC0415 - only for people
    from nri_numamem.cli.status.screen import show  # noqa: PLC0415 - only for people

    show(report, new_console())
