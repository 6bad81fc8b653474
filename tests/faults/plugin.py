"""The plugin's processes in one life, and what they write.

An external plugin has a supervisor that starts it again, as systemd does: that is us. A launched
one is the runtime's child and has its keeper. Knows processes and log lines, no pods.
"""

import contextlib
import ctypes
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from tests.faults.ground import Ground

PROGRAM = Path(__file__).with_name("program.py")
KEEPER = "numamem-keeper"
GONE_S = 10.0

_LAUNCHER = """#!{python}
import runpy, sys
sys.argv = ["nri-numamem", {root!r}]
runpy.run_path({program!r}, run_name="__main__")
"""

_PR_SET_CHILD_SUBREAPER = 36  # linux/prctl.h
_CLONE_NEWNS = 0x00020000  # linux/sched.h


def adopt_orphans(*, adopt: bool = True) -> None:
    """Become the parent of processes whose parent dies, so that none is left to init."""
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, int(adopt))


def stand_alone() -> None:
    """Do so, and keep what is mounted to ourselves, so that it ends with us in any case."""
    adopt_orphans()
    if ctypes.CDLL(None).unshare(_CLONE_NEWNS) == 0:
        subprocess.run(["mount", "--make-rprivate", "/"], capture_output=True, check=False)


class Journal:
    """What the plugin has logged, wherever it could."""

    def __init__(self, ground: Ground) -> None:
        self.records: list[dict[str, Any]] = []
        self.odd_lines: list[str] = []
        """Lines that are no record: torn ones, and what is no log."""
        self._files = (ground.log, ground.stderr)
        self._offsets = [0, 0]

    def read(self) -> None:
        """Read what has come since."""
        for index, file in enumerate(self._files):
            if not file.exists():
                continue
            with file.open("rb") as stream:
                stream.seek(self._offsets[index])
                data = stream.read()
            whole = data[: data.rfind(b"\n") + 1]
            self._offsets[index] += len(whole)
            for line in whole.decode(errors="replace").splitlines():
                self._take(line)

    def _take(self, line: str) -> None:
        # After a full disk a record may stand behind the beginning of another.
        start = max(0, line.rfind('{"ts":'))
        try:
            self.records.append(json.loads(line[start:]))
        except ValueError:
            if line.strip():
                self.odd_lines.append(line)

    def named(self, event: str) -> list[dict[str, Any]]:
        """Return all records of an event."""
        self.read()
        return [record for record in self.records if record["event"] == event]


