"""Lives of a host whose pods have a claim for CPUs and memory: what the scheduler admits.

The lives are those of tests/kubelet_managers/cpu_lives.py; in some a fifth of the pods needs two
NUMA nodes. The plugin's accounting is charged as the claims are allocated, and the slice is
published after each change.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from random import Random
from string import ascii_lowercase
from typing import Any, Protocol

from nri_numamem.engine.core.context import Context
from nri_numamem.engine.core.policy import Policy
from nri_numamem.engine.core.state import EngineState
from nri_numamem.engine.engine import Engine
from nri_numamem.engine.setup import new_context
from nri_numamem.export.claimtemplate import CPU_CLASS, Needs
from nri_numamem.export.noderesourcetopology import Host
from nri_numamem.export.resourceslice import device_classes, resource_slice
from nri_numamem.memorymanager import Reservation, State
from nri_numamem.memorymanager.claims import prepare, unprepare
from nri_numamem.numa import Machine, NodeSet
from tests.kubelet_managers.cpu_lives import (
    GI,
    MEMORY_GI,
    RESERVED_GI,
    CpuLife,
    Request,
    random_life,
    reserved_cpus,
)
from tests.scheduler_allocator.claims import NODE_NAME, claim_of, class_of, cpu_slice


class Order(Enum):
    """The order of the slice's devices."""

    NODE_IDS = "node ids"
    FULLEST_FIRST = "fullest first"


class Scheduler(Protocol):
    """What allocates claims; see ``allocator``."""

    def publish(
        self, slices: Sequence[Mapping[str, object]], classes: Sequence[Mapping[str, object]]
    ) -> None:
        """Replace all slices and classes."""

    def allocate(self, claim: Mapping[str, object]) -> list[dict[str, Any]]:
        """Return a result for each device of a claim; none if it does not fit."""

    def free(self, uid: str) -> None:
        """Free a claim."""


@dataclass(frozen=True)
class Outcome:
    """Where the scheduler put a pod that it admitted."""

    memory_nodes: tuple[int, ...]
    cpu_nodes: tuple[int, ...]
    """For each memory node that of its CPUs."""


TWO_NODES = "a fifth on two nodes"
_BIG_GI, _BIG_CPUS = 80, 8


def life_of(seed: int, shape: str) -> CpuLife:
    """Return the life of a seed; `shape` is one of cpu_lives, or TWO_NODES."""
    if shape != TWO_NODES:
        return random_life(seed, shape)
    life, random = random_life(seed, "mixed"), Random(seed)
    steps = []
    for step in life.steps:
        is_big = random.random() < 0.2
        big = Request(step.starts.name, _BIG_CPUS, _BIG_GI * GI)
        steps.append(replace(step, starts=big) if is_big else step)
    return replace(life, steps=tuple(steps))


def _needs_two_nodes(request: Request) -> bool:
    return request.memory_bytes > (MEMORY_GI - RESERVED_GI) * GI


Outcomes = dict[str, Outcome | None]
"""Pod -> outcome, None for a pod that does not fit; without pods for which the host has no room."""


def play(life: CpuLife, number: int, order: Order, scheduler: Scheduler) -> Outcomes:
    """Play a life on a host of its own."""
    host = _Host(life.machine, f"{NODE_NAME}-{number}", order, scheduler)
    running: dict[str, Request] = {}
    found: Outcomes = {}
    for step in life.steps:
        if running.pop(step.ends, None) is not None:
            host.end(step.ends)
        if not life.has_room([*running.values(), step.starts]):
            continue
        outcome = found[step.starts.name] = host.start(step.starts)
        if outcome is not None:
            running[step.starts.name] = step.starts
    return found


def number_of(device: str) -> int:
    """Return the NUMA node at the end of a device's name: `memory-1`, `cpudevnuma001`."""
    return int(device.rpartition("-")[2].lstrip(ascii_lowercase))


class _Host:
    """The plugin's accounting of claims, and the slices made from it."""

    def __init__(self, machine: Machine, name: str, order: Order, scheduler: Scheduler) -> None:
        reserved = tuple(
            Reservation(node.node_id, {"memory": RESERVED_GI * GI}) for node in machine.nodes
        )
        engine = Engine(new_context(machine, Policy(reserved_memory=reserved)))
        self._context: Context = engine.context
        self._state: EngineState = engine.state
        self._name = name
        self._order = order
        self._scheduler = scheduler
        self._cpus = cpu_slice(machine, reserved_cpus(machine), name)
        self._publish()

    def start(self, request: Request) -> Outcome | None:
        """Allocate the pod's claim."""
        nodes = 1 + _needs_two_nodes(request)
        needs = Needs({"memory": request.memory_bytes}, request.cpus, nodes=nodes)
        results = self._scheduler.allocate(claim_of(request.name, needs))
        if not results:
            return None
        found = {each["request"]: number_of(each["device"]) for each in results}
        memory, cpus = (
            tuple(node for name, node in found.items() if name.startswith(kind))
            for kind in ("mem", "cpus")
        )
        self._charge(request, NodeSet(memory))
        self._publish()
        return Outcome(memory, cpus)

    def end(self, name: str) -> None:
        """Free the pod's claim."""
        self._scheduler.free(name)
        self._state = self._state.with_accounting(unprepare(self._state.accounting, name))
        self._publish()

    def _charge(self, request: Request, nodes: NodeSet) -> None:
        """Charge the claim; raise AssertionError if the plugin would refuse it."""
        part = request.memory_bytes // len(nodes)
        amounts = {node_id: {"memory": part} for node_id in nodes}
        charged = prepare(self._state.accounting, request.name, amounts)
        assert isinstance(charged, State), f"{request.name}: {charged}"
        self._state = self._state.with_accounting(charged)

    def _publish(self) -> None:
        made = resource_slice(Host(self._name, self._context, self._state))
        if self._order is Order.NODE_IDS:
            spec: Any = made["spec"]
            spec["devices"].sort(key=lambda device: device["name"])
        self._scheduler.publish(
            [made, self._cpus], [*device_classes(["memory"]), class_of(CPU_CLASS)]
        )
