"""Random lives of a host with CPUs, for the kubelet's static CPU manager beside its Memory Manager.

A life is a sequence of starts and ends of Guaranteed pods with one container and whole CPUs, on 2,
4 or 8 nodes of 64 GiB and 9 cores with two threads each, of which one core is reserved. A pod
starts only if the scheduler would send it: the CPU and memory requests of all pods fit the host.
"Mixed" pods need many CPUs or much memory, "proportional" ones both in the proportion of the host.
The lives depend on nothing but their seeds.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from random import Random
from typing import Any

from nri_numamem.numa import CpuSet, Machine, NumaNode

GI = 1 << 30
CPUS, MEMORY_GI, RESERVED_GI = 16, 64, 1
"""Of a node: CPUs without the reserved ones, memory, and reserved memory."""
THREADS = 2
"""CPUs of a core; the first core of each node is reserved."""
LIVES, STEPS = 500, 60
SHAPES = ("mixed", "proportional")


@dataclass(frozen=True)
class Request:
    """A pod with one container."""

    name: str
    cpus: int
    memory_bytes: int


@dataclass(frozen=True)
class Step:
    """A pod ends, if it runs, and another one starts, if the host has room."""

    ends: str
    """"" if none ends."""
    starts: Request


@dataclass(frozen=True)
class CpuLife:
    """A life: a host with a number of nodes, and steps."""

    nodes: int
    steps: tuple[Step, ...]

    @property
    def machine(self) -> Machine:
        """The host."""
        return machine_of(self.nodes)

    def has_room(self, running: Iterable[Request]) -> bool:
        """Return whether the scheduler would send these pods to the host."""
        every = list(running)
        memory = sum(each.memory_bytes for each in every)
        is_small = memory <= self.nodes * (MEMORY_GI - RESERVED_GI) * GI
        return is_small and sum(each.cpus for each in every) <= self.nodes * CPUS

    def as_json(self, policy: str = "best-effort") -> dict[str, Any]:
        """Return the life in the format of the Go program, with a policy of the Topology Manager.

        Amounts are MiB.
        """
        pods: dict[str, Any] = {}
        steps: list[dict[str, str]] = []
        for step in self.steps:
            request = step.starts
            container = {
                "name": "c",
                "kind": "app",
                "requests": {"memory": request.memory_bytes >> 20},
                "millicores": 1000 * request.cpus,
            }
            pods[request.name] = {"containers": [container]}
            steps += [{"remove": step.ends}] if step.ends else []
            steps.append({"admit": request.name})
        return {
            "nodes": [_node_as_json(node) for node in self.machine.nodes],
            "policy": policy,
            "scope": "container",
            "closest": True,
            "cpus": {"reserved": str(reserved_cpus(self.machine))},
            "capacity": {
                "millicores": 1000 * CPUS * self.nodes,
                "memory": (MEMORY_GI - RESERVED_GI) * 1024 * self.nodes,
            },
            "pods": pods,
            "steps": steps,
        }


def random_life(seed: int, shape: str) -> CpuLife:
    """Return the life of a seed."""
    random = Random(seed)
    nodes = random.choice((2, 4, 8))
    steps: list[Step] = []
    for number in range(STEPS):
        request = _request(random, f"pod-{number}", shape)
        ended = f"pod-{random.randrange(number + 1)}"
        steps.append(Step(ended if random.random() < 0.5 else "", request))
    return CpuLife(nodes, tuple(steps))


def all_lives() -> list[CpuLife]:
    """Return the lives of all shapes, one shape after the other."""
    return [random_life(seed, shape) for shape in SHAPES for seed in range(LIVES)]


def machine_of(count: int) -> Machine:
    """Return a host with pairs of nodes, each pair on a socket."""
    width = CPUS + THREADS
    return Machine(
        tuple(
            NumaNode(
                node,
                MEMORY_GI * GI,
                cpus=CpuSet(range(width * node, width * (node + 1))),
                distances={
                    n: 10 if n == node else 12 if n ^ 1 == node else 21 for n in range(count)
                },
            )
            for node in range(count)
        )
    )


def reserved_cpus(machine: Machine) -> CpuSet:
    """Return the CPUs of the first core of each node."""
    return CpuSet(cpu for node in machine.nodes for cpu in sorted(node.cpus)[:THREADS])


def _node_as_json(node: NumaNode) -> dict[str, Any]:
    cpus = sorted(node.cpus)
    return {
        "id": node.node_id,
        "memory": MEMORY_GI * 1024,
        "reserved": RESERVED_GI * 1024,
        "pages": {},
        "distances": [node.distances[n] for n in sorted(node.distances)],
        "socket": node.node_id // 2,
        "cores": [cpus[first : first + THREADS] for first in range(0, len(cpus), THREADS)],
    }


def _request(random: Random, name: str, shape: str) -> Request:
    cpus = random.choice((1, 2, 4, 8, 12))
    gi = cpus * MEMORY_GI // CPUS
    if shape == "mixed":
        gi = random.choice((2, 4, 8, 16, 32, 48))
    return Request(name, cpus, gi * GI)
