"""CPUs beside memory: cpuFollowsMemory compared with a model of the kubelet's static managers.

`python -m tests.bench.cpus_beside_memory` prints a table, in a minute; it is in
docs/cpu-follows-memory.md.

A life is a sequence of starts and ends of Guaranteed pods with one container and whole CPUs, on 2,
4 or 8 nodes of 16 CPUs and 64 GiB. A pod starts only if the scheduler would send it: the CPU and
memory requests of all pods fit the host. "Mixed" pods need many CPUs or much memory, "proportional"
ones both in the proportion of the host. The lives depend on nothing but their seeds.

The model of the kubelet has exclusive CPUs under best-effort: the CPU manager's hints are those of
its static policy (sets of nodes with enough free CPUs, the fewest nodes preferred), and are merged
with the Memory Manager's by ``topologymanager``, whose merge is compared with the kubelet's own
code in tests/kubelet_managers. CPUs are taken from the merged hint first. It is a model, not the
kubelet's CPU manager: it knows neither cores nor sockets.
"""

import argparse
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import combinations
from random import Random

from nri_numamem.engine.context import Context
from nri_numamem.engine.engine import Engine
from nri_numamem.engine.events import Container, CreateContainer, PodSandbox, StopPodSandbox
from nri_numamem.engine.policy import Policy
from nri_numamem.memorymanager import Container as ManagedContainer
from nri_numamem.memorymanager import (
    ContainerKind,
    Hint,
    Pod,
    Rejection,
    Reservation,
    remove_container,
)
from nri_numamem.numa import CpuFollowing, CpuSet, Machine, NodeSet, NumaNode
from nri_numamem.topologymanager import admit
from tests.bench.report import markdown

GI = 1 << 30
CPUS, MEMORY_GI, RESERVED_GI = 16, 64, 1
LIVES, STEPS = 500, 60
SHAPES = ("mixed", "proportional")
STATIC = "kubelet's static managers (model)"


@dataclass(frozen=True)
class Request:
    """A pod with one container."""

    name: str
    cpus: int
    memory_bytes: int


@dataclass(frozen=True)
class Placed:
    """Where a container runs."""

    nodes: NodeSet
    cpus: CpuSet
    """All CPUs of the host for a container that floats."""


class Plugin:
    """The plugin's engine with one value of the setting."""

    def __init__(self, machine: Machine, following: CpuFollowing) -> None:
        policy = Policy(reserved_memory=_reserved(machine), cpu_following=following)
        self._engine = Engine(Context.of(machine, policy))
        self._all = _cpus_of(machine)

    def start(self, request: Request) -> Placed | None:
        """Create the pod's container; None if it is refused."""
        name = request.name
        pod = PodSandbox(name, name, "ns", name, f"/kubepods/pod{name}", request.memory_bytes)
        container = Container(name, name, "c", request.memory_bytes, cpu_shares=1024 * request.cpus)
        adjustment = self._engine.apply(CreateContainer(pod, container)).plan.adjustment
        if adjustment is None:
            return None
        cpus = CpuSet.parse(adjustment.cpuset_cpus) or self._all
        return Placed(NodeSet.parse(adjustment.cpuset_mems), cpus)

    def end(self, name: str) -> None:
        """End a pod."""
        self._engine.apply(StopPodSandbox(PodSandbox(name, name, "ns", name, "")))


