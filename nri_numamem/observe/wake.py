"""Datagram sockets that wake the writer of a file, because a file that it reads has changed.

The socket is `wake.sock` beside the file. Without a datagram the writer looks after some seconds.
"""

import socket
from contextlib import suppress
from pathlib import Path

from nri_numamem.observe.files import make_directory

_DATAGRAM_BYTES = 64


class WakeSocket:
    """The socket for datagrams beside the file of this process; it replaces an earlier one.

    The constructor raises OSError. `wait` is for one thread, `close` for any.
    """

    def __init__(self, file: Path, timeout_s: float) -> None:
        make_directory(file)
        path = _socket_of(file)
        path.unlink(missing_ok=True)
        self._is_closing = False
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            self._socket.bind(str(path))
        except BaseException:
            self._socket.close()
            raise
        self._socket.settimeout(timeout_s)

    def wait(self) -> bool:
        """Wait for a datagram, or until the timeout; return False after `close`."""
        try:
            self._socket.recv(_DATAGRAM_BYTES)
        except TimeoutError:
            return True
        except OSError:  # it is closed
            return False
        return not self._is_closing

    def close(self) -> None:
        """End `wait`; the socket's file stays."""
        self._is_closing = True
        # A thread that waits for a datagram returns after shutdown(), not after close().
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()


def wake(file: Path) -> None:
    """Send a datagram to the writer of a file; without one it looks some seconds later."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock, suppress(OSError):
        sock.setblocking(False)  # noqa: FBT003 - its only argument
        sock.sendto(b"\n", str(_socket_of(file)))


def _socket_of(file: Path) -> Path:
    return file.with_name("wake.sock")
