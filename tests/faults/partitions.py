"""Partitions in the life of a node: where pods may be, computed from the settings.

A pinned container is on nodes of its partition, or on those that another plugin has set in its pod.
One that is not pinned has what `confine` and `exclusive: all` give it, if the plugin created it.
"""

import random
from collections.abc import Iterator
from dataclasses import replace

from nri_numamem.numa import Machine, NodeSet
from tests.faults.host import NO_NODES
from tests.faults.node import Container, Node
from tests.sequences.node_life import NodeLife, node_life
from tests.sequences.settings import LifeSettings, with_partitions


def partitioned_life(seed: int) -> NodeLife:
    """Return the life of a seed, with partitions in a quarter of the lives."""
    life, rng = node_life(seed), random.Random(f"partitions of {seed}")
    if rng.random() < 0.75:
        return life
    return replace(life, settings=with_partitions(rng, life.machine, life.settings))


def nodes_of(settings: LifeSettings, machine: Machine, namespace: str) -> tuple[NodeSet, NodeSet]:
    """Return the nodes of a pod's pinned containers, and those of its others; empty for all."""
    allowed, closed = machine.node_set - settings.excluded(machine), NO_NODES
    own, confines = NO_NODES, False
    for entry in settings.partitions:
        nodes = NodeSet.parse(str(entry["nodes"]))
        if entry["namespaces"] == [namespace]:
            own, confines = nodes, bool(entry["confine"])
            continue
        if entry["exclusive"] != "none":
            allowed -= nodes
        if entry["exclusive"] == "all":
            closed |= nodes
    if confines:
        return own, own
    return own or allowed, machine.node_set - closed if closed else NO_NODES


def problems(node: Node) -> Iterator[str]:
    """Yield the containers that are on other nodes than their partition allows."""
    for container in node.containers():
        pod, nodes = container.pod, NodeSet.parse(container.mems)
        if pod.is_guaranteed:
            may_have = pod.allowed_nodes | node.preset_nodes.get(pod.uid, NO_NODES)
            is_right = nodes.issubset(may_have)
        else:
            may_have = pod.unpinned_nodes
            is_right = _is_right(container, nodes, may_be_pinned=node.pins_burstable)
        if not is_right:
            name = f"{pod.message.namespace}/{pod.message.name}/{container.spec.name}"
            yield f"{name} is on {nodes or 'no nodes'}, its partition has {may_have}"


def _is_right(container: Container, nodes: NodeSet, *, may_be_pinned: bool) -> bool:
    """Return whether a container of a Burstable pod has nodes that it may have."""
    pod, spec = container.pod, container.spec
    if not nodes:
        return not (container.is_sure and pod.unpinned_nodes)
    if container.is_confined or container.is_unpinned:
        return True
    # A container that was confined keeps its nodes if it is pinned later.
    is_possible = pod.was_resized or spec.memory_low_bytes == spec.memory_bytes
    return may_be_pinned and is_possible and nodes.issubset(pod.allowed_nodes | pod.unpinned_nodes)
