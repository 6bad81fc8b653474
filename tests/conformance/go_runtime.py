"""NRI's Go runtime side as a process: builds the harness of one version and controls it.

Commands and results are lines of JSON; see harness/main.go.
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

from tests.laboratory import api_pb2 as api

ROOT = Path(__file__).resolve().parents[2]
HARNESS = Path(__file__).with_name("harness")
OUT = ROOT / "build" / "conformance"

# The Go that install-tools fetches when the machine's is too old.
_GO_FETCHED = ROOT / "build" / "go" / "bin" / "go"
# The path of Go's installation instructions, which is often not in PATH.
_GO_FALLBACK = Path("/usr/local/go/bin/go")

# The first build downloads modules.
_BUILD_TIMEOUT_S = 600
_RESULT_TIMEOUT_S = 20.0


class GoError(Exception):
    """The adaptation returned an error; the text is that of the adaptation."""


@dataclass(frozen=True, slots=True)
class Event:
    """An event of the harness: a log line, a synchronization, an unsolicited update."""

    kind: str
    text: str
    error: str
    result: bytes
    took_s: float


def go_program() -> str | None:
    """Return the path of Go: $GO, build/go, PATH or /usr/local/go; None without Go."""
    if os.environ.get("GO"):
        return os.environ["GO"]
    if _GO_FETCHED.exists():
        return str(_GO_FETCHED)
    return shutil.which("go") or (str(_GO_FALLBACK) if _GO_FALLBACK.exists() else None)


def run_in(folder: Path, *command: str, text: str = "") -> str:
    """Run a command with this input in a folder, Go for example; return what it prints.

    Raises RuntimeError with its output if it fails.
    """
    done = subprocess.run(
        command,
        cwd=folder,
        input=text,
        capture_output=True,
        text=True,
        timeout=_BUILD_TIMEOUT_S,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} failed in {folder}:\n{done.stdout}{done.stderr}")
    return done.stdout


def notify_source(version: str) -> Path:
    """Return the Go source that sends the notifications of a version such as "nri-0.12.2"."""
    is_new = numbers_of(version) >= (0, 12)
    return HARNESS / ("notify_calls.go" if is_new else "notify_events.go")


def numbers_of(version: str) -> tuple[int, ...]:
    """Return the numbers of a version such as "nri-0.12.2": (0, 12, 2)."""
    return tuple(int(part) for part in version.removeprefix("nri-").split("."))


def build(version: str) -> Path:
    """Build the harness of a version such as "nri-0.12.2" unless it is newer than its sources.

    Raise RuntimeError with Go's output, or without Go.
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
    """A process with the adaptation of one NRI version, which the command "start" starts."""

    def __init__(self, version: str, options: Mapping[str, object]) -> None:
        self.version = version
        self.events: list[Event] = []
        """All events, oldest first."""
        command = [str(build(version))]
        for name, value in options.items():
            command += [f"-{name}", str(value)]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        self._results: dict[int, dict[str, object]] = {}
        self._changed = threading.Condition()
        self._last_id = 0
        self.took_s = 0.0
        """The time of the last command in the adaptation."""
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        """The process's id."""
        return self._process.pid

    @property
    def nri_version(self) -> tuple[int, ...]:
        """The numbers of the version."""
        return numbers_of(self.version)

    def call(self, op: str, **parts: Message | int) -> bytes:
        """Run a command and return its result; raise GoError for an error of the adaptation.

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
        self.wait(lambda: number in self._results, f"the result of {op}")
        result = self._results.pop(number)
        self.took_s = float(str(result.get("took_us", 0))) / 1e6
        if result.get("error"):
            raise GoError(str(result["error"]))
        return base64.b64decode(str(result.get("result", "")))

    def wait(
        self, condition: Callable[[], bool], what: str, timeout_s: float = _RESULT_TIMEOUT_S
    ) -> None:
        """Wait for a condition, which is checked after each line of the harness."""
        deadline = time.monotonic() + timeout_s
        with self._changed:
            while not condition():
                alive = self._process.poll() is None
                log = "\n".join(event.text for event in self.events[-20:])
                assert alive, f"the runtime ended instead of {what}:\n{log}"
                assert time.monotonic() < deadline, f"waited for {what}:\n{log}"
                self._changed.wait(0.1)

    def logged(self, text: str) -> int:
        """Return the number of log lines that contain `text`."""
        return sum(event.kind == "log" and text in event.text for event in self.events)

    def synchronizations(self) -> list[Event]:
        """Return the events of all Synchronize requests."""
        return [event for event in self.events if event.kind == "synchronized"]

    def wait_connected(self, count: int = 1) -> None:
        """Wait until plugins have connected `count` times; the runtime then calls them."""
        self.wait(lambda: self._connections() >= count, "a plugin")

    def _connections(self) -> int:
        return sum(
            event.kind == "log" and "plugin" in event.text and "connected" in event.text
            for event in self.events
        )

    def set_content(
        self, pods: list[api.PodSandbox], containers: list[api.Container], delay_ms: int = 0
    ) -> None:
        """Set content and delay of the next plugins' Synchronize."""
        content = api.SynchronizeRequest(pods=pods, containers=containers)
        self.call("content", sync=content, delay_ms=delay_ms)

    def kill(self) -> None:
        """Kill the process. May be repeated."""
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
                self._receive(line)
                self._changed.notify_all()

    def _receive(self, line: bytes) -> None:
        if not line.startswith(b"{"):  # the text of a panic
            self.events.append(
                Event(
                    kind="log", text=line.decode(errors="replace"), error="", result=b"", took_s=0.0
                )
            )
            return
        message = json.loads(line)
        if "id" in message:
            self._results[message["id"]] = message
            return
        self.events.append(
            Event(
                kind=message["event"],
                text=message.get("text", ""),
                error=message.get("error", ""),
                result=base64.b64decode(message.get("result", "")),
                took_s=message.get("took_us", 0) / 1e6,
            )
        )
