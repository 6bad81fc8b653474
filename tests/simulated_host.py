"""A simulated host in a directory, and the plugin as a process on it, observed by its log.

For every test that runs the plugin as a user would. Depends on the plugin's command line and its
files, and on no runtime.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from nri_numamem.numa import CpuSet, Machine, NumaNode
from tests.host_files import HostFiles

GI = 1 << 30
WAIT_S = 30
REPEAT_S = 5

PLUGIN = (sys.executable, "-m", "nri_numamem")


def wait_for(condition: Callable[[], bool], what: str = "it", timeout_s: float = WAIT_S) -> None:
    """Wait until something is so; fails after `timeout_s`."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, f"{what} did not happen in time"
        time.sleep(0.005)


class SimulatedHost(HostFiles):
    """Two nodes of 4 GiB with a pool of 2Mi pages each, in a directory; and its plugins."""

    def __init__(self, root: Path) -> None:
        self.log = root / "plugin.log"
        self.state_file = root / "state" / "nri_numamem_state"
        self.processes: list[subprocess.Popen[str]] = []
        self._late: list[str] = []
        """Lines that a plugin wrote to stderr when it stopped, because its log was too slow."""
        nodes = tuple(
            NumaNode(number, 4 * GI, {2 << 20: 64}, CpuSet([number]), {number: 10, 1 - number: 21})
            for number in range(2)
        )
        super().__init__(root, Machine(nodes))

    def start(
        self,
        *arguments: str,
        command: Sequence[str] = PLUGIN,
        log: Path | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> subprocess.Popen[str]:
        """Start the plugin, or what stands for it, with `run` on this host."""
        own = self.arguments({"--log-file": log or self.log, "--state-file": self.state_file})
        process = subprocess.Popen(
            [*command, "run", *own, *arguments],
            env={**os.environ, **(environment or {})},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.processes.append(process)
        return process

    def records(self, event: str | None = None) -> list[dict[str, Any]]:
        """Return what the plugin has logged so far."""
        text = self.log.read_text() if self.log.exists() else ""
        lines = [line for line in text.splitlines(keepends=True) if line[-1:] == "\n"]
        found = [json.loads(line) for line in (*lines, *self._late)]
        return [record for record in found if event in (None, record["event"])]

    def wait_record(self, event: str) -> dict[str, Any]:
        """Wait for a record, which comes after the reply; return the newest."""
        wait_for(lambda: bool(self.records(event)), f"a record {event!r}")
        return self.records(event)[-1]

    def accounting(self, process: subprocess.Popen[str]) -> dict[str, Any]:
        """Request a dump of the state and return the record.

        The request is repeated, because a log whose queue is full drops records.
        """
        seen = len(self.records("state_dump"))
        requested_s = float("-inf")

        def is_dumped() -> bool:
            nonlocal requested_s
            if time.monotonic() - requested_s > REPEAT_S:
                requested_s = time.monotonic()
                process.send_signal(signal.SIGUSR1)
            return len(self.records("state_dump")) > seen

        wait_for(is_dumped, "a record of the state")
        return self.records("state_dump")[-1]

    def stop(self, process: subprocess.Popen[str]) -> int:
        """Stop a process by SIGTERM; return its exit status."""
        process.send_signal(signal.SIGTERM)
        output, _ = process.communicate(timeout=WAIT_S)
        assert "Traceback" not in output
        self._late += [line for line in output.splitlines() if line.startswith('{"ts":')]
        return process.returncode

    def close(self) -> None:
        """End the processes that still run."""
        for process in self.processes:
            if process.poll() is None:
                process.kill()
            process.communicate()
