"""A client of a Kubernetes API server: JSON over HTTPS with a bearer token."""

import http.client
import json
import ssl
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import urlencode

Document: TypeAlias = dict[str, Any]

WAIT_S = 300.0
"""Ends a wait for something that does not happen; a loaded machine may need minutes."""
_REQUEST_S = 60.0
_APPLY = "application/apply-patch+yaml"
_MERGE = "application/merge-patch+json"


class ApiError(Exception):
    """The API server refused a request; `document` is its Status."""

    def __init__(self, status: int, document: Document) -> None:
        super().__init__(f"{status}: {document.get('message', document)}")
        self.status = status
        self.document = document


class Api:
    """An identity at an API server. Each request has a connection of its own."""

    def __init__(self, port: int, authority: Path, token: str) -> None:
        self.port = port
        self.authority = authority
        self.token = token

    def request(
        self,
        method: str,
        path: str,
        document: object = None,
        *,
        kind: str = "application/json",
        query: Mapping[str, str] | None = None,
    ) -> Document:
        """Return the answer. Raises ApiError, or OSError if the server cannot be reached."""
        context = ssl.create_default_context(cafile=str(self.authority))
        connection = http.client.HTTPSConnection(
            "127.0.0.1", self.port, context=context, timeout=_REQUEST_S
        )
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": kind}
        body = None if document is None else json.dumps(document)
        try:
            connection.request(method, f"{path}?{urlencode(query or {})}", body, headers)
            answer = connection.getresponse()
            text = answer.read().decode()
        finally:
            connection.close()
        found = json.loads(text) if text.startswith("{") else {"message": text}
        if answer.status >= http.client.BAD_REQUEST:
            raise ApiError(answer.status, found)
        return found

    def get(self, path: str) -> Document:
        return self.request("GET", path)

    def create(self, path: str, document: Document) -> Document:
        """Create an object in the collection `path`."""
        return self.request("POST", path, document)

    def apply(self, path: str, document: Document, manager: str, *, force: bool = True) -> Document:
        """Apply an object on the server's side as this field manager."""
        query = {"fieldManager": manager, "force": str(force).lower()}
        return self.request("PATCH", path, document, kind=_APPLY, query=query)

    def merge(self, path: str, document: Document) -> Document:
        return self.request("PATCH", path, document, kind=_MERGE)

    def delete(self, path: str, *, missing_ok: bool = False) -> None:
        """Delete an object, or a collection's objects, at once."""
        try:
            self.request("DELETE", path, query={"gracePeriodSeconds": "0"})
        except ApiError as error:
            if error.status != http.client.NOT_FOUND or not missing_ok:
                raise

    def exists(self, path: str) -> bool:
        try:
            self.get(path)
        except ApiError as error:
            if error.status == http.client.NOT_FOUND:
                return False
            raise
        return True


def wait_for(condition: Callable[[], object], what: str) -> None:
    """Wait until something is so; fail after WAIT_S."""
    deadline = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < deadline, f"{what} did not happen in {WAIT_S:.0f} s"
        time.sleep(0.1)
