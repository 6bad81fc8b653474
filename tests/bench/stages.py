"""Measure the stages of a creation in process: no runtime, no socket, warm caches.

The functions at the borders between packages are timed. The time of a timed function excludes the
timed functions that it calls, and includes some 0.2 µs for the measurement itself.
`python -m tests.bench.stages` prints the table.
"""

import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any
from unittest import mock

from nri_numamem.config.settings import settings_from_mapping
from nri_numamem.daemon.machine_monitor import build_engine
from nri_numamem.daemon.service import Service
from nri_numamem.daemon.system import host_system
from nri_numamem.engine.admission import placement
from nri_numamem.engine.engine import Engine
from nri_numamem.nri import encode, session
from nri_numamem.nri.decode import Decoder
from nri_numamem.nri.multiplexer import PLUGIN_SERVICE_CONN, Demultiplexer, frame_message
from nri_numamem.nri.plugin_service import PluginService
from nri_numamem.nri.session import PLUGIN_SERVICE, PluginSession
from nri_numamem.observe.log import loggers as logs
from nri_numamem.ttrpc import ClientConnection, ServerConnection
from tests.bench.host import GI, write_files
from tests.bench.report import markdown
from tests.bench.workload import workload
from tests.host_files import HostFiles
from tests.laboratory import api_pb2 as api

NODES, PODS, CREATIONS = 8, 110, 2000

# The timeout that a runtime sends with each call.
TIMEOUT_NS = 2_000_000_000

CONFIGURATION = api.ConfigureRequest(
    runtime_name="containerd", runtime_version="v2.3.0", NRI_version="v0.12.2", request_timeout=2000
)
NO_SETTINGS: Mapping[str, object] = {}

ENDS = ("StopContainer", "RemoveContainer", "StopPodSandbox", "RemovePodSandbox")

# Owner of a function, its name, and its stage.
TIMED: Sequence[tuple[Any, str, str]] = (
    (Demultiplexer, "receive_data", "multiplexer: frames to bytes"),
    (ServerConnection, "receive_data", "ttrpc: bytes to a request"),
    (PluginService, "serve", "method: time limit, protobuf's parser, protobuf's encoder"),
    (Decoder, "create_container", "decode: the message to an event, one device looked up"),
    (Engine, "decide", "engine: request and plan"),
    (placement, "admit", "managers: hints, merge, nodes"),
    (encode, "create_container_response", "adjust: the plan to a message"),
    (ServerConnection, "reply", "ttrpc: the reply"),
    (session, "frame_message", "multiplexer: the reply's frames"),
)
BETWEEN = "code between these stages"
COMMIT, LOG = "after the reply: next state, records", "after the reply: metrics, log"


class Stopwatch:
    """Sums the time of each stage while calls are timed."""

    def __init__(self, clock_ns: Callable[[], int] = time.perf_counter_ns) -> None:
        self.spent_ns: dict[str, int] = {}
        self._clock_ns = clock_ns
        self._inner_ns = 0

    def timed(self, call: Callable[..., Any], stage: str) -> Callable[..., Any]:
        """Return a wrapper that adds the call's time, without that of inner timed calls."""

        def measured(*args: Any, **words: Any) -> Any:  # noqa: ANN401 - whatever the call takes
            began_ns, outer_ns, self._inner_ns = self._clock_ns(), self._inner_ns, 0
            try:
                return call(*args, **words)
            finally:
                took_ns = self._clock_ns() - began_ns
                spent_ns = self.spent_ns.get(stage, 0)
                self.spent_ns[stage] = spent_ns + took_ns - self._inner_ns
                self._inner_ns = outer_ns + took_ns

        return measured


@dataclass(slots=True)
class Plugin:
    """The plugin without its socket, and the runtime's end that encodes requests."""

    service: Service
    session: PluginSession
    client: ClientConnection
    files: HostFiles

    def call(self, method: str, request: Any) -> bytes:  # noqa: ANN401 - any message
        """Return the bytes that a runtime writes for a call."""
        payload = request.SerializeToString()
        _, message = self.client.call(PLUGIN_SERVICE, method, payload, timeout_ns=TIMEOUT_NS)
        return frame_message(PLUGIN_SERVICE_CONN, message)

    def serve(self, data: bytes) -> None:
        """Process bytes from the runtime, and do the work after the reply."""
        self.session.receive_data(data)
        self.after()

    def after(self) -> None:
        """Commit the state and emit the records, as the event loop does after the reply."""
        self.service.requests.commit()
        for record in self.session.take_records():
            self.service.emit(record)


def _unprepared(_service: Service, _files: HostFiles) -> None:
    """Leave the service and the host as they are."""


