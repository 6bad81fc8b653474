"""The plugin under test, installed as a user would, run in either of its two ways, and questioned.

Knows the plugin's command line, files, signal and log records. It must not know its sources: what
is tested is the wheel.
"""

import json
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

from tests.e2e.guest.waiting import wait_until

_WHEELS = Path("/e2e/wheel")
_BIN = Path("/opt/nri-numamem/bin")
_PROGRAM = _BIN / "nri-numamem"
_LAUNCH_LINK = Path("/opt/nri/plugins/10-nri-numamem")
_LAUNCH_CONFIG = Path("/etc/nri/conf.d/10-nri-numamem.conf")
_CONFIG = Path("/etc/nri-numamem/config.yaml")
_SOCKET = "/var/run/nri/nri.sock"
LOG = Path("/var/log/nri-numamem/nri-numamem.log")

# What a launched plugin's keeper, which starts it again after a crash, calls itself.
_KEEPER = "numamem-keeper"
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
        """Put configuration and link where they belong; nothing is started."""
        self.launched = launched
        self._process: subprocess.Popen[bytes] | None = None
        for path in (_LAUNCH_LINK, _LAUNCH_CONFIG, _CONFIG, LOG):
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
        """Start it as an external plugin; a launched one has been started by containerd."""
        if self.launched:
            return
        command = [str(_PROGRAM), "run", "--socket", _SOCKET, "--idx", "10"]
        command += ["--config", str(_CONFIG), "--log-file", str(LOG)]
        self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL)

    def wait_for_end(self) -> int | None:
        """Wait for its end, which the runtime's or a signal caused; status if it is our child."""
        if self._process is not None:
            return self._process.wait(timeout=60.0)
        wait_until(lambda: not _pids(), "end of the launched plugin", timeout_s=60.0)
        return None

    def terminate(self) -> None:
        """Send SIGTERM, as systemd does."""
        for pid in self.pids():
            os.kill(pid, signal.SIGTERM)

    def crash(self) -> None:
        """Send SIGKILL; it stays away until `revive`: its keeper is held, if it has one."""
        (pid,) = self.pids()
        if self._process is None:
            os.kill(self.keeper(), signal.SIGSTOP)
        os.kill(pid, signal.SIGKILL)
        if self._process is not None:
            self._process.wait()

    def revive(self) -> None:
        """Start it again as a service manager would, or let the keeper do it."""
        if self.launched:
            os.kill(self.keeper(), signal.SIGCONT)
        else:
            self.connect()

    def keeper(self) -> int:
        """Give the process id of a launched plugin's keeper."""
        (pid,) = set(_pids()) - set(_pids(but=_KEEPER))
        return pid

    def wait_for_one(self, *, but: int = 0) -> int:
        """Wait until there is one process of it, other than `but`, and no more; return its id."""

        def only() -> int | None:
            pids = self.pids()
            return pids[0] if len(pids) == 1 and pids[0] != but else None

        return wait_until(only, "a single plugin process" + (f", not {but}" if but else ""))

    def kill(self) -> None:
        """End it for good, so that the next phase starts with none."""
        for pid in _pids():  # the keeper as well, or it would start another
            os.kill(pid, signal.SIGKILL)
        if self._process is not None:
            self._process.wait()

    def pids(self) -> list[int]:
        """List its processes; more than one would be a fault."""
        if self._process is not None:
            return [self._process.pid] if self._process.poll() is None else []
        return _pids(but=_KEEPER)

    def books(self) -> dict[str, Any]:
        """Ask for its books (SIGUSR1): `entries` and `machineState`, in the kubelet's terms."""
        (pid,) = self.pids()
        before = len(self.records("books"))
        os.kill(pid, signal.SIGUSR1)

        def answer() -> dict[str, Any] | None:
            found = self.records("books")
            return found[-1] if len(found) > before else None

        record = wait_until(answer, "the plugin's answer to SIGUSR1")
        return {"entries": record["entries"], "machineState": record["machineState"]}

    def wait_for_empty_books(self, timeout_s: float = 30.0) -> None:
        """Wait until no pod is in its books: the last events of a pod are asynchronous."""
        deadline = time.monotonic() + timeout_s
        while entries := self.books()["entries"]:
            if time.monotonic() > deadline:
                raise TimeoutError(f"after {timeout_s:.0f} s the books still hold {entries}")
            time.sleep(0.5)

    def records(self, event: str) -> list[dict[str, Any]]:
        """List its log records of one kind, oldest first."""
        text = LOG.read_text(encoding="utf-8") if LOG.exists() else ""
        # A line without an end is still being written.
        lines = [line for line in text.splitlines(keepends=True) if line.endswith("\n")]
        return [record for line in lines if (record := json.loads(line))["event"] == event]


def _pids(but: str = "") -> list[int]:
    """Find the processes of the plugin's program that do not call themselves `but`."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            arguments = entry.read_bytes().split(b"\0")
            name = (entry.parent / "comm").read_text().strip()
        except OSError:  # it has ended meanwhile
            continue
        if name != but and {bytes(_PROGRAM), bytes(_LAUNCH_LINK)} & set(arguments[:3]):
            found.append(int(entry.parent.name))
    return sorted(found)