class Plugin:
    """The plugin on this ground; `arguments` only where it is external."""

    def __init__(self, ground: Ground, arguments: list[str] | None) -> None:
        self.journal = Journal(ground)
        self.starts = 0
        self.is_asked_to_end = True
        """Somebody has killed or stopped the external plugin, or not started it yet."""
        self.first_files: dict[int, int] = {}
        """Pid -> how many files it had open when it was judged for the first time."""
        self._ground = ground
        self._arguments = arguments
        self._process: subprocess.Popen[bytes] | None = None
        self._mark = str(ground.root).encode()
        self._not_ours = set(_children())
        if arguments is None:
            path = ground.root / "plugins" / "10-nri-numamem"
            path.write_text(
                _LAUNCHER.format(python=sys.executable, root=str(ground.root), program=str(PROGRAM))
            )
            path.chmod(0o755)

    def start(self) -> None:
        """Start the external plugin."""
        assert self._arguments is not None
        self.starts += 1
        self.is_asked_to_end = False
        command = [sys.executable, str(PROGRAM), str(self._ground.root), "run", *self._arguments]
        with self._ground.stderr.open("ab") as stderr:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=stderr, stderr=stderr
            )

    def is_running(self) -> bool:
        """Tell whether a process is there that serves, or will."""
        if self._process is not None:
            return self._process.poll() is None
        return bool(self.workers())

    def processes(self) -> dict[int, str]:
        """Return pid -> name of all processes of this life that live."""
        found = {}
        for folder in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if self._mark in (folder / "cmdline").read_bytes():
                    found[int(folder.name)] = (folder / "comm").read_text().strip()
        return {pid: name for pid, name in found.items() if name not in ("harness", "mount")}

    def workers(self) -> list[int]:
        """Return the processes that serve."""
        if self._process is not None:
            return [self._process.pid] if self._process.poll() is None else []
        return [pid for pid, name in self.processes().items() if name != KEEPER]

    def keepers(self) -> list[int]:
        """Return the processes that wait for a launched plugin's death."""
        return [pid for pid, name in self.processes().items() if name == KEEPER]

    def kill(self, pids: list[int] | None = None) -> None:
        """Kill the serving process."""
        self.is_asked_to_end = True
        for pid in self.workers() if pids is None else pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if self._process is not None:
            self._process.wait()

    def stop(self) -> int:
        """Ask the external plugin to stop; returns its status, -9 when it had to be killed."""
        process = self._process
        assert process is not None
        self.is_asked_to_end = True
        process.terminate()
        try:
            return process.wait(GONE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            return process.wait()

    @property
    def status(self) -> int | None:
        """The external plugin's exit status; None while it runs."""
        return None if self._process is None else self._process.poll()

    def signal(self, number: int) -> None:
        """Send a signal to whoever serves."""
        for pid in self.workers():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    def books(self) -> dict[str, Any] | None:
        """Ask for the books; None when there was no answer."""
        seen = len(self.journal.named("books"))
        self.signal(signal.SIGUSR1)
        deadline = time.monotonic() + GONE_S
        while len(self.journal.named("books")) <= seen:
            if time.monotonic() > deadline or not self.is_running():
                return None
            time.sleep(0.002)
        return self.journal.named("books")[-1]

    def files(self) -> dict[str, str]:
        """Return the open files of the serving process by number."""
        found = {}
        for pid in self.workers()[:1]:
            with contextlib.suppress(OSError):
                for path in Path(f"/proc/{pid}/fd").iterdir():
                    with contextlib.suppress(FileNotFoundError):
                        found[path.name] = str(path.readlink())
        return found

    def count_files(self) -> tuple[int, int]:
        """Return how many files the serving process has open, now and at its first count."""
        now = len(self.files())
        first = now
        for pid in self.workers()[:1]:
            first = self.first_files.setdefault(pid, now)
        return now, first

    def gone(self, timeout_s: float = GONE_S) -> bool:
        """Wait until no process of this life is left; reaps those that came to us."""
        deadline = time.monotonic() + timeout_s
        while True:
            if not self.processes() and not self._reap():
                return True
            if time.monotonic() > deadline:
                return False
            time.sleep(0.01)

    def zombies(self) -> list[str]:
        """Return what has ended in this life and nobody asked for, as in /proc/PID/stat."""
        found = []
        for child in set(_children()) - self._not_ours:
            with contextlib.suppress(OSError):
                stat = Path(f"/proc/{child}/stat").read_text()
                if stat.rpartition(") ")[2].startswith("Z"):
                    found.append(stat[:60])
        return found

    def end(self) -> None:
        """Kill whatever is left."""
        while left := self.processes():
            self.kill(list(left))
            self._reap()
            time.sleep(0.01)

    def _reap(self) -> bool:
        """Reap what has ended; tells whether there is more to come."""
        if self._process is not None:
            return self._process.poll() is None
        is_left = False
        for child in set(_children()) - self._not_ours:
            # Orphans of a runtime that died are ours (adopt_orphans); who ends has no command line.
            with contextlib.suppress(OSError):
                if Path(f"/proc/{child}/cmdline").read_bytes() == b"":
                    is_left |= os.waitpid(child, os.WNOHANG) == (0, 0)
        return is_left


def _children() -> list[int]:
    found: set[int] = set()
    for task in Path("/proc/self/task").iterdir():
        with contextlib.suppress(OSError):
            found.update(map(int, (task / "children").read_text().split()))
    return sorted(found)
