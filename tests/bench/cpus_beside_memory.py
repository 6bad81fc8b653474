"""CPUs beside memory: cpuFollowsMemory compared with the kubelet's static managers.

`python -m tests.bench.cpus_beside_memory` prints a table, in a minute; it is in
docs/cpu-follows-memory.md. The lives are those of tests/kubelet_managers/cpu_lives.py.

The answers of the kubelet's own CPU Manager, Memory Manager and Topology Manager, with exclusive
CPUs under best-effort, are recorded: see tests/kubelet_managers/static_cpus.py.
"""

import argparse
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from nri_numamem.engine.core.events import Container, CreateContainer, PodSandbox, StopPodSandbox
from nri_numamem.engine.core.policy import Policy
from nri_numamem.engine.engine import Engine
from nri_numamem.engine.setup import new_context
from nri_numamem.memorymanager import Reservation
from nri_numamem.numa import CpuFollowing, CpuSet, Machine, NodeSet
from tests.bench.report import markdown
from tests.kubelet_managers.cpu_lives import (
    CPUS,
    GI,
    LIVES,
    RESERVED_GI,
    SHAPES,
    CpuLife,
    Request,
    random_life,
    reserved_cpus,
)
from tests.kubelet_managers.static_cpus import Assignments, StaleRecordingError, recorded

STATIC = "kubelet's static managers"


@dataclass(frozen=True)
class Placed:
    """Where a container runs."""

    nodes: NodeSet
    cpus: CpuSet
    """All CPUs of the host for a container that floats."""


class Host(Protocol):
    """What a life is played on."""

    def start(self, request: Request) -> Placed | None:
        """Start a pod; None if it is refused."""

    def end(self, name: str) -> None:
        """End a pod."""


class Plugin:
    """The plugin's engine with one value of the setting."""

    def __init__(self, machine: Machine, following: CpuFollowing) -> None:
        policy = Policy(
            reserved_memory=_reserved(machine),
            cpu_following=following,
            reserved_cpus=reserved_cpus(machine),
        )
        self._engine = Engine(new_context(machine, policy))
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


class Kubelet:
    """The recorded answers of the kubelet's managers to one life."""

    def __init__(self, answers: Assignments) -> None:
        self.left = dict(answers)
        """Answers for pods that have not been started yet."""

    def start(self, request: Request) -> Placed | None:
        """Return where the pod's container runs; raise StaleRecordingError for unknown pods."""
        found = self.left.pop(request.name, None)
        if found is None:
            raise StaleRecordingError(f"{request.name} was not started: run `make kubelet-answers`")
        return None if isinstance(found, str) else Placed(found.nodes, found.cpus)

    def end(self, name: str) -> None:
        """Do nothing: the answers of later pods contain it."""


PLUGIN: Mapping[str, CpuFollowing] = {
    "`off`": CpuFollowing.OFF,
    "`prefer`": CpuFollowing.PREFER,
    "`require`": CpuFollowing.REQUIRE,
}


@dataclass
class Figures:
    """What the lives of one host add up to."""

    counts: Counter[str] = field(default_factory=Counter)
    remote: float = 0.0
    """CPUs that are not on the nodes of the memory, as shares of requests, times requests."""

    def add(self, other: "Figures") -> None:
        """Add another life."""
        self.counts += other.counts
        self.remote += other.remote

    def row(self) -> tuple[str, ...]:
        """Return the figures in per cent."""
        found = self.counts
        return (
            _percent(found["admitted"], found["pods"]),
            _percent(found["excess"], found["requested"]),
            _percent(self.remote, found["placed CPUs"]),
        )


def play(life: CpuLife, host: Host) -> Figures:
    """Play a life on a host."""
    machine, figures = life.machine, Figures()
    running: dict[str, tuple[Request, Placed]] = {}
    for step in life.steps:
        request = step.starts
        if running.pop(step.ends, None) is not None:
            host.end(step.ends)
        if not life.has_room([*(each for each, _ in running.values()), request]):
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


def _reserved(machine: Machine) -> tuple[Reservation, ...]:
    limits = {"memory": RESERVED_GI * GI}
    return tuple(Reservation(node.node_id, limits) for node in machine.nodes)


def _cpus_of(machine: Machine) -> CpuSet:
    return CpuSet(cpu for node in machine.nodes for cpu in node.cpus)


def _percent(part: float, whole: float) -> str:
    return f"{100 * part / whole:.1f} %" if whole else "-"


def of_plugin(following: CpuFollowing, shape: str, lives: int) -> Figures:
    """Play the first lives of a shape on the plugin's engine."""
    whole = Figures()
    for seed in range(lives):
        life = random_life(seed, shape)
        whole.add(play(life, Plugin(life.machine, following)))
    return whole


def of_kubelet(found: Sequence[tuple[CpuLife, Assignments]]) -> Figures:
    """Return the figures of recorded lives; raise StaleRecordingError if answers are left."""
    whole = Figures()
    for life, answers in found:
        kubelet = Kubelet(answers)
        whole.add(play(life, kubelet))
        if kubelet.left:
            raise StaleRecordingError(f"not started: {', '.join(kubelet.left)}")
    return whole


def recorded_of(shape: str, lives: int) -> list[tuple[CpuLife, Assignments]]:
    """Return the first recorded lives of a shape."""
    first = SHAPES.index(shape) * LIVES
    return recorded()[first : first + lives]


def table(lives: int) -> list[tuple[str, ...]]:
    """Return a row for each shape and host: admitted pods, excess of requests, remote share."""
    rows: list[tuple[str, ...]] = []
    for shape in SHAPES:
        for name, following in PLUGIN.items():
            rows.append((shape, name, *of_plugin(following, shape, lives).row()))
        rows.append((shape, STATIC, *of_kubelet(recorded_of(shape, lives)).row()))
    return rows


HEADS = ("pods", "CPUs by", "admitted", "requests above the nodes' CPUs", "CPUs not beside memory")


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--lives", type=int, default=LIVES, help="of each shape, at most %(default)s"
    )
    lives = parser.parse_args().lives
    print(markdown([HEADS, *table(lives)]))


if __name__ == "__main__":
    main()
