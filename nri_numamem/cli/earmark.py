"""``nri-numamem earmark``: set room aside on NUMA nodes, list what is set aside, drop it.

The command writes a file for the plugin and waits for its answer. For a pod that was refused, the
history has its request, and the rebalancing plan the nodes. docs/rebalancing.md describes it.
"""

import argparse
import secrets
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from nri_numamem.cli.decisions.names import Names
from nri_numamem.cli.decisions.outcomes import Outcome, amounts_text, request_of
from nri_numamem.cli.explain.rebalancing import plans_with
from nri_numamem.cli.explain.select import Query
from nri_numamem.cli.explain.story import story_of
from nri_numamem.cli.host_arguments import roots_of
from nri_numamem.cli.live import earmark_requests
from nri_numamem.cli.live.collect import add_arguments as add_host_arguments
from nri_numamem.cli.live.collect import collect_accounting
from nri_numamem.cli.live.earmarks import earmarks_document
from nri_numamem.cli.live.facts import Facts
from nri_numamem.cli.live.rebalancing import PodNames
from nri_numamem.cli.output import DOCUMENT_VERSION, add_output_argument, print_document
from nri_numamem.cli.parser import number_argument
from nri_numamem.cli.render.texts import time_text
from nri_numamem.config.errors import UsageError
from nri_numamem.engine.core.earmarks import Beneficiary, Earmark
from nri_numamem.engine.core.providers import format_nodes
from nri_numamem.host.roots import HostRoots
from nri_numamem.memorymanager.earmarks import Room
from nri_numamem.memorymanager.rebalance import Rebalancing
from nri_numamem.numa import NodeSet
from nri_numamem.numa.quantity import MEMORY, hugepages_resource, parse_quantity
from nri_numamem.observe import earmark_files
from nri_numamem.observe.history.lines import read_history
from nri_numamem.observe.history.records import read_records

EXAMPLES = (
    "nri-numamem earmark make ml/train-4",
    "nri-numamem earmark make --namespace ml --label app=train --nodes 0-1 --memory 90Gi",
    "nri-numamem earmark list",
    "nri-numamem earmark drop --all",
)

_MAKE = (
    "Set room aside on NUMA nodes, for a pod that was refused or for pods with labels. What is not "
    "free yet is set aside as soon as it becomes free."
)
MINUTES = 10
MINUTES_MOST = 24 * 60
_PAGE_SIZES = {"2Mi": 2 << 20, "1Gi": 1 << 30}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the actions and their options."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    make = actions.add_parser("make", help="set room aside", description=_MAKE, allow_abbrev=False)
    _add_make_options(make)
    description = "Show what is set aside."
    listing = actions.add_parser(
        "list", help="show what is set aside", description=description, allow_abbrev=False
    )
    description = "End earmarks before their time."
    drop = actions.add_parser(
        "drop", help="end earmarks", description=description, allow_abbrev=False
    )
    drop.add_argument("uids", metavar="UID", nargs="*", help="of an earmark, see list")
    drop.add_argument("--all", action="store_true", help="end all earmarks")
    for action in (make, listing, drop):
        add_host_arguments(action)
        action.set_defaults(parser=action)
    add_output_argument(listing)
    make.epilog = drop.epilog = (
        "Needs root. Exit status: 0 if done, 1 if the plugin refuses, 2 if nothing could be done."
    )


def _add_make_options(make: argparse.ArgumentParser) -> None:
    make.add_argument(
        "pod", metavar="POD", nargs="?", help="NAMESPACE/NAME, name or uid of a refused pod"
    )
    add_selection_arguments(make)
    make.add_argument(
        "--nodes",
        metavar="LIST",
        help="NUMA nodes, such as 0-1 (default: those of the pod's rebalancing plan)",
    )
    make.add_argument(
        "--memory", metavar="AMOUNT", help="such as 90Gi (default: the request of the pod)"
    )
    for size in _PAGE_SIZES:
        name = f"hugepages-{size}"
        make.add_argument(f"--{name}", metavar="AMOUNT", dest=name, help=f"hugepages of {size}")
    make.add_argument(
        "--minutes",
        type=number_argument(MINUTES_MOST),
        default=MINUTES,
        metavar="N",
        help="how long the room is set aside (default: %(default)s)",
    )
    make.add_argument("--uid", help="renew or replace the earmark with this uid")


