"""Drive NRI's Go runtime side, a process that takes its own measurements (go/runtime/main.go).

The protocol is one JSON object per line in each direction. This module knows the commands and not
what the measurements are used for.
"""

import base64
import json
import subprocess
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.bench.workload import Workload

NS_PER_S = 1e9


@dataclass(frozen=True, slots=True)
class Registration:
    """When a plugin registered and became ready, and how long its Synchronize took.

    Points in time are seconds since 1970.
    """

    registered_at_s: float
    ready_at_s: float
    synchronize_s: float


class RuntimeSideError(Exception):
    """A command failed; the text is the runtime's."""


class GoRuntime:
    """The adaptation of one NRI version, listening on a socket. The constructor starts it."""

    def __init__(self, programs: Path, socket: Path, plugins: Path | None = None) -> None:
        """Start the process.

        `programs` is the folder of the built Go programs, `plugins` a folder of plugins that the
        runtime launches by itself.
        """
        command = [str(programs / "runtime"), "-socket", str(socket)]
        if plugins is not None:
            command += ["-plugins", str(plugins), "-configs", str(plugins)]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    def start(self) -> None:
        """Launch plugins and listen for external ones."""
        self._call("start")

    def set_workload(self, workload: Workload, expect: str = "") -> None:
        """Set the pod and container that later commands copy.

        `expect` is what a plugin must do with the containers, otherwise `fill` and `measure`
        fail: "placed", "not_managed", or "" for anything.
        """
        pod, container = (
            base64.b64encode(data).decode() for data in (workload.pod, workload.container)
        )
        self._call("workload", pod=pod, container=container, expect=expect)

    def set_content(self, containers: int, nodes: int) -> None:
        """Set the running containers that the next plugin receives in its Synchronize.

        Each container has a pod of its own; `cpuset.mems` goes round the nodes.
        """
        self._call("content", count=containers, nodes=nodes)

    def wait(self) -> Registration:
        """Wait until a plugin has connected and is synchronized."""
        answer = self._call("wait")
        return Registration(
            answer["registered_ns"] / NS_PER_S,
            answer["ready_ns"] / NS_PER_S,
            answer["took_ns"][0] / NS_PER_S,
        )

    def fill(self, pods: int) -> None:
        """Create pods that keep running."""
        self._call("fill", count=pods)

    def measure(self, count: int, gap_us: int) -> list[float]:
        """Create and remove pods one after another; return the seconds of each CreateContainer.

        `gap_us` is a pause before each measured call.
        """
        return [
            took / NS_PER_S
            for took in self._call("measure", count=count, gap_us=gap_us).get("took_ns", [])
        ]

    def close(self) -> None:
        """Kill the process. A second call does nothing."""
        self._process.kill()
        self._process.communicate()

    def __enter__(self) -> Self:
        """Return the runtime; leaving the block kills the process."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Kill the process."""
        self.close()

    def _call(self, op: str, **arguments: object) -> dict[str, Any]:
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        try:
            stdin.write(json.dumps({"op": op, **arguments}) + "\n")
            stdin.flush()
            line = stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            raise RuntimeSideError(f"the runtime ended at {op!r}")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise RuntimeSideError(f"{op}: {answer['error']}")
        return answer
