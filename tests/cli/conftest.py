"""A simulated host in a temporary directory, and the installed plugin as a process on it."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from nri_numamem.machine.overlay import overlay_of, write_overlay
from nri_numamem.memorymanager import Machine, NumaNode

GI = 1 << 30
WAIT_S = 30


def wait_for(condition: Callable[[], bool]) -> None:
    """Wait until something is so; fails after WAIT_S."""
    deadline = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.01)


@dataclass
class SimulatedHost:
    """Two nodes of 4 GiB with a pool of 2Mi pages each."""

    root: Path
    processes: list[subprocess.Popen[str]] = field(default_factory=list)

    @property
    def socket(self) -> Path:
        return self.root / "nri.sock"

    @property
    def state_file(self) -> Path:
        return self.root / "state" / "memory_manager_state"

    @property
    def log(self) -> Path:
        return self.root / "plugin.log"

    def start(
        self, *arguments: str, program: Sequence[str] = ("-m", "nri_numamem"), **more: str
    ) -> subprocess.Popen[str]:
        """Start `nri-numamem run`, or another program, on this host; `more` environment."""
        options = {
            "--socket": self.socket,
            "--sysfs-root": self.root / "sys",
            "--proc-root": self.root / "proc",
            "--cgroup-root": self.root / "cgroup",
            "--log-file": self.log,
            "--state-file": self.state_file,
        }
        given = [str(word) for option in options.items() for word in option]
        process = subprocess.Popen(
            [sys.executable, *program, "run", *given, *arguments],
            env={**os.environ, **more},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.processes.append(process)
        return process

    def records(self, event: str | None = None) -> list[dict[str, object]]:
        """Return what the plugin has logged so far."""
        text = self.log.read_text() if self.log.exists() else ""
        found = [json.loads(line) for line in text.splitlines(keepends=True) if line[-1:] == "\n"]
        return [record for record in found if event in (None, record["event"])]

    def books(self, process: subprocess.Popen[str]) -> dict[str, object]:
        """Ask for the books and return the record."""
        seen = len(self.records("books"))
        process.send_signal(signal.SIGUSR1)
        wait_for(lambda: len(self.records("books")) > seen)
        return self.records("books")[-1]

    def stop(self, process: subprocess.Popen[str]) -> int:
        """Ask a process to stop; return its exit status."""
        process.send_signal(signal.SIGTERM)
        output, _ = process.communicate(timeout=WAIT_S)
        assert "Traceback" not in output
        return process.returncode


@pytest.fixture
def simulated_host(tmp_path: Path) -> Iterator[SimulatedHost]:
    nodes = tuple(
        NumaNode(number, 4 * GI, {2 << 20: 64}, (number,), {number: 10, 1 - number: 21})
        for number in range(2)
    )
    write_overlay(overlay_of(Machine(nodes)), tmp_path)
    (tmp_path / "cgroup").mkdir()
    (tmp_path / "cgroup" / "cgroup.controllers").write_text("cpuset memory hugetlb\n")
    host = SimulatedHost(tmp_path)
    yield host
    for process in host.processes:
        if process.poll() is None:
            process.kill()
        process.communicate()
