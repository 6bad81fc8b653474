"""Single-instance lock and persistent state.

Of two live instances of the plugin at one runtime the second only adopts what the first assigns,
and their settings can contradict each other; two writers of one state file overwrite each other.
The lock is a flock on STATE_FILE.lock. It ends with the process, whatever ends the process. The
file stays: removing it would let two processes lock two files of one name. If it is removed,
it is made and locked again at the next check. Instances for different runtimes need different
state files. Without a state file there is no lock.
"""

import errno
import fcntl
import os
import stat
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

from nri_numamem.config.errors import UsageError
from nri_numamem.config.settings import STATE_FILE
from nri_numamem.daemon.lock_holder import format_holder, read_holder
from nri_numamem.engine.core.state import EngineState
from nri_numamem.engine.records.process import LockLost, LockRestored, LockUnavailable
from nri_numamem.engine.records.record import Record
from nri_numamem.nri.poller import Clock
from nri_numamem.observe.files import lock_file_of, read_regular, reason_of
from nri_numamem.observe.plugin_file import PluginFacts
from nri_numamem.observe.state_file import StateFile

# A restarted runtime launches a plugin while the previous plugin has not yet seen the end of its
# connection. Less than the 1.2 s that a reply to Configure may take.
WAIT_S = 0.8
_POLL_S = 0.02

# Records for the history before its file is known, such as the cause of a restart.
_EARLY_LIMIT = 16


# In the state of the kubelet's memory manager and CPU manager; the plugin's has no such key.
_KUBELETS_KEY = b'"policyName"'
_KUBELETS_NAMES = ("memory_manager_state", "cpu_manager_state")
_KUBELETS_SIZE_BYTES = 16 << 20


def check_state_file(path: str, kubelet: Path) -> None:
    """Raise UsageError if the state file would replace one of the kubelet, which needs its own.

    `kubelet` is the kubelet's directory.
    """
    is_kubelets = Path(path).parent == kubelet and Path(path).name in _KUBELETS_NAMES
    with suppress(OSError):  # the state file reports it
        is_kubelets |= _KUBELETS_KEY in read_regular(Path(path), _KUBELETS_SIZE_BYTES)
    if is_kubelets:
        text = f"stateFile {path} is a state file of the kubelet"
        raise UsageError(f"{text}; choose another path, such as {STATE_FILE}")


class AlreadyRunningError(UsageError):
    """Another instance holds the lock; the text names it and a remedy."""

    def __init__(self, path: Path, holder: str) -> None:
        remedy = "stop it, or give each its own stateFile if they serve different runtimes"
        self.cause = f"another instance holds {path} ({holder})"
        """The text without the remedy."""
        self.holder = holder
        """What the instance wrote into the file: its pid, its start, and how it was started."""
        super().__init__(f"{self.cause}; {remedy}")


class InstanceLock:
    """A flock on a file. `emit` logs a record when locking is impossible."""

    def __init__(self, emit: Callable[[Record], None], clock: Clock) -> None:
        self.is_lost = False
        """Whether another instance holds the lock since the file was removed or replaced."""
        self._emit = emit
        self._clock = clock
        self._path: Path | None = None
        self._started_as = ""
        self._descriptor = -1
        """The locked file."""
        self._candidate = -1
        """The file that is being locked, or was locked before."""
        self._is_unavailable = False
        """Whether the log has that the file system refuses."""

    def acquire(self, path: Path, started_as: str) -> None:
        """Take the lock; AlreadyRunningError if another process has it after WAIT_S.

        The file takes the pid, the date and `started_as`, for the error of the other process.
        Where the file system refuses, that is logged, and the caller goes on without a lock.
        """
        self._path, self._started_as = path, started_as
        try:
            self._take(path, WAIT_S)
        except OSError as error:
            self._log_unavailable(path, error)
        except BaseException:
            self.release()
            raise

    def check(self) -> bool:
        """Take the lock again if its file was removed or replaced; does not wait for it.

        Return whether it was taken.
        """
        if self._path is None or self._is_in_place(self._path):
            return False
        try:
            self._take(self._path, 0.0)
        except AlreadyRunningError as error:
            if not self.is_lost:
                self.is_lost = True
                self._emit(LockLost(path=str(self._path), error=str(error)))
        except OSError as error:
            self._log_unavailable(self._path, error)
        else:
            self.is_lost = self._is_unavailable = False
            self._emit(LockRestored(path=str(self._path)))
            return True
        return False

    def release(self) -> None:
        """Release the lock, if it was taken."""
        self._path = None
        self.is_lost = self._is_unavailable = False
        self._close_candidate()
        self._candidate, self._descriptor = self._descriptor, -1
        self._close_candidate()

    def _take(self, path: Path, wait_s: float) -> None:
        """Lock the file at `path`, and release the one that was locked before.

        Raises AlreadyRunningError, or OSError where locking or writing is impossible.
        """
        self._candidate = _open(path)
        try:
            _lock(path, self._candidate, self._clock, wait_s)
            self._descriptor, self._candidate = self._candidate, self._descriptor
        finally:
            self._close_candidate()
        since = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self._clock.wall_s()))
        os.ftruncate(self._descriptor, 0)
        text = format_holder(os.getpid(), since, self._started_as)
        os.pwrite(self._descriptor, text.encode(), 0)

    def _close_candidate(self) -> None:
        descriptor, self._candidate = self._candidate, -1
        if descriptor >= 0:
            os.close(descriptor)

    def _is_in_place(self, path: Path) -> bool:
        """Return whether the locked file is the one at `path`."""
        try:
            return self._descriptor >= 0 and os.path.samestat(
                os.fstat(self._descriptor), path.lstat()
            )
        except OSError:
            return False

    def _log_unavailable(self, path: Path, error: OSError) -> None:
        if not self._is_unavailable:
            self._is_unavailable = True
            self._emit(LockUnavailable(path=str(path), error=reason_of(error)))


