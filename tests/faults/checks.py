"""Compare the plugin's accounting with the containers that run. Each problem is one line.

Sums are computed from the machine and the reservations, never from the plugin's tables: for each
set of nodes, the assignments within the set must not exceed the capacity of the set. A shortfall
that the plugin reports (`shortfall_bytes`) is accepted only for containers that are exempt.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain, combinations
from typing import Any

from nri_numamem.memorymanager import QosClass
from nri_numamem.numa import CpuSet, Machine, NodeSet, cpus_of
from nri_numamem.numa.quantity import MEMORY, hugepages_resource
from tests.faults.host import Amounts, StateEntry
from tests.faults.node import MEMORY_LOW, Container, Key, Node, Pod, expected_sizes

POOL = ""
"""The name that holds the part of a pod-scope assignment that no container has used yet."""

_PLACED = ("admitted", "adopted", "resized", "pinned_while_running", "pod_admitted", "pod_adopted")


@dataclass(frozen=True, slots=True)
class Block:
    """An assigned amount of one resource."""

    key: Key
    nodes: NodeSet
    resource: str
    size_bytes: int


def blocks_of(accounting: Mapping[str, Any]) -> list[Block]:
    """Return all blocks of a state_dump record."""
    return [
        Block((uid, name), NodeSet(block["numaAffinity"]), block["type"], block["size"])
        for uid, containers in accounting["entries"].items()
        for name, blocks in containers.items()
        for block in blocks
    ]


def missing_bytes(records: Iterable[Mapping[str, Any]]) -> dict[Key, dict[str, int]]:
    """Return the missing bytes by container and resource, from the newest record of each."""
    found: dict[Key, dict[str, int]] = {}
    for record in records:
        if record["event"] in _PLACED:
            key = (record["pod_uid"], record.get("container", POOL))
            found[key] = record.get("shortfall_bytes", {})
    return found


class AccountingCheck:
    """Checks one state_dump record. Every method yields its problems."""

    def __init__(
        self,
        node: Node,
        accounting: Mapping[str, Any],
        records: Iterable[Mapping[str, Any]],
        amounts: Amounts,
    ) -> None:
        self._node = node
        self._containers = list(node.containers())
        self._machine = accounting["machineState"]
        self._blocks = blocks_of(accounting)
        self._amounts = amounts
        self._short = missing_bytes(records)
        self._exempt = {c.key for c in self._containers if c.is_exempt}
        self._exempt |= {(c.pod.uid, POOL) for c in self._containers if c.is_exempt}

    def tables(self) -> Iterator[str]:
        """Compare machine and allocatable amounts, and check that tables add up."""
        seen = {
            (int(node_id), name): table["allocatable"]
            for node_id, node in self._machine.items()
            for name, table in node["memoryMap"].items()
        }
        if seen != dict(self._amounts):
            yield f"allocatable is {seen} instead of {dict(self._amounts)}"
        for node_id, node in self._machine.items():
            for name, table in node["memoryMap"].items():
                free, reserved = table["free"], table["reserved"]
                if min(free, reserved) < 0 or free + reserved != table["allocatable"]:
                    yield f"node {node_id} {name}: the table does not add up: {table}"

    def capacity(self) -> Iterator[str]:
        """Check that running containers fit their nodes, and that their memory is reserved there.

        Reservations of ended containers get only what running containers leave.
        """
        running = self._running()
        for resource in sorted({block.resource for block in running}):
            held = [
                (sum(1 << n for n in block.nodes), self._charged(block), block)
                for block in running
                if block.resource == resource
            ]
            for mask in sorted(_unions(where for where, _, _ in held)):
                nodes = NodeSet.from_mask(mask)
                inside = sum(size for where, size, _ in held if not where & ~mask)
                capacity = sum(self._amounts.get((n, resource), 0) for n in nodes)
                charged = sum(self._reserved(n, resource) for n in nodes)
                if inside > min(capacity, charged):
                    who = [b for where, size, b in held if size and not where & ~mask]
                    text = f"{inside} bytes of {resource} run, {charged} are reserved"
                    yield f"nodes {nodes}: {text}, the capacity is {capacity}: {who}"
                    break

    def free(self) -> Iterator[str]:
        """Check that what is free follows from machine and assignments, not from what happened.

        Sets of nodes that overlap count together.
        """
        for resource in sorted({block.resource for block in self._blocks}):
            tables = {
                int(node_id): node["memoryMap"][resource]
                for node_id, node in self._machine.items()
                if resource in node["memoryMap"]
            }
            held = [
                (known, block.size_bytes)
                for block in self._blocks
                if block.resource == resource and (known := block.nodes & NodeSet(tables))
            ]
            for group in joined([nodes for nodes, _ in held], NodeSet(tables)):
                inside = [(nodes, size) for nodes, size in held if nodes.issubset(group)]
                allocatable = {n: tables[n]["allocatable"] for n in group}
                expected = sum(allocatable.values()) - most_charged(inside, allocatable)
                free = sum(tables[n]["free"] for n in group)
                if free != expected:
                    yield f"nodes {group}: {free} bytes of {resource} are free, not {expected}"

    def shortfalls(self) -> Iterator[str]:
        """Check that only exempt containers have less than their request.

        Where the runtime hides hugepages, a plugin without an earlier state gives the pod's sum to
        the oldest container that runs, perhaps on nodes that lack pages.
        """
        lost = {p.uid for p in self._node.pods.values() if p.is_sum_lost}
        for block in self._running():
            is_sum = block.resource != MEMORY and self._node.traits.hides_hugepages
            if is_sum and block.key[0] in lost:
                continue
            missing = self._missing(block)
            if missing and block.key not in self._exempt:
                yield f"{block} lacks {missing} bytes and is not exempt"

    def pod_limits(self) -> Iterator[str]:
        """Check that no pod has more hugepages than its limit."""
        held: dict[tuple[str, str], int] = {}
        alive = {container.key for container in self._containers}
        for block in self._blocks:
            if block.key not in alive:
                continue
            where = block.key[0], block.resource
            held[where] = held.get(where, 0) + block.size_bytes
        for pod in self._node.running():
            for size, limit in pod.hugepages.items():
                name = hugepages_resource(size)
                has = held.get((pod.uid, name), 0)
                if has > limit:
                    yield f"{pod.message.name} has {has} bytes of {name}, its limit is {limit}"

    def _running(self) -> list[Block]:
        """Return the blocks of running containers."""
        alive = {c.key for c in self._containers if c.mems and not c.is_confined}
        return [block for block in self._blocks if block.key in alive]

    def _reserved(self, node_id: int, resource: str) -> int:
        tables = self._machine.get(str(node_id), {"memoryMap": {}})["memoryMap"]
        reserved: int = tables.get(resource, {"reserved": 0})["reserved"]
        return reserved

    def _missing(self, block: Block) -> int:
        return self._short.get(block.key, {}).get(block.resource, 0)

    def _charged(self, block: Block) -> int:
        if block.key in self._exempt and self._node.has_unknown_shortfalls:
            return 0
        return max(0, block.size_bytes - self._missing(block))

    def _keys(self) -> set[Key]:
        return {block.key for block in self._blocks}

    def running(self) -> Iterator[str]:
        """Check that every pinned container is recorded with its nodes and amounts."""
        for container in self._containers:
            if not container.is_assigned:
                continue
            mine = [block for block in self._blocks if block.key == container.key]
            if not mine and self._may_be_unpinned(container):
                continue
            if not mine:
                yield f"{_name(container)} runs on {container.mems} and is not recorded"
                continue
            if {block.nodes for block in mine} != {NodeSet.parse(container.mems)}:
                yield f"{_name(container)} runs on {container.mems}, recorded is {mine}"
            sizes = {block.resource: block.size_bytes for block in mine}
            for resource, size in expected_sizes(container, self._node.traits).items():
                if sizes.get(resource) != size and not self._shares(container, resource):
                    text = f"needs {size} bytes of {resource}, recorded is {sizes}"
                    yield f"{_name(container)} {text}"

    def _may_be_unpinned(self, container: Container) -> bool:
        """Return whether a container of a Burstable pod has all nodes.

        A resize gives it these as well, and a plugin without its state sees no difference. With
        partitions a plugin that lost the reply to a resize decides by the container's new limits.
        """
        resources = container.message.linux.resources
        low = resources.unified.get(MEMORY_LOW)
        if self._node.has_partitions and low not in (None, str(container.memory_bytes)):
            return True
        nodes = {str(node_id) for node_id in NodeSet.parse(container.mems)}
        return container.pod.qos is QosClass.BURSTABLE and nodes >= self._machine.keys()

    def unpinned(self, exempt: set[str]) -> Iterator[str]:
        """Check that Guaranteed containers without nodes are exempt."""
        for container in self._containers:
            is_ours = container.pod.is_guaranteed and not container.mems
            if is_ours and container.message.id not in exempt:
                yield f"{_name(container)} runs unpinned without a reason"

    def excluded(self, nodes: NodeSet) -> Iterator[str]:
        """Check that no container is on a node that the plugin does not use."""
        for container in self._containers:
            is_on = not NodeSet.parse(container.mems).isdisjoint(nodes)
            if is_on and not (container.is_unpinned or container.is_confined):
                yield f"{_name(container)} is on {container.mems}, and {nodes} are excluded"

    def cpus(self, machine: Machine) -> Iterator[str]:
        """Check that containers with CPUs have those beside their memory."""
        for container in self._containers:
            cpus, nodes = container.message.linux.resources.cpu.cpus, NodeSet.parse(container.mems)
            expected = cpus_of(machine, nodes, CpuSet())
            if cpus and nodes.issubset(machine.node_set) and CpuSet.parse(cpus) != expected:
                yield f"{_name(container)} is on {container.mems} with the CPUs {cpus}"

    def _shares(self, container: Container, resource: str) -> bool:
        """Return whether a container has only what its pod's limit leaves.

        Limits that together exceed the pod's are the sign of pod-level resources: after a resize,
        or where the plugin did not receive the end of an earlier container.
        """
        pod = container.pod
        memory = [b for b in self._blocks if b.key[0] == pod.uid and b.resource == MEMORY]
        at_start = pod.message.linux.pod_resources.memory.limit.value
        is_full = sum(block.size_bytes for block in memory) >= at_start > 0
        return resource == MEMORY and is_full and (pod.was_resized or pod.has_lost_end)

    def _has_all_hugepages(self, pod: Pod) -> bool:
        """Return whether a pod holds its limit of hugepages of a size."""
        for size, limit in pod.hugepages.items():
            name = hugepages_resource(size)
            blocks = [b for b in self._blocks if b.key[0] == pod.uid and b.resource == name]
            if limit and sum(block.size_bytes for block in blocks) >= limit:
                return True
        return False

    def reservations(self) -> Iterator[str]:
        """Check the reservations of pods between two containers."""
        for pod in self._node.running():
            memory = [b for b in self._blocks if b.key[0] == pod.uid and b.resource == MEMORY]
            total = sum(block.size_bytes for block in memory)
            for name, reservation in pod.reservations.items():
                mine = [block for block in memory if block.key[1] == name]
                # Beyond the pod's limit memory is released, and the container forgotten.
                is_full = pod.was_resized or total >= pod.memory_limit_bytes
                is_full = is_full or self._has_all_hugepages(pod)
                if not mine and is_full:
                    continue
                if not mine:
                    yield f"{pod.message.name}/{name}: {reservation} is missing"
                elif not pod.was_resized and not reservation.may_be_on(mine[0].nodes):
                    yield f"{pod.message.name}/{name}: {reservation} is on {mine[0].nodes}"
                # Memory that a smaller container returned belongs to no container. A container
                # without nodes is placed anew at each Synchronize; what then exceeds the limit is
                # released.
                is_kept = not pod.was_resized and all(c.mems for c in pod.alive())
                if is_kept and total < reservation.memory_bytes:
                    yield f"{pod.message.name}/{name}: of {reservation} only {total} bytes are left"

    def kept_memory(self) -> Iterator[str]:
        """Check that ended containers hold nothing beyond the limits of their pods."""
        uids = [pod.uid for pod in self._node.pods.values()]
        for pod in self._node.running():
            memory = [b for b in self._blocks if b.key[0] == pod.uid and b.resource == MEMORY]
            alive = {container.key for container in pod.alive()}
            live = sum(block.size_bytes for block in memory if block.key in alive)
            total = sum(block.size_bytes for block in memory)
            # Another sandbox of the pod may have another limit; a resize that fails leaves its own.
            if uids.count(pod.uid) > 1 or pod.was_resized or pod.has_failed_resize:
                continue
            if not pod.is_guaranteed:  # its limit is unknown
                continue
            if total > max(live, pod.memory_limit_bytes):
                limit = pod.memory_limit_bytes
                yield f"{pod.message.name} holds {total} bytes, its limit is {limit}: {memory}"

    def unknown_entries(self, ended: set[str]) -> Iterator[str]:
        """Check that no assignments remain of ended pods, and none of other containers exist.

        `ended` are the uids of pods whose end the plugin cannot know yet.
        """
        ours: dict[str, set[str]] = {}
        for pod in self._node.running():
            if self._node.may_be_assigned(pod):
                ours.setdefault(pod.uid, {POOL}).update(pod.attempted_names)
        for pod in self._node.pods.values():  # an older sandbox of the same pod
            if pod.uid in ours:
                ours[pod.uid].update(pod.attempted_names)
        for uid, name in sorted(self._keys()):
            if uid not in ours and uid not in ended:
                yield f"{self._pod_name(uid)}/{name!r} is recorded, and its pod has ended"
            elif uid in ours and name not in ours[uid]:
                yield f"{uid}/{name!r} is recorded and was never created"

    def _pod_name(self, uid: str) -> str:
        return next((p.message.name for p in self._node.pods.values() if p.uid == uid), uid)

    def state_file(self, state: Mapping[Key, StateEntry]) -> Iterator[str]:
        """Check that the state file equals the accounting."""
        recorded = {block.key: str(block.nodes) for block in self._blocks}
        in_file = {key: entry.nodes for key, entry in state.items() if entry.nodes}
        if recorded != in_file:
            differ = set(recorded.items()) ^ set(in_file.items())
            yield f"state file and accounting differ in {sorted(differ)}"


def _name(container: Container) -> str:
    return f"{container.pod.message.name}/{container.spec.name}"


def joined(sets: Iterable[NodeSet], nodes: NodeSet) -> list[NodeSet]:
    """Return the sets and single nodes, joined where they overlap."""
    groups = [NodeSet([node_id]) for node_id in nodes]
    for each in sets:
        touched = [group for group in groups if not group.isdisjoint(each)]
        groups = [group for group in groups if group not in touched]
        groups.append(NodeSet(node_id for group in touched for node_id in group))
    return groups


def most_charged(held: list[tuple[NodeSet, int]], allocatable: Mapping[int, int]) -> int:
    """Return how many bytes fit on nodes: a maximum flow, computed as the smallest cut."""
    cuts = chain.from_iterable(
        combinations(allocatable, count) for count in range(len(allocatable) + 1)
    )
    return min(
        sum(allocatable[n] for n in cut)
        + sum(size for nodes, size in held if not nodes.issubset(NodeSet(cut)))
        for cut in cuts
    )


def _unions(masks: Iterable[int]) -> set[int]:
    """Return all unions of the sets; only these can be too small for the blocks inside them."""
    found: set[int] = set()
    for mask in set(masks):
        found |= {mask, *(mask | other for other in found)}
    return found
