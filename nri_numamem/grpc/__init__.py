"""gRPC on a Unix socket: unary calls, for a few peers on the same host.

The kubelet serves gRPC to the monitoring agents of its host. This room implements the part that
such an agent needs, on the library ``h2`` (HTTP/2 without I/O). Streaming calls, compression and
TLS are not supported. Source of the rules: gRPC over HTTP2 (grpc/doc/PROTOCOL-HTTP2.md) and its
statuscodes.md.

    call(path, method, payload, timeout_s=...)   -> payload of the reply; raises StatusError
    Server(path, {method: handler}, on_bug)      a socket file, until close()

A method is written as in HTTP: ``/v1.PodResourcesLister/List``. Payloads are serialized protobuf
messages.

- ``client.ClientCall``, ``server_connection``: one side each, without I/O; ``wire``: what both
  need.
- ``client``, ``server``, ``calls``, ``listen``: sockets, threads and the clock.

Every error of a call is a StatusError, also one of the connection: UNAVAILABLE without a server,
DEADLINE_EXCEEDED, INTERNAL for a peer that breaks the protocol, RESOURCE_EXHAUSTED for a message
over the limit. The codes are those of ``nri_numamem.ttrpc``.
"""

from nri_numamem.grpc.client import call
from nri_numamem.grpc.listen import ListenError
from nri_numamem.grpc.server import Handler, Server
from nri_numamem.ttrpc.status import Code, StatusError

__all__ = ["Code", "Handler", "ListenError", "Server", "StatusError", "call"]