def add_selection_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options for pods with labels; selected_pods() reads them."""
    parser.add_argument("--namespace", help="namespace of the pods with --label")
    parser.add_argument(
        "--label",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="label of the pods that may use the room; may be repeated, all have to match",
    )


def main(args: argparse.Namespace) -> int:
    """Run an action; return the exit status."""
    with earmark_requests.usage_errors():
        facts = collect_accounting(args)
        if args.action == "list":
            return _list(args, facts)
        directory = earmark_requests.directory_of(facts)
        return _make(args, facts, directory) if args.action == "make" else _drop(args, directory)


def _list(args: argparse.Namespace, facts: Facts) -> int:
    if args.output != "table":
        found = {"version": DOCUMENT_VERSION, "earmarks": earmarks_document(facts.state)}
        print_document(found, args.output)
        return 0
    from nri_numamem.cli.live.earmarks import show_earmarks  # noqa: PLC0415 - only for people
    from nri_numamem.cli.render.screen import Screen, new_console  # noqa: PLC0415 - only for people

    if facts.state is None or not facts.state.earmarks:
        print("nothing is set aside")
    show_earmarks(Screen(new_console()), facts.state, facts.now_s)
    return 0


@dataclass(frozen=True, slots=True)
class Target:
    """For whom room is set aside, where and how much, as far as the history says."""

    beneficiary: Beneficiary
    nodes: NodeSet
    """Of the plan; empty without one."""
    amounts: Mapping[str, int]
    plan: Rebalancing | None = None
    pods: PodNames = field(default_factory=dict)
    """Names of the pods of the plan."""
    container: str = ""
    """The container that was refused; "" for the pod as a whole."""


def _make(args: argparse.Namespace, facts: Facts, directory: Path) -> int:
    if bool(args.pod) == bool(args.label):
        raise UsageError("name either a POD or --label")
    if args.pod and args.namespace:
        raise UsageError("--namespace: only with --label; write NAMESPACE/NAME for a pod")
    target = refused_pod(args.pod, facts, roots_of(args)) if args.pod else selected_pods(args)
    amounts = _amounts(args) or target.amounts
    nodes = _nodes(args.nodes) if args.nodes else target.nodes
    if not amounts:
        raise UsageError("--memory: give an amount such as 90Gi")
    if not nodes:
        why = f"{args.pod} has no rebalancing plan" if args.pod else "it is missing"
        raise UsageError(f"--nodes: {why}; give NUMA nodes such as 0-1")
    uid = args.uid or f"earmark-{secrets.token_hex(4)}"
    if not earmark_files.is_uid(uid):
        raise UsageError(f"--uid: {uid[:80]!r} is not of a-z, 0-9 and -, at most 63")
    expires_s = int(time.time()) + 60 * args.minutes
    made = Earmark(uid, Room(nodes, amounts), target.beneficiary, expires_s)
    refusal = earmark_requests.set_aside(directory, made)
    if refusal:
        print(f"refused: {refusal}")
        return 1
    print(
        f"{amounts_text(amounts)} on {format_nodes(nodes)} set aside for {target.beneficiary} "
        f"until {time_text(expires_s)}\nto end it: nri-numamem earmark drop {uid}"
    )
    return 0


def _drop(args: argparse.Namespace, directory: Path) -> int:
    if bool(args.uids) == args.all:
        raise UsageError("name either earmarks, see nri-numamem earmark list, or --all")
    known = earmark_files.read_wanted(directory).uids
    uids = sorted(known) if args.all else args.uids
    unknown = [uid for uid in uids if uid not in known]
    if unknown:
        raise UsageError(f"{unknown[0][:80]!r} is no earmark; see nri-numamem earmark list")
    earmark_requests.end(directory, uids)
    if not uids:
        print("nothing is set aside")
    for uid in uids:
        print(f"{uid} ended")
    return 0


def refused_pod(
    pod: str, facts: Facts, roots: HostRoots, movable: Collection[str] | None = None
) -> Target:
    """Return a pod by the history: its uid, the request that was refused last, and the plan.

    The plan moves only pods with the uids `movable`; None for any. Raises UsageError if the history
    does not have the pod.
    """
    if not facts.state_file:
        raise UsageError('stateFile is "", so there is no history of refused pods')
    entries, _ = read_records(read_history(Path(facts.state_file)).entries)
    story = story_of(
        Query.parsed(pod), entries, 1, skipped_lines=0, is_running=facts.holder is not None
    )
    if story.is_empty:
        similar = f"; did you mean {story.suggestion}?" if story.suggestion else ""
        raise UsageError(f"{pod}: no such pod in the history{similar}")
    if len(story.namespaces) > 1:
        raise UsageError(f"{pod}: write {story.namespaces[0]}/{pod}")
    refused = [one for one in story.containers if one.outcome is Outcome.REFUSED]
    names: Names = (refused or story.containers)[0].names
    beneficiary = Beneficiary(names.namespace, names.pod_uid, names.pod)
    if not refused:
        return Target(beneficiary, NodeSet(), {})
    plans = plans_with(story, facts, roots, movable)
    plan = plans.of(names).plan
    nodes = NodeSet() if plan is None else plan.nodes
    amounts = request_of(refused[0].decisions[0])
    return Target(beneficiary, nodes, amounts, plan, plans.pods, names.container)


def selected_pods(args: argparse.Namespace) -> Target:
    """Return the pods of ``--namespace`` and ``--label``; raise UsageError without them."""
    if not args.namespace:
        raise UsageError("--label: name the --namespace of the pods")
    labels: dict[str, str] = {}
    for text in args.label:
        key, is_there, value = text.partition("=")
        if not (key and is_there):
            raise UsageError(f"--label: {text[:80]!r} is not KEY=VALUE")
        labels[key] = value
    return Target(Beneficiary(args.namespace, labels=labels), NodeSet(), {})


def _amounts(args: argparse.Namespace) -> dict[str, int]:
    named = {MEMORY: args.memory}
    named |= {
        hugepages_resource(size): getattr(args, f"hugepages-{name}")
        for name, size in _PAGE_SIZES.items()
    }
    found: dict[str, int] = {}
    for resource, text in named.items():
        if text is not None:
            try:
                found[resource] = parse_quantity(text)
            except ValueError as error:
                raise UsageError(f"--{resource}: {error}") from error
            if not found[resource]:
                raise UsageError(f"--{resource}: it must not be 0")
    return found


def _nodes(text: str) -> NodeSet:
    try:
        return NodeSet.parse(text)
    except ValueError as error:
        raise UsageError(f"--nodes: {error}") from error
