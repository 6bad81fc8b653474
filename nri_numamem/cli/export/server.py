"""Which API server the command uses: that of a kubeconfig, or of the pod's service account."""

import argparse
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

from nri_numamem.apiserver import tls
from nri_numamem.apiserver.access import SERVICE_ACCOUNT, Access, AccessError, in_cluster
from nri_numamem.apiserver.kubeconfig import read_kubeconfig

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
        tls.require()
    return read
