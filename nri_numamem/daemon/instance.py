"""Single-instance lock and persistent state.

Two live instances of the plugin at one runtime make every container creation fail, because each
sets the same fields; and two writers of one state file overwrite each other. The lock is a flock
on STATE_FILE.lock. It ends with the process, whatever ends the process. The file stays: removing it
would let two processes lock two files of one name. Instances for different runtimes need different
state files. Without a state file there is no lock.
"""

import fcntl
import os
import time
from collections.abc import Callable
from pathlib import Path

from nri_numamem.config.errors import UsageError
from nri_numamem.daemon.system import StateWriter
from nri_numamem.engine.plan import Record
from nri_numamem.engine.records.events import EventName
from nri_numamem.engine.state import EngineState
from nri_numamem.nri.poller import Clock
from nri_numamem.observe.log.sinks import write_all
from nri_numamem.observe.state_file import StateFile

# A restarted runtime launches a plugin while the previous plugin has not yet seen the end of its
# connection. Less than the 1.2 s that a reply to Configure may take.
WAIT_S = 0.8
_POLL_S = 0.02

_HOLDER_BYTES = 300


class AlreadyRunningError(UsageError):
    """Another instance holds the lock; the text names it and a remedy."""


class InstanceLock:
    """A flock on a file. `emit` logs a record when locking is impossible."""

    def __init__(self, emit: Callable[[Record], None], clock: Clock) -> None:
        self._emit = emit
        self._clock = clock
        self._descriptor = -1

    def acquire(self, path: Path, started_as: str) -> None:
        """Take the lock; AlreadyRunningError if another process has it after WAIT_S.

        The file takes the pid, the date and `started_as`, for the error of the other process.
        Where the file system refuses, that is logged, and the caller goes on without a lock.
        """
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            # Kept before it is locked: release() closes it, whatever ends the wait.
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            self._descriptor = descriptor
        except OSError as error:
            self._log_unlocked(path, error)
            return
        try:
            _lock(path, descriptor, self._clock)
            since = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self._clock.wall_s()))
            os.ftruncate(descriptor, 0)
            write_all(descriptor, f"pid {os.getpid()}, since {since}, {started_as}\n".encode())
        except OSError as error:
            # Also when it is locked: the disk may be too full for the text.
            self._log_unlocked(path, error)
        except BaseException:
            self.release()
            raise

    def release(self) -> None:
        """Release the lock, if it was taken."""
        if self._descriptor >= 0:
            descriptor, self._descriptor = self._descriptor, -1
            os.close(descriptor)

    def _log_unlocked(self, path: Path, error: OSError) -> None:
        fields = {"path": str(path), "error": error.strerror or str(error)}
        self._emit(Record(EventName.LOCK_UNAVAILABLE, fields))


class StateStore:
    """The state file of this process, and the lock beside it. `emit` may be called by any thread.

    `open_state_file` returns a state file from its path and `emit`.
    """

    def __init__(
        self,
        emit: Callable[[Record], None],
        clock: Clock,
        open_state_file: Callable[[Path, Callable[[Record], None]], StateWriter] = StateFile,
    ) -> None:
        self._emit = emit
        self._open_state_file = open_state_file
        self._lock = InstanceLock(emit, clock)
        self._file: StateWriter | None = None

    @property
    def failed_writes(self) -> int:
        """How many writes of the state file failed; any thread may read it."""
        file = self._file
        return 0 if file is None else file.failed_writes

    def open(self, path: str, started_as: str) -> EngineState | None:
        """Lock, and return the state that an earlier process left, if any; "" for no state file.

        Raises AlreadyRunningError.
        """
        self.close()
        if not path:
            return None
        self._lock.acquire(Path(f"{path}.lock"), started_as)
        self._file = self._open_state_file(Path(path), self._emit)
        return self._file.load()

    def offer(self, state: EngineState) -> None:
        """Hand over a state to be written; never waits."""
        if self._file is not None:
            self._file.offer(state)

    def close(self) -> None:
        """Write what is waiting, and release the lock."""
        if self._file is not None:
            self._file.close()
            self._file = None
        self._lock.release()


def _lock(path: Path, descriptor: int, clock: Clock) -> None:
    """Lock within WAIT_S; AlreadyRunningError, or OSError where locking is impossible."""
    deadline = clock.monotonic_s() + WAIT_S
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            if clock.monotonic_s() >= deadline:
                raise AlreadyRunningError(_describe_holder(path, descriptor)) from error
            clock.sleep(_POLL_S)
        else:
            return


def _describe_holder(path: Path, descriptor: int) -> str:
    text = os.pread(descriptor, _HOLDER_BYTES, 0).decode(errors="replace").strip()
    shown = "".join(c for c in text if c.isprintable()) or "unknown"
    remedy = "stop it, or give each its own stateFile if they serve different runtimes"
    return f"another instance holds {path} ({shown}); {remedy}"
