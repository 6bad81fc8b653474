"""``nri-numamem rebalance``: restart pods so that a refused one fits, without a race.

Without --apply the plan is shown. With it, the room of the plan is set aside for the refused pod,
and the pods of the plan are evicted with the operator's credentials, so PodDisruptionBudgets
decide. docs/rebalancing.md describes it.
"""

import argparse
import os
import secrets
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from nri_numamem.apiserver.access import Access, AccessError, require_tls
from nri_numamem.apiserver.client import Client
from nri_numamem.apiserver.kubeconfig import read_kubeconfig
from nri_numamem.cli.decisions.outcomes import amounts_text
from nri_numamem.cli.earmark import (
    MINUTES,
    MINUTES_MOST,
    Target,
    add_selection_arguments,
    refused_pod,
)
from nri_numamem.cli.host_arguments import roots_of
from nri_numamem.cli.live import earmark_requests
from nri_numamem.cli.live.collect import add_arguments as add_host_arguments
from nri_numamem.cli.live.collect import collect_accounting
from nri_numamem.cli.live.facts import Facts
from nri_numamem.cli.live.rebalancing import sentence
from nri_numamem.cli.parser import number_argument
from nri_numamem.cli.rebalance.carry_out import Plan, Result
from nri_numamem.cli.rebalance.cluster import Cluster
from nri_numamem.cli.rebalance.followed import Followed, LateClaim, RefusedPod
from nri_numamem.cli.rebalance.host import Host, victims_of
from nri_numamem.cli.rebalance.late_claim import late_claim
from nri_numamem.config.errors import UsageError
from nri_numamem.engine.core.providers import format_nodes
from nri_numamem.host.sysfs import MachineError
from nri_numamem.memorymanager.rebalance import Rebalancing
from nri_numamem.observe.earmark_files import EarmarkFileError

