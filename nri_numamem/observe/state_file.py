"""The state file, which preserves the engine's state across restarts.

``load`` reads the file once at the start. ``offer`` takes the engine's state, a value that never
changes, and returns immediately: a thread serializes and writes it. Serializing needs the
interpreter's lock, which the event loop needs too, so the thread writes at most once a second, and
only the newest state. The file is replaced atomically (temporary file, fsync, rename, fsync of the
directory).

The plugin works without the file. A damaged file is renamed to NAME.corrupt-N, and a file of
another version to NAME.version-N. A failed write is logged once per kind of error, counted, and
retried. ``engine.snapshot`` defines the contents.
"""

import contextlib
import errno
import os
import signal
import stat
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path

from nri_numamem.engine.plan import Record, RecordValue
from nri_numamem.engine.records.events import EventName
from nri_numamem.engine.snapshot import SnapshotError, SnapshotVersionError, restore, snapshot
from nri_numamem.engine.state import EngineState
from nri_numamem.observe.log.sinks import write_all

# Only root may read pod UIDs and amounts.
_FILE_MODE = 0o600
_DIRECTORY_MODE = 0o700

# A thousand pods take 1 MB.
SIZE_LIMIT_BYTES = 64 << 20

# Enough for an analysis, without filling the disk.
CORRUPT_KEPT = 5

# A full disk stays full for a while.
RETRY_S = 30.0

# Between two writes. A crash loses only the changes of this time.
PAUSE_S = 1.0

# How long close() waits for a disk that hangs.
CLOSE_S = 5.0


def read_state(path: Path) -> EngineState:
    """Return the state in a file that another process may be using; nothing is changed.

    Raises OSError, and SnapshotError for a file that cannot be used.
    """
    data = _read(path)
    if len(data) > SIZE_LIMIT_BYTES:
        raise SnapshotError(f"more than {SIZE_LIMIT_BYTES} bytes")
    return restore(data, _sha256)


