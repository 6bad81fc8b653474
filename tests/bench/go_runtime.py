"""NRI's Go runtime side as a process that measures by itself; see go/runtime/main.go.

Knows its commands, and nothing of what the figures are for.
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
class Arrival:
    """How a plugin came: seconds since 1970, and how long its Synchronize took."""

    registered_at_s: float
    ready_at_s: float
    synchronize_s: float


class RuntimeSideError(Exception):
    """A command failed; the text is the runtime's."""


class GoRuntime:
    """The adaptation of one NRI version behind a socket; started at once."""

    def __init__(self, programs: Path, socket: Path, plugins: Path | None = None) -> None:
        """Start it: `programs` is where it was built, `plugins` a directory of some to launch."""
        command = [str(programs / "runtime"), "-socket", str(socket)]
        if plugins is not None:
            command += ["-plugins", str(plugins), "-configs", str(plugins)]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    @property
    def pid(self) -> int:
        """The process's id."""
        return self._process.pid

    def start(self) -> None:
        """Launch plugins and listen for others."""
        self._call("start")

    def use(self, workload: Workload, expect: str = "") -> None:
        """Make pods like these from now on.

        `expect` is what a plugin must do with them, else filling and measuring fail: "placed" or
        "left alone"; "" for anything.
        """
        pod, container = (
            base64.b64encode(data).decode() for data in (workload.pod, workload.container)
        )
        self._call("workload", pod=pod, container=container, expect=expect)

    def tell(self, containers: int, nodes: int) -> None:
        """Have so many pods of one container, on these nodes in turn, for the next plugin."""
        self._call("content", count=containers, nodes=nodes)

    def wait(self) -> Arrival:
        """Wait until a plugin has connected and is synchronized."""
        answer = self._call("wait")
        return Arrival(
            answer["registered_ns"] / NS_PER_S,
            answer["ready_ns"] / NS_PER_S,
            answer["took_ns"][0] / NS_PER_S,
        )

    def fill(self, pods: int) -> None:
        """Make pods that stay."""
        self._call("fill", count=pods)

    def measure(self, count: int, gap_us: int) -> list[float]:
        """Make pods and containers that go again; seconds that each CreateContainer took.

        `gap_us` is the least time between two calls before the one that is measured.
        """
        return [
            took / NS_PER_S
            for took in self._call("measure", count=count, gap_us=gap_us).get("took_ns", [])
        ]

    def close(self) -> None:
        """End it. Harmless when repeated."""
        self._process.kill()
        self._process.communicate()

    def __enter__(self) -> Self:
        """Return the runtime itself; leaving the block ends it."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """End it."""
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