EXAMPLES = (
    "nri-numamem rebalance ml/train-4",
    "nri-numamem rebalance ml/train-4 --apply --kubeconfig ~/.kube/config",
    "nri-numamem rebalance ml/train-4 --apply --by-hand",
    "nri-numamem rebalance --for pod.yaml --apply",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument(
        "pod",
        metavar="POD",
        nargs="?",
        help="NAMESPACE/NAME, name or uid of a pod that was refused",
    )
    parser.add_argument(
        "--claim",
        metavar="CLAIM",
        help="make room for a resource claim that was refused: NAMESPACE/NAME, name or uid",
    )
    parser.add_argument(
        "--for",
        dest="wanted",
        metavar="WHAT",
        help="make room for a pod that does not exist yet: a file with a manifest, or amounts such "
        "as memory=90Gi,hugepages-1Gi=4Gi",
    )
    add_selection_arguments(parser)
    parser.add_argument(
        "--apply", action="store_true", help="set the room aside, and restart the pods of the plan"
    )
    parser.add_argument(
        "--kubeconfig",
        type=Path,
        metavar="FILE",
        help="server and credentials for evictions (default: $KUBECONFIG, else ~/.kube/config)",
    )
    parser.add_argument(
        "--by-hand",
        action="store_true",
        help="print the pods to delete and wait until they have ended; no API server is needed",
    )
    parser.add_argument(
        "--minutes",
        type=number_argument(MINUTES_MOST),
        default=MINUTES,
        metavar="N",
        help="end if nothing changes for so long (default: %(default)s)",
    )
    add_host_arguments(parser)
    parser.epilog = (
        "Needs root. Evicted pods are made again by their controllers. Exit status: 0 if the pod "
        "runs or fits, or a plan is shown; 1 if there is no plan or it was not carried out; 2 if "
        "nothing could be done."
    )


def main(args: argparse.Namespace) -> int:
    """Show the plan, or carry it out; return the exit status."""
    with earmark_requests.usage_errors():
        facts = collect_accounting(args)
        target = _target(args, facts)
        if target.plan is None:
            text = "its last decision is not a refusal; see nri-numamem explain"
            raise UsageError(f"{args.pod}: {text}")
        print(f"plan for {target.beneficiary}: {sentence(target.plan, target.pods)}")
        if target.plan.fits_now:
            return 0
        if not target.plan.moves:
            return 1
        if not args.apply:
            print("to carry it out: add --apply")
            return 0
        return _apply(args, facts, target, target.plan)


def _target(args: argparse.Namespace, facts: Facts) -> Target:
    if sum(map(bool, (args.pod, args.claim, args.wanted))) != 1:
        raise UsageError("name a POD that was refused, or give one of --claim and --for")
    if not args.wanted and (args.namespace or args.label):
        raise UsageError("--namespace, --label: only with --for")
    if args.pod:
        return refused_pod(args.pod, facts, roots_of(args))
    if args.claim:
        return late_claim(args, facts)
    from nri_numamem.cli.rebalance.wanted import wanted_pod  # noqa: PLC0415 - reads the host

    return wanted_pod(args)


def _apply(args: argparse.Namespace, facts: Facts, target: Target, found: Rebalancing) -> int:
    directory = earmark_requests.directory_of(facts)
    cluster = None if args.by_hand else Cluster(Client(_access(args.kubeconfig)))
    uid = f"earmark-{secrets.token_hex(4)}"
    state_file = Path(facts.state_file)
    followed: Followed = RefusedPod(state_file, target, cluster)
    if args.claim:
        followed = LateClaim(state_file, target)
    cgroup_root, waits_s = roots_of(args).cgroup, 60.0 * args.minutes
    victims = victims_of(found, target)
    host = Host(cgroup_root, directory, target, uid, cluster, followed, waits_s, victims, _say)
    plan = Plan(victims, host, _say, waits_for_pod=not args.wanted)
    _say(
        f"setting aside {amounts_text(target.amounts)} on {format_nodes(target.nodes)} for "
        f"{target.beneficiary}"
    )
    try:
        result = plan.carry_out()
    except KeyboardInterrupt:
        _say(f"interrupted; {_state_of(plan, host)}")
        return 130
    except (EarmarkFileError, MachineError, OSError, UsageError):
        _say(f"failed; {_state_of(plan, host)}")
        raise
    if result is Result.DONE and args.wanted:
        _say(
            f"{format_nodes(target.nodes)} have room for {target.beneficiary}: create the pod in "
            f"the next {args.minutes} min; {_to_end(host)}"
        )
        return 0
    if result is Result.DONE:
        what = (
            f"claim {target.beneficiary} is prepared"
            if args.claim
            else f"{target.beneficiary} runs"
        )
        _say(f"{what} on {format_nodes(followed.nodes())}")
        return 0
    _say(f"{plan.cause}; {_state_of(plan, host)}")
    return 1


def _state_of(plan: Plan, host: Host) -> str:
    """Return what an end before the last step leaves."""
    pods = ", ".join(map(str, plan.evicted))
    evicted = f"evicted: {pods}" if pods else "no pod was evicted"
    return f"{evicted}; {_to_end(host)}" if host.earmarks else evicted


def _to_end(host: Host) -> str:
    return f"to end what is set aside: nri-numamem earmark drop {' '.join(host.earmarks)}"


def _access(kubeconfig: Path | None) -> Callable[[], Access]:
    path = kubeconfig or Path(os.environ.get("KUBECONFIG") or "~/.kube/config").expanduser()
    if not path.exists():
        raise AccessError(f"{path} does not exist; name a kubeconfig, or use --by-hand")
    read = partial(read_kubeconfig, path)
    if read().server.is_tls:
        require_tls()
    return read


def _say(text: str) -> None:
    """Print a line of the progress; lines of a command that is interrupted are not lost."""
    print(f"{time.strftime('%H:%M:%S')} {text}")
    sys.stdout.flush()
