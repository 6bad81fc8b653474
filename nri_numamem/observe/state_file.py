"""The state file, which preserves the engine's state across restarts.

``load`` reads the file once at the start. ``offer`` takes the engine's state, a value that never
changes, and returns immediately: a thread serializes and writes it, and also what ``describe`` and
``append`` take. Serializing needs the interpreter's lock, which the event loop needs too, so the
thread writes at most once a second, and only the newest state. The file is replaced atomically
(temporary file, fsync, rename, fsync of the directory).

Before 0.2.0 the default file was named memory_manager_state, as the kubelet's. Without a file of
the present name, that one is read if the plugin wrote it. It is never changed, so that an earlier
release finds it after a rollback.

The plugin works without the file. A damaged file is renamed to NAME.corrupt-N, and a file of
another version to NAME.version-N. A failed write is logged once per kind of error, counted, and
retried. ``engine.core.snapshot`` defines the contents.
"""

import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TypeAlias

from nri_numamem.engine.core.json_fields import SnapshotError
from nri_numamem.engine.core.snapshot import SnapshotVersionError, restore, snapshot
from nri_numamem.engine.core.state import EngineState
from nri_numamem.engine.records.files import (
    Renamed,
    StateFileOtherVersion,
    StateFileUnreadable,
    StateFileUnusable,
    StateFileWriteFailed,
    StateFileWriteRecovered,
)
from nri_numamem.engine.records.record import Record
from nri_numamem.observe.files import (
    former_of,
    kind_and_text,
    read_regular,
    reason_of,
    replace_file,
)
from nri_numamem.observe.history.writer import HistoryWriter
from nri_numamem.observe.plugin_file import PluginFacts, encode, plugin_file_of
from nri_numamem.observe.threads import start_thread

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

_Contents: TypeAlias = dict[Path, Callable[[], bytes]]
"""File -> function that returns its new contents."""


def read_state(path: Path) -> EngineState:
    """Return the state in a file that another process may be using; nothing is changed.

    Raises OSError, and SnapshotError for a file that cannot be used.
    """
    data = read_regular(path, SIZE_LIMIT_BYTES)
    if len(data) > SIZE_LIMIT_BYTES:
        raise SnapshotError(f"more than {SIZE_LIMIT_BYTES} bytes")
    return restore(data)


def existing_state_file(path: Path) -> Path:
    """Return the file to read for a state file: `path`, or the one with the name before 0.2.0.

    The latter only if there is no file at `path`, and only if the plugin wrote it: a file of the
    kubelet, which has that name too, is not used.
    """
    former = former_of(path)
    return path if former is None or path.exists() or not is_state_file(former) else former


