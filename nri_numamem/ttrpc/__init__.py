"""ttrpc: a client and a server in pure Python, with the standard library only.

ttrpc is a small form of gRPC for one machine: requests and replies on a stream socket, without
HTTP/2. containerd uses it with its shims and NRI plugins. This package does not depend on the rest
of the project and may be copied out of it.

A server is a table of services: service name -> method name -> handler. A handler receives the
request and its deadline and returns the payload of the reply, or raises StatusError:

>>> import socket, threading
>>> from nri_numamem import ttrpc
>>> def greet(request: ttrpc.Request, deadline_ns: int | None) -> bytes:
...     if not request.payload:
...         raise ttrpc.StatusError(ttrpc.Code.INVALID_ARGUMENT, "the name is empty")
...     return b"hello " + request.payload
>>> services = {"demo.Greeter": {"Greet": greet}}
>>> client_socket, server_socket = socket.socketpair()
>>> server = threading.Thread(target=ttrpc.serve, args=(server_socket, services))
>>> server.start()

A client calls methods, from any number of threads. An error reply raises StatusError:

>>> with ttrpc.Client(client_socket) as client:
...     print(client.call("demo.Greeter", "Greet", b"node 0", timeout_s=5))
...     try:
...         client.call("demo.Greeter", "Greet")
...     except ttrpc.StatusError as error:
...         print(error)
b'hello node 0'
the name is empty (INVALID_ARGUMENT)

The end of the client's connection ends ``serve``:

>>> server.join()
>>> server_socket.close()

Payloads are bytes, usually serialized protobuf messages. ``Client`` and ``serve`` block. A program
with its own event loop uses the core, ``ClientConnection`` and ``ServerConnection``, which does no
I/O: it turns received bytes into events, and calls and replies into bytes to send.
``ttrpc.testing.ConnectionPair`` connects a client and a server in memory. Streaming calls and the
details of a status are not supported.
"""

from nri_numamem.ttrpc.blocking import Client, serve
from nri_numamem.ttrpc.client import CallFailed, ClientConnection, ReplyReceived
from nri_numamem.ttrpc.envelope import Metadata, Request
from nri_numamem.ttrpc.frames import HEADER_BYTES, MAX_BODY_BYTES, MAX_SEND_BYTES
from nri_numamem.ttrpc.server import (
    MAX_ERROR_TEXT_BYTES,
    Handler,
    RequestReceived,
    RequestRefused,
    ServerConnection,
    Services,
    handle_request,
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
    "handle_request",
    "serve",
]
