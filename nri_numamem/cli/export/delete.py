"""Delete the object of this host, or those of all hosts."""

import argparse
from dataclasses import dataclass
from pathlib import Path

from nri_numamem.apiserver.client import Client, Request, RequestError
from nri_numamem.cli.export.server import (
    DEFAULT_KUBECONFIG,
    access_of,
    add_node_name_argument,
    add_server_arguments,
    node_name_of,
)
from nri_numamem.config.errors import UsageError
from nri_numamem.export.requests import (
    REMEDIES,
    FailureKind,
    all_objects_path,
    failure_of_delete,
    object_path,
)

OPTIONS_FILE = Path("/etc/nri-numamem/export.env")
"""The EnvironmentFile of the unit."""


@dataclass(frozen=True, slots=True)
class Deletion:
    """How a deletion went."""

    problem: str = ""
    """Why it failed; "" if it did not."""
    is_done: bool = False
    """Whether objects may have been deleted; False if there was none."""


def delete(args: argparse.Namespace, node_name: str) -> Deletion:
    """Delete the object of a host; raise UsageError."""
    return _delete(args, object_path(node_name))


def delete_all(args: argparse.Namespace) -> Deletion:
    """Delete the objects of all hosts that this program has written; raise UsageError."""
    return _delete(args, all_objects_path())


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


def _delete(args: argparse.Namespace, path: str) -> Deletion:
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
