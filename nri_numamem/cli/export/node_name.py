"""The name of the Node object, which is also that of the NodeResourceTopology."""

import argparse
import os
import re

from nri_numamem.config.errors import UsageError

# A DNS subdomain, as the name of a Node.
_NODE_NAME = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?", re.ASCII)


def add_node_name_argument(parser: argparse.ArgumentParser) -> None:
    """Add the option; node_name_of() has its default."""
    parser.add_argument(
        "--node-name",
        metavar="NAME",
        help="name of the Node object (default: NODE_NAME of the environment, else the host name "
        "in lower case, as the kubelet's)",
    )


def node_name_of(given: str | None) -> str:
    """Return the name; raise UsageError if it is not valid."""
    name = given or os.environ.get("NODE_NAME") or os.uname().nodename.lower()
    if not _NODE_NAME.fullmatch(name):
        problem = f"{name!r:.80} is not a valid Node name"
        raise UsageError(f"--node-name: {problem}; give the name that `kubectl get nodes` shows")
    return name
