"""``nri-numamem agent``: the one process of a host with credentials of the API server.

It does what ``export`` does. With ``--claims`` it is the driver of resource claims, and with
``--rebalance`` it evicts pods that consent to make room for refused ones.
"""

import argparse
import re

from nri_numamem.cli import export
from nri_numamem.cli.parser import number_argument
from nri_numamem.config.errors import UsageError
from nri_numamem.export.rebalancing import Rules

EXAMPLES = (
    "nri-numamem agent --claims",
    "nri-numamem agent --claims --kubeconfig /etc/nri-numamem/kubeconfig",
    "nri-numamem agent --rebalance consented --rebalance-namespaces ml,shop",
)

# Source: Kubernetes, "Object Names and IDs", RFC 1123 Label Names.
_NAMESPACE = re.compile(r"[0-9a-z]([0-9a-z-]{0,61}[0-9a-z])?", re.ASCII)
_EVICTIONS_MOST = 1000
_COOLDOWN_MOST = 7 * 24 * 60


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``export``, of claims and of rebalancing."""
    export.add_arguments(parser)
    parser.add_argument(
        "--claims",
        action="store_true",
        help="serve the kubelet as the driver of resource claims, and write this host's "
        "ResourceSlice",
    )
    parser.add_argument(
        "--node-allocatable",
        action="store_true",
        help="let claims count for the Node's allocatable amounts (KEP-5517, the feature gate "
        "DRANodeAllocatableResources); pods then do not repeat them in their requests",
    )
    rebalance = parser.add_argument_group("rebalancing")
    rebalance.add_argument(
        "--rebalance",
        choices=("none", "consented"),
        default="none",
        help="consented: evict pods that consent by annotation to make room for refused ones "
        "(default: %(default)s)",
    )
    rebalance.add_argument(
        "--rebalance-namespaces",
        type=_namespaces,
        default=frozenset(),
        metavar="LIST",
        help="namespaces of the refused pods and of the evicted ones, such as ml,shop",
    )
    rebalance.add_argument(
        "--max-evictions-per-hour",
        type=number_argument(_EVICTIONS_MOST),
        default=4,
        metavar="N",
        help="evictions on this host (default: %(default)s)",
    )
    rebalance.add_argument(
        "--cooldown",
        type=number_argument(_COOLDOWN_MOST),
        default=60,
        metavar="MINUTES",
        help="between two evictions of pods of one controller, and between two plans for pods of "
        "one namespace (default: %(default)s)",
    )


def _namespaces(text: str) -> frozenset[str]:
    names = frozenset(text.split(","))
    wrong = next((name for name in sorted(names) if not _NAMESPACE.fullmatch(name)), None)
    if wrong is None:
        return names
    raise argparse.ArgumentTypeError(f"{wrong[:80]!r} is not the name of a namespace")


def main(args: argparse.Namespace) -> int:
    """Do what the options say; return the exit status."""
    if args.no_write and args.claims:
        raise UsageError("--claims needs the API server; remove --no-write")
    if args.node_allocatable and not args.claims:
        raise UsageError("--node-allocatable needs --claims; add that option")
    tasks: list[export.Task] = []
    if args.claims:
        from nri_numamem.cli.export import claims  # noqa: PLC0415 - gRPC

        tasks.append(
            lambda context: claims.serving(
                args, context.node_name, context.access, context.registered, context.emit
            )
        )
    if args.rebalance != "none":
        tasks.append(_rebalancing(args))
    return export.main(args, tasks)


def _rebalancing(args: argparse.Namespace) -> export.Task:
    if not args.rebalance_namespaces:
        raise UsageError("--rebalance needs --rebalance-namespaces; name the namespaces")
    if args.no_write:
        raise UsageError("--rebalance needs the API server; remove --no-write")
    from nri_numamem.cli.rebalance.automatic import rebalancing  # noqa: PLC0415 - memory

    rules = Rules(args.rebalance_namespaces, args.max_evictions_per_hour, 60.0 * args.cooldown)
    return lambda context: rebalancing(args, rules, context.access, context.emit, context.post)
