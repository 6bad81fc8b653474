"""Values that users of a cluster can choose: played through decoder, engine and all log sinks.

Each case changes the pod and container of a life: start, creation, resize, end. No value may take
a request's time, make a request fail as a bug, make records or replies long, or bring a character
into a log that a terminal would interpret.
"""

import json
import unicodedata
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from nri_numamem.config.load import load_text
from nri_numamem.daemon.machine_monitor import build_engine
from nri_numamem.daemon.service import Service
from nri_numamem.daemon.system import host_system
from nri_numamem.nri.decode import Decoder
from nri_numamem.nri.session import PluginSession
from nri_numamem.observe.log import loggers as logs
from nri_numamem.observe.log.journal import encode_journal
from nri_numamem.observe.log.render import Record, render_console, render_json
from nri_numamem.ttrpc import StatusError
from tests.laboratory import api_pb2 as api
from tests.laboratory import objects
from tests.nri.runtime_side import FakeHandler, RuntimeSide
from tests.simulated_host import GI, SimulatedHost

RECORD_CHARACTERS = 32 * 1024
REFUSAL_CHARACTERS = 4200
LARGE = 1_000_000

# C0, DEL, C1, line separators, bidirectional controls, an escape sequence of terminals.
CONTROLS = "".join(
    (
        *map(chr, range(1, 0x20)),
        *map(chr, range(0x7F, 0xA0)),
        "\u2028\u2029\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069",
        "\x1b[2J\x1b]0;title\x07\ufeff\U000e0041",
    )
)

Change = Callable[[api.PodSandbox, api.Container], None]


def names(text: str) -> Change:
    """Put a text into every field that names something."""

    def change(pod: api.PodSandbox, container: api.Container) -> None:
        pod.name = pod.namespace = pod.uid = container.name = text
        container.id = f"id {text}"
        pod.labels["app"] = container.annotations["app"] = text

    return change


def memory(limit_bytes: int) -> Change:
    def change(_pod: api.PodSandbox, container: api.Container) -> None:
        container.linux.resources.memory.limit.value = limit_bytes

    return change


def too_large(text: str) -> Change:
    """Let a creation with this name be refused."""

    def change(pod: api.PodSandbox, container: api.Container) -> None:
        names(text)(pod, container)
        memory(64 * GI)(pod, container)

    return change


def cpus(text: str) -> Change:
    def change(_pod: api.PodSandbox, container: api.Container) -> None:
        container.linux.resources.cpu.cpus = text

    return change


def mems(text: str) -> Change:
    def change(_pod: api.PodSandbox, container: api.Container) -> None:
        container.linux.resources.cpu.mems = text

    return change


def hugepages(count: int, page_size: str, limit: int) -> Change:
    def change(_pod: api.PodSandbox, container: api.Container) -> None:
        for _ in range(count):
            container.linux.resources.hugepage_limits.add(page_size=page_size, limit=limit)

    return change


def unified(keys: dict[str, str]) -> Change:
    def change(_pod: api.PodSandbox, container: api.Container) -> None:
        container.linux.resources.unified.update(keys)

    return change


def devices(count: int, path: str) -> Change:
    def change(_pod: api.PodSandbox, container: api.Container) -> None:
        for minor in range(count):
            container.linux.devices.add(type="c", major=240, minor=minor, path=path)

    return change


def cgroups(parent: str, path: str = "") -> Change:
    def change(pod: api.PodSandbox, container: api.Container) -> None:
        pod.linux.cgroup_parent = parent
        container.linux.cgroups_path = path or f"{parent}/x"

    return change


