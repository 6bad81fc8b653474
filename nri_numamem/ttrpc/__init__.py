"""ttrpc in pure Python, standard library only: unary calls over any byte stream.

ttrpc is the small relative of gRPC that containerd speaks with its shims and plugins. This
package can be lifted out of its project as it is. It consists of a core without any I/O
(``ServerConnection``, ``ClientConnection``: bytes in, events and bytes out) and of small
blocking shells over a socket:

>>> import socket, threading
>>> from nri_numamem import ttrpc
>>> def greet(request: ttrpc.Request, deadline_ns: int | None) -> bytes:
...     if not request.payload:
...         raise ttrpc.StatusError(ttrpc.Code.INVALID_ARGUMENT, "who are you?")
...     return b"hello " + request.payload
>>> services = {"demo.Greeter": {"Greet": greet}}
>>> here, there = socket.socketpair()
>>> server = threading.Thread(target=ttrpc.serve, args=(there, services))
>>> server.start()
>>> with ttrpc.Client(here) as client:
...     print(client.call("demo.Greeter", "Greet", b"node 0", timeout_s=5))
...     try:
...         client.call("demo.Greeter", "Greet")
...     except ttrpc.StatusError as error:
...         print(error)
b'hello node 0'
who are you? (INVALID_ARGUMENT)
>>> server.join()
>>> there.close()

Payloads are bytes; encode them with whatever knows your messages. ``ttrpc.testing`` pairs both
ends in memory. Not supported: streaming calls, and the details of a status.
"""

from nri_numamem.ttrpc.blocking import Client, serve
from nri_numamem.ttrpc.client import CallFailed, ClientConnection, ReplyReceived
from nri_numamem.ttrpc.dispatch import Handler, Services, answer, find_handler
from nri_numamem.ttrpc.envelope import Metadata, Request
from nri_numamem.ttrpc.frames import HEADER_BYTES, MAX_BODY_BYTES, MAX_SEND_BYTES
from nri_numamem.ttrpc.server import (
    MAX_ERROR_TEXT_BYTES,
    RequestReceived,
    RequestRefused,
    ServerConnection,
)
from nri_numamem.ttrpc.status import (
    Code,
    ConnectionClosed,
    LocalProtocolError,
    ProtocolError,
    RemoteProtocolError,
    StatusError,
    TtrpcError,
)

__all__ = [
    "HEADER_BYTES",
    "MAX_BODY_BYTES",
    "MAX_ERROR_TEXT_BYTES",
    "MAX_SEND_BYTES",
    "CallFailed",
    "Client",
    "ClientConnection",
    "Code",
    "ConnectionClosed",
    "Handler",
    "LocalProtocolError",
    "Metadata",
    "ProtocolError",
    "RemoteProtocolError",
    "ReplyReceived",
    "Request",
    "RequestReceived",
    "RequestRefused",
    "ServerConnection",
    "Services",
    "StatusError",
    "TtrpcError",
    "answer",
    "find_handler",
    "serve",
]
