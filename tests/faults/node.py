"""What really runs on the node: pods and containers as kubelet and runtime know them.

Independent of the plugin: a container's nodes are what the runtime applied from the replies that it
got. This is what a runtime tells at Synchronize, and what the books are judged by. It outlives
plugin and runtime. The habits in which containerd and CRI-O differ are here, for both sides.
"""

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from nri_numamem.engine.qos import QosClass
from nri_numamem.memorymanager import Machine, NodeSet
from nri_numamem.memorymanager.quantity import MEMORY, hugepages_resource
from nri_numamem.nri import api_pb2 as api
from nri_numamem.nri import runtime_objects as objects
from nri_numamem.nri.runtime_results import apply_adjustment, overlay_resources
from tests.faults.ground import GI, MI, PAGE_1GI, PAGE_2MI

Key = tuple[str, str]
"""Pod uid and container name."""

ALIVE = (api.CONTAINER_CREATED, api.CONTAINER_RUNNING)


@dataclass(frozen=True, slots=True)
class Habits:
    """What this runtime does that others do not."""

    is_crio: bool
    hides_hugepages: bool
    """As containerd does by default."""


@dataclass(frozen=True, slots=True)
class Spec:
    """A container as its pod's owner wants it."""

    name: str
    memory_bytes: int
    hugepages: Mapping[int, int]
    """Page size in bytes -> bytes, for every size of the host."""
    is_init: bool = False


@dataclass
class Container:
    """A container that was created."""

    spec: Spec
    pod: "Pod"
    message: api.Container
    created_mems: str = ""
    since: int = 0
    """How often plugins had been synchronized when it was created."""
    is_excused: bool = False
    """May hold more than its nodes have: it was resized, or the machine changed under it."""

    @property
    def is_alive(self) -> bool:
        return self.message.state in ALIVE

    @property
    def mems(self) -> str:
        """cpuset.mems as the runtime applied it; "" when nobody set it."""
        return self.message.linux.resources.cpu.mems

    @property
    def memory_bytes(self) -> int:
        return self.message.linux.resources.memory.limit.value

    @property
    def key(self) -> Key:
        return self.pod.message.uid, self.spec.name


@dataclass(frozen=True, slots=True)
class Held:
    """What the plugin must keep for a pod whose container has ended."""

    mems: str
    memory_bytes: int


@dataclass
class Pod:
    """A pod with one sandbox."""

    message: api.PodSandbox
    qos: QosClass
    specs: tuple[Spec, ...]
    containers: dict[str, Container] = field(default_factory=dict)
    """Name -> its newest container."""
    tried: set[str] = field(default_factory=set)
    """Names of containers that the plugin was ever asked about."""
    done: set[str] = field(default_factory=set)
    """Names of init containers that have ended."""
    attempts: int = 0
    refusals: int = 0
    is_own: bool = True
    """Started by the runtime's present process: only of these containerd tells the end."""
    has_ended: bool = False
    swept_by: int = 0
    """The start of the plugin whose sweeps have seen the cgroup."""
    held: dict[str, Held] = field(default_factory=dict)
    was_resized: bool = False

    @property
    def is_guaranteed(self) -> bool:
        return self.qos is QosClass.GUARANTEED

    @property
    def uid(self) -> str:
        return self.message.uid

    @property
    def hugepages(self) -> dict[int, int]:
        """The limits of the pod's cgroup: the most that runs at once."""
        return {size: _effective(self.specs, size) for size in (PAGE_2MI, PAGE_1GI)}

    def next_spec(self) -> Spec | None:
        """Return the next container to create; None when all have been."""
        for spec in self.specs:
            is_there = spec.name in self.containers and self.containers[spec.name].is_alive
            if spec.is_init and spec.name not in self.done:
                return None if is_there else spec
            if not spec.is_init and not is_there:
                return spec
        return None

    def alive(self) -> list[Container]:
        return [c for c in self.containers.values() if c.is_alive]


def _effective(specs: tuple[Spec, ...], size: int) -> int:
    apps = sum(s.hugepages.get(size, 0) for s in specs if not s.is_init)
    return max([apps, *(s.hugepages.get(size, 0) for s in specs if s.is_init)])


