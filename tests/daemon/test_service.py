"""The service: one engine for all connections, in a virtual world."""

from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from nri_numamem.config.settings import Settings
from nri_numamem.daemon.external import ExternalPlugin
from nri_numamem.daemon.identity import Identity
from nri_numamem.daemon.service import Service
from nri_numamem.daemon.signals import DUMP_STATE
from nri_numamem.engine.admission import records
from nri_numamem.engine.core.policy import Policy
from nri_numamem.engine.engine import Engine
from nri_numamem.engine.features.residency.setting import Residency
from nri_numamem.engine.records.record import Record
from nri_numamem.engine.setup import new_context
from nri_numamem.host.roots import HostRoots
from nri_numamem.memorymanager import QosClass
from nri_numamem.memorymanager.burstable import BurstablePods, Evidence
from nri_numamem.numa import (
    CpuSet,
    Machine,
    MemoryPolicies,
    NumaNode,
    PodStrategies,
    PolicyMode,
    Strategy,
)
from nri_numamem.observe.plugin_file import PluginFacts, plugin_file_of, read_plugin_file
from tests.laboratory import api_pb2 as api
from tests.laboratory import objects
from tests.laboratory.version import RuntimeVersion
from tests.virtual.log import MemoryLog
from tests.virtual.runtime import VirtualRuntime
from tests.virtual.system import Machinery
from tests.virtual.world import World

GI = 1 << 30
SOCKET = Path("/run/nri.sock")


class Node:
    """A service with an engine of two nodes of 1 GiB, and a runtime that listens."""

    def __init__(self, root: Path) -> None:
        self.world = World()
        self.machinery = Machinery(self.world)
        self.runtime = VirtualRuntime(self.machinery, SOCKET)
        self.runtime.start()
        self.log = MemoryLog()
        nodes = tuple(NumaNode(node, 4 * GI, cpus=CpuSet([node])) for node in range(2))
        engine = Engine(new_context(Machine(nodes), Policy()))
        self.system = self.machinery.system()
        roots = HostRoots(root / "sys", root / "proc", root / "cgroup")
        self.service = Service(self.log, roots, self.system, engine)

    @property
    def engine(self) -> Engine:
        assert self.service.engine is not None
        return self.service.engine

    def run(self, seconds: float) -> None:
        """Serve for a time."""
        signals = self.machinery.signals
        self.world.after(seconds, signals.stop)
        plugin = ExternalPlugin(self.service, self.system, signals, SOCKET, Identity())
        self.world.run(plugin.run)
        self.service.close()


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


def test_a_commit_that_fails_ends_the_connection_and_a_new_one_rebuilds_the_state(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_about: object, **_more: object) -> Record:
        raise RuntimeError("what a bug")

    pod = objects.pod("db", memory_limit_bytes=GI)
    container = objects.container(pod, "server", memory_limit_bytes=GI)
    replies: list[api.CreateContainerResponse | None] = []

    def create_with_a_bug() -> None:
        with_bug = monkeypatch.context()
        patched = with_bug.__enter__()
        patched.setattr(records, "placed_as", fail)
        replies.append(node.runtime.create(pod, container))
        node.world.after(0.5, lambda: with_bug.__exit__(None, None, None))

    node.world.after(1, lambda: node.runtime.run_pod(pod))
    node.world.after(2, create_with_a_bug)
    node.run(20)
    (reply,) = replies
    assert reply is not None
    assert reply.adjust.linux.resources.cpu.mems
    (ended,) = node.log.named("disconnected")
    assert ended["cause"] == "the accounting lacks the contents of a reply"
    assert len(node.log.named("internal_error_after_reply")) == 1
    assert [served.is_synchronized for served in node.runtime.served] == [True, True]
    assert list(node.engine.state.accounting.assignments) == [pod.uid]


def test_a_violated_invariant_ends_the_connection_and_a_new_one_rebuilds_the_state(
    node: Node,
) -> None:
    pod = objects.pod("db", memory_limit_bytes=GI)
    container = objects.container(pod, "server", memory_limit_bytes=GI)

    def damage() -> None:
        accounting = replace(node.engine.state.accounting, assignments={})
        state = replace(node.engine.state, accounting=accounting)
        node.engine._committed = replace(node.engine.committed, state=state)

    node.world.after(1, lambda: node.runtime.run_pod(pod))
    node.world.after(2, lambda: node.runtime.create(pod, container))
    node.world.after(30, damage)
    node.run(60)
    assert len(node.log.named("accounting_invariant_violated")) == 1
    (ended,) = node.log.named("disconnected")
    assert ended["cause"] == "the accounting violates an invariant"
    assert len(node.runtime.served) == 2
    assert list(node.engine.state.accounting.assignments) == [pod.uid]


def test_an_engine_is_replaced_when_rebuilding_does_not_help(node: Node) -> None:
    engine = node.engine
    node.service._rebuild(False)  # noqa: FBT003
    assert node.engine is engine
    node.service._rebuild(True)  # noqa: FBT003
    assert node.engine is not engine
    assert node.engine.context is engine.context


