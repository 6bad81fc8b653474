"""The socket that metrics are scraped from, on a thread of its own and never in the loop's way.

One connection at a time, one request per connection, with a limit on its size and on the time
that it may take altogether: a scraper that hangs keeps other scrapers waiting for that long, and
does nothing else. An address that cannot be had is told once, and tried again; the plugin serves
on. What a request says and what it is answered is not known here: `load` is called on the thread
once the address is ours, and returns the function that makes replies of requests.
"""

import contextlib
import signal
import socket
import threading
import time
import traceback
from collections.abc import Callable
from typing import TypeAlias

from nri_numamem.engine.plan import Record

Answer: TypeAlias = Callable[[bytes], bytes]
"""Head of an HTTP request, up to its empty line -> the whole reply."""

# Whoever has the port has it for a while.
RETRY_S = 60.0

# From connection to the last byte of the reply. Scrapers wait 10 s by default.
REQUEST_S = 5.0

# A scraper's request has some 300 bytes.
HEAD_BYTES = 8192

# Scrapers that wait for the one before.
_BACKLOG = 8

# Without descriptors accept() fails at once; they come back when something else is closed.
_ACCEPT_AGAIN_S = 1.0

# How long an orderly end waits for a reply that is being made.
_CLOSE_S = 1.0


class MetricsServer:
    """Serves one address, "HOST:PORT". `tell` takes records, from any thread."""

    def __init__(
        self,
        address: str,
        load: Callable[[], Answer],
        tell: Callable[[Record], None],
        *,
        retry_s: float = RETRY_S,
        request_s: float = REQUEST_S,
    ) -> None:
        self._address = address
        self._load = load
        self._tell = tell
        self._retry_s = retry_s
        self._request_s = request_s
        self._told: set[str] = set()
        self._closing = threading.Event()
        self._listener: socket.socket | None = None
        # A daemon: a scraper shall not keep the process from ending.
        self._thread = threading.Thread(target=self._run, name="metrics", daemon=True)

    def start(self) -> None:
        """Begin to serve; never waits."""
        self._thread.start()

    def close(self) -> None:
        """Serve no more, and give the port back."""
        self._closing.set()
        listener = self._listener
        if listener is not None:
            with contextlib.suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)  # ends the thread's accept()
        if self._thread.is_alive():
            self._thread.join(_CLOSE_S)

    def _run(self) -> None:
        # Signals are for the main thread, whose waits they shall interrupt.
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        while not self._closing.is_set():
            try:
                with _listen(self._address) as listener:
                    self._listener = listener
                    answer = self._load()
                    self._tell(Record("metrics served", fields={"address": self._address}))
                    while not self._closing.is_set():
                        self._serve_one(listener, answer)
            except Exception as error:  # noqa: BLE001 - a bug here must not end more than metrics
                self._tell_of(error)
            self._closing.wait(self._retry_s)

    def _serve_one(self, listener: socket.socket, answer: Answer) -> None:
        try:
            connection, _ = listener.accept()
        except OSError:
            self._closing.wait(_ACCEPT_AGAIN_S)
            return
        deadline_s = time.monotonic() + self._request_s
        with connection:
            try:
                head = _read_head(connection, deadline_s)
                if head:
                    reply = answer(head)
                    connection.settimeout(_left(deadline_s))  # for all of sendall() together
                    connection.sendall(reply)
            except OSError:
                pass  # the scraper's trouble
            except Exception as error:  # noqa: BLE001 - told, and the next scraper may have more luck
                self._tell_of(error)

    def _tell_of(self, error: Exception) -> None:
        """Tell of the first error of each kind."""
        where = {"address": self._address}
        if isinstance(error, OSError):
            kind = error.strerror or str(error)
            record = Record("metrics not served, trying again", "warning", {**where, "why": kind})
        else:
            kind = type(error).__name__
            text = "".join(traceback.format_exception(error)).rstrip()
            record = Record("metrics not served, a bug", "error", {**where, "exception": text})
        if kind not in self._told:
            self._told.add(kind)
            self._tell(record)


def _listen(address: str) -> socket.socket:
    """Return a listening socket; OSError where that cannot be had."""
    host, _, port = address.rpartition(":")
    # As bytes: a name that is none is an unknown one then, and no UnicodeError.
    found = socket.getaddrinfo(host.strip("[]").encode(), int(port), type=socket.SOCK_STREAM)
    family, _, _, _, sockaddr = found[0]
    both = family is socket.AF_INET6 and socket.has_dualstack_ipv6()
    return socket.create_server(sockaddr[:2], family=family, backlog=_BACKLOG, dualstack_ipv6=both)


def _read_head(connection: socket.socket, deadline_s: float) -> bytes:
    """Return a request's head; b"" when it is none. OSError when it does not come in time."""
    head = b""
    while b"\r\n\r\n" not in head:
        connection.settimeout(_left(deadline_s))
        data = connection.recv(HEAD_BYTES)
        head += data
        if not data or len(head) > HEAD_BYTES:
            return b""
    return head


def _left(deadline_s: float) -> float:
    left_s = deadline_s - time.monotonic()
    if left_s <= 0:
        raise TimeoutError
    return left_s
