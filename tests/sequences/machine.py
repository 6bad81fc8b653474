"""Random machines, and what changes on them while a node lives."""

import random
from collections.abc import Mapping
from dataclasses import replace

from nri_numamem.numa import CpuSet, Machine, NodeSet, NumaNode

KI, MI, GI = 1 << 10, 1 << 20, 1 << 30
PAGE_SIZES = PAGE_2MI, PAGE_1GI = 2 * MI, GI


def random_machine(rng: random.Random) -> Machine:
    """Return a machine of 2 to 8 nodes with equal or different hugepage pools.

    Every third machine has one to four further nodes without CPUs, perhaps with more memory.
    """
    count = rng.choice((2, 2, 3, 4, 4, 6, 8))
    size, is_uniform = rng.randint(3, 8) * GI, rng.random() < 0.6
    small, large = rng.choice((0, 64, 256, 512)), rng.choice((0, 0, 1))
    nodes = []
    for number in range(count):
        if not is_uniform:
            size = rng.randint(3, 8) * GI
            small = rng.choice((0, 64, 256))
        pools = {PAGE_2MI: small, PAGE_1GI: large} if large else {PAGE_2MI: small}
        nodes.append(NumaNode(number, size, pools, CpuSet([number])))
    for number in range(count, count + rng.choice((0, 0, 1, 4))):
        size, pools = rng.randint(3, 16) * GI, {PAGE_2MI: rng.choice((0, 64))}
        nodes.append(NumaNode(number, size, pools, is_movable_only=rng.random() < 0.5))
    ids = range(len(nodes))
    rows = ({n: 10 if n == number else 12 + 8 * abs(n - number) for n in ids} for number in ids)
    return Machine(tuple(replace(n, distances=row) for n, row in zip(nodes, rows, strict=True)))


def changed_machine(rng: random.Random, machine: Machine) -> tuple[Machine, str]:
    """Return the machine after a reboot or a hot-plug, and a description of the change."""
    nodes = list(machine.nodes)
    index = rng.randrange(len(nodes))
    node = nodes[index]
    kind = rng.choice(("pool", "pool", "drift", "growth"))
    if kind == "pool":
        before = node.hugepages[PAGE_2MI]
        pages = rng.choice([pages for pages in (0, 32, 64, 128, 256) if pages != before])
        nodes[index] = replace(node, hugepages={**node.hugepages, PAGE_2MI: pages})
        what = f"node {index}: {before} -> {pages} pages of 2Mi"
    elif kind == "drift":
        drift = rng.randrange(-800, 800) * KI
        nodes = [replace(n, memory_bytes=n.memory_bytes + drift) for n in nodes]
        what = f"every MemTotal: {drift:+} bytes"
    else:
        nodes[index] = replace(node, memory_bytes=node.memory_bytes + GI)
        what = f"node {index}: 1Gi more"
    return Machine(tuple(nodes)), what


def random_reservation(rng: random.Random, machine: Machine) -> Mapping[int, int]:
    """Return node id -> bytes of memory reserved for the host; node 0 has some."""
    return {
        node.node_id: rng.randrange(1, 512) * MI
        for node in machine.nodes
        # Without any entry the plugin derives the reservation.
        if rng.random() < 0.8 or not node.node_id
    }


def without_cpus(machine: Machine) -> NodeSet:
    """Return the nodes without CPUs."""
    return NodeSet(node.node_id for node in machine.nodes if not node.cpus)


def movable(machine: Machine) -> NodeSet:
    """Return the nodes whose memory is in ZONE_MOVABLE."""
    return NodeSet(node.node_id for node in machine.nodes if node.is_movable_only)
