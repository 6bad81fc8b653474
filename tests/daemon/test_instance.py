"""One instance per host: the lock names its process, and without a lock the plugin still runs."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import stat
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from nri_numamem.daemon import instance
from nri_numamem.daemon.instance import AlreadyRunningError, StateStore
from nri_numamem.engine.core.state import EngineState
from nri_numamem.engine.records.plain import fields_of
from nri_numamem.engine.records.process import RestartingAfterCrash
from nri_numamem.engine.records.record import Record
from nri_numamem.memorymanager import State
from nri_numamem.nri.poller import HostClock
from nri_numamem.observe.history.lines import read_history
from nri_numamem.observe.plugin_file import plugin_file_of, read_plugin_file
from nri_numamem.observe.state_file import StateFile
from tests.engine.records.examples import example
from tests.observe.test_plugin_file import FACTS
from tests.simulated_host import wait_for

STATE = EngineState(State({}), previous_nodes={"uid": {}})


@pytest.fixture
def emitted() -> list[Record]:
    return []


@pytest.fixture
def first(emitted: list[Record]) -> Iterator[StateStore]:
    made = StateStore(emitted.append, HostClock())
    yield made
    made.close()


@pytest.fixture
def second(emitted: list[Record], monkeypatch: pytest.MonkeyPatch) -> Iterator[StateStore]:
    monkeypatch.setattr(instance, "WAIT_S", 0.05)
    made = StateStore(emitted.append, HostClock())
    yield made
    made.close()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "lib" / "state"


def test_the_next_process_reads_the_state(
    first: StateStore, second: StateStore, path: Path, emitted: list[Record]
) -> None:
    assert first.open(str(path), "started as a test") is None
    first.offer(STATE)
    first.close()
    assert second.open(str(path), "started as a test") == STATE
    assert emitted == []


def test_the_error_of_a_second_instance_names_the_first(
    first: StateStore, second: StateStore, path: Path
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


def test_the_text_in_the_lock_is_the_last_holders(
    first: StateStore, second: StateStore, path: Path
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


def test_an_instance_that_starts_while_another_ends_waits(
    first: StateStore, second: StateStore, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(instance, "WAIT_S", 30)
    first.open(str(path), "first")
    monkeypatch.setattr(time, "sleep", lambda _: first.close())
    assert second.open(str(path), "second") is None


def test_opening_again_is_no_second_instance(first: StateStore, path: Path) -> None:
    first.open(str(path), "once")
    first.offer(STATE)
    assert first.open(str(path), "twice") == STATE


def test_without_a_state_file_there_is_no_lock(first: StateStore, emitted: list[Record]) -> None:
    assert first.open("", "") is None
    first.offer(STATE)
    first.close()
    assert emitted == []


def test_an_impossible_lock_is_logged(first: StateStore, path: Path, emitted: list[Record]) -> None:
    path.parent.write_text("a file where the directory belongs")
    assert first.open(str(path), "") is None
    (record, *_) = emitted
    assert (record.event, record.level) == (
        "lock_unavailable",
        "warning",
    )
    assert fields_of(record) == {"path": f"{path}.lock", "error": "File exists"}


def test_a_file_system_without_locks_is_no_obstacle(
    first: StateStore, path: Path, emitted: list[Record], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OSError("odd")

    monkeypatch.setattr(fcntl, "flock", fail)
    first.open(str(path), "")
    assert [fields_of(record)["error"] for record in emitted] == ["odd"]
    first.offer(STATE)
    first.close()
    assert path.exists()


def test_a_bug_leaves_no_descriptor(
    first: StateStore, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("a bug")

    before = len(list(Path("/proc/self/fd").iterdir()))
    with monkeypatch.context() as patched:
        patched.setattr(fcntl, "flock", fail)
        with pytest.raises(RuntimeError):
            first.open(str(path), "")
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def events(emitted: list[Record]) -> list[str]:
    return [record.event for record in emitted]


def lock_of(path: Path) -> Path:
    return path.with_name(f"{path.name}.lock")


def test_a_lock_file_that_was_removed_is_locked_again(
    first: StateStore, second: StateStore, path: Path, emitted: list[Record]
) -> None:
    first.open(str(path), "started as a test")
    first.check_lock(0.0)
    assert emitted == []
    shutil.rmtree(path.parent)
    first.check_lock(0.0)
    first.check_lock(0.0)
    assert events(emitted) == ["lock_restored"]
    assert lock_of(path).read_text().endswith("started as a test\n")
    with pytest.raises(AlreadyRunningError):
        second.open(str(path), "too late")
    first.offer(STATE)
    first.close()
    assert path.exists()


def test_a_lock_file_that_another_instance_holds_is_reported(
    first: StateStore, second: StateStore, path: Path, emitted: list[Record]
) -> None:
    first.open(str(path), "first")
    shutil.rmtree(path.parent)
    second.open(str(path), "second")
    descriptors = len(list(Path("/proc/self/fd").iterdir()))
    first.check_lock(0.0)
    first.check_lock(0.0)
    assert len(list(Path("/proc/self/fd").iterdir())) == descriptors
    (lost,) = emitted
    assert (lost.event, lost.level) == ("lock_lost", "error")
    assert "second)" in str(fields_of(lost)["error"])
    first.offer(STATE)  # not written: two writers would overwrite each other
    second.close()
    assert not path.exists()
    first.check_lock(0.0)
    assert events(emitted) == ["lock_lost", "lock_restored"]
    first.offer(STATE)
    first.close()
    assert path.exists()


def test_files_that_were_removed_with_the_lock_are_written_again(
    first: StateStore, path: Path
) -> None:
    def is_complete() -> bool:
        described = plugin_file_of(path)
        return path.exists() and described.exists() and read_plugin_file(described) == FACTS

    first.open(str(path), "started as a test")
    first.offer(STATE)
    first.describe(FACTS)
    wait_for(is_complete)
    path.parent.rename(path.parent.with_name("removed"))
    first.check_lock(0.0)
    first.offer(STATE)
    wait_for(is_complete)


def test_facts_that_were_described_without_the_lock_are_written_with_it(
    first: StateStore, second: StateStore, path: Path
) -> None:
    first.open(str(path), "first")
    path.parent.rename(path.parent.with_name("removed"))
    second.open(str(path), "second")
    first.check_lock(0.0)
    first.describe(FACTS)
    second.close()
    first.check_lock(0.0)
    wait_for(plugin_file_of(path).exists)
    assert read_plugin_file(plugin_file_of(path)) == FACTS


def test_records_before_the_file_is_known_reach_the_history(first: StateStore, path: Path) -> None:
    for number in range(100):
        first.append(number, RestartingAfterCrash(cause="signal 9", away_ms=7))
    first.open(str(path), "started as a test")
    first.append(100, example("machine"))
    first.close()
    first.append(101, example("stopped"))
    first.open(str(path), "started as a test")
    first.close()
    entries = read_history(path).entries
    assert [entry.event for entry in entries] == ["restarting_after_crash"] * 16 + ["machine"]
    assert entries[0].fields == {"cause": "signal 9", "away_ms": 7}


def test_without_a_state_file_early_records_are_dropped(first: StateStore, path: Path) -> None:
    first.open("", "")
    first.append(1, example("restarting_after_crash"))
    first.open(str(path), "started as a test")
    first.close()
    assert read_history(path).entries == ()


def test_a_lock_that_was_impossible_is_tried_again(
    first: StateStore, path: Path, emitted: list[Record]
) -> None:
    path.parent.write_text("a file where the directory belongs")
    first.open(str(path), "started as a test")
    first.check_lock(0.0)
    assert events(emitted)[0] == "lock_unavailable"
    path.parent.unlink()
    first.check_lock(0.0)
    assert events(emitted)[-1] == "lock_restored"
    assert events(emitted).count("lock_unavailable") == 1
    assert lock_of(path).exists()


def test_a_symlink_is_no_lock_file(first: StateStore, path: Path, emitted: list[Record]) -> None:
    target = path.parent.with_name("target")
    target.write_text("precious")
    path.parent.mkdir()
    lock_of(path).symlink_to(target)
    first.open(str(path), "")
    assert events(emitted) == ["lock_unavailable"]
    assert target.read_text() == "precious"


def test_a_pipe_is_no_lock_file(first: StateStore, path: Path, emitted: list[Record]) -> None:
    path.parent.mkdir()
    os.mkfifo(lock_of(path))
    first.open(str(path), "")
    assert [fields_of(record)["error"] for record in emitted] == ["it is not a regular file"]


def test_without_the_lock_the_file_is_not_changed(
    first: StateStore, second: StateStore, path: Path
) -> None:
    first.open(str(path), "first")
    before = lock_of(path).read_text()
    with pytest.raises(AlreadyRunningError):
        second.open(str(path), "second")
    assert lock_of(path).read_text() == before
    second.check_lock(0.0)  # it has none to check
    assert lock_of(path).read_text() == before


def test_failed_writes_are_counted(emitted: list[Record], tmp_path: Path) -> None:
    def open_failing(path: Path, emit: Callable[[Record], None]) -> StateFile:
        file = StateFile(path, emit)
        file.failed_writes, file.written_at_s = 3, 7.5
        return file

    store = StateStore(emitted.append, HostClock(), open_failing)
    assert (store.failed_writes, store.written_at_s) == (0, None)
    assert store.open(str(tmp_path / "state"), "started as a test") is None
    assert (store.failed_writes, store.written_at_s) == (3, 7.5)
    store.close()
    assert (store.failed_writes, store.written_at_s) == (0, None)
