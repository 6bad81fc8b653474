"""The Unix socket of the metrics: where it is bound, who may connect, and what was there before."""

import contextlib
import errno
import os
import socket
import stat
from pathlib import Path

PREFIX = "unix://"

# Who may write to a socket may connect to it. A directory with the set-group-id bit chooses the
# group.
_MODE = 0o660
_DIRECTORY_MODE = 0o755


def path_of(address: str) -> Path | None:
    """Return the path of an address unix://PATH; None for any other address."""
    return Path(address.removeprefix(PREFIX)) if address.startswith(PREFIX) else None


def bind(sock: socket.socket, path: Path) -> os.stat_result:
    """Bind to the path, in place of a socket on which nothing listens; return the new file.

    Raises OSError if another process listens there, or if it is another kind of file.
    """
    path.parent.mkdir(mode=_DIRECTORY_MODE, parents=True, exist_ok=True)
    _remove_stale(path)
    sock.bind(str(path))
    path.chmod(_MODE)  # before listen(), so nothing has connected
    return path.lstat()


def remove(path: Path, bound: os.stat_result) -> None:
    """Remove the file that bind() made, if it is still there."""
    with contextlib.suppress(OSError):
        if os.path.samestat(path.lstat(), bound):
            path.unlink()


def _remove_stale(path: Path) -> None:
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(mode):
        raise OSError(errno.EEXIST, "the path is a file that is not a socket")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)  # noqa: FBT003 - its only argument
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            path.unlink()
            return
        except BlockingIOError:
            pass  # its queue is full
    raise OSError(errno.EADDRINUSE, "another process listens on the socket")