def test_the_heart_beats_before_and_after_the_other_jobs(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    order: list[str] = []

    def run(_now_s: float) -> Iterable[Record]:
        order.append("machine read")
        return ()

    monkeypatch.setattr(node.service._heartbeat, "beat", lambda: order.append("beat"))
    monkeypatch.setattr(node.service._machine_monitor, "run", run)
    node.service.tick()
    assert order == ["beat", "machine read", "beat"]


def test_a_strict_policy_beside_static_cpus_is_logged_at_the_start(node: Node) -> None:
    policy = Policy(topology_manager_policy="restricted", has_static_cpus=True)
    node.service.use(Engine(new_context(node.engine.context.machine, policy)))
    assert node.log.events[-2:] == ["machine", "strict_policy_with_static_cpus"]


def test_the_state_is_dumped_on_a_signal(node: Node) -> None:
    node.world.after(1, lambda: node.machinery.signals.send(DUMP_STATE))
    node.run(3)
    assert len(node.log.named("state_dump")) == 1


def test_the_state_goes_to_the_state_file(node: Node, tmp_path: Path) -> None:
    path = tmp_path / "state"
    settings = Settings(state_file=str(path))
    pod = objects.pod("db", memory_limit_bytes=GI)
    node.service.start(node.engine, settings, "started as a test")
    node.world.after(1, lambda: node.runtime.run_pod(pod))
    node.world.after(
        2,
        lambda: node.runtime.create(pod, objects.container(pod, "server", memory_limit_bytes=GI)),
    )
    node.run(4)
    assert b"server" in path.read_bytes()
    node.service.start(node.engine, settings, "started again")
    assert len(node.log.named("state_restored")) == 1
    node.service.close()


def test_the_settings_and_the_runtime_decide_on_memory_policies(node: Node) -> None:
    policies = MemoryPolicies((PolicyMode.BIND,), runtimes=("runc",))
    settings = Settings(memory_policies=policies, state_file="")
    context = new_context(node.engine.context.machine, Policy(memory_policies=policies))
    replies: list[api.CreateContainerResponse | None] = []

    def create(number: int) -> None:
        pod = objects.pod(f"db-{number}", memory_limit_bytes=GI)
        pod.annotations["memory-policy.numamem.io"] = "bind"
        node.runtime.run_pod(pod)
        container = objects.container(pod, "server", memory_limit_bytes=GI)
        replies.append(node.runtime.create(pod, container))

    def replace_runtime() -> None:
        node.runtime.stop()
        node.runtime.version = RuntimeVersion("containerd", "v2.2.7", (0, 11, 0))
        node.runtime.start()

    node.service.start(Engine(context), settings, "started as a test")
    node.world.after(1, lambda: create(0))
    node.world.after(2, replace_runtime)
    node.world.after(10, lambda: create(1))
    node.run(20)
    first, second = [reply.adjust.linux for reply in replies if reply is not None]
    assert first.memory_policy.mode == api.MPOL_BIND
    assert first.memory_policy.nodes == first.resources.cpu.mems
    assert not second.HasField("memory_policy")
    (ignored,) = node.log.named("memory_policy_ignored")
    assert "policies need 0.12 or newer" in str(ignored["cause"])


def annotated_warnings(node: Node, policy: Policy, settings: Settings) -> list[tuple[str, str]]:
    """Return event and pod of the warnings while pods with wrong annotations start and restart."""
    annotations = {
        f"{feature}.numamem.io{part}": "wrong" if feature != "memory" else "guaranteed"
        for feature in ("memory", "memory-policy", "network-hints", "placement-strategy", "other")
        for part in ("", "/container.c1", "/" + "x" * 200)
    }

    def create(attempt: int) -> None:
        for qos in QosClass:
            if qos is QosClass.UNKNOWN:
                continue
            name = f"{qos.value}-pod"
            pod = objects.pod(name, qos=qos, memory_limit_bytes=GI, annotations=annotations)
            if not attempt:
                node.runtime.run_pod(pod)
            for number in range(3):
                container = objects.container(
                    pod, f"c{number}", memory_limit_bytes=GI // 4, qos=qos, attempt=attempt
                )
                node.runtime.create(pod, container)

    engine = Engine(new_context(node.engine.context.machine, policy))
    node.service.start(engine, settings, "started as a test")
    for attempt in range(4):
        node.world.after(1 + attempt, partial(create, attempt))
    node.run(8)
    assert len(node.log.named("memory_policy_ignored")) >= 20
    return [(str(w["event"]), str(w.get("pod", ""))) for w in node.log.warnings if "pod" in w]


def test_without_the_features_annotations_cause_no_warning(node: Node) -> None:
    assert annotated_warnings(node, Policy(), Settings(state_file="")) == []


def test_with_the_features_annotations_cause_one_warning_per_pod_and_feature(node: Node) -> None:
    policies = MemoryPolicies((PolicyMode.BIND,), runtimes=("runc",))
    strategies, burstable = PodStrategies((Strategy.PACK,)), BurstablePods((Evidence.ANNOTATION,))
    policy = Policy(memory_policies=policies, pod_strategies=strategies, burstable_pods=burstable)
    settings = Settings(
        memory_policies=policies,
        pod_strategies=strategies,
        burstable_pods=burstable,
        state_file="",
    )
    found = annotated_warnings(node, policy, settings)
    ignored = "memory_policy_ignored"
    assert sorted(found) == [
        *(("burstable_not_pinned", f"{qos}-pod") for qos in ("BestEffort", "Burstable")),
        *((ignored, f"{qos}-pod") for qos in ("BestEffort", "Burstable", "Guaranteed")),
        ("placement_strategy_ignored", "Guaranteed-pod"),
    ]


def test_pages_are_watched_only_with_the_setting(node: Node) -> None:
    def create() -> None:
        pod = objects.pod("db-1", memory_limit_bytes=GI)
        node.runtime.run_pod(pod)
        node.runtime.create(pod, objects.container(pod, "server", memory_limit_bytes=GI))

    sources = node.service.metrics._sources
    assert sources.residency() is None
    node.service.start(node.engine, Settings(state_file=""), "without the setting")
    assert sources.residency() is None
    settings = Settings(residency=Residency(2), state_file="")
    node.service.start(node.engine, settings, "started as a test")
    node.world.after(1, create)
    node.run(8)
    last = sources.residency()
    # The host has no cgroups, so what the container has is unknown.
    assert last is not None
    assert (last.pages, last.unfaulted) == ({}, dict.fromkeys(last.unfaulted, 0))
    assert last.unfaulted.keys() == node.engine.state.accounting.machine_state.keys()


def test_the_process_is_described_beside_the_state_file(node: Node, tmp_path: Path) -> None:
    path = tmp_path / "state"
    described: list[PluginFacts | None] = []
    node.service.start(node.engine, Settings(state_file=str(path)), "started as a test")
    node.world.after(2, lambda: described.append(read_plugin_file(plugin_file_of(path))))
    node.run(4)
    described.append(read_plugin_file(plugin_file_of(path)))
    serving, ended = described
    assert serving is not None
    assert serving.runtime is not None
    assert serving.runtime.name == node.runtime.version.runtime_name
    assert (serving.name, serving.is_connected) == ("10-nri-numamem", True)
    assert serving.ended_s is None
    assert ended is not None
    assert not ended.is_connected
    assert ended.ended_s is not None


def test_two_sandboxes_of_one_pod_over_a_connection(node: Node) -> None:
    """Both run a container of the same name; the second connection finds both as well."""
    pods = [objects.pod("db", uid="u", memory_limit_bytes=GI, attempt=n) for n in range(2)]
    for number, pod in enumerate(pods):
        made = objects.container(pod, "server", memory_limit_bytes=GI)
        node.world.after(1 + number, partial(node.runtime.run_pod, pod))
        node.world.after(1.5 + number, partial(node.runtime.create, pod, made))
    node.run(4)
    (warning,) = node.log.named("duplicate_container")
    assert warning["sandbox_id"] == pods[1].id
    assert warning["other_sandbox_id"] == pods[0].id
    blocks = node.engine.state.accounting.assignments["u"].values()
    assert [block.size for (block,) in blocks] == [GI, GI]
    node.run(4)
    assert len(node.log.named("duplicate_container")) == 2
    assert len(node.engine.state.accounting.assignments["u"]) == 2


def test_the_runtime_configures_nothing(node: Node) -> None:
    engine = node.engine
    node.run(3)
    assert node.engine is engine
    assert "configured" in node.log.events


def test_memory_follows_network_devices_only_with_the_setting(node: Node, tmp_path: Path) -> None:
    device = tmp_path / "sys/devices/pci0000:17/0000:18:00.0"
    (device / "net/eth1").mkdir(parents=True)
    (device / "numa_node").write_text("1\n")
    (tmp_path / "sys/class/net").mkdir(parents=True)
    (tmp_path / "sys/class/net/eth1").symlink_to(device / "net/eth1")
    mems: list[str] = []

    def create(number: int) -> None:
        pod = objects.pod(f"db-{number}", memory_limit_bytes=GI)
        node.runtime.run_pod(pod)
        container = objects.container(pod, "server", memory_limit_bytes=GI)
        container.linux.net_devices["eth1"].name = "net1"
        reply = node.runtime.create(pod, container)
        assert reply is not None
        mems.append(reply.adjust.linux.resources.cpu.mems)

    engine = Engine(new_context(node.engine.context.machine, Policy(network_hints=True)))
    node.service.start(engine, Settings(state_file=""), "without the setting")
    node.world.after(1, lambda: create(0))
    settings = Settings(network_hints="secondary", state_file="")
    node.world.after(2, lambda: node.service.start(engine, settings, "with the setting"))
    node.world.after(3, lambda: create(1))
    node.run(5)
    assert mems == ["0", "1"]
    (found,) = node.log.named("network_hints_found")
    assert found["interfaces"] == {"eth1": "1"}
    assert len(node.log.named("network_namespaces_closed")) == 1
