"""NRI's own Go runtime side as a process: builds the harness of one version and drives it.

One line of JSON per command and answer; see harness/main.go. Knows processes and messages, and
nothing of scenarios.
"""

import base64
import json
import os
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from google.protobuf.message import Message

from nri_numamem.nri import api_pb2 as api

ROOT = Path(__file__).resolve().parents[2]
HARNESS = Path(__file__).with_name("harness")
OUT = ROOT / "build" / "conformance"

# Where install-tools puts a Go of its own because the machine's is too old.
_GO_FETCHED = ROOT / "build" / "go" / "bin" / "go"
# Where Go's own archive is unpacked, as its instructions say; it is often not in PATH.
_GO_FALLBACK = Path("/usr/local/go/bin/go")

# The first build downloads modules.
_BUILD_TIMEOUT_S = 600
_ANSWER_TIMEOUT_S = 20.0


class GoError(Exception):
    """The adaptation returned an error; the text is its own."""


@dataclass(frozen=True, slots=True)
class Event:
    """What the harness reported on its own: a log line, a synchronization, an update."""

    kind: str
    text: str
    error: str
    result: bytes
    took_s: float


def go_program() -> str | None:
    """Return the path of Go: $GO, build/go, the one in PATH, /usr/local/go; None without one."""
    if os.environ.get("GO"):
        return os.environ["GO"]
    if _GO_FETCHED.exists():
        return str(_GO_FETCHED)
    return shutil.which("go") or (str(_GO_FALLBACK) if _GO_FALLBACK.exists() else None)


def notify_source(version: str) -> Path:
    """Return the Go source with which a runtime side of "nri-0.12.2" notifies of events."""
    is_new = _numbers_of(version) >= (0, 12)
    return HARNESS / ("notify_calls.go" if is_new else "notify_events.go")


def _numbers_of(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.removeprefix("nri-").split("."))


def build(version: str) -> Path:
    """Build the harness of "nri-0.12.2" where it is missing or older than its source.

    Raises RuntimeError with Go's output, or when there is no Go.
    """
    go = go_program()
    if go is None:
        raise RuntimeError("Go is missing; run tests/conformance/install-tools")
    module = HARNESS / "versions" / version
    sources = [
        *(HARNESS / "main.go", notify_source(version)),
        *(module / "go.mod", module / "go.sum"),
    ]
    folder = OUT / version
    program = folder / "harness"
    newest = max(source.stat().st_mtime for source in sources)
    if program.exists() and program.stat().st_mtime > newest:
        return program
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for source in sources:
        shutil.copyfile(source, folder / source.name)
    done = subprocess.run(
        [go, "build", "-mod=readonly", "-buildvcs=false", "-trimpath", "-o", "harness", "."],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=_BUILD_TIMEOUT_S,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"the harness of {version} does not build:\n{done.stderr}")
    return program


class GoRuntime:
    """The adaptation of one NRI version, not started yet."""

    def __init__(self, version: str, options: Mapping[str, object]) -> None:
        self.version = version
        self.events: list[Event] = []
        """Everything that it reported on its own, oldest first."""
        command = [str(build(version))]
        for name, value in options.items():
            command += [f"-{name}", str(value)]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        self._answers: dict[int, dict[str, object]] = {}
        self._changed = threading.Condition()
        self._last_id = 0
        self.took_s = 0.0
        """How long the adaptation took for the last command."""
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        """The process's id."""
        return self._process.pid

    @property
    def nri_version(self) -> tuple[int, ...]:
        """The numbers of the version."""
        return _numbers_of(self.version)

    def call(self, op: str, **parts: Message | int) -> bytes:
        """Do a command and return its result; GoError when the adaptation says no.

        `parts` are pod, container, resources and sync (messages) and delay_ms.
        """
        stdin = self._process.stdin
        assert stdin is not None
        self._last_id += 1
        number = self._last_id
        command: dict[str, object] = {"id": number, "op": op}
        for name, part in parts.items():
            if isinstance(part, Message):
                command[name] = base64.b64encode(part.SerializeToString()).decode()
            else:
                command[name] = part
        stdin.write(json.dumps(command).encode() + b"\n")
        stdin.flush()
        self.wait(lambda: number in self._answers, f"an answer to {op}")
        answer = self._answers.pop(number)
        self.took_s = float(str(answer.get("took_us", 0))) / 1e6
        if answer.get("error"):
            raise GoError(str(answer["error"]))
        return base64.b64decode(str(answer.get("result", "")))

    def wait(
        self, condition: Callable[[], bool], what: str, timeout_s: float = _ANSWER_TIMEOUT_S
    ) -> None:
        """Wait until something is so, which is looked at after each line of the harness."""
        deadline = time.monotonic() + timeout_s
        with self._changed:
            while not condition():
                alive = self._process.poll() is None
                log = "\n".join(event.text for event in self.events[-20:])
                assert alive, f"the runtime ended instead of {what}:\n{log}"
                assert time.monotonic() < deadline, f"waited for {what}:\n{log}"
                self._changed.wait(0.1)

    def logged(self, text: str) -> int:
        """Return how many log lines hold `text`."""
        return sum(event.kind == "log" and text in event.text for event in self.events)

    def synchronizations(self) -> list[Event]:
        """Return how each Synchronize went."""
        return [event for event in self.events if event.kind == "synchronized"]

    def wait_connected(self, count: int = 1) -> None:
        """Wait until plugins have been connected so many times, and are called from then on."""
        self.wait(lambda: self._connections() >= count, "a plugin")

    def _connections(self) -> int:
        return sum(
            event.kind == "log" and "plugin" in event.text and "connected" in event.text
            for event in self.events
        )

    def tell_at_synchronize(
        self, pods: list[api.PodSandbox], containers: list[api.Container], delay_ms: int = 0
    ) -> None:
        """Set what the next plugins are told, and after which delay."""
        content = api.SynchronizeRequest(pods=pods, containers=containers)
        self.call("content", sync=content, delay_ms=delay_ms)

    def kill(self) -> None:
        """End it without a warning. Harmless when repeated."""
        self._process.kill()
        self._process.wait()
        self._reader.join()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()

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
        self.kill()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            with self._changed:
                self._take(line)
                self._changed.notify_all()

    def _take(self, line: bytes) -> None:
        if not line.startswith(b"{"):  # a panic's text
            self.events.append(Event("log", line.decode(errors="replace"), "", b"", 0.0))
            return
        answer = json.loads(line)
        if "id" in answer:
            self._answers[answer["id"]] = answer
            return
        self.events.append(
            Event(
                answer["event"],
                answer.get("text", ""),
                answer.get("error", ""),
                base64.b64decode(answer.get("result", "")),
                answer.get("took_us", 0) / 1e6,
            )
        )
