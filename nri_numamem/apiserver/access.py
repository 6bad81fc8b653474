"""How the API server is reached: its address, the authorities to trust, credentials.

A pod has them from its service account: two variables, and a directory with a token and the
certificates of the authorities. The kubelet replaces the token before it expires, so it is read for
each request.
Source: Kubernetes, "Accessing the Kubernetes API from a Pod".
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from nri_numamem.config.errors import UsageError

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""Where the kubelet puts token and ca.crt."""

_SIZE_LIMIT_BYTES = 1 << 20
_PORTS = {"https": 443, "http": 80}
_LOOPBACK = re.compile(r"localhost|127(\.\d{1,3}){3}|::1", re.ASCII)
# RFC 6750 allows fewer characters; no other one may get into a header.
_TOKEN = re.compile(r"[!-~]+", re.ASCII)


class AccessError(UsageError):
    """Address, authorities or credentials cannot be used; the text is the whole message."""


@dataclass(frozen=True, slots=True)
class Server:
    """The address of an API server."""

    host: str
    port: int
    prefix: str = ""
    """Of each path, without a slash at its end."""
    is_tls: bool = True
    tls_name: str = ""
    """The name that its certificate must have; "" if it is the host."""

    def __str__(self) -> str:
        """Return the address for messages."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self.is_tls else 'http'}://{host}:{self.port}{self.prefix}"


@dataclass(frozen=True, slots=True)
class Access:
    """A server and the credentials for it."""

    server: Server
    authorities: str = ""
    """Certificates in PEM; "" for those that the host trusts."""
    token: str = field(default="", repr=False)
    """A bearer token; "" for none."""
    certificate: bytes = b""
    """The client's, in PEM; empty for none."""
    key: bytes = field(default=b"", repr=False)
    """The certificate's private key, in PEM."""


def in_cluster(environment: Mapping[str, str], directory: Path = SERVICE_ACCOUNT) -> Access:
    """Return the access of a pod's service account; raise AccessError."""
    host = environment.get("KUBERNETES_SERVICE_HOST", "")
    port = environment.get("KUBERNETES_SERVICE_PORT", "")
    if not host or not port.isdecimal() or not 0 < int(port) < 1 << 16:
        raise AccessError(
            "KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT do not name an API server; run in "
            "a pod, or name a kubeconfig with --kubeconfig"
        )
    return Access(
        Server(host, int(port)),
        authorities=text_of(directory / "ca.crt"),
        token=token_of(text_of(directory / "token"), str(directory / "token")),
    )


def server_of(url: str, place: str, tls_name: str = "") -> Server:
    """Return the server of a URL; raise AccessError, which begins with `place`."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise AccessError(f"{place}: {error}; give a URL such as https://host:6443") from error
    host = parts.hostname
    if parts.scheme not in _PORTS or not host or parts.query or parts.fragment or parts.username:
        raise AccessError(f"{place}: {url!r:.80} is not a URL such as https://host:6443")
    is_tls = parts.scheme == "https"
    if not is_tls and not _LOOPBACK.fullmatch(host):
        raise AccessError(f"{place}: http is only supported on loopback addresses; use https")
    prefix = parts.path.rstrip("/")
    return Server(host, port or _PORTS[parts.scheme], prefix, is_tls, tls_name)


def bytes_of(path: Path) -> bytes:
    """Return the contents of a small file; raise AccessError."""
    try:
        with path.open("rb") as file:
            data = file.read(_SIZE_LIMIT_BYTES + 1)
    except OSError as error:
        raise AccessError(
            f"{path}: {error.strerror or error}; check the path and its mode"
        ) from error
    if len(data) > _SIZE_LIMIT_BYTES:
        raise AccessError(f"{path}: more than {_SIZE_LIMIT_BYTES} bytes")
    return data


def text_of(path: Path) -> str:
    """Return the text of a small file; raise AccessError."""
    try:
        return bytes_of(path).decode("ascii")
    except UnicodeDecodeError as error:
        raise AccessError(f"{path}: not a text of ASCII characters") from error


def token_of(text: str, place: str) -> str:
    """Return a bearer token without the spaces around it; raise AccessError."""
    token = text.strip()
    if not _TOKEN.fullmatch(token):
        raise AccessError(f"{place}: there is no token in it, or more than one line")
    return token
