"""A small machine, and a runtime's life in a few words for the tests of the engine."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pytest

from nri_numamem.engine.core import events
from nri_numamem.engine.core.plan import Plan
from nri_numamem.engine.core.policy import Policy
from nri_numamem.engine.engine import Engine
from nri_numamem.engine.pods import outstanding
from nri_numamem.engine.records.record import Record
from nri_numamem.engine.setup import new_context
from nri_numamem.memorymanager import PoolUse, Reservation, check_accounting, check_groups
from nri_numamem.memorymanager.holder import container_name
from nri_numamem.numa import CpuSet, Machine, NodeSet, NumaNode

MI = 1 << 20
GI = 1 << 30
PAGE = 2 * MI


def four_nodes() -> Machine:
    """1 GiB, 16 pages of 2Mi and four CPUs each; 0-1 and 2-3 are close."""
    close = {0: 1, 1: 0, 2: 3, 3: 2}
    return Machine(
        tuple(
            NumaNode(
                node_id=node,
                memory_bytes=GI,
                hugepages={PAGE: 16},
                cpus=CpuSet(range(4 * node, 4 * node + 4)),
                distances={o: 10 if o == node else 12 if o == close[node] else 20 for o in close},
            )
            for node in close
        )
    )


@dataclass(frozen=True, slots=True)
class Answer(Plan):
    """A plan, and the records of its commit."""

    records: tuple[Record, ...] = ()


def handle(engine: Engine, event: events.Event) -> Answer:
    """Apply an event."""
    plan, records = engine.decide(event), engine.commit()
    return Answer(plan.adjustment, plan.updates, plan.refusal, records)


@dataclass
class Host:
    """An engine, and the pods and containers that a runtime would report to it."""

    engine: Engine
    shows_hugepages: bool = False
    pods: dict[str, events.PodSandbox] = field(default_factory=dict)
    containers: dict[str, events.Container] = field(default_factory=dict)
    ran: Answer = field(default_factory=Answer)
    """The result of the last start of a sandbox."""

    answers: list[Answer] = field(default_factory=list)

    def handle(self, event: events.Event) -> Answer:
        """Apply an event."""
        answer = handle(self.engine, event)
        self.answers.append(answer)
        return answer

    def run(
        self,
        uid: str,
        qos: str = "",
        hugepages: Mapping[int, int] | None = None,
        sandbox: str | None = None,
        memory: int | None = None,
        pool_use: PoolUse | None = None,
        *,
        namespace: str = "ns",
        labels: Mapping[str, str] | None = None,
    ) -> events.PodSandbox:
        """Start a pod; `qos` is the level in its cgroup parent ("burstable/", "" = Guaranteed)."""
        pod = events.PodSandbox(
            sandbox or f"sandbox-{uid}",
            uid,
            namespace,
            f"pod-{uid}",
            f"/kubepods/{qos}pod{uid}",
            memory,
            hugepages or {},
            labels=labels or {},
        )
        self.pods[pod.sandbox_id] = pod
        self.ran = self.handle(events.RunPodSandbox(pod, pool_use))
        assert self.ran == Answer(records=self.ran.records)
        return pod

    def create(
        self,
        pod: events.PodSandbox,
        name: str = "main",
        memory: int | None = 200 * MI,
        *,
        hugepages: Mapping[int, int] | None = None,
        unified: Mapping[int, int] | None = None,
        mems: str = "",
        container_id: str | None = None,
        cpus: str = "",
        cpu_shares: int | None = None,
        devices: Sequence[str] = (),
        pool_use: PoolUse | None = None,
    ) -> Answer:
        """Create a container; its spec contains what the plan sets."""
        container = events.Container(
            container_id or f"{pod.sandbox_id}-{name}-{len(self.containers)}",
            pod.sandbox_id,
            name,
            memory,
            hugepages,
            unified or {},
            cpuset_mems=mems,
            cpuset_cpus=cpus,
            cpu_shares=cpu_shares,
            device_nodes=tuple(map(NodeSet.parse, devices)),
            has_devices=bool(devices),
        )
        plan = self.handle(events.CreateContainer(pod, container, pool_use))
        for update in plan.updates:
            if update.container_id in self.containers:
                known = self.containers[update.container_id]
                self.containers[update.container_id] = replace(
                    known,
                    cpuset_mems=update.cpuset_mems or known.cpuset_mems,
                    cpuset_cpus=update.cpuset_cpus or known.cpuset_cpus,
                )
        if plan.refusal is None:
            nodes = plan.adjustment.cpuset_mems if plan.adjustment else mems
            limits = dict(plan.adjustment.hugepage_limits) if plan.adjustment else {}
            found = plan.adjustment.cpuset_cpus if plan.adjustment else ""
            kept = replace(
                container,
                cpuset_mems=nodes,
                cpuset_cpus=found or cpus,
                hugepages_unified=limits or container.hugepages_unified,
            )
            self.containers[kept.container_id] = kept
        return plan

    def newest(self, name: str = "main") -> events.Container:
        """Return the container of that name that was created last."""
        return [c for c in self.containers.values() if c.name == name][-1]

    def stop(self, container: events.Container) -> Answer:
        """Report that a container ended."""
        pod = self.pods[container.sandbox_id]
        self.containers.pop(container.container_id, None)
        return self.handle(events.StopContainer(pod, container))

    def remove(self, container: events.Container) -> Answer:
        """Report that a container was removed."""
        pod = self.pods[container.sandbox_id]
        return self.handle(events.RemoveContainer(pod, container))

    def resize(self, container: events.Container, memory: int, limit: int | None = None) -> Answer:
        """Change a container's memory; `limit` is the pod's limit from then on."""
        pod = self.pods[container.sandbox_id]
        if limit is not None:
            pod = self.pods[pod.sandbox_id] = replace(pod, memory_limit_bytes=limit)
        answer = self.handle(events.UpdateContainer(pod, container, memory))
        if answer.refusal is None:
            kept = replace(container, memory_limit_bytes=memory)
            for update in answer.updates:
                kept = replace(
                    kept,
                    cpuset_mems=update.cpuset_mems,
                    cpuset_cpus=update.cpuset_cpus or kept.cpuset_cpus,
                )
            self.containers[container.container_id] = kept
        return answer

    def stop_pod(self, pod: events.PodSandbox) -> Answer:
        """Report that a sandbox was stopped."""
        return self.handle(events.StopPodSandbox(pod))

    def remove_pod(self, pod: events.PodSandbox) -> Answer:
        """Report that a sandbox was removed."""
        self.pods.pop(pod.sandbox_id, None)
        return self.handle(events.RemovePodSandbox(pod))

    def synchronize(self, *, keeps_updates: bool = True) -> Answer:
        """Report all pods and containers."""
        pods, containers = tuple(self.pods.values()), tuple(self.containers.values())
        return self.handle(events.Synchronize(pods, containers, keeps_updates))

    def free(self, resource: str = "memory") -> list[int]:
        """Return the free bytes of a resource per node."""
        nodes = self.engine.state.accounting.machine_state.values()
        return [node.memory_map[resource].free for node in nodes]

    def placed(self) -> dict[str, dict[str, str]]:
        """Return pod uid -> container -> its nodes."""
        return {
            uid: {container_name(name): str(held[0].numa_affinity) for name, held in found.items()}
            for uid, found in self.engine.state.accounting.assignments.items()
        }


SETTINGS = Policy(
    reserved_memory=tuple(Reservation(node, {"memory": 64 * MI}) for node in range(4))
)


class NewHost:
    """Makes hosts; their accounting is checked when the test ends."""

    def __init__(self) -> None:
        self.made: list[Host] = []
        self.groups_may_mix = False

    def __call__(self, settings: Policy = SETTINGS, machine: Machine | None = None) -> Host:
        host = Host(Engine(new_context(machine or four_nodes(), settings)))
        self.made.append(host)
        return host


@pytest.fixture
def new_host() -> Iterator[NewHost]:
    found = NewHost()
    yield found
    for host in found.made:
        assert check_accounting(host.engine.state.accounting) == ()
        assert found.groups_may_mix or check_groups(host.engine.state.accounting) == ()
        sandboxes = [pod.uid for pod in host.engine.state.pods.values()]
        if len(set(sandboxes)) == len(sandboxes):
            assert outstanding.computed(host.engine.state) is host.engine.state


@pytest.fixture
def host(new_host: NewHost) -> Host:
    return new_host()
