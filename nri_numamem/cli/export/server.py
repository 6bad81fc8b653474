"""The API server that the command uses, and the name of the Node object.

The server is that of a kubeconfig, or of the pod's service account.
"""

import argparse
import os
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path

from nri_numamem.apiserver.access import (
    SERVICE_ACCOUNT,
    Access,
    AccessError,
    in_cluster,
    require_tls,
)
from nri_numamem.apiserver.kubeconfig import read_kubeconfig
from nri_numamem.config.errors import UsageError

DEFAULT_KUBECONFIG = Path("/etc/nri-numamem/kubeconfig")


def add_server_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options; access_of() reads them."""
    server = parser.add_argument_group("API server")
    server.add_argument(
        "--kubeconfig",
        type=Path,
        metavar="FILE",
        help="server and credentials (default: the pod's service account in a pod, else "
        f"{DEFAULT_KUBECONFIG})",
    )
    server.add_argument(
        "--service-account",
        type=Path,
        default=SERVICE_ACCOUNT,
        metavar="DIRECTORY",
        help="in a pod: token and ca.crt, which are read for each request (default: %(default)s)",
    )


def access_of(args: argparse.Namespace) -> Callable[[], Access]:
    """Return a function that reads server and credentials anew; raise AccessError."""
    read: Callable[[], Access]
    if args.kubeconfig is None and os.environ.get("KUBERNETES_SERVICE_HOST"):
        read = partial(in_cluster, os.environ, args.service_account)
    else:
        path = args.kubeconfig or DEFAULT_KUBECONFIG
        if args.kubeconfig is None and not path.exists():
            raise AccessError(
                f"no API server: this is no pod, and {path} does not exist; name a kubeconfig with "
                "--kubeconfig, or print the object with --dry-run"
            )
        read = partial(read_kubeconfig, path)
    if read().server.is_tls:
        require_tls()
    return read


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
