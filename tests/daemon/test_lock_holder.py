import fcntl
import os
from pathlib import Path

import pytest

from nri_numamem.daemon.lock_holder import LockHolder, find_holder, format_holder


@pytest.fixture(name="path")
def _path(tmp_path: Path) -> Path:
    return tmp_path / "state.lock"


def held(path: Path, content: bytes) -> LockHolder | None:
    path.write_bytes(content)
    with path.open() as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        return find_holder(path)


def test_the_holder_describes_itself(path: Path) -> None:
    text = format_holder(7, "2026-01-02T03:04:05Z", "launched by containerd, v2")
    assert held(path, text.encode()) == LockHolder(
        text.strip(), 7, "2026-01-02T03:04:05Z", "launched by containerd, v2"
    )


def test_a_free_lock_has_no_holder(path: Path) -> None:
    assert find_holder(path) is None
    path.write_text(format_holder(os.getpid(), "today", "gone"))
    assert find_holder(path) is None


@pytest.mark.parametrize(
    ("content", "text"),
    [(b"", "unknown"), (b"something \x1b[31melse", "something [31melse"), (b"\xff", "\ufffd")],
)
def test_another_text_is_shown_as_it_is(path: Path, content: bytes, text: str) -> None:
    assert held(path, content) == LockHolder(text)


def test_a_link_is_not_followed(path: Path, tmp_path: Path) -> None:
    path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="symbolic"):
        find_holder(path)
