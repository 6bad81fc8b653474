"""A listening Unix socket and its file, which replaces one that no process serves."""

import errno
import os
import socket
import stat
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

# Time limit of the probe whether a process serves a socket file.
_PROBE_S = 1.0
_BACKLOG = 128
_MODE = 0o600


class ListenError(Exception):
    """The socket file cannot be created; the text names the file and the remedy."""


class Listener(NamedTuple):
    """A listening socket and its file."""

    sock: socket.socket
    path: Path
    file_id: tuple[int, int]
    """Device and inode of the socket file."""

    def close(self) -> None:
        """Close the socket and remove its file, unless another process has replaced the file."""
        with suppress(OSError):
            if _file_id(self.path) == self.file_id:
                self.path.unlink()
        # A thread that waits in accept() returns after shutdown(), not after close().
        with suppress(OSError):
            self.sock.shutdown(socket.SHUT_RDWR)
        self.sock.close()


def listen(path: Path) -> Listener:
    """Listen at a path, with mode 0600; raises ListenError.

    A socket file that no process serves is removed first; files of other kinds are kept.
    """
    try:
        _remove_stale(path)
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            sock.bind(os.fspath(path))
            path.chmod(_MODE)  # before listen(), so that no process connects under another mode
            sock.listen(_BACKLOG)
            return Listener(sock, path, _file_id(path))
        except OSError:
            sock.close()
            raise
    except OSError as error:
        reason = error.strerror or str(error)
        raise ListenError(f"{path}: {reason}; name a file in a writable directory") from error


def _remove_stale(path: Path) -> None:
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(mode):
        raise ListenError(f"{path} exists and is not a socket; name another file")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(_PROBE_S)
        try:
            probe.connect(os.fspath(path))
        except OSError as error:
            if error.errno == errno.ECONNREFUSED:
                path.unlink(missing_ok=True)
                return
            if error.errno == errno.ENOENT:
                return
    raise ListenError(f"another process serves {path}; end it, or name another file")


def _file_id(path: Path) -> tuple[int, int]:
    found = path.lstat()
    return found.st_dev, found.st_ino
