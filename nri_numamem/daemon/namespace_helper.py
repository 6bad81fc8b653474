"""The process that reads the network namespaces of pods, so that the plugin does not enter them.

To enter a namespace takes CAP_SYS_ADMIN. ``nri-numamem run`` forks this process while networkHints
is on, and then drops the capability (``daemon.privileges``): before its first thread, because a
thread would keep it. So the plugin cannot start a second helper.

A request is a datagram with the path of a network namespace and a socket for the reply. The helper
forks a child for each, which ends when it has replied or takes too long. The reply is a JSON object
with either "interfaces" or "error". The helper ends when the plugin's end of the socket is closed.
"""

import json
import os
import signal
import socket
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

from nri_numamem.daemon.privileges import drop_capabilities
from nri_numamem.daemon.processes import detach, exit_after, set_process_name
from nri_numamem.host.capabilities import CAP_SYS_ADMIN
from nri_numamem.host.network import PodInterface, read_network_devices, read_pod_interfaces

NAME = "numamem-network"
"""The name of the process."""

READY = b"ready"
"""The first datagram, when the modules are loaded."""

READ_S = 0.5
"""Time of a child for one namespace. It takes some milliseconds, on a busy host longer."""

REPLY_BYTES = 8192
"""More than a reply has: at most 32 interfaces with names of 15 characters."""
# PATH_MAX of Linux.
_PATH_BYTES = 4096
_ERROR_CHARACTERS = 500

Read = Callable[[Path, Path], list[PodInterface]]


def start(sysfs: Path, read: Read = read_pod_interfaces, read_s: float = READ_S) -> socket.socket:
    """Fork the helper; return the plugin's end of the socket. Raises OSError."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_CLOEXEC)
    with theirs:
        try:
            pid = os.fork()
        except OSError:
            ours.close()
            raise
        if pid == 0:
            ours.close()
            exit_after(partial(_serve, theirs, sysfs, read, read_s))
    return ours


def _serve(sock: socket.socket, sysfs: Path, read: Read, read_s: float) -> int:
    """Serve one request after the other until the plugin's end is closed."""
    detach()
    set_process_name(NAME)
    drop_capabilities(kept=1 << CAP_SYS_ADMIN)
    with suppress(ConnectionError):
        read_network_devices(sysfs)  # loads the modules, which all children share
        sock.send(READY)
        while True:
            path, descriptors, _, _ = socket.recv_fds(sock, _PATH_BYTES, 1)
            if not path:
                break
            with socket.socket(fileno=descriptors[0]) as answer, suppress(ConnectionError):
                _serve_one(answer, partial(_reply, sysfs, read, os.fsdecode(path)), read_s)
    return 0


def _serve_one(answer: socket.socket, reply: Callable[[], bytes], read_s: float) -> None:
    """Let a child reply; send an error if it cannot be started, or fails."""

    def run() -> int:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)  # which ends it
        signal.setitimer(signal.ITIMER_REAL, read_s)
        answer.send(reply())
        return 0

    try:
        pid = os.fork()
    except OSError as error:  # a limit of processes; the next container tries again
        answer.send(_error(f"the helper cannot start a process: {error.strerror}"))
        return
    if pid == 0:
        exit_after(run)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if status == -signal.SIGALRM:
        answer.send(_error(f"it took more than {read_s * 1000:g} ms"))
    elif status:
        answer.send(_error(f"the process that read it ended with status {status}"))


def _reply(sysfs: Path, read: Read, path: str) -> bytes:
    """Return the reply to a request; every error is in the reply."""
    try:
        interfaces = read(Path(path), sysfs)
    except OSError as error:
        return _error(error.strerror or str(error))
    except Exception as error:  # noqa: BLE001 - the plugin logs it
        return _error(f"{type(error).__name__}: {error}"[:_ERROR_CHARACTERS])
    rows = [[each.name, str(each.nodes), each.is_primary] for each in interfaces]
    return json.dumps({"interfaces": rows}).encode()


def _error(text: str) -> bytes:
    return json.dumps({"error": text}).encode()
