"""The allocator of the Kubernetes scheduler as a process; see go/main.go."""

import json
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

HERE = Path(__file__).parent
SOURCE = HERE / "go"
PROGRAM = HERE.parents[1] / "build" / "scheduler_allocator" / "allocator"


class Allocator:
    """The process; each method raises RuntimeError if it ends."""

    def __init__(self, program: Path) -> None:
        self._process = subprocess.Popen(
            [program],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._process.kill()
        self._process.communicate()

    def publish(
        self, slices: Sequence[Mapping[str, object]], classes: Sequence[Mapping[str, object]]
    ) -> None:
        """Replace all slices and classes. Claims stay allocated while the host is the same."""
        self._request({"slices": slices, "classes": classes})

    def allocate(self, claim: Mapping[str, object]) -> list[dict[str, Any]]:
        """Return a result for each device of a claim; none if it does not fit."""
        found = self._request({"allocate": claim}).get("devices", {}).get("results", [])
        assert isinstance(found, list)
        return found

    def free(self, uid: str) -> None:
        """Free a claim."""
        self._request({"free": uid})

    def _request(self, command: Mapping[str, object]) -> dict[str, Any]:
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.write(f"{json.dumps(command)}\n")
        stdin.flush()
        line = stdout.readline()
        if not line:
            _, errors = self._process.communicate()
            raise RuntimeError(f"the allocator has ended: {errors.strip()}")
        found = json.loads(line)
        assert isinstance(found, dict)
        return found
