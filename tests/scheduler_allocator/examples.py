"""Claims on hosts whose NUMA nodes are taken in part: what the scheduler's allocator gives them.

The hosts have two NUMA nodes on each socket, and a GPU on each NUMA node. `examples.json` has for
each example the digest of what was published and claimed, and the devices. ``recording`` writes it.
"""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from nri_numamem.engine.core.policy import Policy
from nri_numamem.engine.engine import Engine
from nri_numamem.engine.setup import new_context
from nri_numamem.export.claimtemplate import CPU_CLASS, Needs
from nri_numamem.export.noderesourcetopology import Host
from nri_numamem.export.resourceslice import NUMA_NODE, device_classes, resource_slice
from nri_numamem.memorymanager import Reservation
from nri_numamem.numa import Machine
from tests.export.hosts import create
from tests.kubelet_managers.cpu_lives import GI, machine_of, reserved_cpus
from tests.kubelet_managers.static_cpus import StaleRecordingError
from tests.scheduler_allocator.claims import claim_of, class_of, cpu_slice, slice_of
from tests.scheduler_allocator.play import Scheduler

RECORDED = Path(__file__).parent / "examples.json"
GPU = "gpu.example.com"
HUGEPAGES = "hugepages-1Gi"


@dataclass(frozen=True)
class Example:
    """A claim on a host."""

    title: str
    nodes: int
    taken: tuple[int, ...]
    """NUMA nodes with a pod of 50Gi without claims."""
    needs: Needs


def _memory(size_gi: int, nodes: int, cpus: int = 0) -> Needs:
    return Needs({"memory": size_gi * GI}, cpus, nodes=nodes)


_EVERYTHING = {"memory": 16 * GI, HUGEPAGES: 2 * GI}

EXAMPLES = (
    Example("everything on one node", 2, (), Needs(_EVERYTHING, 8, (GPU,))),
    Example("everything on the node with room", 2, (0,), Needs({"memory": 20 * GI}, 8, (GPU,))),
    Example("a near pair of memory", 4, (0,), _memory(100, 2)),
    Example("memory that is not near", 4, (0, 2), _memory(100, 2)),
    Example("too few empty nodes for memory", 4, (0, 1, 2), _memory(100, 2)),
    Example("memory of eight nodes", 8, (), _memory(400, 8)),
    Example("a near pair with CPUs", 4, (0,), _memory(100, 2, 8)),
    Example("a pair with CPUs that is not near", 4, (0, 2), _memory(100, 2, 8)),
    Example("too few empty nodes for CPUs", 4, (0, 1, 2), _memory(100, 2, 8)),
    Example("everything on two nodes", 4, (0,), Needs(_EVERYTHING, 8, (GPU, GPU), 2)),
    Example("a device on one of two nodes", 4, (0,), Needs(_EVERYTHING, 8, (GPU,), 2)),
    Example("six groups", 8, (0, 4), _memory(60, 6, 12)),
    Example("too few nodes for six groups", 8, (0, 2, 4), _memory(60, 6, 12)),
    Example("everything on six nodes", 8, (), Needs(_EVERYTHING, 6, (GPU,) * 6, 6)),
)

Devices = list[list[str]]
"""[request, device], in the order of the requests; none for a claim that does not fit."""


def record(scheduler: Scheduler, path: Path = RECORDED) -> None:
    """Record what the scheduler gives to each example."""
    lines = []
    for number, example in enumerate(EXAMPLES):
        published, claim = commands = _commands(example, number)
        scheduler.publish(*published)
        devices = [[each["request"], each["device"]] for each in scheduler.allocate(claim)]
        lines.append(json.dumps([example.title, _digest(commands), devices]))
    path.write_text("[\n" + ",\n".join(lines) + "\n]\n")


def recorded(path: Path = RECORDED) -> Iterator[tuple[Example, Devices]]:
    """Yield the examples; StaleRecordingError if something else would be published or claimed."""
    found = json.loads(path.read_text())
    for number, (example, (title, digest, devices)) in enumerate(zip(EXAMPLES, found, strict=True)):
        if digest != _digest(_commands(example, number)):
            raise StaleRecordingError(f"{path}: {title} is another one: run `make kubelet-answers`")
        yield example, devices


def _commands(example: Example, number: int) -> tuple[tuple[Any, Any], dict[str, Any]]:
    """Return what is published, slices and classes, and the claim."""
    host = host_of(example, number)
    machine, name = host.context.machine, host.node_name
    made = resource_slice(host)
    slices = [made, cpu_slice(machine, reserved_cpus(machine), name), _gpu_slice(machine, name)]
    classes = [*device_classes(["memory", HUGEPAGES]), class_of(CPU_CLASS), class_of(GPU)]
    return (slices, classes), claim_of(f"claim-{number}", example.needs)


def host_of(example: Example, number: int = 0) -> Host:
    """Return the host of an example."""
    nodes = machine_of(example.nodes).nodes
    machine = Machine(tuple(replace(node, hugepages={GI: 4}) for node in nodes))
    reserved = tuple(Reservation(node.node_id, {"memory": GI}) for node in nodes)
    engine = Engine(
        new_context(
            machine, Policy(topology_manager_policy="single-numa-node", reserved_memory=reserved)
        )
    )
    for node_id in example.taken:
        create(engine, f"pod-{node_id}", 50 * GI, node=node_id)
    return Host(f"host-{number}", engine.context, engine.state)


def _gpu_slice(machine: Machine, name: str) -> dict[str, Any]:
    """Return a slice with a GPU on each NUMA node; one claim gets a whole GPU."""
    devices = [
        {"name": f"gpu-{node.node_id}", "attributes": {NUMA_NODE: {"int": node.node_id}}}
        for node in machine.nodes
    ]
    return slice_of(GPU, name, devices)


def _digest(value: object) -> str:
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()[:16]
