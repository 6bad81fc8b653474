"""The plugin's processes in one life, and their log.

The fault run restarts an external plugin, as systemd does. A launched one is the runtime's child
and has a supervisor process. This module is about processes and log lines, not about pods.
"""

import contextlib
import ctypes
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from nri_numamem.observe.history.lines import read_history
from tests.faults.host import LifeHost
from tests.faults.plugin_program import SWEEP_S

PROGRAM = Path(__file__).with_name("plugin_program.py")
SUPERVISOR = "numamem-superv"
GONE_S = 10.0

_OTHERS = ("harness", "mkfs.ext4", "mount", "umount", "fsfreeze")
"""Names of processes that have the life's directory in their arguments as well."""

_LAUNCHER = """#!{python}
import runpy, sys
sys.argv = ["nri-numamem", {root!r}]
runpy.run_path({program!r}, run_name="__main__")
"""

_PR_SET_CHILD_SUBREAPER = 36  # linux/prctl.h
_CLONE_NEWNS = 0x00020000  # linux/sched.h


def become_subreaper(*, enabled: bool = True) -> None:
    """Become the parent of processes whose parent dies, instead of init."""
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, int(enabled))


def isolate_process() -> None:
    """Become a subreaper, in a mount namespace whose mounts end with this process."""
    become_subreaper()
    if ctypes.CDLL(None).unshare(_CLONE_NEWNS) == 0:
        subprocess.run(["mount", "--make-rprivate", "/"], capture_output=True, check=False)


class Journal:
    """The plugin's log records, from its log file and standard error."""

    def __init__(self, host: LifeHost) -> None:
        self.records: list[dict[str, Any]] = []
        self.other_lines: list[str] = []
        """Lines that are not records: torn ones, and other output."""
        self._files = (host.log, host.stderr)
        self._offsets = [0, 0]

    def read(self) -> None:
        """Read new lines."""
        for index, file in enumerate(self._files):
            if not file.exists():
                continue
            with file.open("rb") as stream:
                stream.seek(self._offsets[index])
                data = stream.read()
            whole = data[: data.rfind(b"\n") + 1]
            self._offsets[index] += len(whole)
            for line in whole.decode(errors="replace").splitlines():
                self._add_line(line)

    def _add_line(self, line: str) -> None:
        # After a full disk a record may follow the beginning of another one.
        start = max(0, line.rfind('{"ts":'))
        try:
            self.records.append(json.loads(line[start:]))
        except ValueError:
            if line.strip():
                self.other_lines.append(line)

    def named(self, event: str) -> list[dict[str, Any]]:
        """Return all records of an event."""
        self.read()
        return [record for record in self.records if record["event"] == event]


