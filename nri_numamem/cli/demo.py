"""``nri-numamem demo``: show placement on a simulated machine, on any host, in a second.

The machine has two sockets with two NUMA nodes each (sub-NUMA clustering), so distances differ
between nodes of one socket and of two. Each pod shows another rule of placement. For each step the
demo prints the pod's request, the decision, and the memory per NUMA node. The engine that serves a
runtime decides, in this process; ``make run`` plays the same steps through a plugin process.
"""

import argparse
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from rich.console import Console

from nri_numamem.cli.render.screen import Screen, new_console
from nri_numamem.config.load import load_text
from nri_numamem.config.policy import context_of
from nri_numamem.engine.core.events import (
    Container,
    CreateContainer,
    PodSandbox,
    RunPodSandbox,
    StopPodSandbox,
)
from nri_numamem.engine.engine import Engine
from nri_numamem.memorymanager import QosClass
from nri_numamem.memorymanager.state_json import StateJson, state_json
from nri_numamem.numa import CpuSet, Machine, NumaNode
from nri_numamem.numa.quantity import format_page_size, format_quantity, hugepages_resource

EXAMPLES = ("nri-numamem demo",)

GI = 1 << 30
PAGE_2MI = 2 << 20
PAGE_1GI = 1 << 30

# Distances of two-socket servers with sub-NUMA clustering.
_SAME_NODE, _SAME_SOCKET, _OTHER_SOCKET = 10, 12, 21
_CPUS_PER_NODE = 16


def machine() -> Machine:
    """Return 4 NUMA nodes on 2 sockets; each has 64Gi, including 6Gi of hugepages."""
    return Machine(tuple(_node(node_id) for node_id in range(4)))


def _node(node_id: int) -> NumaNode:
    first_cpu = node_id * _CPUS_PER_NODE
    return NumaNode(
        node_id=node_id,
        memory_bytes=64 * GI,
        hugepages={PAGE_2MI: 1024, PAGE_1GI: 4},
        cpus=CpuSet(range(first_cpu, first_cpu + _CPUS_PER_NODE)),
        distances={other: _distance(node_id, other) for other in range(4)},
    )


def _distance(node_id: int, other: int) -> int:
    if node_id == other:
        return _SAME_NODE
    return _SAME_SOCKET if node_id // 2 == other // 2 else _OTHER_SOCKET


MACHINE_TEXT = (
    "4 NUMA nodes with 64Gi each, two per socket. The distance is 12 within a socket and 21 "
    "between sockets. Each node has 1Gi reserved for the system and hugepage pools of 4 pages of "
    "1Gi and 1,024 pages of 2Mi."
)

# As the kubelet requires, the nodes' reservations add up to the sum of kubeReserved,
# systemReserved and the eviction threshold.
CONFIG = """\
reservedMemory:
  - {numaNode: 0, limits: {memory: 1Gi}}
  - {numaNode: 1, limits: {memory: 1Gi}}
  - {numaNode: 2, limits: {memory: 1Gi}}
  - {numaNode: 3, limits: {memory: 1Gi}}
kubeReserved: {memory: 2Gi}
systemReserved: {memory: 1948Mi}
evictionHard: {memory.available: 100Mi}
"""