@contextmanager
def plugin(
    settings_of_feature: Mapping[str, object] = NO_SETTINGS,
    prepare: Callable[[Service, HostFiles], None] = _unprepared,
) -> Iterator[Plugin]:
    """Return a configured and synchronized plugin on a simulated host.

    `prepare` changes the service and the host before the start.
    """
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        files = write_files(root, NODES)
        roots = files.roots
        logs.configure(root / "log", "info", "json")
        service = Service(logs.get_logger(), roots, host_system())
        prepare(service, files)
        # Claims are exchanged beside the state file; without it nothing is written.
        state_file = str(root / "state" / "state") if "claims" in settings_of_feature else ""
        settings = settings_from_mapping({"stateFile": state_file, **settings_of_feature})
        service.start(build_engine(settings, roots), settings, "here")
        served = PluginSession(
            service.requests,
            Decoder(service.host_reader),
            plugin_name="numamem",
            plugin_idx="10",
            limiter=service.requests.limit,
        )
        served.start()
        try:
            with service.time_limit:
                made = Plugin(service, served, ClientConnection(), files)
                made.serve(made.call("Configure", CONFIGURATION))
                made.serve(made.call("Synchronize", api.SynchronizeRequest()))
                yield made
        finally:
            service.close()
            logs.configure()


def pods() -> Iterator[tuple[api.PodSandbox, api.Container]]:
    """Yield pods of one container each that differ only in names and ids."""
    made = workload(GI)
    number = 0
    while True:
        number += 1
        pod = api.PodSandbox.FromString(made.pod)
        container = api.Container.FromString(made.container)
        pod.name, pod.uid, pod.id = f"pod-{number:08x}", f"{number:036x}", f"{number:064x}"
        cgroup = pod.linux.cgroup_parent.rpartition("pod")[0]
        pod.linux.cgroup_parent = f"{cgroup}pod{pod.uid}"
        container.id, container.pod_sandbox_id = f"{number + (1 << 250):064x}", pod.id
        yield pod, container


def measure(creations: int = CREATIONS) -> dict[str, float]:
    """Return the median seconds of each stage, in the order of execution."""
    taken: dict[str, list[int]] = {stage: [] for *_, stage in TIMED}
    taken |= {BETWEEN: [], COMMIT: [], LOG: []}
    with ExitStack() as stack:
        watch = Stopwatch()
        for owner, name, stage in TIMED:
            timed = watch.timed(getattr(owner, name), stage)
            stack.enter_context(mock.patch.object(owner, name, timed))
        made = stack.enter_context(plugin())  # a session binds its methods when it is made
        content = pods()
        for _ in range(PODS):
            pod, container = next(content)
            made.serve(made.call("RunPodSandbox", api.RunPodSandboxRequest(pod=pod)))
            made.serve(made.call("CreateContainer", creation(pod, container)))
        for _ in range(creations):
            for stage, spent_ns in _one(made, watch, *next(content)).items():
                taken[stage].append(spent_ns)
    return {stage: median(spent) / 1e9 for stage, spent in taken.items()}


def creation(pod: api.PodSandbox, container: api.Container) -> api.CreateContainerRequest:
    """Return the request."""
    return api.CreateContainerRequest(pod=pod, container=container)


def _one(
    made: Plugin, watch: Stopwatch, pod: api.PodSandbox, container: api.Container
) -> dict[str, int]:
    """Time one creation in a pod's life; return nanoseconds by stage."""
    made.serve(made.call("RunPodSandbox", api.RunPodSandboxRequest(pod=pod)))
    data = made.call("CreateContainer", creation(pod, container))
    watch.spent_ns = {}
    watch.timed(made.session.receive_data, BETWEEN)(data)
    watch.timed(made.service.requests._commit, COMMIT)()
    watch.timed(made.after, LOG)()
    spent_ns, watch.spent_ns = watch.spent_ns, {}
    end(made, pod, container)
    return spent_ns


def end(made: Plugin, pod: api.PodSandbox, container: api.Container) -> None:
    """End a container and its pod."""
    for method in ENDS:
        request = getattr(api, f"{method}Request")(pod=pod)
        if "Container" in method:
            request.container.CopyFrom(container)
        made.serve(made.call(method, request))


def rows(found: dict[str, float]) -> list[Sequence[str]]:
    """Return the table, with the sum of the stages before the reply."""
    before = {stage: spent_s for stage, spent_s in found.items() if stage not in (COMMIT, LOG)}
    after = {stage: found[stage] for stage in (COMMIT, LOG)}
    total = {"**from bytes to bytes**": sum(before.values())}
    return [
        ("stage", "µs"),
        *((stage, f"{spent_s * 1e6:.1f}") for stage, spent_s in (before | total | after).items()),
    ]


if __name__ == "__main__":
    print(markdown(rows(measure())))
