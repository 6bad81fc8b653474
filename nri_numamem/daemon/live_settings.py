"""Settings that change while the plugin runs: SIGHUP reads them again, SIGUSR2 switches debug.

A decision depends on none of these settings, so they can change between any two requests. A change
of any other setting needs a restart, because the accounting of running containers depends on it;
the record of a reload names such settings.

Another thread reads the configuration, since parsing a large one takes more than a second; the
serving loop applies it. A signal that comes meanwhile makes it read once more.
"""

from collections.abc import Callable
from collections.abc import Set as AbstractSet
from dataclasses import replace
from pathlib import Path
from queue import Empty, SimpleQueue

from nri_numamem.config import load as configuration
from nri_numamem.config.errors import UsageError
from nri_numamem.config.setting import Setting
from nri_numamem.config.settings import Settings, settings_to_mapping
from nri_numamem.config.table import TABLE
from nri_numamem.daemon.identity import Identity
from nri_numamem.daemon.signals import RELOAD, TOGGLE_DEBUG
from nri_numamem.engine.records.files import (
    ConfigurationReloaded,
    ConfigurationReloadFailed,
    LogLevelChanged,
    LogReopened,
)
from nri_numamem.engine.records.process import JobFailed
from nri_numamem.engine.records.record import Record
from nri_numamem.observe.files import traceback_of
from nri_numamem.observe.log import loggers as logs
from nri_numamem.observe.threads import start_thread

DROP_INS = Path("/etc/nri/conf.d")
"""The default directory of both runtimes for the configurations of launched plugins."""

# Key -> field of Settings.
LIVE = {row.key: row.field for row in TABLE if isinstance(row, Setting) and row.is_live}

ReadSettings = Callable[[], Settings]
"""Reads the configuration again; UsageError if it cannot be read or used."""


class LiveSettings:
    """The present settings. `apply` gets them at the start and after each change."""

    def __init__(
        self,
        emit: Callable[[Record], None],
        apply: Callable[[Settings], None],
    ) -> None:
        self.fails_on_timeout = False
        self._emit = emit
        self._apply = apply
        self._sink = "stderr"
        self._read: ReadSettings | None = None
        self._settings: Settings | None = None
        """None before the start."""
        self._level = ""
        """The level in use; SIGUSR2 changes it without the settings."""
        self._results: SimpleQueue[Settings | Exception] = SimpleQueue()
        """What a thread has read, or why it could not."""
        self.is_reading = False
        """Whether a thread reads the configuration, or its result is not used yet."""
        self._reads_again = False
        """A signal has come since a thread began to read."""

    def reads_from(self, read: ReadSettings, sink: str) -> None:
        """Read the settings from there at a reload; the log goes to `sink` without a logFile."""
        self._read, self._sink = read, sink

    def take(self, signals: AbstractSet[int], wake_up: Callable[[], None]) -> None:
        """Act on the signals among these numbers, and on what a thread has read since.

        The thread calls `wake_up` when this method is to be called again.
        """
        if RELOAD in signals:
            logs.reopen()
            self._emit(LogReopened())
            self._begin_reading(wake_up)
        if TOGGLE_DEBUG in signals:
            self._toggle_debug()
        self._end_reading(wake_up)

    def _begin_reading(self, wake_up: Callable[[], None]) -> None:
        read = self._read
        if self._settings is None or read is None:
            return
        if self.is_reading:
            self._reads_again = True
            return

        def run() -> None:
            try:
                self._results.put(read())
            except Exception as error:  # noqa: BLE001 - the loop reports it
                self._results.put(error)
            wake_up()

        try:
            start_thread(run, "configuration")
            self.is_reading = True
        except OSError as error:
            self._emit(ConfigurationReloadFailed(error=f"{error.strerror}; send SIGHUP again"))

    def _end_reading(self, wake_up: Callable[[], None]) -> None:
        """Apply what a thread has read, unless a signal has come since it began."""
        try:
            result = self._results.get_nowait()
        except Empty:
            return
        self.is_reading = False
        if self._reads_again:
            self._reads_again = False
            self._begin_reading(wake_up)
        elif isinstance(result, Settings):
            self._reloaded(result)
        elif isinstance(result, UsageError):
            self._emit(ConfigurationReloadFailed(error=str(result)))
        else:
            self._emit(JobFailed(job="configuration", exception=traceback_of(result)))

    def _reloaded(self, found: Settings) -> None:
        before = self._settings
        assert before is not None  # noqa: S101 - reading begins after the start
        old, new = settings_to_mapping(before), settings_to_mapping(found)
        changed = sorted(key for key in old.keys() | new.keys() if old.get(key) != new.get(key))
        after = replace(before, **{field: getattr(found, field) for field in LIVE.values()})
        if (after.log_file, after.log_format) != (before.log_file, before.log_format):
            logs.configure(after.log_file or self._sink, after.log_level, after.log_format)
        else:
            logs.set_level(after.log_level)
        self.use(after)
        applied = [key for key in changed if key in LIVE]
        waiting = [key for key in changed if key not in LIVE]
        self._emit(
            ConfigurationReloaded(
                applied=(*applied,), needs_restart=(*waiting,), alternate=bool(waiting)
            )
        )

    def _toggle_debug(self) -> None:
        """Switch to debug, or from debug to the level of the settings (info if that is debug)."""
        if self._settings is None:
            return
        usual = self._settings.log_level
        level = "debug"
        if self._level == "debug":
            level = usual if usual != "debug" else "info"
        record = LogLevelChanged(log_level=level)
        # Logged while the lower of both levels is in use.
        if level != "debug":
            self._emit(record)
        logs.set_level(level)
        if level == "debug":
            self._emit(record)
        self._level = level
        self._apply(replace(self._settings, log_level=level))

    def use(self, settings: Settings) -> None:
        """Use these settings, for which the log is configured already."""
        self._settings, self._level = settings, settings.log_level
        self.fails_on_timeout = settings.fail_on_timeout
        self._apply(settings)


def read_drop_in(identity: Identity, text: str, directory: Path = DROP_INS) -> Settings:
    """Return the settings in the file that the runtime reads for a launched plugin.

    `text` is what the runtime sent. Raises UsageError, also if there was a text and there is no
    file: the runtime has another directory then. Source: NRI pkg/adaptation, getPluginConfig.
    """
    names = [f"{identity.idx}-{identity.name}.conf", f"{identity.name}.conf"]
    for name in names:
        path = directory / name
        try:
            path.lstat()
        except FileNotFoundError:
            continue
        except OSError as error:
            raise UsageError(f"{path}: {error.strerror}; restart the runtime instead") from error
        return configuration.load_file(path)
    if text:
        problem = f"{directory}: neither {names[0]} nor {names[1]} is there"
        raise UsageError(f"{problem}; restart the runtime, which has another directory")
    return configuration.load_text("", "no configuration")
