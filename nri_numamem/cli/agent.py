"""``nri-numamem agent``: the one process of a host with credentials of the API server.

It does what ``export`` does. With ``--claims`` it is the driver of resource claims, and with
``--rebalance`` it evicts pods that consent to make room for refused ones.
"""

import argparse
import re

from nri_numamem.cli import export
from nri_numamem.cli.parser import number_argument

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
    """Add the options of ``export``, and those of claims."""
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
    return export.main(args)