class StateStore:
    """The state file of this process, and the lock beside it. `emit` may be called by any thread.

    `open_state_file` returns a state file from its path and `emit`.
    """

    def __init__(
        self,
        emit: Callable[[Record], None],
        clock: Clock,
        open_state_file: Callable[[Path, Callable[[Record], None]], StateFile] = StateFile,
    ) -> None:
        self._emit = emit
        self._open_state_file = open_state_file
        self._lock = InstanceLock(emit, clock)
        self._file: StateFile | None = None
        self._facts: PluginFacts | None = None
        """What was described last."""
        self._early: list[tuple[float, Record]] | None = []
        """The first records for the history; None after the first open()."""

    @property
    def failed_writes(self) -> int:
        """How many writes of the state file failed; any thread may read it."""
        file = self._file
        return 0 if file is None else file.failed_writes

    @property
    def written_at_s(self) -> float | None:
        """When the state file was last written, in seconds since 1970; any thread may read it."""
        file = self._file
        return None if file is None else file.written_at_s

    @property
    def is_writable(self) -> bool:
        """Whether there is a state file, and no other instance has its lock."""
        return self._file is not None and not self._lock.is_lost

    def open(self, path: str, started_as: str) -> EngineState | None:
        """Lock, and return the state that an earlier process left, if any; "" for no state file.

        Raises AlreadyRunningError.
        """
        self.close()
        if not path:
            self._early = None
            return None
        self._lock.acquire(lock_file_of(Path(path)), started_as)
        self._file = self._open_state_file(Path(path), self._emit)
        early, self._early = self._early or [], None
        for time_s, record in early:
            self._file.append(time_s, record)
        return self._file.load()

    def offer(self, state: EngineState) -> None:
        """Hand over a state to be written; never waits.

        Nothing is written while another instance holds the lock.
        """
        if self._file is not None and not self._lock.is_lost:
            self._file.offer(state)

    def append(self, time_s: float, record: Record) -> None:
        """Hand over a record for the history; never waits. Keeps the first ones until open()."""
        early = self._early  # another thread may call this during open()
        if early is not None:
            if len(early) < _EARLY_LIMIT:
                early.append((time_s, record))
        elif self._file is not None and not self._lock.is_lost:
            self._file.append(time_s, record)

    def describe(self, facts: PluginFacts) -> None:
        """Hand over facts about the plugin; never waits."""
        self._facts = facts
        if self._file is not None and not self._lock.is_lost:
            self._file.describe(facts)

    def check_lock(self, _now_s: float) -> Iterable[Record]:
        """Take the lock again if its file was removed or replaced; a job.

        The other files of the directory may be gone as well, so they are written again; the state
        at the next offer().
        """
        if self._lock.check() and self._file is not None:
            self._file.forget_written()
            if self._facts is not None:
                self._file.describe(self._facts)
        return ()

    def close(self) -> None:
        """Write what is waiting, and release the lock."""
        if self._file is not None:
            self._file.close()
            self._file = None
        self._lock.release()


def _open(path: Path) -> int:
    """Open or create the file of a lock without changing it; OSError for anything but a file."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    descriptor = os.open(path, flags, 0o600)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "it is not a regular file")
    return descriptor


def _lock(path: Path, descriptor: int, clock: Clock, wait_s: float) -> None:
    """Lock within `wait_s`; AlreadyRunningError, or OSError where locking is impossible."""
    deadline = clock.monotonic_s() + wait_s
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            if clock.monotonic_s() >= deadline:
                raise AlreadyRunningError(path, read_holder(descriptor).text) from error
            clock.sleep(_POLL_S)
        else:
            return
