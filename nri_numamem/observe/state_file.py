"""The state file: what outlives the process, written beside the work and never in its way.

``load`` reads it once at the start; ``offer`` hands over the engine's state, a value that never
changes, and costs the loop nothing else: a thread of its own makes the bytes and writes them. To
make them it needs the interpreter's lock, for which the loop would have to wait, so it does this
at most once a second; of the states that come meanwhile only the last is written. The file is
replaced as a whole (a temporary file, fsync, rename, fsync of the directory): a reader finds the
old or the new.

Nothing here is needed to serve. What cannot be read is put aside as NAME.corrupt-N; what cannot be
written is told once per kind of error, counted, and tried again. What a snapshot says is known
to ``engine.snapshot`` only.
"""

import contextlib
import errno
import os
import signal
import threading
import traceback
from collections.abc import Callable
from pathlib import Path

from nri_numamem.engine.plan import Record, RecordValue
from nri_numamem.engine.snapshot import SnapshotError, restore, snapshot
from nri_numamem.engine.state import EngineState
from nri_numamem.observe.sinks import write_all

# Pod uids and amounts are nobody's business but root's.
_FILE_MODE = 0o600
_DIRECTORY_MODE = 0o700

# A thousand pods take 1 MB.
SIZE_LIMIT_BYTES = 64 << 20

# Enough to look at what went wrong, and never a disk full of them.
CORRUPT_KEPT = 5

# A full disk is emptied by people or by log rotation: not in milliseconds.
RETRY_S = 30.0

# Between two writes. A crash costs what pods gave back within it, and no more.
PAUSE_S = 1.0

# How long an orderly end waits for a disk that does not answer.
CLOSE_S = 5.0


class StateFile:
    """One state file. `tell` takes records, from any thread.

    load(), offer() and close() belong to one thread.
    """

    def __init__(
        self,
        path: Path,
        tell: Callable[[Record], None],
        *,
        pause_s: float = PAUSE_S,
        retry_s: float = RETRY_S,
    ) -> None:
        self.failed_writes = 0
        """How many writes failed since the start."""
        self._path = path
        self._tell = tell
        self._pause_s = pause_s
        self._retry_s = retry_s
        self._offered: EngineState | None = None
        self._written: int | None = None
        """The hash of what was written last: the bytes of a thousand pods are a megabyte."""
        self._told: set[str] = set()
        self._changed = threading.Condition()
        self._pending: EngineState | None = None
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None

    def load(self) -> EngineState | None:
        """Return what an earlier process wrote; None when there is nothing that can be used."""
        try:
            with self._path.open("rb") as file:
                data = file.read(SIZE_LIMIT_BYTES + 1)
        except FileNotFoundError:
            return None
        except OSError as error:
            self._tell_of("state file not read, going on without", {"error": _reason(error)})
            return None
        if len(data) > SIZE_LIMIT_BYTES:
            self._put_aside(f"more than {SIZE_LIMIT_BYTES} bytes")
            return None
        try:
            return restore(data)
        except SnapshotError as error:
            self._put_aside(str(error))
            return None

    def offer(self, state: EngineState) -> None:
        """Hand over a state to be written; never waits for a disk.

        One that waits for its first Synchronize is passed over: the file says more than it.
        """
        if state is self._offered or (state.former is not None and not state.holders):
            return
        self._offered = state
        with self._changed:
            self._pending = state
            self._changed.notify()
        if self._thread is None:
            # A daemon: a disk that hangs shall not keep the process from ending.
            self._thread = threading.Thread(target=self._run, name="state-file", daemon=True)
            self._thread.start()

    def close(self) -> None:
        """Write what is waiting, within CLOSE_S, and end."""
        with self._changed:
            self._closing.set()
            self._changed.notify()
        if self._thread is not None:
            self._thread.join(CLOSE_S)

    def _run(self) -> None:
        # Signals are for the main thread, whose waits they shall interrupt.
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
        """Wait for a newer state, for time to pass, or for the end; False after the last try."""
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
        """Write one state; tells whether the file now has it."""
        try:
            data = snapshot(state)
            written = hash(data)
            if written != self._written:
                _replace(self._path, data)
                self._written = written
        except OSError as error:
            self._count(errno.errorcode.get(error.errno or 0, "unknown"), _reason(error))
            return False
        except Exception as error:  # noqa: BLE001 - the thread must live on, and a bug be told
            text = "".join(traceback.format_exception(error)).rstrip()
            self._count(type(error).__name__, text)
            return False
        if self._told:
            self._told.clear()
            fields: dict[str, RecordValue] = {"failed_writes": self.failed_writes}
            self._tell(Record("state file written again", fields={**self._place(), **fields}))
        return True

    def _count(self, kind: str, text: str) -> None:
        self.failed_writes += 1
        if kind not in self._told:
            self._told.add(kind)
            self._tell_of("state file not written, serving on", {"kind": kind, "error": text})

    def _put_aside(self, problem: str) -> None:
        """Rename a file that cannot be used, and tell; the oldest such file gives way."""
        numbers = range(1, CORRUPT_KEPT + 1)
        names = [self._path.with_name(f"{self._path.name}.corrupt-{n}") for n in numbers]
        fields: dict[str, RecordValue] = {"error": problem}
        try:
            free = [name for name in names if not name.exists()]
            name = free[0] if free else min(names, key=lambda n: n.stat().st_mtime_ns)
            self._path.replace(name)
            fields["kept_as"] = name.name
        except OSError as error:
            fields["not_put_aside"] = _reason(error)
        self._tell_of("state file not usable, going on without", fields)

    def _place(self) -> dict[str, RecordValue]:
        return {"path": str(self._path)}

    def _tell_of(self, event: str, fields: dict[str, RecordValue]) -> None:
        self._tell(Record(event, "warning", {**self._place(), **fields}))


def _reason(error: OSError) -> str:
    return error.strerror or str(error)


def _replace(path: Path, data: bytes) -> None:
    """Put a file with this content in the place of `path`; OSError leaves the old one."""
    path.parent.mkdir(mode=_DIRECTORY_MODE, parents=True, exist_ok=True)
    # One name: what a killed process left is used up by the next.
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
            temporary.unlink()  # a disk that is full gets its bytes back
        raise
    directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
