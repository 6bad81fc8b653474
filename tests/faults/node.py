"""The pods and containers of the node as the kubelet and the runtime know them.

Independent of the plugin: a container's nodes are those that the runtime applied from replies. This
is the content of Synchronize and the reference for checks. It survives plugin and runtime. The
traits in which containerd and CRI-O differ are here, for all runtimes.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Protocol

from nri_numamem.memorymanager import QosClass
from nri_numamem.numa import NodeSet
from nri_numamem.numa.quantity import MEMORY, hugepages_resource
from tests.laboratory import api_pb2 as api
from tests.laboratory import objects
from tests.laboratory.results import apply_adjustment, overlay_resources
from tests.sequences.operations import Spec, pod_hugepages

Key = tuple[str, str]
"""Pod uid and container name."""

MEMORY_LOW = "memory.low"

ALIVE = (api.CONTAINER_CREATED, api.CONTAINER_RUNNING)


@dataclass(frozen=True, slots=True)
class RuntimeTraits:
    """Behaviour in which runtimes differ."""

    is_crio: bool
    hides_hugepages: bool
    """As containerd does by default."""


@dataclass
class Container:
    """A created container."""

    spec: Spec
    pod: "Pod"
    message: api.Container
    created_mems: str = ""
    created_cpus: str = ""
    since: int = 0
    """Number of synchronizations before its creation."""
    is_exempt: bool = False
    """May exceed the capacity of its nodes: it was resized, or the machine changed."""
    is_starting: bool = False
    """Has no cgroup yet; updates reach only the runtime's store."""
    cgroup_mems: str = ""
    """cpuset.mems in its cgroup; "" if unset."""
    is_unpinned: bool = False
    """Of a Burstable pod, and a resize gave it all nodes."""
    is_sure: bool = False
    """The plugin has decided on its creation, and its reply has arrived."""
    must_not_move: bool = False
    """Has so much memory on other nodes that the plugin must not change them."""

    @property
    def is_alive(self) -> bool:
        return self.message.state in ALIVE

    @property
    def mems(self) -> str:
        """cpuset.mems as applied by the runtime; "" if unset."""
        return self.message.linux.resources.cpu.mems

    @property
    def must_stay_unpinned(self) -> bool:
        """Whether the plugin must not set nodes while it runs."""
        has_hugepages = any(self.pod.hugepages.values())
        return self.must_not_move or has_hugepages or bool(self.message.linux.devices)

    @property
    def is_assigned(self) -> bool:
        """Whether the plugin must have an assignment of it, on the nodes that it has."""
        return bool(self.mems) and not self.is_unpinned and not self.is_confined

    @property
    def is_confined(self) -> bool:
        """Whether it has the nodes of its partition for containers that are not pinned.

        A pinned container of a Burstable pod may have the same nodes.
        """
        nodes = self.pod.unpinned_nodes
        return bool(nodes) and not self.pod.is_guaranteed and self.mems == str(nodes)

    @property
    def memory_bytes(self) -> int:
        return self.message.linux.resources.memory.limit.value

    @property
    def key(self) -> Key:
        return self.pod.message.uid, self.spec.name


@dataclass(frozen=True, slots=True)
class Reservation:
    """What the plugin must reserve for a pod whose container has ended."""

    mems: str
    memory_bytes: int
    is_end_lost: bool = False
    """The plugin timed out the end of the container."""

    def may_be_on(self, nodes: NodeSet) -> bool:
        """Return whether the plugin may reserve the memory on these nodes.

        They are those of the container. Only a container whose end the plugin lost, and that
        counts as live until the next Synchronize, may get more: a creation that finds the pod's
        limit exceeded takes it for one of a pod with pod-level resources, and gives all containers
        that share the pod's nodes more of them where these are too full.
        """
        own = NodeSet.parse(self.mems)
        return own == nodes or (self.is_end_lost and own.issubset(nodes))


