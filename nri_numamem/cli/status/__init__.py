"""``nri-numamem status``: what the plugin has placed where, what fits, and what differs.

The command reads the plugin's state directory, sysfs and cgroups. It connects to nothing, and
works when the plugin does not run. ``live`` reads, ``judge`` compares, ``screen`` shows.
"""

import argparse
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from nri_numamem.cli.decisions.unplaced import refused_now
from nri_numamem.cli.host_arguments import roots_of
from nri_numamem.cli.live import collect as live
from nri_numamem.cli.output import add_output_argument, print_document
from nri_numamem.cli.status.document import report_document
from nri_numamem.cli.status.judge import judge
from nri_numamem.cli.status.pages import page_report, pages_document
from nri_numamem.cli.status.report import Report
from nri_numamem.config.host_paths import below
from nri_numamem.host.pod_logs import POD_LOGS
from nri_numamem.observe.files import reason_of

_REDRAW_S = 2.0
_SEPARATORS = {"table": "\n", "json": "\n", "yaml": "---\n"}
_CLEAR = "\x1b[H\x1b[2J"

EXAMPLES = (
    "nri-numamem status",
    "nri-numamem status --watch",
    "nri-numamem status --pages",
    "nri-numamem status --pages shop/redis-0",
    "nri-numamem status --output json | jq .largestRequest.memory",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument(
        "--watch", action="store_true", help=f"show it again every {_REDRAW_S:.0f} s, until Ctrl-C"
    )
    parser.add_argument(
        "--pages",
        metavar="POD",
        nargs="?",
        const="",
        help="show the NUMA nodes on which the memory of containers is: of all managed containers, "
        "or of those of POD (NAME, NAMESPACE/NAME or UID), of any QoS class",
    )
    add_output_argument(parser)
    live.add_arguments(parser)
    parser.epilog = (
        "Needs root, because the state directory is readable by root only. Exit status: 0 if the "
        "plugin runs and its state could be read, 1 if not, 2 if the command line or the "
        "configuration is wrong, or a permission is missing. With --pages: 1 if something cannot "
        "be read or the pod has no running container."
    )


def main(args: argparse.Namespace) -> int:
    """Show the status; return 1 if the plugin does not run or its state cannot be read."""
    if args.watch:
        return _watch(args, time.sleep)
    return _show(args)


def _watch(args: argparse.Namespace, sleep: Callable[[float], None]) -> int:
    """Show the status again and again; Ctrl-C ends it with status 0."""
    is_redrawn = args.output == "table" and sys.stdout.isatty()
    is_first = True
    try:
        while True:
            _show(args, _CLEAR if is_redrawn else "" if is_first else _SEPARATORS[args.output])
            sys.stdout.flush()
            is_first = False
            sleep(_REDRAW_S)
    except KeyboardInterrupt:
        return 0


def _show(args: argparse.Namespace, before: str = "") -> int:
    """Read everything, write `before` and show it; return the exit status."""
    report = judge(live.collect(args))
    if args.pages is not None:
        return _show_pages(args, report, before)
    report = _with_refused(report, args)
    sys.stdout.write(before)
    if args.output != "table":
        print_document(report_document(report), args.output)
    else:
        from nri_numamem.cli.render.screen import new_console  # noqa: PLC0415 - only for people
        from nri_numamem.cli.status.screen import show  # noqa: PLC0415 - only for people

        show(report, new_console())
    return 0 if report.facts.holder is not None and not report.problems else 1


def _with_refused(report: Report, args: argparse.Namespace) -> Report:
    if not report.facts.state_file:
        return report
    try:
        found = refused_now(Path(report.facts.state_file), roots_of(args).cgroup)
    except OSError as error:
        return replace(report, history_problem=f"history: {reason_of(error)}")
    return replace(report, refused=found)


def _show_pages(args: argparse.Namespace, report: Report, before: str) -> int:
    logs = below(args.root, POD_LOGS)
    pages = page_report(report, roots_of(args), args.pages, logs)
    sys.stdout.write(before)
    if args.output != "table":
        print_document(pages_document(pages), args.output)
    else:
        from nri_numamem.cli.render.screen import new_console  # noqa: PLC0415 - only for people
        from nri_numamem.cli.status.screen import show_pages  # noqa: PLC0415 - only for people

        show_pages(pages, new_console())
    is_known = pages.rows or not args.pages
    return 0 if is_known and not pages.problems else 1
