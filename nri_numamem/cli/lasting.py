"""The state file and the lock beside it: what a process takes over, and has for itself.

Two live instances of the plugin at one runtime make every container creation fail, because each
sets the same fields; and two writers of one state file overwrite each other. The lock is a flock
on STATE_FILE.lock. It ends with the process, whatever ends it. The file stays: removing it would
let two processes lock two files of one name. The state file stands for the plugin on its host, so
instances for different runtimes are given different ones. Without a state file there is no lock.
"""

import fcntl
import os
import time
from collections.abc import Callable
from pathlib import Path

from nri_numamem.cli.errors import UsageError
from nri_numamem.engine.plan import Record
from nri_numamem.engine.state import EngineState
from nri_numamem.observe.sinks import write_all
from nri_numamem.observe.state_file import StateFile

# A runtime that was restarted launches us while our predecessor is still noticing its end. Less
# than the 1.2 s that answering Configure may take.
WAIT_S = 0.8
_POLL_S = 0.02

_HOLDER_BYTES = 300


class AlreadyRunningError(UsageError):
    """Another instance holds the lock; the text says which, and what to do."""


class Lasting:
    """The lock and the state file of this process. `tell` takes records, from any thread."""

    def __init__(self, tell: Callable[[Record], None]) -> None:
        self._tell = tell
        self._file: StateFile | None = None
        self._descriptor = -1

    @property
    def failed_writes(self) -> int:
        """How many writes of the state file failed; may be asked from any thread."""
        file = self._file
        return 0 if file is None else file.failed_writes

    def open(self, path: str, started_as: str) -> EngineState | None:
        """Lock, and return what an earlier process left, if anything; "" for no state file.

        Raises AlreadyRunningError. A lock that cannot be made is told, and no obstacle.
        """
        self.close()
        if not path:
            return None
        self._take_lock(Path(f"{path}.lock"), started_as)
        self._file = StateFile(Path(path), self._tell)
        return self._file.load()

    def offer(self, state: EngineState) -> None:
        """Hand over a state to be written; never waits."""
        if self._file is not None:
            self._file.offer(state)

    def close(self) -> None:
        """Write what is waiting, and let the lock go."""
        if self._file is not None:
            self._file.close()
            self._file = None
        if self._descriptor >= 0:
            descriptor, self._descriptor = self._descriptor, -1
            os.close(descriptor)

    def _take_lock(self, path: Path, started_as: str) -> None:
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            # Kept before it is locked: whatever ends the wait, close() lets it go.
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            self._descriptor = descriptor
        except OSError as error:
            self._tell_unlocked(path, error)
            return
        try:
            _lock(path, descriptor)
            since = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
            os.ftruncate(descriptor, 0)
            write_all(descriptor, f"pid {os.getpid()}, since {since}, {started_as}\n".encode())
        except OSError as error:
            # Also when it is locked: the disk may be full for the words in it.
            self._tell_unlocked(path, error)
        except BaseException:
            self.close()
            raise

    def _tell_unlocked(self, path: Path, error: OSError) -> None:
        fields = {"path": str(path), "error": error.strerror or str(error)}
        event = "no proper lock, a second instance may not be noticed"
        self._tell(Record(event, "warning", fields))


def _lock(path: Path, descriptor: int) -> None:
    """Lock within WAIT_S; AlreadyRunningError, or OSError where nobody can lock."""
    deadline = time.monotonic() + WAIT_S
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            if time.monotonic() >= deadline:
                raise AlreadyRunningError(_who_holds(path, descriptor)) from error
            time.sleep(_POLL_S)
        else:
            return


def _who_holds(path: Path, descriptor: int) -> str:
    text = os.pread(descriptor, _HOLDER_BYTES, 0).decode(errors="replace").strip()
    shown = "".join(c for c in text if c.isprintable()) or "unknown"
    remedy = "stop it, or give each its own stateFile if they serve different runtimes"
    return f"another instance holds {path} ({shown}); {remedy}"
