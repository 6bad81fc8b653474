"""Access from a kubeconfig file: the cluster and the user of its current context.

Supported are a token, a token file, and a client certificate, in files or inline. A plugin that
another program supplies (``exec``), passwords, proxies, impersonation and servers that are not
verified are refused. Relative paths begin at the file's directory.
Source: k8s.io/client-go, tools/clientcmd/api/v1/types.go.
"""

import base64
import binascii
from collections.abc import Mapping
from pathlib import Path
from typing import cast

from nri_numamem.apiserver.access import (
    Access,
    AccessError,
    bytes_of,
    server_of,
    text_of,
    token_of,
)
from nri_numamem.config.documents import load_document
from nri_numamem.config.errors import UsageError

# Keys that are refused -> remedy.
_OF_CLUSTER = {
    "insecure-skip-tls-verify": "name the certificates of its authority",
    "proxy-url": "name a server that is reached directly",
}
_OF_USER = {
    **dict.fromkeys(
        ("exec", "auth-provider", "username", "password"),
        "use a token, a tokenFile or a client certificate",
    ),
    **dict.fromkeys(
        ("as", "as-uid", "as-groups", "as-user-extra"), "use credentials of the user itself"
    ),
}

Entry = Mapping[str, object]


def read_kubeconfig(path: Path) -> Access:
    """Return the access of the current context; raise AccessError."""
    try:
        document = load_document(bytes_of(path), str(path))
    except AccessError:
        raise
    except UsageError as error:  # of the parser
        raise AccessError(str(error)) from error
    if not isinstance(document, dict) or document.get("kind", "Config") != "Config":
        raise AccessError(f"{path}: not a kubeconfig (kind: Config)")
    current = document.get("current-context")
    if not isinstance(current, str) or not current:
        raise AccessError(f"{path}: no current-context; set one with `kubectl config use-context`")
    reader = _Reader(path)
    context = reader.named(document, "context", current)
    cluster = reader.named(document, "cluster", reader.text(context, "cluster"))
    user = reader.named(document, "user", reader.text(context, "user"))
    reader.refuse(cluster, _OF_CLUSTER)
    reader.refuse(user, _OF_USER)
    url, tls_name = reader.text(cluster, "server"), reader.text(cluster, "tls-server-name")
    certificate = reader.data(user, "client-certificate")
    key = reader.data(user, "client-key")
    if bool(certificate) != bool(key):
        raise AccessError(f"{path}: client-certificate and client-key belong together; give both")
    return Access(
        server_of(url, f"{path}: server", tls_name),
        reader.authorities(cluster),
        reader.token(user),
        certificate,
        key,
    )


class _Reader:
    """Reads entries of a file, whose path begins each error."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def named(self, document: Entry, kind: str, name: str) -> Entry:
        """Return the entry of a name in the list of its kind."""
        entries = document.get(f"{kind}s")
        for entry in entries if isinstance(entries, list) else ():
            if isinstance(entry, dict) and entry.get("name") == name:
                found = entry.get(kind)
                if isinstance(found, dict):
                    return cast("Entry", found)
        raise AccessError(f"{self._path}: no {kind} {name!r:.80} in {kind}s; correct its name")

    def text(self, entry: Entry, key: str) -> str:
        """Return a text; "" if it is missing."""
        value = entry.get(key)
        if value is None:
            return ""
        if not isinstance(value, str):
            raise AccessError(f"{self._path}: {key} is not a text; put it in quotes")
        return value

    def refuse(self, entry: Entry, remedies: Mapping[str, str]) -> None:
        """Raise AccessError with its remedy if an entry has one of these keys."""
        for key, remedy in remedies.items():
            if entry.get(key):
                raise AccessError(f"{self._path}: {key} is not supported; {remedy}")

    def data(self, entry: Entry, key: str) -> bytes:
        """Return the contents of KEY-data or else of the file in KEY; empty if both are missing."""
        inline = self.text(entry, f"{key}-data")
        if inline:
            try:
                return base64.b64decode(inline, validate=True)
            except binascii.Error as error:
                raise AccessError(f"{self._path}: {key}-data is not base64: {error}") from error
        name = self.text(entry, key)
        return bytes_of(self._path.parent / name) if name else b""

    def authorities(self, cluster: Entry) -> str:
        """Return the certificates of the cluster's authorities."""
        try:
            return self.data(cluster, "certificate-authority").decode("ascii")
        except UnicodeDecodeError as error:
            raise AccessError(f"{self._path}: certificate-authority is not in PEM") from error

    def token(self, user: Entry) -> str:
        """Return the token; that of a file comes first, as in client-go."""
        name = self.text(user, "tokenFile")
        if name:
            path = self._path.parent / name
            return token_of(text_of(path), str(path))
        inline = self.text(user, "token")
        return token_of(inline, f"{self._path}: token") if inline else ""
