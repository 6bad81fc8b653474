"""A blocking call on a Unix socket.

Each call has a connection of its own: nothing is left to repair after a restart of the server, and
a connection costs less than the reply of a kubelet.
"""

import os
import socket
import time
from pathlib import Path
from typing import Final

from nri_numamem.grpc.client_call import ClientCall
from nri_numamem.ttrpc.status import Code, StatusError

MAX_REPLY_BYTES: Final = 16 << 20
"""What clients of the kubelet accept; 250 pods have some 100 kB."""

_READ_BYTES = 64 << 10
_CONNECT_PAUSE_S = 0.01


def call(
    path: Path,
    method: str,
    payload: bytes = b"",
    *,
    timeout_s: float,
    limit_bytes: int = MAX_REPLY_BYTES,
) -> bytes:
    """Call a method of the server at a socket file; return the payload of the reply.

    Raises StatusError, after `timeout_s` at the latest.
    """
    deadline_s = time.monotonic() + timeout_s
    one = ClientCall(method, payload, timeout_s=timeout_s, limit_bytes=limit_bytes)
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
            _connect(sock, path, deadline_s)
            while one.outcome is None:
                _limit(sock, deadline_s)
                sock.sendall(one.data_to_send())
                _limit(sock, deadline_s)
                data = sock.recv(_READ_BYTES)
                if data:
                    one.receive_data(data)
                else:
                    one.receive_eof()
    except TimeoutError as error:
        raise StatusError(Code.DEADLINE_EXCEEDED, f"no reply in {timeout_s:g} s") from error
    except OSError as error:
        reason = error.strerror or str(error)
        raise StatusError(Code.UNAVAILABLE, reason) from error
    if isinstance(one.outcome, StatusError):
        raise one.outcome
    return one.outcome


def _connect(sock: socket.socket, path: Path, deadline_s: float) -> None:
    while True:
        _limit(sock, deadline_s)
        try:
            sock.connect(os.fspath(path))
        except BlockingIOError:  # the server's backlog is full
            time.sleep(_CONNECT_PAUSE_S)
        else:
            return


def _limit(sock: socket.socket, deadline_s: float) -> None:
    """Limit the next operation; raise TimeoutError after the deadline."""
    left_s = deadline_s - time.monotonic()
    if left_s <= 0:
        raise TimeoutError
    sock.settimeout(left_s)