@dataclass
class Pod:
    """A pod with one sandbox."""

    message: api.PodSandbox
    qos: QosClass
    specs: tuple[Spec, ...]
    key: str = ""
    """The sandbox's name in the operations of a life."""
    allowed_nodes: NodeSet = field(default_factory=NodeSet)
    """Those of its partition, for pinned containers."""
    unpinned_nodes: NodeSet = field(default_factory=NodeSet)
    """What the partitions leave to containers that are not pinned; empty for all nodes."""
    containers: dict[str, Container] = field(default_factory=dict)
    """Name -> its newest container."""
    attempted_names: set[str] = field(default_factory=set)
    """Names of containers for which the plugin received a CreateContainer."""
    done: set[str] = field(default_factory=set)
    """Names of ended init containers."""
    attempts: int = 0
    refusals: int = 0
    is_of_current_runtime: bool = True
    """Started by the present runtime process: containerd reports the end of these pods only."""
    has_ended: bool = False
    swept_by: int = 0
    """Number of the plugin start whose sweeps have seen the cgroup."""
    reservations: dict[str, Reservation] = field(default_factory=dict)
    was_resized: bool = False
    has_lost_end: bool = False
    """The plugin timed out the end of a container, which then counts as live for the next one."""
    has_failed_resize: bool = False
    """The pod's cgroup may have a limit for a resize that was refused."""
    is_sum_lost: bool = False
    """A plugin started without a record of which container has the pod's hugepages."""

    @property
    def is_guaranteed(self) -> bool:
        return self.qos is QosClass.GUARANTEED

    @property
    def uid(self) -> str:
        return self.message.uid

    @property
    def hugepages(self) -> dict[int, int]:
        """The limits of the pod's cgroup: the maximum that runs at once."""
        return pod_hugepages(self.specs)

    @property
    def memory_limit_bytes(self) -> int:
        """The limit of the pod's cgroup: the pod's limit in the plugin, or less."""
        at_start = self.message.linux.pod_resources.memory.limit.value
        sizes = {c.spec.name: c.memory_bytes for c in self.containers.values() if c.is_alive}
        apps = sum(sizes.get(s.name, s.memory_bytes) for s in self.specs if not s.is_init)
        return max(at_start, apps)

    def next_spec(self) -> Spec | None:
        """Return the next container to create; None if all exist."""
        for spec in self.specs:
            is_there = spec.name in self.containers and self.containers[spec.name].is_alive
            if spec.is_init and spec.name not in self.done:
                return None if is_there else spec
            if not spec.is_init and not is_there:
                return spec
        return None

    def alive(self) -> list[Container]:
        return [c for c in self.containers.values() if c.is_alive]


class ContainerCgroups(Protocol):
    """The cgroups of containers on the host."""

    def write(self, container: Container) -> None:
        """Write what the container's cgroup shows."""

    def drop(self, container: Container) -> None:
        """Remove the container's cgroup."""


class NoContainerCgroups:
    """Containers have no cgroups, so the plugin reads none."""

    def write(self, _container: Container) -> None:
        """Do nothing."""

    def drop(self, _container: Container) -> None:
        """Do nothing."""