CASES: dict[str, Change] = {
    "large names": names("x" * LARGE),
    "control characters in names": names(CONTROLS),
    "large names of a refused container": too_large("y" * LARGE),
    "control characters in the names of a refused container": too_large(CONTROLS),
    "large cpuset.cpus": cpus("0," * (LARGE // 2) + "1"),
    "control characters in cpuset.cpus": cpus(CONTROLS),
    "large cpuset.mems": mems("0," * (LARGE // 2) + "1"),
    "large word as cpuset.mems": mems("z" * LARGE),
    "white space as cpuset.mems": mems(" " * LARGE),
    "control characters in cpuset.mems": mems(CONTROLS),
    "many hugepage limits": hugepages(100_000, "2MB", 1),
    "many unknown page sizes": hugepages(100_000, "none", 1),
    "large page size": hugepages(1, "9" * LARGE, 1),
    "largest hugepage limit": hugepages(1, "2MB", (1 << 64) - 1),
    "many unified keys": unified({f"hugetlb.{n}MB.max": "1" for n in range(50_000)}),
    "large unified value": unified({"hugetlb.2MB.max": "9" * LARGE}),
    "large unified key": unified({f"hugetlb.{'9' * LARGE}.max": "1"}),
    "unified value of 20 digits": unified({"hugetlb.2MB.max": "9" * 20}),
    "control characters in unified": unified({f"hugetlb.{CONTROLS}.max": CONTROLS}),
    "largest memory limit": memory((1 << 63) - 1),
    "smallest memory limit": memory(-(1 << 63)),
    "many devices": devices(20_000, "/dev/null"),
    "large device paths": devices(8, "/dev/" + "d" * LARGE),
    "control characters in device paths": devices(8, CONTROLS),
    "large cgroup parent": cgroups("/kubepods/pod" + "u" * LARGE),
    "many levels of cgroups": cgroups("/kubepods" + "/a" * (LARGE // 2) + "/kubepods/pod1"),
    "cgroup parent outside": cgroups("/kubepods/../../../../etc/kubepods/pod1"),
    "control characters in cgroup parent": cgroups(f"/kubepods/pod{CONTROLS}"),
    "slice of many levels": cgroups("-".join(["kubepods"] * 100_000) + "-pod1.slice", "a:b:c"),
}


class AllSinks:
    """Renders each record as every sink does."""

    def __init__(self) -> None:
        self.records: list[dict[str, object]] = []
        self.lines: list[str] = []

    def write(self, record: Record) -> None:
        self.records.append(dict(record))
        journal = encode_journal(record).decode()
        parts = [line for line in journal.split("\n") if not line.startswith("EXCEPTION")]
        self.lines += [render_json(record), render_console(record), *parts]

    def close(self) -> None:
        pass


class Node:
    """The daemon on a simulated host, and the runtime's end of its connection."""

    def __init__(self, host: SimulatedHost, config: str = "") -> None:
        settings = load_text(f"stateFile: {host.root}/state\n{config}", "a test")
        self.sink = AllSinks()
        logs.configure(self.sink, "debug")
        self.service = Service(logs.get_logger(), host.roots, host_system())
        self.service.start(build_engine(settings, host.roots), settings, "a test")
        self.runtime = RuntimeSide(FakeHandler())
        self.runtime.session = PluginSession(
            self.service.requests,
            Decoder(self.service.host_reader),
            plugin_name="numamem",
            plugin_idx="10",
            limiter=self.service.requests.limit,
        )
        self.refusals: list[str] = []

    def call(self, method: str, request: object) -> None:
        """Play a call as the event loop does."""
        with self.service.time_limit:
            try:
                self.runtime.call(method, request)  # type: ignore[arg-type] # any message
            except StatusError as error:
                self.refusals.append(str(error))
            self.service.after_replies(self.runtime.session)

    def close(self) -> None:
        self.service.close()
        logs.flush()
        logs.configure()


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    node = Node(SimulatedHost(tmp_path))
    yield node
    node.close()


def shown(line: str) -> set[str]:
    """Return the characters of a line that are no ordinary text."""
    return {c for c in line if unicodedata.category(c)[0] == "C" or c in "\u2028\u2029"}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_life_with_hostile_values(node: Node, case: Change) -> None:
    pod = objects.pod("db", memory_limit_bytes=GI)
    container = objects.container(pod, "server", memory_limit_bytes=GI)
    case(pod, container)
    node.call("Configure", api.ConfigureRequest(request_timeout=30_000))
    node.call("Synchronize", api.SynchronizeRequest())
    node.call("RunPodSandbox", api.RunPodSandboxRequest(pod=pod))
    node.call("CreateContainer", api.CreateContainerRequest(pod=pod, container=container))
    resources = api.LinuxResources(memory=api.LinuxMemory(limit=api.OptionalInt64(value=64 * GI)))
    update = api.UpdateContainerRequest(pod=pod, container=container, linux_resources=resources)
    node.call("UpdateContainer", update)
    node.call("Synchronize", api.SynchronizeRequest(pods=[pod], containers=[container]))
    node.call("StopContainer", api.StopContainerRequest(pod=pod, container=container))
    node.call("RemoveContainer", api.RemoveContainerRequest(pod=pod, container=container))
    node.call("StopPodSandbox", api.StopPodSandboxRequest(pod=pod))
    node.call("RemovePodSandbox", api.RemovePodSandboxRequest(pod=pod))
    node.service.dump_state()
    logs.flush()
    events = {str(record["event"]) for record in node.sink.records}
    assert {"configured", "synchronized", "state_dump"} <= events
    bugs = {"internal_error", "internal_error_after_reply", "job_failed", "request_timed_out"}
    assert events.isdisjoint(bugs)
    assert logs.dropped_records() == 0
    assert [line for line in node.sink.lines if len(line) > RECORD_CHARACTERS] == []
    assert [shown(line) for line in node.sink.lines if shown(line)] == []
    assert all(isinstance(json.loads(render_json(record)), dict) for record in node.sink.records)
    assert [text for text in node.refusals if len(text) > REFUSAL_CHARACTERS or shown(text)] == []


def test_what_is_written_can_be_read(tmp_path: Path) -> None:
    """The state file after amounts that no machine has, and after names that no user means."""
    host = SimulatedHost(tmp_path)
    node = Node(host)
    for number, change in enumerate((mems("0"), names(CONTROLS))):
        pod = objects.pod(f"db{number}", memory_limit_bytes=GI)
        container = objects.container(pod, "server", memory_limit_bytes=GI)
        change(pod, container)
        if number == 0:
            hugepages(1, "2MB", (1 << 64) - 1)(pod, container)
            memory((1 << 63) - 1)(pod, container)
        node.call("RunPodSandbox", api.RunPodSandboxRequest(pod=pod))
        request = api.CreateContainerRequest(pod=pod, container=container)
        node.call("CreateContainer", request)
    assert node.refusals == []
    node.close()
    again = Node(host)
    again.close()
    (restored,) = [r for r in again.sink.records if r["event"] == "state_restored"]
    assert restored["containers"] == 2


def test_a_refusal_names_what_it_refuses(node: Node) -> None:
    pod = objects.pod("db", memory_limit_bytes=64 * GI)
    container = objects.container(pod, "x" * 1000, memory_limit_bytes=64 * GI)
    node.call("CreateContainer", api.CreateContainerRequest(pod=pod, container=container))
    (text,) = node.refusals
    assert f"container {'x' * 256}... (1000 characters) of pod default/db refused" in text
