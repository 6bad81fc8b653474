"""How the API server is reached: its address, the authorities to trust, credentials.

A pod has them from its service account: two variables, and a directory with a token and the
certificates of the authorities. The kubelet replaces the token before it expires, so it is read for
each request. Processes of one user may read each other's memory and root directory by /proc, hence
the token; the kernel refuses that for a process that is not dumpable.
Source: Kubernetes, "Accessing the Kubernetes API from a Pod".

TLS is that of the standard library's ``ssl``. An interpreter can be built without it. It takes some
10 MiB, so it is imported for a request only.
"""

from __future__ import annotations

import ctypes
import os
import re
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Protocol
from urllib.parse import urlsplit

from nri_numamem.config.errors import UsageError

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""Where the kubelet puts token and ca.crt."""

_SIZE_LIMIT_BYTES = 1 << 20
_PORTS = {"https": 443, "http": 80}
_LOOPBACK = re.compile(r"localhost|127(\.\d{1,3}){3}|::1", re.ASCII)
# RFC 6750 allows fewer characters; others must not get into a header.
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


if TYPE_CHECKING:
    import ssl

NO_TLS = (
    "this Python was built without TLS, so it cannot write to an API server; use the single "
    "executable file, the container image, or a Python that has the module ssl"
)


def require_tls() -> None:
    """Raise AccessError if the interpreter has no TLS."""
    try:
        import ssl  # noqa: F401, PLC0415 - see above
    except ImportError as error:
        raise AccessError(NO_TLS) from error


def tls_context(access: Access) -> ssl.SSLContext:
    """Return a context that verifies the server and has the client's certificate.

    It is kept for the next request, unless the host's authorities are trusted, which may change.
    Raises AccessError for certificates that cannot be used.
    """
    require_tls()
    return _kept_context(access) if access.authorities else _new_context(access)


@lru_cache(maxsize=1)  # it takes a quarter of a request's time
def _kept_context(access: Access) -> ssl.SSLContext:
    return _new_context(access)


def _new_context(access: Access) -> ssl.SSLContext:
    import ssl  # noqa: PLC0415 - see above

    try:
        context = ssl.create_default_context(cadata=access.authorities or None)
    except ssl.SSLError as error:
        raise AccessError(f"the certificates of the authority: {_reason(error)}") from error
    # As client-go: authorities without some extensions, and intermediate ones, are accepted.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    if access.certificate:
        try:
            _load(context, access)
        except (OSError, ssl.SSLError) as error:
            raise AccessError(f"the client certificate and its key: {_reason(error)}") from error
    return context


def _load(context: ssl.SSLContext, access: Access) -> None:
    """Load the client's certificate from files in memory, because ssl reads only files."""
    with ExitStack() as stack:
        certificate = _memory_file(access.certificate, stack)
        key = _memory_file(access.key, stack)
        # Without a function OpenSSL reads the password of an encrypted key from the terminal.
        context.load_cert_chain(certificate, key, password=lambda: b"")


def _memory_file(data: bytes, stack: ExitStack) -> str:
    descriptor = os.memfd_create("certificate", os.MFD_CLOEXEC)
    file = stack.enter_context(os.fdopen(descriptor, "wb"))
    file.write(data)
    file.flush()
    return f"/proc/self/fd/{descriptor}"


def _reason(error: OSError) -> str:
    return error.strerror or str(error) or "cannot be used"


_PR_SET_DUMPABLE = 4  # linux/prctl.h


class Library(Protocol):
    """The C library's function."""

    def prctl(self, option: int, value: int, *unused: int) -> int:
        """Call the kernel; see the manual page of prctl."""


def hide_from_other_processes(library: Library | None = None) -> bool:
    """Make /proc/PID/root and the memory of this process unreadable; return whether it worked.

    Processes with CAP_SYS_PTRACE can still read them. Python has no interface to prctl(2).
    """
    library = library or ctypes.CDLL(None)
    return library.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0) == 0
