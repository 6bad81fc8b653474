"""What SIGHUP and SIGUSR2 change while the plugin runs, and what they cannot."""

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from nri_numamem.config.errors import UsageError
from nri_numamem.config.settings import Settings
from nri_numamem.daemon import live_settings
from nri_numamem.daemon.identity import Identity
from nri_numamem.daemon.live_settings import LiveSettings, read_drop_in
from nri_numamem.daemon.signals import DUMP_STATE, RELOAD, TOGGLE_DEBUG
from nri_numamem.engine.records.plain import fields_of
from nri_numamem.engine.records.record import Record
from nri_numamem.observe.log import loggers as logs
from nri_numamem.observe.threads import no_thread_error

IDENTITY = Identity("numamem", "10")


class Stand:
    """Settings that a test changes, as if in a file, and who applies them."""

    def __init__(self, root: Path) -> None:
        self.in_file = Settings(log_file=str(root / "log"), log_format="json")
        self.problem = ""
        self.records: list[Record] = []
        self.applied: list[Settings] = []
        self.reads = 0
        self.goes_on = threading.Event()
        """Reading waits for this."""
        self.goes_on.set()
        self.wake = threading.Semaphore(0)
        self.live = LiveSettings(self.emit, self.applied.append)

    def emit(self, record: Record) -> None:
        self.records.append(record)
        getattr(logs.get_logger(), record.level)(record.event, **fields_of(record))

    def read(self) -> Settings:
        self.reads += 1
        found, problem = self.in_file, self.problem
        assert self.goes_on.wait(60)
        if problem == "a bug":
            raise KeyError(problem)
        if problem:
            raise UsageError(problem)
        return found

    def start(self) -> None:
        settings = self.in_file
        logs.configure(settings.log_file or "stderr", settings.log_level, settings.log_format)
        self.live.reads_from(self.read, "stderr")
        self.live.use(settings)

    def send(self, *numbers: int) -> None:
        self.live.take(set(numbers), self.wake.release)

    def signal(self, *numbers: int) -> list[Record]:
        """Return the records of these signals."""
        self.records.clear()
        reads = self.reads
        self.send(*numbers)
        if RELOAD in numbers and self.live.is_reading:
            assert self.wake.acquire(timeout=60)
            self.send()
            assert self.reads == reads + 1
        return self.records


@pytest.fixture
def stand(tmp_path: Path) -> Iterator[Stand]:
    yield Stand(tmp_path)
    logs.configure()


def log(path: Path) -> str:
    logs.flush()
    return path.read_text()


def test_settings_without_an_effect_on_decisions_are_applied(stand: Stand, tmp_path: Path) -> None:
    stand.start()
    stand.in_file = replace(
        stand.in_file, log_level="debug", metrics_address="localhost:1", fail_on_timeout=True
    )
    reopened, reloaded = stand.signal(RELOAD)
    assert reopened.event == "log_reopened"
    assert (reloaded.event, reloaded.level) == ("configuration_reloaded", "info")
    assert fields_of(reloaded) == {
        "applied": ["failOnTimeout", "logLevel", "metricsAddress"],
        "needs_restart": [],
    }
    assert stand.applied[-1] == stand.in_file
    assert stand.live.fails_on_timeout
    logs.get_logger().debug("detail")
    assert '"detail"' in log(tmp_path / "log")


def test_other_settings_are_named_and_keep_their_values(stand: Stand) -> None:
    stand.start()
    stand.in_file = replace(
        stand.in_file, log_level="warning", topology_manager_policy="restricted"
    )
    reloaded = stand.signal(RELOAD)[-1]
    assert reloaded.level == "warning"
    assert fields_of(reloaded) == {
        "applied": ["logLevel"],
        "needs_restart": ["topologyManagerPolicy"],
    }
    assert stand.applied[-1].topology_manager_policy == "best-effort"
    # It is named again as long as the plugin has not been restarted.
    again = stand.signal(RELOAD)[-1]
    assert fields_of(again) == {"applied": [], "needs_restart": ["topologyManagerPolicy"]}


def test_the_log_moves(stand: Stand, tmp_path: Path) -> None:
    stand.start()
    stand.in_file = replace(stand.in_file, log_file=str(tmp_path / "other"))
    assert fields_of(stand.signal(RELOAD)[-1])["applied"] == ["logFile"]
    logs.get_logger().info("later")
    assert '"later"' in log(tmp_path / "other")
    assert '"later"' not in log(tmp_path / "log")


def test_a_configuration_with_an_error_changes_nothing(stand: Stand) -> None:
    stand.start()
    stand.in_file = replace(stand.in_file, log_level="debug")
    stand.problem = "config.yaml:3: logLevel: ..."
    failed = stand.signal(RELOAD)[-1]
    assert (failed.event, failed.level) == ("configuration_reload_failed", "error")
    assert fields_of(failed) == {"error": stand.problem}
    assert [settings.log_level for settings in stand.applied] == ["info"]


