"""Files of the state directory."""

import errno
import os
import stat
from pathlib import Path

import pytest

from nri_numamem.observe.files import (
    beside,
    former_of,
    kind_and_text,
    lock_file_of,
    read_regular,
    reason_of,
    replace_file,
)


def test_files_beside_the_default_state_file_have_plain_names() -> None:
    assert beside(Path("/x/nri_numamem_state"), "a.json") == Path("/x/a.json")
    assert beside(Path("/x/second"), "a.json") == Path("/x/second.a.json")


def test_a_file_is_replaced_for_root_only(tmp_path: Path) -> None:
    path = tmp_path / "new" / "file"
    for data in (b"one", b"two"):
        replace_file(path, data)
        assert path.read_bytes() == data
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert list(path.parent.iterdir()) == [path]


def test_reading_is_limited_and_never_waits(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"12345")
    assert read_regular(path, 5) == b"12345"
    assert read_regular(path, 3) == b"1234"
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(OSError, match="not a regular file"):
        read_regular(pipe, 5)


def test_the_reason_of_an_error() -> None:
    assert reason_of(OSError(28, "No space left on device")) == "No space left on device"
    assert reason_of(OSError("odd")) == "odd"


def test_the_lock_of_the_default_file_kept_its_name() -> None:
    for name in ("nri_numamem_state", "memory_manager_state"):
        assert lock_file_of(Path("/x") / name) == Path("/x/memory_manager_state.lock")
        assert beside(Path("/x") / name, "a.json") == Path("/x/a.json")
    assert lock_file_of(Path("/x/second")) == Path("/x/second.lock")


def test_only_the_default_file_had_another_name() -> None:
    assert former_of(Path("/x/nri_numamem_state")) == Path("/x/memory_manager_state")
    assert former_of(Path("/x/memory_manager_state")) is None
    assert former_of(Path("/x/second")) is None


def test_an_error_of_the_system_has_its_name_and_a_bug_its_traceback() -> None:
    error = OSError(errno.ENOSPC, "No space left on device")
    assert kind_and_text(error) == ("ENOSPC", "No space left on device")
    assert kind_and_text(OSError("odd")) == ("unknown", "odd")
    assert kind_and_text(ValueError("a bug")) == ("ValueError", "ValueError: a bug")
