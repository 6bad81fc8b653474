"""Install, start and end the plugin under test, and read its state and log.

This module depends on the plugin's command line, files, signals and log records, and not on its
sources: the wheel is tested.
"""

import json
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

from tests.e2e.guest.waiting import TIMEOUT_S, wait_until

_WHEELS = Path("/e2e/wheel")
_BIN = Path("/opt/nri-numamem/bin")
_PROGRAM = _BIN / "nri-numamem"
_LAUNCH_LINK = Path("/opt/nri/plugins/10-nri-numamem")
_LAUNCH_CONFIG = Path("/etc/nri/conf.d/10-nri-numamem.conf")
_CONFIG = Path("/etc/nri-numamem/config.yaml")
_SOCKET = "/var/run/nri/nri.sock"
LOG = Path("/var/log/nri-numamem/nri-numamem.log")
COMMANDS = Path("/var/log/e2e/commands.log")
"""Output of the commands of one phase."""

# Start of the process name of a launched plugin's supervisor, which restarts it after a crash.
_SUPERVISOR = "numamem-"
_NODES = 4
_RESERVED = "64Mi"  # per NUMA node


def install() -> str:
    """Install the wheel into the virtual environment of the image; return pip's last line."""
    wheels = sorted(str(path) for path in _WHEELS.glob("*.whl"))
    command = [str(_BIN / "pip"), "install", "--no-index", "--no-deps", *wheels]
    result = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    if result.returncode != 0:
        raise RuntimeError(f"pip cannot install {wheels}: {result.stdout[-1000:]}")
    return result.stdout.strip().splitlines()[-1]


class Plugin:
    """The plugin of one phase; launched by containerd or connected to it from outside."""

    def __init__(self, *, launched: bool) -> None:
        """Write the configuration and the link; start no process."""
        self.launched = launched
        self._process: subprocess.Popen[bytes] | None = None
        for path in (_LAUNCH_LINK, _LAUNCH_CONFIG, _CONFIG, LOG, COMMANDS):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.unlink(missing_ok=True)
        reserved = "".join(
            f"  - numaNode: {node}\n    limits: {{memory: {_RESERVED}}}\n" for node in range(_NODES)
        )
        config = f"reservedMemory:\n{reserved}logFile: {LOG}\nlogFormat: json\n"
        if launched:
            _LAUNCH_CONFIG.write_text(config, encoding="ascii")
            _LAUNCH_LINK.symlink_to(_PROGRAM)
        else:
            _CONFIG.write_text(config, encoding="ascii")

    def connect(self) -> None:
        """Start an external plugin; containerd has started a launched one."""
        if self.launched:
            return
        command = [str(_PROGRAM), "run", "--socket", _SOCKET, "--idx", "10"]
        command += ["--config", str(_CONFIG), "--log-file", str(LOG)]
        self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL)

    def connect_as_service(self, stderr: int, environment: dict[str, str]) -> None:
        """Start an external plugin that logs to a descriptor, with these variables as well."""
        config = _CONFIG.with_name("service.yaml")
        lines = _CONFIG.read_text(encoding="ascii").splitlines(keepends=True)
        config.write_text("".join(line for line in lines if not line.startswith("log")))
        self._process = subprocess.Popen(
            [str(_PROGRAM), "run", "--socket", _SOCKET, "--idx", "10", "--config", str(config)],
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            stdout=stderr,
            stderr=stderr,
        )

    def wait_for_end(self) -> int | None:
        """Wait until it has exited; return the status of an external plugin."""
        if self._process is not None:
            return self._process.wait(timeout=TIMEOUT_S)
        wait_until(lambda: not _pids(), "end of the launched plugin")
        return None

    def terminate(self) -> None:
        """Send SIGTERM, as systemd does."""
        for pid in self.pids():
            os.kill(pid, signal.SIGTERM)

    def crash(self) -> None:
        """Send SIGKILL, and stop the supervisor, if any, until `restart`."""
        (pid,) = self.pids()
        if self._process is None:
            os.kill(self.supervisor(), signal.SIGSTOP)
        os.kill(pid, signal.SIGKILL)
        if self._process is not None:
            self._process.wait()

    def restart(self) -> None:
        """Start it as a service manager does, or let the supervisor continue."""
        if self.launched:
            os.kill(self.supervisor(), signal.SIGCONT)
        else:
            self.connect()

    def supervisor(self) -> int:
        """Return the process id of a launched plugin's supervisor."""
        (pid,) = set(_pids()) - set(_plugin_pids())
        return pid

    def wait_for_one(self, *, but: int = 0) -> int:
        """Wait until exactly one plugin process exists and is not `but`; return its id."""

        def only() -> int | None:
            pids = self.pids()
            return pids[0] if len(pids) == 1 and pids[0] != but else None

        return wait_until(only, "a single plugin process" + (f", not {but}" if but else ""))

    def kill(self) -> None:
        """Kill all its processes before the next phase."""
        for pid in _pids():  # the supervisor as well, which would restart it
            os.kill(pid, signal.SIGKILL)
        if self._process is not None:
            self._process.wait()

    def pids(self) -> list[int]:
        """Return its process ids, without the supervisor; more than one is a fault."""
        if self._process is not None:
            return [self._process.pid] if self._process.poll() is None else []
        return _plugin_pids()

    def command(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run a command of the program to its end; return its output and status.

        COMMANDS gets what it prints.
        """
        done = subprocess.run(
            [str(_PROGRAM), *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
            env={**os.environ, "COLUMNS": "80"},
        )
        COMMANDS.parent.mkdir(parents=True, exist_ok=True)
        with COMMANDS.open("a", encoding="utf-8") as log:
            log.write(f"$ nri-numamem {' '.join(arguments)}\n{done.stdout}{done.stderr}\n")
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


def _plugin_pids() -> list[int]:
    """Return the process ids of the plugin's program without the supervisor's."""
    return [pid for pid, name in _processes() if not name.startswith(_SUPERVISOR)]


def _pids() -> list[int]:
    """Return the process ids of the plugin's program, the supervisor's included."""
    return [pid for pid, _ in _processes()]


def _processes() -> list[tuple[int, str]]:
    """Return (pid, name) of all processes of the plugin's program."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            arguments = entry.read_bytes().split(b"\0")
            name = (entry.parent / "comm").read_text().strip()
        except OSError:  # the process has exited
            continue
        if {bytes(_PROGRAM), bytes(_LAUNCH_LINK)} & set(arguments[:3]):
            found.append((int(entry.parent.name), name))
    return sorted(found)