def test_nothing_waits_while_the_configuration_is_read(stand: Stand) -> None:
    stand.start()
    stand.in_file = replace(stand.in_file, log_level="debug")
    stand.goes_on.clear()
    stand.send(RELOAD)
    stand.send(TOGGLE_DEBUG)
    assert [record.event for record in stand.records] == ["log_reopened", "log_level_changed"]
    stand.goes_on.set()
    assert stand.wake.acquire(timeout=60)
    stand.send()
    assert fields_of(stand.records[-1]) == {"applied": ["logLevel"], "needs_restart": []}


def test_a_signal_while_the_configuration_is_read_has_it_read_again(stand: Stand) -> None:
    stand.start()
    stand.goes_on.clear()
    stand.in_file = replace(stand.in_file, log_level="debug")
    stand.send(RELOAD)
    stand.in_file = replace(stand.in_file, log_level="warning")
    stand.send(RELOAD)
    stand.send(RELOAD)
    stand.goes_on.set()
    for _ in range(2):
        assert stand.wake.acquire(timeout=60)
        stand.send()
    assert stand.reads == 2
    assert [settings.log_level for settings in stand.applied] == ["info", "warning"]
    events = [str(record.event) for record in stand.records]
    assert events.count("configuration_reloaded") == 1


def test_a_bug_in_reading_changes_nothing(stand: Stand) -> None:
    stand.start()
    stand.problem = "a bug"
    failed = stand.signal(RELOAD)[-1]
    assert failed.event == "job_failed"
    assert "KeyError: 'a bug'" in str(fields_of(failed)["exception"])
    stand.problem = ""
    assert stand.signal(RELOAD)[-1].event == "configuration_reloaded"


def test_without_a_thread_the_settings_stay(stand: Stand, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_run: Callable[[], None], _name: str) -> threading.Thread:
        raise no_thread_error()

    stand.start()
    with monkeypatch.context() as patched:
        patched.setattr(live_settings, "start_thread", refuse)
        failed = stand.signal(RELOAD)[-1]
    assert failed.event == "configuration_reload_failed"
    assert "at its limit of threads" in str(fields_of(failed)["error"])
    assert stand.signal(RELOAD)[-1].event == "configuration_reloaded"


def test_debug_is_switched_on_and_off(stand: Stand, tmp_path: Path) -> None:
    stand.in_file = replace(stand.in_file, log_level="warning")
    stand.start()
    levels = [fields_of(stand.signal(TOGGLE_DEBUG)[-1])["log_level"] for _ in range(3)]
    assert levels == ["debug", "warning", "debug"]
    assert [settings.log_level for settings in stand.applied] == ["warning", *levels]
    # Each change is in the log, although info is below the level of the settings.
    assert log(tmp_path / "log").count("log_level_changed") == 3
    assert fields_of(stand.signal(RELOAD)[-1])["applied"] == []
    assert logs._OUTPUT.threshold == logs.LEVELS["warning"]
    assert fields_of(stand.signal(TOGGLE_DEBUG)[-1])["log_level"] == "debug"


def test_from_debug_in_the_settings_it_is_switched_to_info(stand: Stand) -> None:
    stand.in_file = replace(stand.in_file, log_level="debug")
    stand.start()
    levels = [fields_of(stand.signal(TOGGLE_DEBUG)[-1])["log_level"] for _ in range(2)]
    assert levels == ["info", "debug"]


def test_before_the_start_and_by_other_signals_nothing_changes(stand: Stand) -> None:
    records = stand.signal(RELOAD, TOGGLE_DEBUG)
    assert [record.event for record in records] == ["log_reopened"]
    assert stand.signal(DUMP_STATE) == []
    stand.live.use(stand.in_file)  # nothing to read again
    assert [record.event for record in stand.signal(RELOAD)] == ["log_reopened"]


@pytest.mark.parametrize("names", [("numamem.conf",), ("numamem.conf", "10-numamem.conf")])
def test_a_launched_plugin_reads_the_runtimes_file(tmp_path: Path, names: tuple[str, ...]) -> None:
    levels = dict(zip(("numamem.conf", "10-numamem.conf"), ("debug", "error"), strict=True))
    for name in names:
        (tmp_path / name).write_text(f"logLevel: {levels[name]}\n")
    assert read_drop_in(IDENTITY, "x: 1", tmp_path).log_level == levels[names[-1]]


def test_without_a_file_the_runtime_has_another_directory(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"neither 10-numamem\.conf nor numamem\.conf is there"):
        read_drop_in(IDENTITY, "logLevel: info", tmp_path)
    assert read_drop_in(IDENTITY, "", tmp_path) == Settings()


def test_files_that_cannot_be_read_or_used(tmp_path: Path) -> None:
    (tmp_path / "directory").write_text("a file")
    with pytest.raises(UsageError, match="Not a directory; restart the runtime"):
        read_drop_in(IDENTITY, "", tmp_path / "directory")
    (tmp_path / "numamem.conf").write_text("logLevel: loud\n")
    with pytest.raises(UsageError, match=r"numamem\.conf:1: logLevel"):
        read_drop_in(IDENTITY, "", tmp_path)
