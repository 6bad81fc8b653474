import os
import socket
import stat
from pathlib import Path

import pytest

from nri_numamem.grpc.listen import ListenError, listen


def connect(path: Path) -> socket.socket:
    sock = socket.socket(socket.AF_UNIX)
    sock.connect(os.fspath(path))
    return sock


def test_the_socket_file_is_for_its_owner_only(tmp_path: Path) -> None:
    path = tmp_path / "s"
    listener = listen(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    connect(path).close()
    listener.close()
    assert not path.exists()


def test_the_socket_file_of_an_ended_process_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "s"
    former = socket.socket(socket.AF_UNIX)
    former.bind(os.fspath(path))
    former.close()
    assert path.exists()
    listener = listen(path)
    connect(path).close()
    listener.close()


def test_the_socket_file_of_a_running_process_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "s"
    listener = listen(path)
    with pytest.raises(ListenError, match=f"another process serves {path}; end it, or name"):
        listen(path)
    connect(path).close()
    listener.close()


def test_a_file_that_is_no_socket_is_refused_and_stays(tmp_path: Path) -> None:
    path = tmp_path / "s"
    path.write_text("precious")
    with pytest.raises(ListenError, match="exists and is not a socket; name another file"):
        listen(path)
    assert path.read_text() == "precious"


def test_a_link_to_a_socket_is_refused_and_stays(tmp_path: Path) -> None:
    listener = listen(tmp_path / "s")
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "s")
    with pytest.raises(ListenError, match="is not a socket"):
        listen(link)
    assert link.is_symlink()
    listener.close()


@pytest.mark.parametrize("name", ["missing/s", "x" * 200])
def test_a_path_that_cannot_be_bound_is_named(tmp_path: Path, name: str) -> None:
    with pytest.raises(ListenError, match=f"{name}: .*; name a file in a writable directory"):
        listen(tmp_path / name)


def test_a_socket_that_accepts_no_datagram_protocol_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as other:
        other.bind(os.fspath(path))
        with pytest.raises(ListenError, match="another process serves"):
            listen(path)


def test_close_leaves_the_file_of_another_process(tmp_path: Path) -> None:
    path = tmp_path / "s"
    listener = listen(path)
    path.rename(tmp_path / "former")  # keeps its inode number in use
    other = listen(path)
    listener.close()
    connect(path).close()
    other.close()
    other.close()
    assert not path.exists()
