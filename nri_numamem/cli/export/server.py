"""The API server that the command uses, and the deletion of objects.

The server is that of a kubeconfig, or of the pod's service account.
"""

import argparse
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from nri_numamem.apiserver.access import (
    SERVICE_ACCOUNT,
    Access,
    AccessError,
    in_cluster,
    require_tls,
)
from nri_numamem.apiserver.client import Client, Request, RequestError
from nri_numamem.apiserver.kubeconfig import read_kubeconfig
from nri_numamem.cli.host_arguments import add_node_name_argument, node_name_of
from nri_numamem.config.errors import UsageError
from nri_numamem.export.requests import (
    REMEDIES,
    FailureKind,
    all_objects_path,
    failure_of_delete,
    object_path,
)

DEFAULT_KUBECONFIG = Path("/etc/nri-numamem/kubeconfig")
OPTIONS_FILE = Path("/etc/nri-numamem/export.env")
"""The EnvironmentFile of the unit."""


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
                f"no API server: this is not a pod, and {path} does not exist; name a kubeconfig "
                "with --kubeconfig, or print the object with --dry-run"
            )
        read = partial(read_kubeconfig, path)
    if read().server.is_tls:
        require_tls()
    return read


@dataclass(frozen=True, slots=True)
class Deletion:
    """The result of a deletion."""

    problem: str = ""
    """Why it failed; "" if it did not."""
    is_done: bool = False
    """Whether objects may have been deleted; False if there was none."""


def delete(args: argparse.Namespace, node_name: str | None) -> Deletion:
    """Delete the object of a host, or for None all objects of this program; raise UsageError."""
    path = all_objects_path() if node_name is None else object_path(node_name)
    try:
        answer = Client(access_of(args)).send(Request("DELETE", path))
    except RequestError as error:
        return Deletion(f"{error}; {REMEDIES[FailureKind.UNREACHABLE]}")
    if answer.status == 200 and answer.is_too_large:  # the list of all deleted objects
        return Deletion(is_done=True)
    failure = failure_of_delete(answer.status, answer.document)
    if failure is not None:
        return Deletion(f"{failure.cause}; {failure.remedy}")
    return Deletion(is_done=answer.status != 404)


def delete_configured(*, is_dry_run: bool) -> str:
    """Delete this host's object if the unit of the exporter is configured.

    Return a line of what was done or remains; "" if there was nothing to do. Never fails: an
    uninstall must not depend on an API server.
    """
    args = _unit_options()
    if not (args.kubeconfig or DEFAULT_KUBECONFIG).exists():
        return ""
    name = ""
    try:
        name = node_name_of(args.node_name)
        if is_dry_run:
            return f"would delete noderesourcetopology {name} from the API server"
        deletion = delete(args, name)
    except UsageError as error:
        deletion = Deletion(str(error))
    if deletion.problem:
        remains = f"noderesourcetopology {name or 'of this host'} stays in the API server"
        command = f"kubectl delete noderesourcetopologies {name or 'NAME'}"
        return f"{remains} ({deletion.problem}); run: {command}"
    return f"deleted noderesourcetopology {name} from the API server" if deletion.is_done else ""


def _unit_options() -> argparse.Namespace:
    """Return the options that the unit gives the exporter. Source: systemd.exec(5)."""
    parser = argparse.ArgumentParser(add_help=False, exit_on_error=False, allow_abbrev=False)
    add_server_arguments(parser)
    add_node_name_argument(parser)
    variables = {}
    try:
        for line in OPTIONS_FILE.read_text(errors="replace").splitlines():
            name, _, value = line.strip().partition("=")
            is_quoted = len(value) > 1 and value[0] == value[-1] and value[0] in "'\""
            variables[name] = value[1:-1] if is_quoted else value
    except OSError:
        variables = {}
    try:
        args, _others = parser.parse_known_args(variables.get("EXPORT_OPTIONS", "").split())
    except argparse.ArgumentError:
        args = parser.parse_args([])
    args.node_name = args.node_name or variables.get("NODE_NAME")
    return args