class StateFile:
    """One state file. `emit` logs records, from any thread.

    Only one thread may call load(), offer() and close().
    """

    def __init__(
        self,
        path: Path,
        emit: Callable[[Record], None],
        *,
        pause_s: float = PAUSE_S,
        retry_s: float = RETRY_S,
    ) -> None:
        self.failed_writes = 0
        """Number of failed writes since the start."""
        self.written_at_s: float | None = None
        """When the file was last written, in seconds since 1970; None if it was not."""
        self._path = path
        self._emit = emit
        self._pause_s = pause_s
        self._retry_s = retry_s
        self._offered: EngineState | None = None
        self._written: int | None = None
        """Hash of the data written last; the data of a thousand pods is a megabyte."""
        self._reported: set[str] = set()
        """Kinds of write errors in the log since the last successful write."""
        self._keeps_file = False
        """Whether a file of another version is still under the path."""
        self._changed = threading.Condition()
        self._pending: EngineState | None = None
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None

    def load(self) -> EngineState | None:
        """Return the state that an earlier process wrote; None if there is no usable file."""
        try:
            data = _read(self._path)
        except FileNotFoundError:
            return None
        except OSError as error:
            self._log(EventName.STATE_FILE_UNREADABLE, {"error": _reason(error)})
            return None
        if len(data) > SIZE_LIMIT_BYTES:
            self._rename_corrupt(f"more than {SIZE_LIMIT_BYTES} bytes")
            return None
        try:
            return restore(data, _sha256)
        except SnapshotVersionError as error:
            name = self._path.with_name(f"{self._path.name}.version-{error.version}")
            fields: dict[str, RecordValue] = {"error": str(error), "file_version": error.version}
            self._rename(EventName.STATE_FILE_OTHER_VERSION, fields, lambda: name)
            self._keeps_file = self._path.exists()
        except SnapshotError as error:
            self._rename_corrupt(str(error))
        return None

    def offer(self, state: EngineState) -> None:
        """Have a state written; returns immediately.

        Before the first Synchronize the state is not written if the file has more information.
        """
        if state is self._offered or (state.restored is not None and not state.holders):
            return
        if self._keeps_file and not (state.holders or state.pods):
            return
        self._offered = state
        with self._changed:
            self._pending = state
            self._changed.notify()
        if self._thread is None:
            # A daemon thread: a disk that hangs must not keep the process from ending.
            self._thread = threading.Thread(target=self._run, name="state-file", daemon=True)
            self._thread.start()

    def close(self) -> None:
        """Write the pending state, within CLOSE_S, and end the thread."""
        with self._changed:
            self._closing.set()
            self._changed.notify()
        if self._thread is not None:
            self._thread.join(CLOSE_S)

    def _run(self) -> None:
        # Signals must interrupt the main thread.
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        while (state := self._take()) is not None:
            if not self._save(state) and not self._wait_to_retry(state):
                return
            self._closing.wait(self._pause_s)

    def _take(self) -> EngineState | None:
        """Return the next state to write; None at the end."""
        with self._changed:
            self._changed.wait_for(lambda: self._pending is not None or self._closing.is_set())
            state, self._pending = self._pending, None
            return state

    def _wait_to_retry(self, state: EngineState) -> bool:
        """Wait for a newer state, the end of the pause, or close(); return False after close()."""
        with self._changed:
            if self._closing.is_set():
                return False
            self._changed.wait_for(
                lambda: self._pending is not None or self._closing.is_set(), self._retry_s
            )
            if self._pending is None:
                self._pending = state
            return True

    def _save(self, state: EngineState) -> bool:
        """Write one state; return whether the file has it."""
        try:
            data = snapshot(state)
            written = hash(data)
            if written != self._written or not self._path.exists():
                _replace(self._path, data)
                self._written = written
                self.written_at_s = time.time()
        except OSError as error:
            self._count(errno.errorcode.get(error.errno or 0, "unknown"), _reason(error))
            return False
        except Exception as error:  # noqa: BLE001 - a bug must not end the thread
            text = "".join(traceback.format_exception(error)).rstrip()
            self._count(type(error).__name__, text)
            return False
        if self._reported:
            self._reported.clear()
            fields: dict[str, RecordValue] = {"failed_writes": self.failed_writes}
            self._emit(Record(EventName.STATE_FILE_WRITE_RECOVERED, {**self._place(), **fields}))
        return True

    def _count(self, kind: str, text: str) -> None:
        self.failed_writes += 1
        if kind not in self._reported:
            self._reported.add(kind)
            self._log(EventName.STATE_FILE_WRITE_FAILED, {"error_kind": kind, "error": text})

    def _rename_corrupt(self, problem: str) -> None:
        """Rename a file that cannot be used; replaces the oldest of CORRUPT_KEPT such files."""
        numbers = range(1, CORRUPT_KEPT + 1)
        names = [self._path.with_name(f"{self._path.name}.corrupt-{n}") for n in numbers]

        def choose() -> Path:
            free = [name for name in names if not name.exists()]
            return free[0] if free else min(names, key=lambda name: name.stat().st_mtime_ns)

        self._rename(EventName.STATE_FILE_UNUSABLE, {"error": problem}, choose)

    def _rename(
        self, event: EventName, fields: dict[str, RecordValue], choose: Callable[[], Path]
    ) -> None:
        """Rename the file to a chosen name, and log it."""
        try:
            name = choose()
            self._path.replace(name)
            fields["renamed_to"] = name.name
        except OSError as error:
            fields["rename_error"] = _reason(error)
        self._log(event, fields)

    def _place(self) -> dict[str, RecordValue]:
        return {"path": str(self._path)}

    def _log(self, event: EventName, fields: dict[str, RecordValue]) -> None:
        self._emit(Record(event, {**self._place(), **fields}))


def _reason(error: OSError) -> str:
    return error.strerror or str(error)


def _read(path: Path) -> bytes:
    """Return the contents, at most one byte more than SIZE_LIMIT_BYTES; never waits for a pipe."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file")
        return file.read(SIZE_LIMIT_BYTES + 1)


def _replace(path: Path, data: bytes) -> None:
    """Replace the file at `path`; after an OSError the old one is still there."""
    path.parent.mkdir(mode=_DIRECTORY_MODE, parents=True, exist_ok=True)
    # Always the same name, so that at most one file of a killed process is left.
    temporary = path.with_name(f".{path.name}.new")
    temporary.unlink(missing_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    try:
        descriptor = os.open(temporary, flags, _FILE_MODE)
        try:
            write_all(descriptor, data)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        temporary.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()  # frees the space if the disk is full
        raise
    directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def _sha256(data: bytes) -> str:
    """Return the digest for a file of an older version."""
    import hashlib  # noqa: PLC0415 - OpenSSL takes 4 MB, and a start with a new file needs none

    return hashlib.sha256(data).hexdigest()
