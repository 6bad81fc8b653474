"""Delete the object of this host, or those of all hosts."""

import argparse

from nri_numamem.apiserver.client import Client, Request, RequestError
from nri_numamem.cli.export.server import access_of
from nri_numamem.export.requests import all_objects_path, failure_of_delete, object_path


def delete(args: argparse.Namespace, node_name: str) -> str:
    """Delete the object; return why that failed, "" if it is gone. Raises UsageError."""
    return _delete(args, object_path(node_name))


def delete_all(args: argparse.Namespace) -> str:
    """Delete the objects of all hosts that this program has written; return as delete()."""
    return _delete(args, all_objects_path())


def _delete(args: argparse.Namespace, path: str) -> str:
    try:
        answer = Client(access_of(args)).send(Request("DELETE", path))
    except RequestError as error:
        return str(error)
    failure = failure_of_delete(answer.status, answer.document)
    return "" if failure is None else f"{failure.cause}; {failure.remedy}"
