"""Trace the path of a creation through the code: which functions run, and in which files.

A CreateContainer of a Guaranteed pod goes through the daemon's service on a simulated host, once
from the bytes of the request to the bytes of the reply, and once from there to the moment in which
the plugin waits for the next request. The trace lists every call of a function or method that the
package defines, on the thread that serves the runtime. Lambdas, comprehensions and resumed
generators count as calls but are not listed. The trace excludes functions without a source file,
such as the `__init__` of a dataclass.

`python -m tests.bench.trace` prints the figures of three requests and the path of the simple one,
`--figures` the figures alone. docs/internals/performance.md explains their use.
"""

import argparse
import inspect
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice, pairwise
from pathlib import Path
from types import FrameType
from typing import Any

from google.protobuf.message import Message

import nri_numamem
from nri_numamem.config.settings import settings_from_mapping
from nri_numamem.daemon.identity import Identity
from nri_numamem.daemon.machine_monitor import build_engine
from nri_numamem.daemon.service import Service
from nri_numamem.daemon.signals import Signals
from nri_numamem.daemon.system import host_system
from nri_numamem.nri.multiplexer import PLUGIN_SERVICE_CONN, frame_message
from nri_numamem.nri.poller import Ready
from nri_numamem.nri.session import PLUGIN_SERVICE
from nri_numamem.observe.log import loggers as logs
from nri_numamem.ttrpc import ClientConnection
from tests.bench import stages
from tests.bench.host import write_files
from tests.laboratory import api_pb2 as api

PACKAGE = Path(nri_numamem.__file__).parent
NODES, PODS = 8, 2


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
        self._replaced: Any = None

    def start(self) -> None:
        """Record the calls of this thread. A debugger or coverage must not use the profiler."""
        self._replaced = sys.getprofile()
        sys.setprofile(self._profile)

    def stop(self) -> None:
        """Record no more."""
        sys.setprofile(self._replaced)

    @property
    def trace(self) -> Trace:
        """The calls between `start` and `stop`."""
        return Trace(tuple(self._calls), self._frames)

    def run(self, operation: Callable[[], object]) -> Trace:
        """Return the trace of an operation."""
        self.start()
        try:
            operation()
        finally:
            self.stop()
        return self.trace

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


class Script:
    """The runtime's end of a connection in the plugin's thread: a channel and its poller.

    It delivers one request after the other; the last one is traced, from the moment in which its
    bytes are read to the moment in which the plugin waits again.
    """

    def __init__(self, requests: Sequence[bytes]) -> None:
        self._requests = list(requests)
        self._before, self._after = Tracer(), Tracer()
        self._active: Tracer | None = None

    def trace(self) -> tuple[Trace, Trace]:
        """Return the calls before the reply to the last request, and those after it."""
        return self._before.trace, self._after.trace

    # What the event loop calls.

    def fileno(self) -> int:
        """Return no descriptor: nothing polls this channel."""
        return -1

    def watch(self, source: object, *, is_write_pending: bool = False) -> None:
        """Do nothing: the channel can always be read."""

    def wait(self, _timeout_s: float) -> list[Ready]:
        """Return the channel, which has a request or its end."""
        self._use(None)
        return [Ready(self, is_readable=True, is_writable=False)]

    def recv_into(self, buffer: memoryview, /) -> int:
        """Deliver the next request; 0 after the last one."""
        if not self._requests:
            return 0
        request = self._requests.pop(0)
        buffer[: len(request)] = request
        if not self._requests:
            self._use(self._before)
        return len(request)

    def send(self, data: bytes | bytearray | memoryview, /) -> int:
        """Take a reply."""
        if self._active is self._before:
            self._use(self._after)
        return len(data)

    def close(self) -> None:
        """Stop tracing."""
        self._use(None)

    def _use(self, tracer: Tracer | None) -> None:
        if self._active is not None:
            self._active.stop()
        self._active = tracer
        if tracer is not None:
            tracer.start()


REQUESTS = ("simple", "with CPUs", "pod scope")
"""The traced requests. All fit one node; the second has CPUs of its own, the third a placed pod."""


def trace_creation(
    request: str = "simple", *, nodes: int = NODES, pods: int = PODS
) -> tuple[Trace, Trace]:
    """Return the trace of one CreateContainer before its reply and after it.

    It is the last one of `pods` pods, served by the daemon's service on a simulated host with
    `nodes` NUMA nodes, with log, state file and history.
    """
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        roots = write_files(root, nodes).roots
        logs.configure(root / "log", "info", "json")
        script = Script([*_requests(request, pods)])
        system = replace(host_system(), new_poller=lambda: script)
        service = Service(logs.get_logger(), roots, system)
        scope = "pod" if request == "pod scope" else "container"
        settings = settings_from_mapping(
            {"stateFile": str(root / "state"), "topologyManagerScope": scope}
        )
        service.start(build_engine(settings, roots), settings, "here")
        try:
            with Signals() as signals:
                service.serve(script, Identity("numamem", "10"), signals)
            if service.engine is None or len(service.engine.state.accounting.assignments) < pods:
                raise RuntimeError("not all containers were placed, so this is no creation's trace")
        finally:
            service.close()
            logs.configure()
    return script.trace()


def _requests(request: str, pods: int) -> Iterator[bytes]:
    """Yield the bytes of a connection; its last request is the creation."""
    client = ClientConnection()

    def call(method: str, message: Message) -> bytes:
        payload = message.SerializeToString()
        _, encoded = client.call(PLUGIN_SERVICE, method, payload, timeout_ns=stages.TIMEOUT_NS)
        return frame_message(PLUGIN_SERVICE_CONN, encoded)

    yield call("Configure", stages.CONFIGURATION)
    yield call("Synchronize", api.SynchronizeRequest())
    for pod, container in islice(stages.pods(), pods):  # the first one fills caches
        del container.linux.devices[:]
        if request == "with CPUs":
            container.linux.resources.cpu.cpus = "0-1"
            container.linux.resources.cpu.shares.value = 2048
        yield call("RunPodSandbox", api.RunPodSandboxRequest(pod=pod))
        creation = api.CreateContainerRequest(pod=pod, container=container)
        yield call("CreateContainer", creation)


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
    """Print the figures, and the path of the simple request unless --figures is set."""
    parser = argparse.ArgumentParser(description="Trace a CreateContainer through the code.")
    parser.add_argument("--figures", action="store_true", help="print the figures alone")
    args = parser.parse_args(arguments)
    found = {request: trace_creation(request) for request in REQUESTS}
    for request, (before, after) in found.items():
        print(f"{request}, before the reply: {figures(before)}")
        print(f"{request}, after the reply: {figures(after)}")
    if not args.figures:
        for trace in found["simple"]:
            print("", *lines(trace), sep="\n")


if __name__ == "__main__":
    main()
