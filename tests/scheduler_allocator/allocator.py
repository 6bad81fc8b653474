"""The allocator of the Kubernetes scheduler as a process; see go/main.go."""

import json
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.conformance.go_runtime import go_program

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = ROOT / "build" / "scheduler_allocator" / "allocator"

_BUILD_TIMEOUT_S = 1800


def build() -> Path:
    """Build the Go program; raise RuntimeError with Go's output, or when Go is missing."""
    go = go_program()
    if go is None:
        raise RuntimeError("Go is missing: install it, or set GO to its path")
    PROGRAM.parent.mkdir(parents=True, exist_ok=True)
    built = subprocess.run(
        [go, "build", "-o", PROGRAM, "."],
        cwd=Path(__file__).with_name("go"),
        capture_output=True,
        text=True,
        check=False,
        timeout=_BUILD_TIMEOUT_S,
    )
    if built.returncode:
        raise RuntimeError(built.stderr)
    return PROGRAM


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