@dataclass(frozen=True, slots=True)
class PodSpec:
    """A pod with one container; amounts in bytes, hugepages by page size in bytes."""

    name: str
    container: str
    qos: QosClass
    memory_bytes: int = 0
    hugepages: Mapping[int, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Started:
    """What a container got when it was created."""

    cpuset_mems: str = ""
    """Kernel list format; "" if the container is not pinned."""
    hugepage_limits: Mapping[int, int] = field(default_factory=dict)
    """Page size in bytes -> limit in bytes."""


class RefusedError(Exception):
    """A container was refused; the text is the plugin's error."""


class Host(Protocol):
    """A host on which the demo starts and removes pods."""

    @property
    def pod_names(self) -> Mapping[str, str]:
        """Pod uid -> name of every pod that was started."""

    def accounting(self) -> StateJson:
        """Return the plugin's accounting."""

    def start_pod(self, spec: "PodSpec") -> Started:
        """Start a pod with its container; raise RefusedError, without it, if refused."""

    def remove_pod(self, spec: "PodSpec") -> None:
        """Stop and remove a pod."""


@dataclass(frozen=True, slots=True)
class Step:
    """One step of the demo, which starts or removes a pod."""

    title: str
    pod: PodSpec
    removes: bool = False


_DATABASE = PodSpec("database", "postgres", QosClass.GUARANTEED, 48 * GI)
_ANALYTICS = PodSpec("analytics", "spark", QosClass.GUARANTEED, 90 * GI)
_ROUTER = PodSpec("router", "dpdk", QosClass.GUARANTEED, 16 * GI, {PAGE_1GI: 4 * GI})
_WEB = PodSpec("web", "nginx", QosClass.BURSTABLE, 2 * GI)
_BATCH = PodSpec("batch", "job", QosClass.BEST_EFFORT)
_CACHE = PodSpec("cache", "redis", QosClass.GUARANTEED, 48 * GI)

STEPS = (
    Step("A database that fits on one node", _DATABASE),
    Step("More than one node can hold: the two closest nodes", _ANALYTICS),
    Step("A DPDK router with 1Gi hugepages: memory and hugepages on one node", _ROUTER),
    Step("A Burstable pod: not managed", _WEB),
    Step("A BestEffort pod: not managed", _BATCH),
    Step("A cache that fits nowhere: rejected, with the reason", _CACHE),
    Step("The analytics pod is removed", _ANALYTICS, removes=True),
    Step("The cache is started again", _CACHE),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Set the epilog; the command has no options."""
    parser.epilog = "Needs no container runtime, no NUMA hardware and no root privileges."


def main(_args: argparse.Namespace) -> int:
    """Run the demo; return 0."""
    play(SimulatedHost(), new_console(), "A simulated machine; no container is started")
    return 0


def play(host: Host, console: Console, title: str) -> None:
    """Print the machine below `title`, then run and print each step."""
    screen = Screen(console)
    screen.heading(title)
    screen.text(MACHINE_TEXT)
    accounting = host.accounting()
    screen.accounting(accounting, None, host.pod_names)
    screen.legend()
    for number, step in enumerate(STEPS, start=1):
        screen.heading(f"{number}. {step.title}")
        _play_step(host, screen, step)
        before, accounting = accounting, host.accounting()
        screen.accounting(accounting, before, host.pod_names)


def _play_step(host: Host, screen: Screen, step: Step) -> None:
    if step.removes:
        host.remove_pod(step.pod)
        screen.labelled("removed", f"pod {step.pod.name}")
        return
    screen.labelled("request", describe(step.pod))
    try:
        started = host.start_pod(step.pod)
    except RefusedError as refused:
        screen.labelled("rejected", str(refused), "red")
        return
    pinning = describe_started(started)
    screen.labelled("result", pinning or "cpuset.mems is not set", "green" if pinning else "")


def describe(pod: PodSpec) -> str:
    """Return a pod's request as one line."""
    parts = [f"pod {pod.name}, container {pod.container}: {pod.qos.value}"]
    if pod.memory_bytes:
        parts.append(f"memory {format_quantity(pod.memory_bytes)}")
    for size_bytes, limit_bytes in pod.hugepages.items():
        parts.append(f"{hugepages_resource(size_bytes)} {format_quantity(limit_bytes)}")
    return ", ".join(parts)


def describe_started(started: Started) -> str:
    """Return a container's memory nodes and hugepage limits as one line; "" for none."""
    parts = [f"cpuset.mems {started.cpuset_mems}"] if started.cpuset_mems else []
    for size_bytes, limit_bytes in sorted(started.hugepage_limits.items()):
        size = format_page_size(size_bytes)
        parts.append(f"hugetlb.{size}.max {format_quantity(limit_bytes)}")
    return ", ".join(parts)


# The kubelet's cgroups of each QoS class, with the cgroupfs driver.
_PARENTS = {
    QosClass.GUARANTEED: "/kubepods",
    QosClass.BURSTABLE: "/kubepods/burstable",
    QosClass.BEST_EFFORT: "/kubepods/besteffort",
}


class SimulatedHost:
    """A host without a runtime: events go to the engine, and plans are its replies."""

    def __init__(self) -> None:
        self._engine = Engine(context_of(load_text(CONFIG, "demo"), machine()))
        self._pods: dict[str, PodSandbox] = {}
        self.pod_names: dict[str, str] = {}
        """Pod uid -> name of every pod that was started."""

    def accounting(self) -> StateJson:
        """Return the present accounting."""
        return state_json(self._engine.state.accounting)

    def start_pod(self, spec: PodSpec) -> Started:
        """Start a pod with its container; raise RefusedError, without it, if refused."""
        uid = f"{spec.name}-uid"
        self.pod_names[uid] = spec.name
        pod = self._pods[spec.name] = PodSandbox(
            f"{spec.name}-sandbox",
            uid,
            "default",
            spec.name,
            f"{_PARENTS[spec.qos]}/pod{uid}",
            spec.memory_bytes or None,
            spec.hugepages,
        )
        self._engine.apply(RunPodSandbox(pod))
        container = Container(
            f"{spec.name}-id", pod.sandbox_id, spec.container, spec.memory_bytes or None
        )
        plan = self._engine.apply(CreateContainer(pod, container)).plan
        if plan.refusal is not None:
            self.remove_pod(spec)
            raise RefusedError(plan.refusal)
        if plan.adjustment is None:
            return Started()
        return Started(plan.adjustment.cpuset_mems, plan.adjustment.hugepage_limits)

    def remove_pod(self, spec: PodSpec) -> None:
        """Stop a pod with its container."""
        self._engine.apply(StopPodSandbox(self._pods.pop(spec.name)))
