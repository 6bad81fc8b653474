"""The plugin under test: its processes, commands, state and log. forms.py starts and ends it.

This module depends on the plugin's command line, files, signals and log records, and not on its
sources: what is distributed is tested.
"""

import abc
import json
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

from tests.machines.guest.waiting import TIMEOUT_S, wait_until

ENTRY = Path("/opt/nri/plugins/10-nri-numamem")
LAUNCH_CONFIG = Path("/etc/nri/conf.d/10-nri-numamem.conf")
CONFIG = Path("/etc/nri-numamem/config.yaml")
STATE = Path("/var/lib/nri-numamem")
LOG = Path("/var/log/nri-numamem/nri-numamem.log")
COMMANDS = Path("/var/log/e2e/commands.log")
"""Output of the commands of one phase."""
DIRECTORIES = (Path("/opt/nri"), Path("/etc/nri"), CONFIG.parent, STATE, LOG.parent)
"""All that an installation leaves, besides the program."""

# Start of the process name of the supervisor, which watches the plugin.
_SUPERVISOR = "numamem-"
_NODES = 4
_RESERVED = "64Mi"  # per NUMA node

RESERVATION = "reservedMemory:\n" + "".join(
    f"  - numaNode: {node}\n    limits: {{memory: {_RESERVED}}}\n" for node in range(_NODES)
)
LOG_TO_FILE = f"logFile: {LOG}\nlogFormat: json\n"


class Plugin(abc.ABC):
    """The plugin of one phase."""

    launched = False

    def __init__(self, program: Path) -> None:
        """Remove what an earlier phase left; start no process."""
        self.program = program
        for directory in DIRECTORIES:
            shutil.rmtree(directory, ignore_errors=True)
        COMMANDS.unlink(missing_ok=True)

    @abc.abstractmethod
    def connect(self) -> None:
        """Start an external plugin for the first time; containerd has started a launched one."""

    @abc.abstractmethod
    def restart(self) -> None:
        """Start it after its end or crash."""

    @abc.abstractmethod
    def terminate(self) -> None:
        """Let an external plugin end as systemd does."""

    @abc.abstractmethod
    def wait_for_end(self) -> int | None:
        """Wait until it has exited; return the status of an external plugin."""

    @abc.abstractmethod
    def crash(self) -> None:
        """Send SIGKILL to the plugin, which is then not restarted until `restart`."""

    @abc.abstractmethod
    def remove(self) -> None:
        """End all its processes after a phase, and take it away."""

    def wait_for_one(self, *, but: int = 0) -> int:
        """Wait until exactly one plugin process exists and is not `but`; return its id."""

        def only() -> int | None:
            pids = self.pids()
            return pids[0] if len(pids) == 1 and pids[0] != but else None

        return wait_until(only, "a single plugin process" + (f", not {but}" if but else ""))

    def pids(self) -> list[int]:
        """Return its process ids, without the supervisor; more than one is a fault."""
        return [pid for pid, name in self._processes() if not name.startswith(_SUPERVISOR)]

    def all_pids(self) -> list[int]:
        """Return its process ids, the supervisor's included."""
        return [pid for pid, _ in self._processes()]

    def command(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run a command of the program to its end; return its output and status.

        COMMANDS gets what it prints.
        """
        began_s = time.monotonic()
        done = subprocess.run(
            [str(self.program), *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
            env={**os.environ, "COLUMNS": "80"},
        )
        COMMANDS.parent.mkdir(parents=True, exist_ok=True)
        with COMMANDS.open("a", encoding="utf-8") as log:
            log.write(f"$ nri-numamem {' '.join(arguments)}\n{done.stdout}{done.stderr}")
            log.write(f"[status {done.returncode}, {time.monotonic() - began_s:.1f} s]\n\n")
        return done

    def accounting(self) -> dict[str, Any]:
        """Return its state (SIGUSR1): `entries` and `machineState` with the kubelet's keys."""
        (pid,) = self.pids()
        before = len(self.records("state_dump"))
        os.kill(pid, signal.SIGUSR1)

        def new_dump() -> dict[str, Any] | None:
            found = self.records("state_dump")
            return found[-1] if len(found) > before else None

        record = wait_until(new_dump, "the record state_dump after SIGUSR1")
        return {"entries": record["entries"], "machineState": record["machineState"]}

    def wait_for_empty_accounting(self, timeout_s: float = TIMEOUT_S) -> None:
        """Wait until no pod is in its state; the last events of a pod are asynchronous."""
        deadline = time.monotonic() + timeout_s
        while entries := self.accounting()["entries"]:
            if time.monotonic() > deadline:
                raise TimeoutError(f"after {timeout_s:.0f} s there still are {entries}")
            time.sleep(0.5)

    def records(self, event: str) -> list[dict[str, Any]]:
        """Return its log records of one event, oldest first."""
        text = LOG.read_text(encoding="utf-8") if LOG.exists() else ""
        # A line without a newline is incomplete.
        lines = [line for line in text.splitlines(keepends=True) if line.endswith("\n")]
        return [record for line in lines if (record := json.loads(line))["event"] == event]

    def _processes(self) -> list[tuple[int, str]]:
        """Return (pid, name) of all processes of the plugin's program."""
        found = []
        for entry in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                arguments = entry.read_bytes().split(b"\0")
                name = (entry.parent / "comm").read_text().strip()
            except OSError:  # the process has exited
                continue
            if {bytes(self.program), bytes(ENTRY)} & set(arguments[:3]):
                found.append((int(entry.parent.name), name))
        return sorted(found)
