"""Trace the path of a creation through the code: which functions run, and in which files.

One simple CreateContainer (a Guaranteed pod's container of 1 GiB that fits one NUMA node) goes
through a plugin session, the decoder and the engine, from the bytes of the request to the bytes of
the reply. The trace lists every call of a function or method that the package defines. Lambdas,
comprehensions and resumed generators count as calls but are not listed. The trace excludes
functions without a source file, such as the `__init__` of a dataclass, the daemon around the
session, and the work after the reply.

`python -m tests.bench.trace` prints the figures and the path, `--figures` the figures alone.
docs/internals/performance.md explains their use.
"""

import argparse
import inspect
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from types import FrameType

from google.protobuf.message import Message

import nri_numamem
from nri_numamem.config.policy import policy_of
from nri_numamem.config.settings import settings_from_mapping
from nri_numamem.engine.context import Context
from nri_numamem.engine.engine import Engine
from nri_numamem.engine.events import Event
from nri_numamem.engine.plan import Plan
from nri_numamem.nri.configuration import Configuration
from nri_numamem.nri.decode import Decoder
from nri_numamem.nri.multiplexer import PLUGIN_SERVICE_CONN, frame_message
from nri_numamem.nri.session import PLUGIN_SERVICE, PluginSession
from nri_numamem.ttrpc import ClientConnection
from tests.bench import stages
from tests.bench.host import machine_of
from tests.laboratory import api_pb2 as api

PACKAGE = Path(nri_numamem.__file__).parent
NODES = 8

# All traced pods have different identities, as on a host.
_PODS = stages.pods()


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a function of the package."""

    file: str
    """Path below the package, such as "nri/session.py"."""
    name: str
    """Qualified name, such as "PluginSession.receive_data"."""
    depth: int
    """Number of traced functions that the call is nested in."""


@dataclass(frozen=True, slots=True)
class Trace:
    """The calls of an operation, in order."""

    calls: tuple[Call, ...]
    frames: int
    """Number of calls including lambdas, comprehensions and resumed generators."""

    @property
    def files(self) -> tuple[str, ...]:
        """The files of the calls, in the order of their first call."""
        return tuple(dict.fromkeys(call.file for call in self.calls))

    @property
    def file_changes(self) -> int:
        """Number of calls in another file than the call before."""
        files = [call.file for call in self.calls]
        return sum(a != b for a, b in pairwise(files))


class Tracer:
    """Records calls while it is the profile function of the interpreter (sys.setprofile)."""

    def __init__(self, package: Path = PACKAGE) -> None:
        self._prefix = f"{package}/"
        self._calls: list[Call] = []
        self._frames = 0
        self._generators: list[FrameType] = []
        self._open: list[FrameType] = []
        """The traced functions that have not returned."""

    def run(self, operation: Callable[[], object]) -> Trace:
        """Return the trace of an operation. A debugger or coverage must not use the profiler."""
        before = sys.getprofile()
        sys.setprofile(self._profile)
        try:
            operation()
        finally:
            sys.setprofile(before)
        return Trace(tuple(self._calls), self._frames)

    def _profile(self, frame: FrameType, event: str, _argument: object) -> None:
        if event == "return" and self._open and self._open[-1] is frame:
            self._open.pop()
        code = frame.f_code
        if event != "call" or not code.co_filename.startswith(self._prefix):
            return
        self._frames += 1
        if code.co_name.startswith("<") or self._is_resumed(frame):
            return
        file = code.co_filename.removeprefix(self._prefix)
        self._calls.append(Call(file, frame.f_code.co_qualname, len(self._open)))
        self._open.append(frame)

    def _is_resumed(self, frame: FrameType) -> bool:
        """Return whether a generator runs again; every `yield` and `next` is an event."""
        if not frame.f_code.co_flags & inspect.CO_GENERATOR:
            return False
        if any(frame is known for known in self._generators):
            return True
        self._generators.append(frame)
        return False


class EngineHandler:
    """Connects a session with an engine, without the daemon."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine

    def configure(self, configuration: Configuration) -> None:
        """Accept any configuration."""

    def decide(self, event: Event) -> Plan:
        """Return the engine's plan."""
        return self.engine.decide(event)


class Runtime:
    """A runtime's end of a session: encodes requests, commits after each reply."""

    def __init__(self) -> None:
        policy = policy_of(settings_from_mapping({"stateFile": ""}))
        self.engine = Engine(Context.of(machine_of(NODES), policy))
        self.session = PluginSession(
            EngineHandler(self.engine),
            Decoder(lambda _cgroup_parent: {}),
            plugin_name="numamem",
            plugin_idx="10",
        )
        self.session.start()
        self._client = ClientConnection()

    def encode(self, method: str, request: Message) -> bytes:
        """Return the bytes of a call."""
        payload = request.SerializeToString()
        _, message = self._client.call(
            PLUGIN_SERVICE, method, payload, timeout_ns=stages.TIMEOUT_NS
        )
        return frame_message(PLUGIN_SERVICE_CONN, message)

    def call(self, method: str, request: Message) -> None:
        """Make a call and commit."""
        self.session.receive_data(self.encode(method, request))
        self.engine.commit()


def trace_creation() -> Trace:
    """Return the trace of one simple CreateContainer."""
    runtime = Runtime()
    runtime.call("Configure", api.ConfigureRequest(request_timeout=2000))
    runtime.call("Synchronize", api.SynchronizeRequest())
    for _ in range(2):  # the first one fills caches
        pod, container = next(_PODS)
        del container.linux.devices[:]
        runtime.call("RunPodSandbox", api.RunPodSandboxRequest(pod=pod))
        request = api.CreateContainerRequest(pod=pod, container=container)
        data = runtime.encode("CreateContainer", request)
        trace = Tracer().run(partial(runtime.session.receive_data, data))
        runtime.engine.commit()
    blocks = runtime.engine.state.accounting.assignments.get(pod.uid)
    if not blocks:
        raise RuntimeError("the container was not placed, so the trace is not that of a creation")
    return trace


def figures(trace: Trace) -> str:
    """Return the figures in one line."""
    return (
        f"{trace.frames} calls ({len(trace.calls)} of them of functions), {len(trace.files)} files,"
        f" {trace.file_changes} changes of file"
    )


def lines(trace: Trace) -> list[str]:
    """Return the path, indented by depth; a file's name stands where the file changes."""
    found: list[str] = []
    before = ""
    for call in trace.calls:
        file = call.file if call.file != before else ""
        found.append(f"{file:<36}{'  ' * call.depth}{call.name}")
        before = call.file
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the figures, and the path unless --figures is set."""
    parser = argparse.ArgumentParser(description="Trace a CreateContainer through the code.")
    parser.add_argument("--figures", action="store_true", help="print the figures alone")
    args = parser.parse_args(arguments)
    trace = trace_creation()
    print(figures(trace))
    if not args.figures:
        print("\n".join(lines(trace)))


if __name__ == "__main__":
    main()