class PluginProcesses:
    """The plugin on a host; `arguments` only for an external plugin."""

    # The machine may be busy.
    sweep_s = 3 * SWEEP_S

    def __init__(self, host: LifeHost, arguments: list[str] | None) -> None:
        self.journal = Journal(host)
        self.starts = 0
        self.is_end_expected = True
        """The external plugin was killed or stopped on purpose, or not started yet."""
        self.first_files: dict[int, int] = {}
        """Pid -> number of open files at its first check."""
        self._host = host
        self._arguments = arguments
        self._process: subprocess.Popen[bytes] | None = None
        self._mark = str(host.root).encode()
        self._earlier_children = set(_children())
        if arguments is None:
            path = host.root / "plugins" / "10-nri-numamem"
            path.write_text(
                _LAUNCHER.format(python=sys.executable, root=str(host.root), program=str(PROGRAM))
            )
            path.chmod(0o755)

    def start(self) -> None:
        """Start the external plugin."""
        assert self._arguments is not None
        self.starts += 1
        self.is_end_expected = False
        command = [sys.executable, str(PROGRAM), str(self._host.root), "run", *self._arguments]
        with self._host.stderr.open("ab") as stderr:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=stderr, stderr=stderr
            )

    def is_running(self) -> bool:
        """Return whether a serving process exists."""
        if self._process is not None:
            return self._process.poll() is None
        return bool(self.workers())

    def processes(self) -> dict[int, str]:
        """Return the living processes of this life, pid -> name."""
        found = {}
        for folder in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if self._mark in (folder / "cmdline").read_bytes():
                    found[int(folder.name)] = (folder / "comm").read_text().strip()
        return {pid: name for pid, name in found.items() if name not in _OTHERS}

    def workers(self) -> list[int]:
        """Return the pids of serving processes."""
        if self._process is not None:
            return [self._process.pid] if self._process.poll() is None else []
        return [pid for pid, name in self.processes().items() if name != SUPERVISOR]

    def supervisors(self) -> list[int]:
        """Return the pids of processes that wait for a launched plugin's death."""
        return [pid for pid, name in self.processes().items() if name == SUPERVISOR]

    def kill(self, pids: list[int] | None = None) -> None:
        """Kill the serving process."""
        self.is_end_expected = True
        for pid in self.workers() if pids is None else pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if self._process is not None:
            self._process.wait()

    def stop(self) -> int:
        """Terminate the external plugin; return its exit status, -9 if it had to be killed."""
        process = self._process
        assert process is not None
        self.is_end_expected = True
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
        """Send a signal to the serving process."""
        for pid in self.workers():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    def accounting(self) -> dict[str, Any] | None:
        """Return a new state_dump record, requested with a signal; None without one."""
        seen = len(self.journal.named("state_dump"))
        self.signal(signal.SIGUSR1)
        deadline = time.monotonic() + GONE_S
        while len(self.journal.named("state_dump")) <= seen:
            if time.monotonic() > deadline or not self.is_running():
                return None
            time.sleep(0.002)
        return self.journal.named("state_dump")[-1]

    def files(self) -> dict[str, str]:
        """Return the open files of the serving process by number."""
        found = {}
        for pid in self.workers()[:1]:
            with contextlib.suppress(OSError):
                for path in Path(f"/proc/{pid}/fd").iterdir():
                    with contextlib.suppress(FileNotFoundError):
                        found[path.name] = str(path.readlink())
        return found

    def history(self) -> list[tuple[str, Mapping[str, Any]]] | None:
        """Return event and fields of the history's entries; None if records were dropped."""
        entries = read_history(self._host.state_file).entries
        if any(entry.event == "history_records_dropped" for entry in entries):
            return None
        return [(entry.event, entry.fields) for entry in entries]

    def count_files(self) -> tuple[int, int]:
        """Return the number of open files of the serving process, now and at its first check."""
        now = len(self.files())
        first = now
        for pid in self.workers()[:1]:
            first = self.first_files.setdefault(pid, now)
        return now, first

    def wait_until_gone(self, timeout_s: float = GONE_S) -> bool:
        """Wait until this life has no process, and reap orphans; return whether that happened."""
        deadline = time.monotonic() + timeout_s
        while True:
            if not self.processes() and not self._reap():
                return True
            if time.monotonic() > deadline:
                return False
            time.sleep(0.01)

    def zombies(self) -> list[str]:
        """Return /proc/PID/stat of ended processes of this life that were not reaped."""
        found = []
        if self._process is not None:
            self._reap()  # processes that watched a plugin that was killed
        for child in set(_children()) - self._earlier_children:
            with contextlib.suppress(OSError):
                stat = Path(f"/proc/{child}/stat").read_text()
                if stat.rpartition(") ")[2].startswith("Z") and not self._is_orphan(stat):
                    found.append(stat[:60])
        return found

    def _is_orphan(self, stat: str) -> bool:
        """Return whether a process watched an external plugin; init would reap it."""
        return self._process is not None and f"({SUPERVISOR})" in stat

    def end(self) -> None:
        """Kill all processes of this life."""
        while left := self.processes():
            self.kill(list(left))
            self._reap()
            time.sleep(0.01)

    def _reap(self) -> bool:
        """Reap ended processes; return whether some are still alive."""
        is_left = self._process is not None and self._process.poll() is None
        own = set() if self._process is None else {self._process.pid}
        for child in set(_children()) - self._earlier_children - own:
            # Orphans of a dead runtime, or of a dead plugin, are our children; a dying process has
            # no command line.
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
