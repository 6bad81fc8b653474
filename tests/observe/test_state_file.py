"""The state file: replaced as a whole, off the caller's thread, and never an obstacle."""

from __future__ import annotations

import json
import os
import shutil
import stat
import threading
from functools import partial
from pathlib import Path

import pytest

from nri_numamem.engine.core.snapshot import restore, snapshot
from nri_numamem.engine.core.state import EngineState, Holder
from nri_numamem.engine.records.plain import fields_of
from nri_numamem.memorymanager import Block, State
from nri_numamem.numa import NodeSet
from nri_numamem.observe import files, state_file
from nri_numamem.observe.history.lines import read_history
from nri_numamem.observe.history.writer import BATCH
from nri_numamem.observe.plugin_file import plugin_file_of, read_plugin_file
from nri_numamem.observe.state_file import StateFile, existing_state_file
from nri_numamem.observe.threads import NO_THREAD
from tests.engine.records.examples import example
from tests.observe.collected import WAIT_S, Collected
from tests.observe.test_plugin_file import FACTS
from tests.simulated_host import wait_for


@pytest.fixture(autouse=True)
def patient_close(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let close() wait longer for a slow disk than the plugin does."""
    monkeypatch.setattr(state_file, "CLOSE_S", WAIT_S)


@pytest.fixture
def collected() -> Collected:
    return Collected()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "lib" / "nri-numamem" / "nri_numamem_state"


def state(number: int) -> EngineState:
    """Return a state in which one container holds `number` bytes."""
    holder = Holder(f"c{number}", "s", ("uid", "app"))
    accounting = State({}, {"uid": {"app": (Block(NodeSet([0]), "memory", number),)}})
    return EngineState(
        accounting, holders={holder.key: holder}, keys={holder.container_id: holder.key}
    )


def kept(path: Path) -> int:
    """Return how much the container in the file holds."""
    (holder,) = restore(path.read_bytes()).holders
    return restore(path.read_bytes()).accounting.assignments[holder[0]][holder[1]][0].size


def test_an_offered_state_is_written_before_close_returns(path: Path, collected: Collected) -> None:
    file = StateFile(path, collected)
    file.offer(state(7))
    file.close()
    assert path.read_bytes() == snapshot(state(7))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert list(path.parent.iterdir()) == [path]
    assert StateFile(path, collected).load() == state(7)
    assert collected.records == []


class RecordedWaits(threading.Condition):
    """Records the time limits of its waits, in seconds."""

    def __init__(self) -> None:
        super().__init__()
        self.limits_s: list[float | None] = []

    def wait(self, timeout: float | None = None) -> bool:
        self.limits_s.append(timeout)
        return super().wait(timeout)


def test_without_work_the_thread_waits_without_a_limit(path: Path, collected: Collected) -> None:
    file = StateFile(path, collected, pause_s=0.0)
    file._changed = waits = RecordedWaits()
    file.append(0.0, example("stopped"))
    file.offer(state(7))
    wait_for(lambda: bool(waits.limits_s))
    assert waits.limits_s == [None]
    file.close()


def test_nothing_offered_nothing_written(path: Path, collected: Collected) -> None:
    file = StateFile(path, collected)
    assert file.load() is None
    file.close()
    assert not path.exists()
    assert collected.records == []


def test_before_synchronize_the_restored_file_is_not_overwritten(
    path: Path, collected: Collected
) -> None:
    file = StateFile(path, collected)
    file.offer(EngineState(State({}), restored=state(7)))
    file.close()
    assert not path.exists()


def test_without_synchronize_containers_count(path: Path, collected: Collected) -> None:
    now = state(8)
    file = StateFile(path, collected)
    file.offer(EngineState(now.accounting, holders=now.holders, keys=now.keys, restored=state(7)))
    file.close()
    assert kept(path) == 8


class Gate:
    """Stands in for the replacing; the first writes wait until they are let through."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.entered, self.free = threading.Event(), threading.Event()
        self.threads: list[str] = []
        self._replace = files.replace_file
        monkeypatch.setattr(state_file, "replace_file", self)

    def __call__(self, path: Path, data: bytes) -> None:
        self.threads.append(threading.current_thread().name)
        self.entered.set()
        assert self.free.wait(WAIT_S)
        self._replace(path, data)


def test_the_newest_state_is_written_and_offer_does_not_wait(
    path: Path, collected: Collected, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = Gate(monkeypatch)
    file = StateFile(path, collected)
    file.offer(state(1))
    assert gate.entered.wait(WAIT_S)
    for number in range(2, 50):
        file.offer(state(number))
    gate.free.set()
    file.close()
    assert kept(path) == 49
    assert gate.threads == ["state-file", "state-file"]


def test_between_two_writes_there_is_a_pause(
    path: Path, collected: Collected, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = Gate(monkeypatch)
    gate.free.set()
    file = StateFile(path, collected, pause_s=WAIT_S)
    file.offer(state(1))
    assert gate.entered.wait(WAIT_S)
    for number in range(2, 10):
        file.offer(state(number))
    assert len(gate.threads) == 1
    file.close()
    assert kept(path) == 9
    assert len(gate.threads) == 2


def test_the_same_state_is_written_once(
    path: Path, collected: Collected, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = Gate(monkeypatch)
    gate.free.set()
    file, same = StateFile(path, collected), state(3)
    file.offer(same)
    file.offer(same)
    assert gate.entered.wait(WAIT_S)
    file.offer(state(3))
    file.close()
    assert len(gate.threads) == 1


def test_close_does_not_wait_for_a_disk_that_hangs(
    path: Path, collected: Collected, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state_file, "CLOSE_S", 0.01)
    gate = Gate(monkeypatch)
    file = StateFile(path, collected)
    file.offer(state(1))
    assert gate.entered.wait(WAIT_S)
    file.close()
    gate.free.set()
    assert file._thread is not None
    file._thread.join(WAIT_S)


def test_a_temporary_file_of_a_killed_process_is_replaced(path: Path, collected: Collected) -> None:
    path.parent.mkdir(parents=True)
    (path.parent / f".{path.name}.new").write_text("half")
    file = StateFile(path, collected)
    file.offer(state(1))
    file.close()
    assert list(path.parent.iterdir()) == [path]


def test_a_failed_write_is_recorded_once_counted_and_retried(
    path: Path, collected: Collected
) -> None:
    path.parent.parent.mkdir()
    path.parent.write_text("a file where the directory belongs")
    file = StateFile(path, collected, pause_s=0.0, retry_s=0.001)
    file.offer(state(1))
    record = collected.wait_for("state_file_write_failed")
    assert record.level == "warning"
    assert fields_of(record)["path"] == str(path)
    wait_for(lambda: file.failed_writes >= 3)
    path.parent.unlink()
    again = collected.wait_for("state_file_write_recovered")
    failed = fields_of(again)["failed_writes"]
    assert isinstance(failed, int)
    assert failed >= 3
    file.offer(state(5))
    file.close()
    assert kept(path) == 5
    assert collected.events == ["state_file_write_failed", "state_file_write_recovered"]


@pytest.mark.parametrize("step", ["write_all", "fsync", "open"])
def test_a_full_or_broken_disk_leaves_the_old_file(
    path: Path, collected: Collected, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    first = StateFile(path, collected)
    first.offer(state(1))
    first.close()

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    owner = files if step == "write_all" else os
    with monkeypatch.context() as patched:
        patched.setattr(owner, step, fail)
        second = StateFile(path, collected, retry_s=WAIT_S)
        second.offer(state(2))
        record = collected.wait_for("state_file_write_failed")
    assert fields_of(record)["error_kind"] == "ENOSPC"
    assert "No space left" in str(fields_of(record)["error"])
    assert kept(path) == 1
    assert list(path.parent.iterdir()) == [path]
    second.close()  # which tries once more
    assert kept(path) == 2
    assert second.failed_writes == 1


def test_a_bug_is_recorded_with_its_traceback_and_the_thread_lives_on(
    path: Path, collected: Collected, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_: EngineState) -> bytes:
        raise RuntimeError("a bug")

    file = StateFile(path, collected, retry_s=WAIT_S)
    with monkeypatch.context() as patched:
        patched.setattr(state_file, "snapshot", broken)
        file.offer(state(1))
        record = collected.wait_for("state_file_write_failed")
    assert fields_of(record)["error_kind"] == "RuntimeError"
    assert "Traceback" in str(fields_of(record)["error"])
    file.offer(state(2))
    collected.wait_for("state_file_write_recovered")
    file.close()
    assert kept(path) == 2


def test_a_thread_that_cannot_start_is_started_later(
    path: Path, collected: Collected, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    file, same = StateFile(path, collected), state(1)
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", fail)
        file.offer(same)
        file.offer(same)
    (failed,) = collected.records
    assert failed.event == "state_file_write_failed"
    assert fields_of(failed)["error"] == NO_THREAD
    file.offer(same)
    collected.wait_for("state_file_write_recovered")
    file.close()
    assert kept(path) == 1


def test_files_are_written_again_when_they_may_be_gone(path: Path, collected: Collected) -> None:
    file, same = StateFile(path, collected, pause_s=0), state(1)
    file.offer(same)
    wait_for(path.exists)
    path.write_text("of another instance")
    file.forget_written()
    file.offer(same)
    file.close()
    assert kept(path) == 1
    assert collected.records == []


def test_a_file_that_is_no_snapshot_is_renamed(path: Path, collected: Collected) -> None:
    path.parent.mkdir(parents=True)
    for number in range(1, 8):
        path.write_text(f"broken {number}")
        stamp = 1_000_000_000 * number
        os.utime(path, ns=(stamp, stamp))
        assert StateFile(path, collected).load() is None
        assert not path.exists()
    aside = {p.name.rpartition("-")[2]: p.read_text() for p in path.parent.iterdir()}
    assert aside == {
        "1": "broken 6",
        "2": "broken 7",
        "3": "broken 3",
        "4": "broken 4",
        "5": "broken 5",
    }
    assert set(collected.events) == {"state_file_unusable"}
    assert len(collected.records) == 7
    assert fields_of(collected.records[0])["renamed_to"] == "nri_numamem_state.corrupt-1"
    assert "not JSON" in str(fields_of(collected.records[0])["error"])


def other_version(path: Path) -> bytes:
    """Write a file of a later version; return its contents."""
    document = {**json.loads(snapshot(state(1))), "version": 7}
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(document))
    return path.read_bytes()


def test_a_file_of_another_version_is_kept(path: Path, collected: Collected) -> None:
    data = other_version(path)
    file = StateFile(path, collected)
    assert file.load() is None
    (record,) = collected.records
    assert (record.event, record.level) == ("state_file_other_version", "warning")
    assert str(fields_of(record)["error"]).startswith("written by version 7; this is version ")
    assert fields_of(record)["file_version"] == 7
    assert fields_of(record)["renamed_to"] == "nri_numamem_state.version-7"
    file.offer(EngineState(State({})))
    file.close()
    assert (path.parent / "nri_numamem_state.version-7").read_bytes() == data
    assert restore(path.read_bytes()) == EngineState(State({}))


def test_a_file_of_another_version_that_cannot_be_renamed_is_not_overwritten_at_first(
    path: Path, collected: Collected, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OSError(30, "Read-only file system")

    data = other_version(path)
    file = StateFile(path, collected)
    with monkeypatch.context() as patched:
        patched.setattr(Path, "replace", fail)
        assert file.load() is None
    assert fields_of(collected.records[0])["rename_error"] == "Read-only file system"
    file.offer(EngineState(State({})))
    assert path.read_bytes() == data
    file.offer(state(2))  # after the first Synchronize
    file.close()
    assert kept(path) == 2


def test_a_huge_file_is_renamed(
    path: Path, collected: Collected, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state_file, "SIZE_LIMIT_BYTES", 10)
    path.parent.mkdir(parents=True)
    path.write_bytes(snapshot(state(1)))
    assert StateFile(path, collected).load() is None
    assert fields_of(collected.records[0])["error"] == "more than 10 bytes"


def test_a_file_that_cannot_be_renamed_is_recorded(
    path: Path, collected: Collected, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OSError(30, "Read-only file system")

    path.parent.mkdir(parents=True)
    path.write_text("broken")
    monkeypatch.setattr(Path, "replace", fail)
    assert StateFile(path, collected).load() is None
    assert fields_of(collected.records[0])["rename_error"] == "Read-only file system"


def test_a_file_that_cannot_be_read_is_recorded(path: Path, collected: Collected) -> None:
    path.mkdir(parents=True)
    assert StateFile(path, collected).load() is None
    assert collected.events == ["state_file_unreadable"]
    assert path.is_dir()


def test_an_error_without_errno_has_its_text(
    path: Path, collected: Collected, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OSError("odd")

    monkeypatch.setattr(state_file, "replace_file", fail)
    file = StateFile(path, collected, retry_s=WAIT_S)
    file.offer(state(1))
    record = collected.wait_for("state_file_write_failed")
    file.close()
    assert (fields_of(record)["error_kind"], fields_of(record)["error"]) == ("unknown", "odd")


def test_the_thread_leaves_signals_to_others(
    path: Path, collected: Collected, monkeypatch: pytest.MonkeyPatch
) -> None:
    import signal

    blocked: list[set[int]] = []

    def look(_path: Path, _data: bytes) -> None:
        blocked.append({int(s) for s in signal.pthread_sigmask(signal.SIG_BLOCK, [])})

    monkeypatch.setattr(state_file, "replace_file", look)
    file = StateFile(path, collected)
    file.offer(state(1))
    file.close()
    assert {signal.SIGTERM, signal.SIGALRM, signal.SIGUSR1} <= blocked[0]


def test_a_pipe_in_its_place_does_not_block_the_start(path: Path, collected: Collected) -> None:
    path.parent.mkdir(parents=True)
    os.mkfifo(path)
    file = StateFile(path, collected)
    assert file.load() is None
    (record,) = collected.records
    assert (record.event, fields_of(record)["error"]) == (
        "state_file_unreadable",
        "it is not a regular file",
    )
    file.offer(state(7))
    file.close()
    assert kept(path) == 7


def test_a_file_that_was_deleted_is_written_again(path: Path, collected: Collected) -> None:
    file = StateFile(path, collected, pause_s=0)
    file.offer(state(7))
    wait_for(path.exists)
    path.parent.rename(path.parent.with_name("removed"))
    file.offer(state(7))
    file.close()
    assert kept(path) == 7


def test_the_plugin_is_described_beside_the_state(path: Path, collected: Collected) -> None:
    file = StateFile(path, collected)
    file.offer(state(7))
    file.describe(FACTS)
    file.close()
    assert kept(path) == 7
    described = plugin_file_of(path)
    assert read_plugin_file(described) == FACTS
    assert stat.S_IMODE(described.stat().st_mode) == 0o600
    assert collected.records == []


def test_one_file_that_cannot_be_written_does_not_hold_up_the_other(
    path: Path, collected: Collected
) -> None:
    described = plugin_file_of(path)
    (described / "in the way").mkdir(parents=True)
    file = StateFile(path, collected, pause_s=0, retry_s=0.01)
    file.describe(FACTS)
    failed = collected.wait_for("state_file_write_failed")
    assert fields_of(failed)["path"] == str(described)
    file.offer(state(7))
    wait_for(path.exists)
    shutil.rmtree(described)
    recovered = collected.wait_for("state_file_write_recovered")
    assert fields_of(recovered)["path"] == str(described)
    file.close()
    assert (kept(path), read_plugin_file(described)) == (7, FACTS)
    assert collected.events == ["state_file_write_failed", "state_file_write_recovered"]


def has_entries(path: Path, count: int) -> bool:
    return len(read_history(path).entries) == count


def test_the_history_is_written_with_the_next_state(path: Path, collected: Collected) -> None:
    file = StateFile(path, collected, pause_s=0)
    for number in range(2):
        file.append(number, example("admitted", {"pod": f"pod-{number}"}))
        file.offer(state(7))
        wait_for(partial(has_entries, path, number + 1))
    file.append(2, example("stopped"))
    file.close()
    found = [(entry.time_s, entry.event) for entry in read_history(path).entries]
    assert found == [(0, "admitted"), (1, "admitted"), (2, "stopped")]
    assert collected.records == []


def test_much_history_is_written_during_the_pause(path: Path, collected: Collected) -> None:
    file = StateFile(path, collected, pause_s=10 * WAIT_S)
    file.append(0, example("admitted"))
    file.offer(state(1))
    wait_for(partial(has_entries, path, 1))
    for number in range(BATCH):
        file.append(number, example("admitted"))
    file.offer(state(2))
    wait_for(partial(has_entries, path, 1 + BATCH))
    file.close()


def test_the_history_is_written_at_the_end_without_a_state(
    path: Path, collected: Collected
) -> None:
    file = StateFile(path, collected)
    file.append(1, example("stopped"))
    file.close()
    assert [entry.event for entry in read_history(path).entries] == ["stopped"]
    assert not path.exists()


def test_the_history_does_not_wait_for_a_state_that_cannot_be_written(
    path: Path, collected: Collected
) -> None:
    (path / "in the way").mkdir(parents=True)
    file = StateFile(path, collected, pause_s=0, retry_s=WAIT_S)
    file.offer(state(1))
    collected.wait_for("state_file_write_failed")
    file.append(1, example("admitted"))
    file.offer(state(1))
    wait_for(partial(has_entries, path, 1))
    file.close()


KUBELETS = Path(__file__).parent.parent / "cases" / "state" / "v1-one-node.json"


def test_the_file_with_the_former_name_is_read_and_never_changed(
    path: Path, collected: Collected
) -> None:
    path.parent.mkdir(parents=True)
    former = path.with_name("memory_manager_state")
    former.write_bytes(snapshot(state(7)))
    assert existing_state_file(path) == former
    file = StateFile(path, collected)
    assert file.load() == state(7)
    file.offer(state(8))
    file.close()
    assert (kept(path), kept(former)) == (8, 7)
    assert existing_state_file(path) == path
    assert StateFile(path, collected).load() == state(8)
    assert collected.records == []


@pytest.mark.parametrize("name", ["nri_numamem_state", "second"])
def test_the_kubelets_file_is_not_used_and_stays(
    path: Path, name: str, collected: Collected
) -> None:
    path = path.with_name(name)
    path.parent.mkdir(parents=True)
    kubelets = path.with_name("memory_manager_state")
    shutil.copyfile(KUBELETS, kubelets)
    assert existing_state_file(path) == path
    file = StateFile(path, collected)
    assert file.load() is None
    file.offer(state(8))
    file.close()
    assert kubelets.read_bytes() == KUBELETS.read_bytes()
    assert collected.records == []


def test_only_the_default_file_had_another_name(path: Path, collected: Collected) -> None:
    path.parent.mkdir(parents=True)
    path.with_name("memory_manager_state").write_bytes(snapshot(state(7)))
    assert StateFile(path.with_name("second"), collected).load() is None