class Node:
    """All pods that the kubelet or the runtime knows."""

    def __init__(self, habits: Habits) -> None:
        self.habits = habits
        self.pods: dict[str, Pod] = {}
        """Sandbox id -> pod, until the runtime forgets it."""
        self.old: list[Container] = []
        """Containers that ended and whose successors may run; they can be removed."""
        self.synchronizations = 0
        self.is_vague = habits.is_crio
        """How much excused containers lack is not told: CRI-O forgets updates, so they are placed
        again, and a machine that changes under them is a record for large differences only."""

    def running(self) -> list[Pod]:
        return [pod for pod in self.pods.values() if not pod.has_ended]

    def containers(self) -> Iterator[Container]:
        """Give all containers that live."""
        for pod in self.pods.values():
            yield from pod.alive()

    def content(self) -> tuple[list[api.PodSandbox], list[api.Container]]:
        """Return what Synchronize tells: containerd lists pods that have ended as well."""
        pods = [p.message for p in self.pods.values() if not (p.has_ended and self.habits.is_crio)]
        return pods, [container.message for container in self.containers()]

    def add(self, pod: Pod, spec: Spec, message: api.Container) -> Container:
        """Enter a container that was created; it runs from now on."""
        message.state = api.CONTAINER_RUNNING
        mems = message.linux.resources.cpu.mems
        container = Container(spec, pod, message, mems, self.synchronizations)
        pod.containers[spec.name] = container
        pod.held.pop(spec.name, None)
        return container

    def new_message(self, pod: Pod, spec: Spec) -> api.Container:
        """Return a container as the runtime shows it before its creation."""
        pod.attempts += 1
        pod.tried.add(spec.name)
        return objects.container(
            pod.message,
            spec.name,
            memory_limit_bytes=spec.memory_bytes,
            hugepages=None if self.habits.hides_hugepages else spec.hugepages,
            qos=pod.qos,
            attempt=pod.attempts,
        )

    def adjust(self, message: api.Container, reply: api.CreateContainerResponse) -> None:
        """Apply what the plugin answered to a creation."""
        apply_adjustment(message, reply.adjust, hugetlb=not self.habits.hides_hugepages)

    def update(self, updates: list[api.ContainerUpdate]) -> None:
        """Apply what the plugin wants of containers that run."""
        by_id = {container.message.id: container for container in self.containers()}
        for update in updates:
            if update.container_id in by_id:
                resources = by_id[update.container_id].message.linux.resources
                overlay_resources(resources, update.linux.resources)

    def end(self, container: Container, *, on_books: bool) -> None:
        """Note that a container has ended; `on_books`: the plugin must keep its place."""
        container.message.state = api.CONTAINER_STOPPED
        self.old.append(container)
        pod = container.pod
        if pod.is_guaranteed and container.mems and on_books:
            pod.held[container.spec.name] = Held(container.mems, container.memory_bytes)

    def runtime_died(self) -> None:
        """Do what the end of the runtime's process does to what it tells later."""
        for pod in self.pods.values():
            pod.is_own = False
        self.old.clear()  # of containers that ended before, nothing is told any more
        if self.habits.is_crio:
            for container in self.containers():
                container.message.linux.resources.cpu.mems = container.created_mems

    def spread_excuses(self) -> None:
        """Excuse whatever shares nodes with what may not fit.

        When books are made anew, it is the last one on the nodes that gets too little.
        """
        places = {c.key: set(NodeSet.parse(c.mems)) for c in self.containers() if c.mems}
        reach: set[int] = set()
        for container in self.containers():
            if container.is_excused:
                reach |= places.get(container.key, set())
        grown = True
        while grown:
            grown = False
            for container in self.containers():
                here = places.get(container.key, set())
                if here & reach and not (container.is_excused and here <= reach):
                    container.is_excused, grown = True, True
                    reach |= here

    def machine_changed(self) -> None:
        """Excuse what runs from fitting."""
        self.is_vague = True
        for container in self.containers():
            container.is_excused = True

    def forget_held(self) -> None:
        """Expect nothing to be kept: the machine changed while the plugin was away."""
        for pod in self.pods.values():
            pod.held.clear()


def random_specs(rng: random.Random, machine: Machine, *, is_guaranteed: bool) -> tuple[Spec, ...]:
    """Return the containers of a pod: init containers first, then one to three others."""
    largest = max(node.memory_bytes for node in machine.nodes)
    names = [f"init-{number}" for number in range(rng.choice((0, 0, 1, 2)))]
    names += [f"app-{number}" for number in range(rng.choice((1, 1, 2, 3)))]
    specs = [_spec(rng, machine, name, largest) for name in names]
    if not is_guaranteed:
        return tuple(Spec(s.name, s.memory_bytes, {}, s.is_init) for s in specs)
    return tuple(specs)


def _spec(rng: random.Random, machine: Machine, name: str, largest: int) -> Spec:
    # Most containers are small; one of ten needs more than a node has.
    share = rng.choice((0.05, 0.05, 0.1, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9, 1.4))
    memory = max(64 * MI, int(largest * share * rng.uniform(0.5, 1.0)) // MI * MI)
    pages = {size: 0 for node in machine.nodes for size in node.hugepages}
    if rng.random() < 0.3:
        pages[PAGE_2MI] = rng.choice((2, 16, 64, 200)) * PAGE_2MI
    if PAGE_1GI in pages and rng.random() < 0.1:
        pages[PAGE_1GI] = GI
    return Spec(name, memory, pages, name.startswith("init-"))


def expected_sizes(container: Container, habits: Habits) -> dict[str, int]:
    """Return what a container must have on the books, by resource, as far as it is known.

    Where the runtime hides hugepages only the pod's sum is known, and only memory is told.
    """
    sizes = {MEMORY: container.memory_bytes}
    if not habits.hides_hugepages:
        for size, limit in container.spec.hugepages.items():
            if limit:
                sizes[hugepages_resource(size)] = limit
    return sizes
