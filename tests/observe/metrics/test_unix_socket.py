"""Unix sockets: which file is replaced, which is not, and which is removed."""

import socket
import stat
from pathlib import Path

import pytest

from nri_numamem.observe.metrics import unix_socket


def bound(path: Path) -> tuple[socket.socket, object]:
    sock = socket.socket(socket.AF_UNIX)
    try:
        return sock, unix_socket.bind(sock, path)
    except OSError:
        sock.close()
        raise


def test_which_addresses_are_paths() -> None:
    assert unix_socket.path_of("unix:///run/x.sock") == Path("/run/x.sock")
    assert unix_socket.path_of("[::1]:9551") is None


def test_only_owner_and_group_may_connect(tmp_path: Path) -> None:
    path = tmp_path / "new" / "metrics.sock"
    sock, _ = bound(path)
    with sock:
        assert stat.S_IMODE(path.stat().st_mode) == 0o660
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o755


def test_a_socket_of_a_process_that_ended_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "metrics.sock"
    first, _ = bound(path)
    first.close()
    second, made = bound(path)
    with second:
        assert path.lstat() == made


@pytest.mark.parametrize("backlog", [1, 0])
def test_a_socket_of_another_process_stays(tmp_path: Path, backlog: int) -> None:
    path = tmp_path / "metrics.sock"
    first, made = bound(path)
    with first, socket.socket(socket.AF_UNIX) as waiting:
        first.listen(backlog)
        if not backlog:
            waiting.connect(str(path))  # its queue is full
        with pytest.raises(OSError, match="another process listens"):
            bound(path)
        assert path.lstat() == made


def test_another_kind_of_file_stays(tmp_path: Path) -> None:
    path = tmp_path / "metrics.sock"
    path.write_text("mine")
    with pytest.raises(OSError, match="is not a socket"):
        bound(path)
    assert path.read_text() == "mine"


def test_only_the_own_file_is_removed(tmp_path: Path) -> None:
    path = tmp_path / "metrics.sock"
    sock, _ = bound(path)
    made = path.lstat()
    with sock:
        other = tmp_path / "other"
        other.write_text("")
        unix_socket.remove(other, made)
        assert other.exists()
        unix_socket.remove(path, made)
        assert not path.exists()
        unix_socket.remove(path, made)
