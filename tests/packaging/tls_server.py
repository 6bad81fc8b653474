"""An HTTPS server for the single file's tests, and the code of a client that its twin runs."""

import json
import ssl
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Self, cast

from tests.kubernetes_api import CERTIFICATES

# Prints the reply, or type and text of the error. The argument is that of client_argument().
CLIENT = """
import http.client, json, os, ssl, sys
given = json.loads(sys.argv[2])
context = ssl.create_default_context(cadata=given["authority"] or None)
if given["certificate"]:
    file = os.memfd_create("certificate")
    os.write(file, given["certificate"].encode())
    context.load_cert_chain(f"/proc/self/fd/{file}")
connection = http.client.HTTPSConnection(given["host"], given["port"], context=context, timeout=60)
try:
    connection.request("GET", "/")
    print(connection.getresponse().read().decode())
except OSError as error:
    print(type(error).__name__, error)
"""


def text_of(name: str) -> str:
    """Return a certificate of tests/certificates, with its key if there is one."""
    files = (CERTIFICATES / f"{name}{suffix}" for suffix in (".crt", ".key"))
    return "".join(file.read_text() for file in files if file.exists())


def client_argument(
    port: int, *, authority: str = "", certificate: str = "", host: str = "127.0.0.1"
) -> str:
    """Return the argument of CLIENT; "" for no certificate."""
    return json.dumps(
        {
            "host": host,
            "port": port,
            "authority": authority and text_of(authority),
            "certificate": certificate and text_of(certificate),
        }
    )


class TlsServer:
    """A context in which a server listens on 127.0.0.1, at `port`.

    `prefix` is that of its certificate's file. It replies with the version of TLS and the name in
    the client's certificate, as JSON. With `authority` it requires a certificate that this
    authority signed.
    """

    def __init__(self, prefix: str, version: ssl.TLSVersion, authority: str = "") -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = context.maximum_version = version
        name = CERTIFICATES / f"{prefix}server"
        context.load_cert_chain(name.with_suffix(".crt"), name.with_suffix(".key"))
        if authority:
            context.verify_mode = ssl.CERT_REQUIRED
            context.load_verify_locations(cadata=text_of(authority))
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.context = context
        self.port: int = self._server.server_address[1]

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, args=(0.01,)).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    context: ssl.SSLContext
    daemon_threads = True
    block_on_close = False

    def handle_error(self, request: object, client_address: object) -> None:
        """Print nothing: some clients refuse the server."""


class _Handler(BaseHTTPRequestHandler):
    def setup(self) -> None:
        # In the connection's thread, because the handshake waits for the client.
        self.request = cast("_Server", self.server).context.wrap_socket(
            self.request, server_side=True
        )
        super().setup()

    def finish(self) -> None:
        super().finish()
        self.request.close()

    def do_GET(self) -> None:
        subject = (self.request.getpeercert() or {}).get("subject", ())
        names = [value for part in subject for key, value in part if key == "commonName"]
        body = json.dumps({"version": self.request.version(), "client": names}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_arguments: object) -> None:
        """Print nothing."""