class StaticManagers:
    """A model of the kubelet's static CPU manager beside its Memory Manager."""

    def __init__(self, machine: Machine) -> None:
        context = Context.of(machine, Policy(reserved_memory=_reserved(machine)))
        self._topology, self._state = context.topology, context.empty_accounting()
        self._free = {node.node_id: node.cpus for node in machine.nodes}
        self._taken: dict[str, CpuSet] = {}
        self._machine = machine

    def start(self, request: Request) -> Placed | None:
        """Admit a pod; None if it is refused."""
        hints = self._hints(request.cpus)
        container = ManagedContainer("c", ContainerKind.APP, {"memory": request.memory_bytes})
        pod = Pod(request.name, guaranteed=True, containers=(container,))
        placed = admit(self._state, pod, "c", self._topology, ({"cpu": hints},) if hints else ())
        if isinstance(placed, Rejection) or not hints:
            return None
        near = placed.hint.affinity or NodeSet(self._free)
        order = sorted(self._free, key=lambda node: (node not in near, node))
        ids = [cpu for node in order for cpu in self._free[node]][: request.cpus]
        taken = self._taken[request.name] = CpuSet(ids)
        self._free = {node: free - taken for node, free in self._free.items()}
        self._state = placed.accounting
        return Placed(placed.nodes, taken)

    def end(self, name: str) -> None:
        """End a pod."""
        taken = self._taken.pop(name)
        for node in self._machine.nodes:
            self._free[node.node_id] |= node.cpus & taken
        self._state = remove_container(self._state, name, "c")

    def _hints(self, cpus: int) -> tuple[Hint, ...]:
        """Return the hints of the static policy, the smallest sets first."""
        least = -(-cpus // CPUS)
        sets = (
            NodeSet(ids)
            for size in range(1, len(self._free) + 1)
            for ids in combinations(self._free, size)
        )
        return tuple(
            Hint(nodes, preferred=len(nodes) == least)
            for nodes in sets
            if sum(len(self._free[node]) for node in nodes) >= cpus
        )


HOSTS: Mapping[str, Callable[[Machine], Plugin | StaticManagers]] = {
    "`off`": lambda machine: Plugin(machine, CpuFollowing.OFF),
    "`prefer`": lambda machine: Plugin(machine, CpuFollowing.PREFER),
    "`require`": lambda machine: Plugin(machine, CpuFollowing.REQUIRE),
    STATIC: StaticManagers,
}


@dataclass
class Figures:
    """What the lives of one host add up to."""

    counts: Counter[str] = field(default_factory=Counter)
    remote: float = 0.0
    """CPUs that are not on the nodes of the memory, as shares of requests, times requests."""

    def row(self) -> tuple[str, ...]:
        """Return the figures in per cent."""
        found = self.counts
        return (
            _percent(found["admitted"], found["pods"]),
            _percent(found["excess"], found["requested"]),
            _percent(self.remote, found["placed CPUs"]),
        )


def play(seed: int, shape: str, make: Callable[[Machine], Plugin | StaticManagers]) -> Figures:
    """Play the life of a seed."""
    random = Random(seed)
    machine = _machine(random.choice((2, 4, 8)))
    host, figures = make(machine), Figures()
    running: dict[str, tuple[Request, Placed]] = {}
    for number in range(STEPS):
        request = _request(random, f"pod-{number}", shape)
        ended = f"pod-{random.randrange(number + 1)}"
        if random.random() < 0.5 and running.pop(ended, None) is not None:
            host.end(ended)
        if not _has_room(machine, [each for each, _ in running.values()], request):
            continue
        figures.counts["pods"] += 1
        placed = host.start(request)
        if placed is None:
            continue
        running[request.name] = request, placed
        figures.counts["admitted"] += 1
        figures.counts["placed CPUs"] += request.cpus
        figures.remote += request.cpus * _remote_share(machine, placed)
        figures.counts["excess"] += _excess(running)
        figures.counts["requested"] += sum(each.cpus for each, _ in running.values())
    return figures


def _remote_share(machine: Machine, placed: Placed) -> float:
    near = CpuSet(cpu for n in machine.nodes if n.node_id in placed.nodes for cpu in n.cpus)
    return len(placed.cpus - near) / len(placed.cpus)


def _excess(running: Mapping[str, tuple[Request, Placed]]) -> int:
    """Return the CPU requests beyond the CPUs of the nodes, where their memory is."""
    requested: Counter[NodeSet] = Counter()
    for request, placed in running.values():
        requested[placed.nodes] += request.cpus
    return sum(max(0, cpus - CPUS * len(nodes)) for nodes, cpus in requested.items())


def _has_room(machine: Machine, running: list[Request], request: Request) -> bool:
    every, count = [*running, request], len(machine.nodes)
    memory = sum(each.memory_bytes for each in every)
    is_small = memory <= count * (MEMORY_GI - RESERVED_GI) * GI
    return is_small and sum(each.cpus for each in every) <= count * CPUS


def _request(random: Random, name: str, shape: str) -> Request:
    cpus = random.choice((1, 2, 4, 8, 12))
    gi = cpus * MEMORY_GI // CPUS
    if shape == "mixed":
        gi = random.choice((2, 4, 8, 16, 32, 48))
    return Request(name, cpus, gi * GI)


def _machine(count: int) -> Machine:
    return Machine(
        tuple(
            NumaNode(
                node,
                MEMORY_GI * GI,
                cpus=CpuSet(range(CPUS * node, CPUS * (node + 1))),
                distances={
                    n: 10 if n == node else 12 if n ^ 1 == node else 21 for n in range(count)
                },
            )
            for node in range(count)
        )
    )


def _reserved(machine: Machine) -> tuple[Reservation, ...]:
    limits = {"memory": RESERVED_GI * GI}
    return tuple(Reservation(node.node_id, limits) for node in machine.nodes)


def _cpus_of(machine: Machine) -> CpuSet:
    return CpuSet(cpu for node in machine.nodes for cpu in node.cpus)


def _percent(part: float, whole: float) -> str:
    return f"{100 * part / whole:.1f} %" if whole else "-"


def table(lives: int) -> list[tuple[str, ...]]:
    """Return a row for each shape and host: admitted pods, excess of requests, remote share."""
    rows: list[tuple[str, ...]] = []
    for shape in SHAPES:
        for name, make in HOSTS.items():
            whole = Figures()
            for seed in range(lives):
                figures = play(seed, shape, make)
                whole.counts += figures.counts
                whole.remote += figures.remote
            rows.append((shape, name, *whole.row()))
    return rows


HEADS = ("pods", "CPUs by", "admitted", "requests above the nodes' CPUs", "CPUs not beside memory")


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lives", type=int, default=LIVES)
    lives = parser.parse_args().lives
    print(markdown([HEADS, *table(lives)]))


if __name__ == "__main__":
    main()
