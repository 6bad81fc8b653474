"""Reads the network namespaces of pods: a thread sends the requests to a helper process.

No request waits for it: a namespace is read when the pod's sandbox starts, and the result is used
if it is there when a container is created, some 50 to 500 ms later. ``daemon.namespace_helper`` is
the process, which starts with the plugin and is not replaced when it ends.
"""

import json
import os
import select
import socket
import struct
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from queue import SimpleQueue
from threading import Thread

from nri_numamem.daemon.namespace_helper import READ_S, READY, REPLY_BYTES
from nri_numamem.engine.core.facts import NetworkInterface
from nri_numamem.numa import NodeSet
from nri_numamem.observe.threads import start_thread

REPLY_S = 2 * READ_S
"""Time of the helper for a reply, which also names a read that took too long; nothing waits."""
START_S = 60.0
"""Time of the helper to load its modules, on a busy host."""

# More sandboxes than a host has.
_SANDBOXES_LIMIT = 4096


class NamespaceError(Exception):
    """A namespace cannot be read; the text is the cause."""


@dataclass(frozen=True, slots=True)
class Found:
    """What was read of a network namespace."""

    interfaces: tuple[NetworkInterface, ...] = ()
    """Those with hardware."""
    primary: frozenset[str] = frozenset()
    """The names of those with a default route."""
    obstacle: str = ""
    """Why it was not read; "" if it was."""


NOT_READ_YET = Found(obstacle="the network namespace of its pod is not read yet")


class HelperEndedError(NamespaceError):
    """The helper process has ended; only a restart of the plugin starts another one."""


class HelperProcess:
    """The helper of one plugin, at the other end of a socket; see ``daemon.namespace_helper``."""

    def __init__(
        self, sock: socket.socket, reply_s: float = REPLY_S, start_s: float = START_S
    ) -> None:
        self._sock = sock
        self._reply_s = reply_s
        self._start_s = start_s

    def wait(self) -> None:
        """Wait until the process has loaded its modules, so that the first reply is in time.

        Raises NamespaceError.
        """
        with _named_errors():
            if _received(self._sock, self._start_s) != READY:
                raise NamespaceError("the helper process does not start")

    def request(self, path: str) -> Mapping[str, object]:
        """Return the reply for a namespace; a late one is dropped with its socket.

        Raises NamespaceError without one in time.
        """
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with ours, _named_errors():
            with theirs:
                self._send(path, theirs)
            reply = json.loads(_received(ours, self._reply_s))
        if not isinstance(reply, dict):
            raise NamespaceError("the helper process sent no object")
        return reply

    def close(self) -> None:
        """Let the process end."""
        self._sock.close()

    def _send(self, path: str, theirs: socket.socket) -> None:
        try:
            # It never waits: a helper whose child hangs in the kernel reads nothing. In Python
            # 3.11 socket.send_fds ignores its flags.
            descriptor = (socket.SOL_SOCKET, socket.SCM_RIGHTS, struct.pack("i", theirs.fileno()))
            self._sock.sendmsg([os.fsencode(path)], [descriptor], socket.MSG_DONTWAIT)
        except ConnectionError as error:
            raise HelperEndedError("the helper process ended") from error


@contextmanager
def _named_errors() -> Iterator[None]:
    """Turn other errors into a NamespaceError."""
    try:
        yield
    except (OSError, ValueError) as error:
        raise NamespaceError(f"the helper process failed: {error}") from error


def _received(sock: socket.socket, timeout_s: float) -> bytes:
    poll = select.poll()
    poll.register(sock, select.POLLIN)
    if not poll.poll(timeout_s * 1000):
        raise NamespaceError(f"the helper process did not reply within {timeout_s * 1000:g} ms")
    reply = sock.recv(REPLY_BYTES)
    if not reply:
        raise NamespaceError("the helper process sent no reply")
    return reply


class NamespaceReader:
    """Reads namespaces in the background; only its own thread talks to the helper."""

    def __init__(self, helper: HelperProcess) -> None:
        self._helper = helper
        self._queue: SimpleQueue[tuple[str, str] | None] = SimpleQueue()
        """Sandbox id and path; "" and "" to wait for the helper, None to end."""
        self._found: dict[str, Found] = {}
        self._thread: Thread | None = None
        self.has_ended = False
        """Whether the helper has ended, so that nothing more can be read."""

    def start(self) -> None:
        """Wait for the helper in the background."""
        self._put(("", ""))

    def begin(self, sandbox_id: str, path: str) -> Found:
        """Read the namespace of a sandbox if it is unknown, or could not be read; never waits.

        Return what was known before.
        """
        known = self._found.get(sandbox_id)
        if known is NOT_READ_YET:
            self._start_thread()
        if known is not None and (known is NOT_READ_YET or not known.obstacle):
            return known
        if len(self._found) >= _SANDBOXES_LIMIT:
            self._found.pop(next(iter(self._found)), None)
        self._found[sandbox_id] = NOT_READ_YET
        self._put((sandbox_id, path))
        return known or NOT_READ_YET

    def forget(self, sandbox_id: str) -> None:
        """Drop what is known of a sandbox that ended."""
        self._found.pop(sandbox_id, None)

    def close(self, timeout_s: float | None = None) -> None:
        """End thread and helper after the requests that wait; None waits without a limit.

        A helper that is left ends with this process.
        """
        if self._thread is not None:
            self._queue.put(None)
            self._thread.join(timeout_s)
            self._thread = None

    def _put(self, item: tuple[str, str]) -> None:
        self._queue.put(item)
        self._start_thread()

    def _start_thread(self) -> None:
        if self._thread is None:
            with suppress(OSError):  # at a limit of threads the next request tries again
                self._thread = start_thread(self._run, "network namespaces")

    def _run(self) -> None:
        while (item := self._queue.get()) is not None:
            sandbox_id, path = item
            if not path:
                with suppress(NamespaceError):  # the first request has it too
                    self._helper.wait()
            if sandbox_id not in self._found:
                continue  # it has ended
            found = read_found(self._request, path)
            if sandbox_id in self._found:
                self._found[sandbox_id] = found
        self._helper.close()

    def _request(self, path: str) -> Mapping[str, object]:
        try:
            return self._helper.request(path)
        except HelperEndedError:
            self.has_ended = True
            raise


def read_found(request: Callable[[str], Mapping[str, object]], path: str) -> Found:
    """Return what the helper reads at a path; every failure is an obstacle."""
    try:
        return _decoded(request(path))
    except NamespaceError as error:
        return Found(obstacle=f"the pod's network namespace {path} cannot be read: {error}")


def _decoded(reply: Mapping[str, object]) -> Found:
    if "error" in reply:
        raise NamespaceError(str(reply["error"]))
    interfaces: object = reply.get("interfaces")
    try:
        rows = [(name, NodeSet.parse(nodes), primary) for name, nodes, primary in interfaces]  # type: ignore[attr-defined]
    except (TypeError, ValueError) as error:
        raise NamespaceError("the helper process sent no interfaces") from error
    found = tuple(NetworkInterface(name, nodes) for name, nodes, _ in rows)
    return Found(found, frozenset(name for name, _, is_primary in rows if is_primary))
