"""Starting a plugin as a container runtime starts it: a bare process with a socket as fd 3.

It gets no terminal, no variables but three, and dies with its connection (since NRI 0.7). Source:
NRI pkg/adaptation/plugin.go (newLaunchedPlugin) and pkg/net/socketpair.go.
"""

import os
import select
import signal
import socket
from pathlib import Path

from nri_numamem.nri.runtime_version import RuntimeVersion

# The plugin's end of the socket pair: the first descriptor after the standard three.
_SOCKET_FD = 3

# Where NRI < 0.6 left a duplicate of the plugin's end.
_LEAKED_FD = 6

# A killed process is gone at once; more means that the machine is in trouble.
_REAP_TIMEOUT_S = 10.0


class LaunchedProcess:
    """A plugin's process, to be killed or waited for by the one who started it."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.exit_status: int | None = None
        """Exit code, or minus the signal's number; None while it runs."""
        self._pidfd = os.pidfd_open(pid)

    def wait(self, timeout_s: float) -> int | None:
        """Wait for its end; return `exit_status`, None when it still runs."""
        if self.exit_status is None:
            poll = select.poll()
            poll.register(self._pidfd, select.POLLIN)
            if poll.poll(timeout_s * 1000):
                _, status = os.waitpid(self.pid, 0)
                self.exit_status = os.waitstatus_to_exitcode(status)
                os.close(self._pidfd)
        return self.exit_status

    def kill(self) -> None:
        """End it without a warning, as the runtime does, and reap it. Harmless when repeated."""
        if self.exit_status is None:
            signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)
            self.wait(_REAP_TIMEOUT_S)


def launch(
    path: Path, index_name: str, version: RuntimeVersion
) -> tuple[socket.socket, LaunchedProcess]:
    """Start the plugin at `path` under the file name `index_name` ("10-numamem").

    Returns our end of the socket pair and the process. OSError when `path` cannot be executed.
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
