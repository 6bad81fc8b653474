"""Starts a plugin as a container runtime does: a process with its socket as descriptor 3.

The process has no terminal and three environment variables. Since NRI 0.7 the runtime kills it when
its connection ends. Sources: NRI pkg/adaptation/plugin.go (newLaunchedPlugin) and
pkg/net/socketpair.go.
"""

import os
import select
import signal
import socket
from pathlib import Path

from tests.laboratory.version import RuntimeVersion

# The plugin's end of the socket pair: the first descriptor after the standard three.
_SOCKET_FD = 3

# The descriptor at which NRI < 0.6 left a duplicate of the plugin's end.
_LEAKED_FD = 6

# A killed process ends at once; this limit only bounds the wait on an overloaded machine.
_REAP_TIMEOUT_S = 10.0


class LaunchedProcess:
    """A plugin's process; the caller of launch() waits for it or kills it."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.exit_status: int | None = None
        """The exit code, or the negative number of the signal; None while the process runs."""
        self._pidfd = os.pidfd_open(pid)

    def wait(self, timeout_s: float) -> int | None:
        """Wait at most `timeout_s` for the process to end; return `exit_status`."""
        if self.exit_status is None:
            poll = select.poll()
            poll.register(self._pidfd, select.POLLIN)
            if poll.poll(timeout_s * 1000):
                _, status = os.waitpid(self.pid, 0)
                self.exit_status = os.waitstatus_to_exitcode(status)
                os.close(self._pidfd)
        return self.exit_status

    def kill(self) -> None:
        """Send SIGKILL, as the runtime does, and reap the process. May be repeated."""
        if self.exit_status is None:
            signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)
            self.wait(_REAP_TIMEOUT_S)


def launch(
    path: Path, index_name: str, version: RuntimeVersion
) -> tuple[socket.socket, LaunchedProcess]:
    """Start the plugin at `path` under the file name `index_name` ("10-numamem").

    Return the runtime's end of the socket pair and the process. Raise OSError when `path` cannot be
    executed.
    """
    index, _, base_name = index_name.partition("-")
    environment = {
        "NRI_PLUGIN_NAME": index_name if version.passes_full_plugin_name else base_name,
        "NRI_PLUGIN_IDX": index,
        "NRI_PLUGIN_SOCKET": str(_SOCKET_FD),
    }
    ours, theirs = socket.socketpair()
    try:
        pid = os.posix_spawn(
            path, [os.fspath(path)], environment, file_actions=_file_actions(theirs, version)
        )
    except OSError:
        ours.close()
        raise
    finally:
        theirs.close()
    return ours, LaunchedProcess(pid)


def _file_actions(theirs: socket.socket, version: RuntimeVersion) -> list[tuple[object, ...]]:
    fd = theirs.fileno()
    actions: list[tuple[object, ...]] = [
        (os.POSIX_SPAWN_OPEN, standard, os.devnull, os.O_RDWR, 0) for standard in range(3)
    ]
    actions.append((os.POSIX_SPAWN_DUP2, fd, _SOCKET_FD))
    if version.leaks_descriptor:
        actions.append((os.POSIX_SPAWN_DUP2, fd, _LEAKED_FD))
    return actions
