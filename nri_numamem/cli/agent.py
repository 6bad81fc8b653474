"""``nri-numamem agent``: the one process of a host with credentials of the API server.

It does what ``export`` does, and with ``--claims`` it is the driver of resource claims.
"""

import argparse

from nri_numamem.cli import export

EXAMPLES = (
    "nri-numamem agent --claims",
    "nri-numamem agent --claims --kubeconfig /etc/nri-numamem/kubeconfig",
)


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


def main(args: argparse.Namespace) -> int:
    """Do what the options say; return the exit status."""
    return export.main(args)
