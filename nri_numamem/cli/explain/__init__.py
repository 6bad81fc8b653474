"""``nri-numamem explain``: why a container was placed, refused or not managed.

Decisions come from the history that the plugin left beside its state file (``observe.history``).
So the command works while the plugin runs, and when it does not. ``select`` finds the entries,
``story`` says what they mean, ``screen`` shows it. Only the plan for a refused container is
computed from the present state of the host (``rebalancing``).
"""

import argparse
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from nri_numamem.cli.decisions.outcomes import outcome_of
from nri_numamem.cli.decisions.unplaced import (
    Unplaced,
    pods_present,
    unplaced,
    unplaced_document,
)
from nri_numamem.cli.explain.assigned import assigned, assigned_document
from nri_numamem.cli.explain.rebalancing import Plans, plans_of
from nri_numamem.cli.explain.select import Query
from nri_numamem.cli.explain.story import Away, ContainerStory, Story, story_of
from nri_numamem.cli.host_arguments import (
    add_host_argument,
    add_root_arguments,
    add_state_file_argument,
    roots_of,
    state_file_of,
)
from nri_numamem.cli.live.outside import use_document
from nri_numamem.cli.live.rebalancing import document as rebalancing_document
from nri_numamem.cli.output import DOCUMENT_VERSION, add_output_argument, print_document
from nri_numamem.cli.parser import number_argument
from nri_numamem.cli.render.texts import known_time
from nri_numamem.config.errors import UsageError
from nri_numamem.config.host_paths import below
from nri_numamem.daemon.lock_holder import find_holder
from nri_numamem.observe.files import lock_file_of, reason_of
from nri_numamem.observe.history.lines import History, read_history
from nri_numamem.observe.history.records import Recorded, read_records

EXAMPLES = (
    "nri-numamem explain",
    "nri-numamem explain web-0",
    "nri-numamem explain telco/upf-8d/dpdk --last 3",
    "nri-numamem explain web-0 --output json",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument(
        "pod",
        metavar="POD[/CONTAINER]",
        nargs="?",
        help="name or UID of a pod, NAMESPACE/POD, POD/CONTAINER or NAMESPACE/POD/CONTAINER; "
        "without it: the containers that were refused or run unpinned",
    )
    parser.add_argument(
        "--last",
        metavar="N",
        type=number_argument(1000),
        default=1,
        help="show the last N decisions on each container (default: %(default)s)",
    )
    add_output_argument(parser)
    add_host_argument(parser)
    add_state_file_argument(parser)
    add_root_arguments(parser)
    parser.set_defaults(config=None)
    parser.epilog = (
        "Needs root, because the state directory is readable by root only. Exit status: 0 if the "
        "history or the state file has the pod, 1 if not, 2 if the command line is wrong, pods of "
        "several namespaces are meant, or the history cannot be read."
    )


def main(args: argparse.Namespace) -> int:
    """Explain a pod; return 1 if the history does not have it."""
    state_file = below(args.root, state_file_of(args.state_file, args.root))
    history, is_running = _read(state_file)
    entries, damaged = read_records(history.entries)
    if args.pod is None:
        _show_unplaced(unplaced(entries, pods_present(roots_of(args).cgroup)), args.output)
        return 0
    story = story_of(
        Query.parsed(args.pod),
        entries,
        args.last,
        skipped_lines=history.skipped_lines + damaged,
        is_running=is_running,
    )
    story = replace(story, assigned=assigned(state_file, story.query, story.decided))
    namespaces = story.namespaces
    if len(namespaces) > 1:
        text = f"pods of {len(namespaces)} namespaces are meant: {', '.join(namespaces)}"
        raise UsageError(f"{args.pod}: {text}; write {namespaces[0]}/{args.pod}")
    _show(story, plans_of(story, args), args.output, state_file)
    return int(story.is_empty)


def _show_unplaced(found: Sequence[Unplaced], output: str) -> None:
    if output != "table":
        document = {"version": DOCUMENT_VERSION, "unplaced": unplaced_document(found)}
        print_document(document, output)
        return
    from nri_numamem.cli.explain.screen import show_unplaced  # noqa: PLC0415 - only for people
    from nri_numamem.cli.render.screen import Screen, new_console  # noqa: PLC0415 - only for people

    show_unplaced(found, Screen(new_console()), time.time())


def _read(state_file: Path) -> tuple[History, bool]:
    """Return the history, and whether a plugin runs; raise UsageError if they are unreadable."""
    try:
        is_running = find_holder(lock_file_of(state_file)) is not None
        return read_history(state_file), is_running
    except PermissionError as error:
        place = f"{state_file.parent}: {reason_of(error)}"
        raise UsageError(f"{place}; run this as root") from error
    except OSError as error:
        place = f"{state_file.parent}: {reason_of(error)}"
        raise UsageError(f"{place}; name the plugin's --state-file") from error


def _show(story: Story, plans: Plans, output: str, state_file: Path) -> None:
    if output != "table":
        print_document(document_of(story, plans), output)
        return
    from nri_numamem.cli.explain.screen import show  # noqa: PLC0415 - only for people
    from nri_numamem.cli.render.screen import Screen, new_console  # noqa: PLC0415 - only for people

    show(story, plans, Screen(new_console()), time.time(), state_file)


def document_of(story: Story, plans: Plans | None = None) -> dict[str, object]:
    """Return a story as a document for ``--output json``; docs/explain.md describes it."""
    plans = plans or Plans()
    return {
        "version": DOCUMENT_VERSION,
        "query": story.query.text,
        "history": {
            "begins": known_time(story.begins_s),
            "ends": known_time(story.ends_s),
            "skippedLines": story.skipped_lines,
        },
        "pluginRuns": story.is_running,
        "away": [_away(one) for one in story.away],
        "containers": [_container(one, plans) for one in story.containers],
        "assigned": assigned_document(story.assigned),
        "earlierPodUids": list(story.earlier_uids),
        "didYouMean": story.suggestion or None,
    }


def _container(story: ContainerStory, plans: Plans) -> dict[str, object]:
    names, refusals = story.names, story.refusals
    now, advice = plans.of(names), plans.advice(story)
    return {
        **names.document(),
        "outcome": story.outcome.value,
        "repeated": None if refusals is None else refusals.document(),
        "decisions": [_entry(entry) for entry in story.decisions],
        "later": [_entry(entry) for entry in story.later],
        "siblings": [_entry(entry) for entry in story.siblings],
        "usedOutsideOfPods": [use_document(use) for use in now.outside.uses],
        "reserved": list(now.reserved),
        "remedy": ", or ".join(advice.texts) or None,
        "remedies": [dict(each) for each in advice.remedies],
        "commands": list(advice.commands),
        "plan": None if now.plan is None else rebalancing_document(now.plan, plans.pods),
    }


def _entry(recorded: Recorded) -> dict[str, object]:
    outcome, entry = outcome_of(recorded), recorded.entry
    return {
        "time": known_time(entry.time_s),
        "event": entry.event,
        "outcome": None if outcome is None else outcome.value,
        "requestId": entry.request_id or None,
        "fields": dict(entry.fields),
    }


def _away(away: Away) -> dict[str, object]:
    return {
        "since": known_time(away.since_s),
        "until": known_time(away.until_s),
        "cause": away.cause,
    }