class Node:
    """All pods that the kubelet or the runtime knows."""

    def __init__(
        self, traits: RuntimeTraits, *, pins_burstable: bool = False, has_partitions: bool = False
    ) -> None:
        self.traits = traits
        self.pins_burstable = pins_burstable
        self.has_partitions = has_partitions
        self.pods: dict[str, Pod] = {}
        """Sandbox id -> pod, until the runtime removes it."""
        self.ended: list[Container] = []
        """Ended containers, perhaps with running successors; they can be removed."""
        self.synchronizations = 0
        self.cgroups: ContainerCgroups = NoContainerCgroups()
        self.has_devices = True
        self.network_devices: tuple[str, ...] = ()
        """Network devices of the host that every second container gets."""
        self._moved_devices = 0
        """Whether new containers have a device."""
        self.preset_nodes: dict[str, NodeSet] = {}
        """Uid of a pod -> nodes that another plugin has set for its containers."""
        self.is_start_delayed = False
        """Containers that are created now start later, from their present specification."""
        self.has_unknown_shortfalls = traits.is_crio
        """Shortfalls of exempt containers are unknown: CRI-O forgets updates, so containers are
        placed again, and after a change of the machine only large shortfalls are recorded."""

    def may_be_assigned(self, pod: Pod) -> bool:
        """Return whether the plugin may have assignments of a pod's containers."""
        return pod.is_guaranteed or self.pins_burstable

    def running(self) -> list[Pod]:
        return [pod for pod in self.pods.values() if not pod.has_ended]

    def containers(self) -> Iterator[Container]:
        """Yield all living containers."""
        for pod in self.pods.values():
            yield from pod.alive()

    def content(self) -> tuple[list[api.PodSandbox], list[api.Container]]:
        """Return the content of Synchronize; containerd also lists ended pods."""
        pods = [p.message for p in self.pods.values() if not (p.has_ended and self.traits.is_crio)]
        return pods, [container.message for container in self.containers()]

    def add(self, pod: Pod, spec: Spec, message: api.Container) -> Container:
        """Add a created container, which runs from now on."""
        message.state = api.CONTAINER_RUNNING
        mems, cpus = message.linux.resources.cpu.mems, message.linux.resources.cpu.cpus
        since = self.synchronizations
        container = Container(spec, pod, message, mems, cpus, since, cgroup_mems=mems)
        if self.is_start_delayed:
            container.is_starting, message.state = True, api.CONTAINER_CREATED
        else:
            self.cgroups.write(container)
        pod.containers[spec.name] = container
        pod.reservations.pop(spec.name, None)
        return container

    def new_message(self, pod: Pod, spec: Spec) -> api.Container:
        """Return a container as the runtime sends it before its creation."""
        pod.attempts += 1
        pod.attempted_names.add(spec.name)
        message = objects.container(
            pod.message,
            spec.name,
            memory_limit_bytes=spec.memory_bytes,
            hugepages=None if self.traits.hides_hugepages else spec.hugepages,
            qos=pod.qos,
            attempt=pod.attempts,
        )
        if not self.has_devices:
            del message.linux.devices[:]
        if self.network_devices and pod.attempts % 2:
            self._moved_devices += 1
            name = self.network_devices[self._moved_devices % len(self.network_devices)]
            message.linux.net_devices[name].name = "net1"
        if pod.qos is QosClass.BURSTABLE and self.pins_burstable:
            message.linux.resources.unified[MEMORY_LOW] = str(spec.memory_low_bytes)
        return message

    def adjust(self, message: api.Container, reply: api.CreateContainerResponse) -> None:
        """Apply the reply to a creation."""
        apply_adjustment(message, reply.adjust, hugetlb=not self.traits.hides_hugepages)

    def finish_start(self, container: Container) -> None:
        """Start a container whose start was delayed, with the nodes of its creation."""
        if container.is_starting and container.is_alive:
            container.is_starting = False
            container.message.state = api.CONTAINER_RUNNING
            self.cgroups.write(container)

    def update(self, updates: list[api.ContainerUpdate]) -> None:
        """Apply updates of running containers."""
        by_id = {container.message.id: container for container in self.containers()}
        for update in updates:
            if update.container_id in by_id:
                container = by_id[update.container_id]
                resources = container.message.linux.resources
                overlay_resources(resources, update.linux.resources)
                if not container.is_starting:
                    container.cgroup_mems = container.mems
                    self.cgroups.write(container)

    def end(self, container: Container, *, is_recorded: bool, is_end_lost: bool = False) -> None:
        """Note that a container has ended; `is_recorded`: the plugin must keep a reservation."""
        container.message.state = api.CONTAINER_STOPPED
        container.is_starting = False
        self.cgroups.drop(container)
        self.ended.append(container)
        pod = container.pod
        if pod.is_guaranteed and container.mems and is_recorded:
            pod.reservations[container.spec.name] = Reservation(
                container.mems, container.memory_bytes, is_end_lost
            )

    def runtime_died(self) -> None:
        """Apply the effects of the runtime's death on what it reports later."""
        for pod in self.pods.values():
            pod.is_of_current_runtime = False
        self.ended.clear()  # containers that ended before are never reported again
        if self.traits.is_crio:
            for container in self.containers():
                cpu = container.message.linux.resources.cpu
                cpu.mems, cpu.cpus = container.created_mems, container.created_cpus

    def spread_exemptions(self) -> None:
        """Exempt all containers that share nodes with an exempt container.

        When the accounting is rebuilt, the last container on the nodes gets too little.
        """
        # CRI-O forgets nodes that its cgroup still has.
        places = {
            c.key: {*NodeSet.parse(c.mems), *NodeSet.parse(c.cgroup_mems)}
            for c in self.containers()
            if self.may_be_assigned(c.pod)
        }
        reach: set[int] = set()
        for container in self.containers():
            # One that fitted nowhere is taken for a pinned one.
            container.is_exempt |= container.is_confined and self.pins_burstable
            if container.is_exempt:
                reach |= places.get(container.key, set())
        grown = True
        while grown:
            grown = False
            for container in self.containers():
                here = places.get(container.key, set())
                if here & reach and not (container.is_exempt and here <= reach):
                    container.is_exempt, grown = True, True
                    reach |= here

    def exempt_all(self) -> None:
        """Exempt all running containers from fitting their nodes."""
        self.has_unknown_shortfalls = True
        for container in self.containers():
            container.is_exempt = True

    def expect_no_reservations(self) -> None:
        """Expect no reservations: the machine changed while the plugin was not running."""
        for pod in self.pods.values():
            pod.reservations.clear()


def expected_sizes(container: Container, traits: RuntimeTraits) -> dict[str, int]:
    """Return the amounts that must be recorded for a container, by resource.

    Where the runtime hides hugepages only memory is known, and the pod's sum of hugepages.
    """
    sizes = {MEMORY: container.memory_bytes}
    if not traits.hides_hugepages:
        for size, limit in container.spec.hugepages.items():
            if limit:
                sizes[hugepages_resource(size)] = limit
    return sizes
