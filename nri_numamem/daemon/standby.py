"""Standby: an instance waits until no other one holds the lock of the state file, then takes over.

In a rolling update the new pod must be ready before the old one is ended, so two instances exist
for a while. The second one has loaded everything and read its configuration by then. It serves
/healthz, logs to stderr and writes no file: state file, history, log file and text file belong to
the instance that holds the lock. When the lock is free, it reads configuration and machine again,
because the wait can last for days, then the state, and connects to the runtime.

The wait polls: a blocking flock would wait on a file that may have been replaced, and needs a
thread that nothing can end.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from nri_numamem.config.errors import UsageError
from nri_numamem.config.settings import Settings
from nri_numamem.daemon.external import pause
from nri_numamem.daemon.instance import AlreadyRunningError
from nri_numamem.daemon.lock_holder import Lock, probe
from nri_numamem.daemon.service import Service
from nri_numamem.daemon.signals import Signals
from nri_numamem.daemon.system import System
from nri_numamem.engine.engine import Engine
from nri_numamem.engine.records import process as records
from nri_numamem.engine.records.files import ConfigurationReloadFailed
from nri_numamem.engine.records.process import TakenOver
from nri_numamem.observe.files import lock_file_of

# Between two looks at the lock. A look opens and closes one file: some 50 us.
POLL_S = 0.1

# If the lock's file is removed, its holder makes the file again within this time (Service, the job
# "instance lock").
REMOVED_S = 15.0

REMEDY = (
    "none in a rolling update; otherwise stop one of the two, or give each its own stateFile if "
    "they serve different runtimes"
)


@dataclass(frozen=True, slots=True)
class Form:
    """How one form of the plugin starts."""

    started_as: str
    """For the error of another instance."""
    read: Callable[[], Settings]
    """Reads the configuration; UsageError if it cannot be read or used."""
    build: Callable[[Settings], Engine]
    """Reads the machine; UsageError when machine and settings do not go together."""
    open_log: Callable[[Settings], None]
    """Log as the settings say."""


class Standby:
    """Starts a service when no other instance runs."""

    def __init__(self, form: Form, service: Service, system: System, signals: Signals) -> None:
        self._form = form
        self._service = service
        self._system = system
        self._signals = signals
        self._since_s: float | None = None
        """When the wait began; None before."""
        self._seen: Lock | None = None
        """The lock when another instance held it the last time."""
        self._has_log_file = True
        """Whether records go to the log file of the settings, if there is one."""
        self._removed_at_s: float | None = None
        """When the file of that lock was missing for the first time."""

    def start(self, settings: Settings, engine: Engine) -> bool:
        """Start the service, now or later; return False after a signal that stops the process.

        `settings` and `engine` are those of a start without a wait.
        """
        while True:
            try:
                self._check(settings)
                if self._since_s is not None:
                    settings, engine = self._read_again(settings, engine)
                self._service.start(engine, settings, self._form.started_as)
            except AlreadyRunningError as error:
                self._wait(settings, error)
            else:
                self._took_over()
                return True
            if pause(self._service, self._system, self._signals, POLL_S):
                return False

    def _check(self, settings: Settings) -> None:
        """Raise AlreadyRunningError if another instance holds the lock, or seems to hold it."""
        if not settings.state_file_or_default:
            return
        path = lock_file_of(Path(settings.state_file_or_default))
        seen = self._seen
        try:
            lock = probe(path)
        except OSError:
            # Without a file to lock, the service starts and logs that. Another error, such as too
            # many open files, must not start a second instance.
            lock = seen
        if lock is not None and lock.holder is not None:
            self._seen, self._removed_at_s = lock, None
            raise AlreadyRunningError(path, lock.holder.text)
        if seen is not None and seen.holder is not None and self._is_removed(seen, lock):
            raise AlreadyRunningError(path, seen.holder.text)

    def _is_removed(self, seen: Lock, lock: Lock | None) -> bool:
        """Return whether the file of the lock was removed or replaced just now.

        Then the other instance still runs, and is about to make it again.
        """
        if lock is not None and lock.file == seen.file:
            return False
        now_s = self._system.clock.monotonic_s()
        if self._removed_at_s is None:
            self._removed_at_s = now_s
        return now_s - self._removed_at_s < REMOVED_S

    def _wait(self, settings: Settings, error: AlreadyRunningError) -> None:
        """Begin the wait, or go on with it."""
        now_s = self._system.clock.monotonic_s()
        if self._has_log_file:
            self._has_log_file = False
            self._form.open_log(replace(settings, log_file=None))
        if self._since_s is None:
            self._since_s = now_s
            self._service.emit(records.Standby(cause=error.cause, remedy=REMEDY))
            self._service.notifier.ready(f"standby: {error.cause}")
            self._service.metrics.stand_by(settings.metrics_address, error.cause)
        self._service.metrics.meter.ticked_at_s = now_s

    def _read_again(self, settings: Settings, engine: Engine) -> tuple[Settings, Engine]:
        """Return settings and engine as of now; the given ones if they cannot be used any more."""
        problem: UsageError | None = None
        try:
            found = self._form.read()
            engine = self._form.build(found)
            settings = found
        except UsageError as error:
            problem = error
        self._has_log_file = True
        self._form.open_log(settings)
        if problem is not None:
            self._service.emit(ConfigurationReloadFailed(error=str(problem)))
        return settings, engine

    def _took_over(self) -> None:
        if self._since_s is not None:
            waited_s = self._system.clock.monotonic_s() - self._since_s
            self._service.emit(TakenOver(waited_s=int(waited_s)))
