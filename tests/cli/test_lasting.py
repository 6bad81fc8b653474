"""One instance: who holds the lock is told, and a lock that cannot be is no obstacle."""

from __future__ import annotations

import fcntl
import os
import re
import stat
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from nri_numamem.cli import lasting
from nri_numamem.cli.lasting import AlreadyRunningError, Lasting
from nri_numamem.engine.plan import Record
from nri_numamem.engine.state import EngineState
from nri_numamem.memorymanager import State

STATE = EngineState(State({}), homes={"uid": {}})


@pytest.fixture
def told() -> list[Record]:
    return []


@pytest.fixture
def first(told: list[Record]) -> Iterator[Lasting]:
    made = Lasting(told.append)
    yield made
    made.close()


@pytest.fixture
def second(told: list[Record], monkeypatch: pytest.MonkeyPatch) -> Iterator[Lasting]:
    monkeypatch.setattr(lasting, "WAIT_S", 0.05)
    made = Lasting(told.append)
    yield made
    made.close()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "lib" / "state"


def test_the_state_comes_back_to_the_next_process(
    first: Lasting, second: Lasting, path: Path, told: list[Record]
) -> None:
    assert first.open(str(path), "started as a test") is None
    first.offer(STATE)
    first.close()
    assert second.open(str(path), "started as a test") == STATE
    assert told == []


def test_a_second_instance_is_told_who_is_there(
    first: Lasting, second: Lasting, path: Path
) -> None:
    first.open(str(path), "started as a test")
    with pytest.raises(AlreadyRunningError) as raised:
        second.open(str(path), "too late")
    text = str(raised.value)
    assert f"another instance holds {path}.lock (pid {os.getpid()}, since 2" in text
    assert re.search(r"since \d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ, started as a test\); stop it", text)
    assert "\n" not in text
    second.offer(STATE)
    assert not path.exists()


def test_the_words_in_the_lock_are_those_of_the_last_holder(
    first: Lasting, second: Lasting, path: Path
) -> None:
    first.open(str(path), "started in a very long and winding way")
    first.close()
    first.open(str(path), "short")
    lock = path.with_name("state.lock")
    assert lock.read_text().endswith("Z, short\n")
    assert stat.S_IMODE(lock.stat().st_mode) == 0o600
    assert stat.S_IMODE(lock.parent.stat().st_mode) == 0o700
    lock.write_bytes(b"\xff\0\x1b[31m" + b"x" * 1000)
    with pytest.raises(AlreadyRunningError) as raised:
        second.open(str(path), "")
    assert str(raised.value).isprintable()
    assert len(str(raised.value)) < 600
    lock.write_bytes(b"")
    with pytest.raises(AlreadyRunningError, match="unknown"):
        second.open(str(path), "")


def test_who_comes_while_the_other_goes_waits(
    first: Lasting, second: Lasting, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lasting, "WAIT_S", 30)
    first.open(str(path), "first")
    monkeypatch.setattr(time, "sleep", lambda _: first.close())
    assert second.open(str(path), "second") is None


def test_opening_again_is_no_second_instance(first: Lasting, path: Path) -> None:
    first.open(str(path), "once")
    first.offer(STATE)
    assert first.open(str(path), "twice") == STATE


def test_without_a_state_file_there_is_nothing(first: Lasting, told: list[Record]) -> None:
    assert first.open("", "") is None
    first.offer(STATE)
    first.close()
    assert told == []


def test_a_lock_that_cannot_be_made_is_told(first: Lasting, path: Path, told: list[Record]) -> None:
    path.parent.write_text("a file where the directory belongs")
    assert first.open(str(path), "") is None
    (record, *_) = told
    assert (record.event, record.level) == (
        "no proper lock, a second instance may not be noticed",
        "warning",
    )
    assert record.fields == {"path": f"{path}.lock", "error": "File exists"}


def test_a_file_system_without_locks_is_no_obstacle(
    first: Lasting, path: Path, told: list[Record], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OSError("odd")

    monkeypatch.setattr(fcntl, "flock", fail)
    first.open(str(path), "")
    assert [record.fields["error"] for record in told] == ["odd"]
    first.offer(STATE)
    first.close()
    assert path.exists()


def test_a_bug_leaves_no_descriptor(
    first: Lasting, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("a bug")

    before = len(list(Path("/proc/self/fd").iterdir()))
    with monkeypatch.context() as patched:
        patched.setattr(fcntl, "flock", fail)
        with pytest.raises(RuntimeError):
            first.open(str(path), "")
    assert len(list(Path("/proc/self/fd").iterdir())) == before