def is_state_file(path: Path) -> bool:
    """Return whether there is a state file of the plugin at `path` that can be used."""
    try:
        read_state(path)
    except (OSError, SnapshotError):
        return False
    return True


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
        self._written: dict[Path, int] = {}
        """Hash of the data written last; the data of a thousand pods is a megabyte."""
        self._must_forget = False
        """Whether the thread is to forget these before it writes again."""
        self._reported: set[tuple[Path, str]] = set()
        """Files and kinds of write errors in the log since the file's last successful write."""
        self._keeps_file = False
        """Whether a file of another version is still under the path."""
        self._changed = threading.Condition()
        self._pending: _Contents = {}
        self._history = HistoryWriter(path, emit)
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None

    def load(self) -> EngineState | None:
        """Return the state that an earlier process wrote; None if there is no usable file."""
        try:
            return read_state(existing_state_file(self._path))
        except FileNotFoundError:
            return None
        except OSError as error:
            self._emit(StateFileUnreadable(path=str(self._path), error=reason_of(error)))
        except SnapshotVersionError as error:
            name = self._path.with_name(f"{self._path.name}.version-{error.version}")
            self._emit(
                StateFileOtherVersion(
                    path=str(self._path),
                    error=str(error),
                    renamed=self._rename(lambda: name),
                    file_version=error.version,
                )
            )
            self._keeps_file = self._path.exists()
        except SnapshotError as error:
            self._rename_corrupt(str(error))
        return None

    def offer(self, state: EngineState) -> None:
        """Have a state written; returns immediately.

        Before the first Synchronize the state is not written if the file has more information.
        """
        if self._has_work():
            self._wake()
        if state is self._offered or (state.restored is not None and not state.holders):
            return
        if self._keeps_file and not (state.holders or state.pods):
            return
        self._offered = state
        self._submit(self._path, partial(snapshot, state))

    def append(self, time_s: float, record: Record) -> None:
        """Have a record written to the history after the next offer(); returns immediately."""
        self._history.append(time_s, record)

    def describe(self, facts: PluginFacts) -> None:
        """Have plugin.json written; returns immediately."""
        self._submit(plugin_file_of(self._path), partial(encode, facts))

    def forget_written(self) -> None:
        """Write the next state and description even if they are equal: the files may be gone."""
        self._offered = None
        with self._changed:
            self._must_forget = True

    def _submit(self, path: Path, encoded: Callable[[], bytes]) -> None:
        with self._changed:
            self._pending[path] = encoded
        self._wake()

    def _wake(self) -> None:
        with self._changed:
            self._changed.notify()
        if self._thread is None:
            try:
                self._thread = start_thread(self._run, "state-file")
            except OSError as error:  # the next offer() tries again
                self._count(self._path, error)

    def close(self) -> None:
        """Write what is pending, within CLOSE_S, and end the thread."""
        if self._has_work():
            self._wake()
        with self._changed:
            self._closing.set()
            self._changed.notify()
        if self._thread is not None:
            self._thread.join(CLOSE_S)

    def _run(self) -> None:
        failed: _Contents = {}
        retry_at_s = 0.0
        is_closing = False
        while not is_closing:
            taken, is_closing = self._take(retry_at_s if failed else None)
            self._history.write()
            is_due = is_closing or time.monotonic() >= retry_at_s
            contents = {**failed, **taken} if is_due else taken
            saved = {path for path, encoded in contents.items() if self._save(path, encoded)}
            if contents.keys() - saved:
                retry_at_s = time.monotonic() + self._retry_s
            failed = {
                path: encoded
                for path, encoded in {**failed, **contents}.items()
                if path not in saved
            }
            self._pause()

    def _pause(self) -> None:
        """Wait before the next files are written; write the history if much of it waits."""
        end_s = time.monotonic() + self._pause_s
        while (left_s := end_s - time.monotonic()) > 0 and not self._closing.is_set():
            with self._changed:
                self._changed.wait_for(self._must_write_history, left_s)
            if self._history.has_batch:
                self._history.write()

    def _must_write_history(self) -> bool:
        return self._history.has_batch or self._closing.is_set()

    def _take(self, retry_at_s: float | None) -> tuple["_Contents", bool]:
        """Wait for contents, close() or the time; return the contents and whether to end."""
        timeout_s = None if retry_at_s is None else max(0.0, retry_at_s - time.monotonic())
        with self._changed:
            self._changed.wait_for(self._has_work, timeout_s)
            taken, self._pending = self._pending, {}
            if self._must_forget:
                self._must_forget = False
                self._written.clear()
            return taken, self._closing.is_set()

    def _has_work(self) -> bool:
        return bool(self._pending) or self._history.is_pending or self._closing.is_set()

    def _save(self, path: Path, encoded: Callable[[], bytes]) -> bool:
        """Write one file; return whether it has the contents."""
        try:
            data = encoded()
            written = hash(data)
            if written != self._written.get(path) or not path.exists():
                replace_file(path, data)
                self._written[path] = written
                if path == self._path:
                    self.written_at_s = time.time()
        except Exception as error:  # noqa: BLE001 - a bug must not end the thread
            self._count(path, error)
            return False
        reported = {entry for entry in self._reported if entry[0] == path}
        if reported:
            self._reported -= reported
            failed = self.failed_writes
            self._emit(StateFileWriteRecovered(path=str(path), failed_writes=failed))
        return True

    def _count(self, path: Path, error: Exception) -> None:
        kind, text = kind_and_text(error)
        self.failed_writes += 1
        if (path, kind) not in self._reported:
            self._reported.add((path, kind))
            self._emit(StateFileWriteFailed(path=str(path), error_kind=kind, error=text))

    def _rename_corrupt(self, problem: str) -> None:
        """Rename a file that cannot be used; replaces the oldest of CORRUPT_KEPT such files."""
        numbers = range(1, CORRUPT_KEPT + 1)
        names = [self._path.with_name(f"{self._path.name}.corrupt-{n}") for n in numbers]

        def choose() -> Path:
            free = [name for name in names if not name.exists()]
            return free[0] if free else min(names, key=lambda name: name.stat().st_mtime_ns)

        renamed = self._rename(choose)
        self._emit(StateFileUnusable(path=str(self._path), error=problem, renamed=renamed))

    def _rename(self, choose: Callable[[], Path]) -> Renamed:
        """Rename the file to a chosen name; return its new name, or why it has none."""
        try:
            name = choose()
            self._path.replace(name)
        except OSError as error:
            return Renamed(rename_error=reason_of(error))
        return Renamed(renamed_to=name.name)
