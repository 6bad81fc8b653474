"""``nri-numamem export``: this host for a NUMA-aware scheduler plugin, as a NodeResourceTopology.

``collect`` reads the plugin's state directory and the host, ``nri_numamem.export`` makes the
object. The command prints it, and writes to no API server.
"""

import argparse
import os
import re
import sys
from pathlib import Path

from nri_numamem.cli.export.collect import collect
from nri_numamem.cli.live import collect as live
from nri_numamem.cli.output import print_document
from nri_numamem.config.errors import UsageError
from nri_numamem.export.noderesourcetopology import noderesourcetopology
from nri_numamem.host.pod_logs import POD_LOGS
from nri_numamem.numa import CpuSet

EXAMPLES = (
    "nri-numamem export --dry-run",
    "nri-numamem export --dry-run --node-name worker-3 -o json | jq .zones",
)

_KUBELET_ROOT = Path("/var/lib/kubelet")
# A DNS subdomain, as the name of a Node.
_NODE_NAME = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?", re.ASCII)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument(
        "--dry-run",
        action="store_true",
        help="print the object on standard output; this version does nothing else",
    )
    parser.add_argument(
        "-o", "--output", choices=("yaml", "json"), default="yaml", help="(default: %(default)s)"
    )
    parser.add_argument(
        "--node-name",
        metavar="NAME",
        help="name of the Node object (default: the host name in lower case, as the kubelet's)",
    )
    live.add_arguments(parser)
    kubelet = parser.add_argument_group("files of the kubelet")
    kubelet.add_argument(
        "--kubelet-root",
        type=Path,
        default=_KUBELET_ROOT,
        metavar="DIRECTORY",
        help="where its cpu_manager_state is, and its config.yaml unless kubeletConfigFile names "
        "another file (default: %(default)s)",
    )
    kubelet.add_argument(
        "--reserved-cpus",
        metavar="LIST",
        help="its reserved CPUs (default: reservedSystemCPUs of its configuration)",
    )
    kubelet.add_argument(
        "--pod-logs",
        type=Path,
        default=POD_LOGS,
        metavar="DIRECTORY",
        help="its podLogsDir, which has the names of all pods (default: %(default)s)",
    )
    parser.epilog = (
        "Needs root, because the state directory is readable by root only. Each missing input is "
        "one line on standard error. Exit status: 0 if the object was printed, 1 if there is none, "
        "2 if the command line or the configuration is wrong, or a permission is missing."
    )


def main(args: argparse.Namespace) -> int:
    """Print the object, and a line for each missing input; return 1 if there is no object."""
    if not args.dry_run:
        raise UsageError("export writes to no API server; add --dry-run to print the object")
    name = _node_name(args.node_name)
    collected = collect(args, name, _cpus(args.reserved_cpus))
    for problem in collected.problems:
        print(f"nri-numamem: {problem}", file=sys.stderr)
    if collected.host is None:
        return 1
    print_document(noderesourcetopology(collected.host), args.output)
    return 0


def _node_name(given: str | None) -> str:
    name = os.uname().nodename.lower() if given is None else given
    if not _NODE_NAME.fullmatch(name):
        problem = f"{name!r:.80} is not a valid Node name"
        raise UsageError(f"--node-name: {problem}; give the name that `kubectl get nodes` shows")
    return name


def _cpus(text: str | None) -> CpuSet | None:
    try:
        return None if text is None else CpuSet.parse(text)
    except ValueError as error:
        raise UsageError(f"--reserved-cpus: {error}; give a list such as 0-1,64-65") from error
