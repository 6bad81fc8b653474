"""Judges the plugin's books by what really runs. Each complaint is one line.

The arithmetic is made anew from the machine and the reservations, never from the plugin's tables:
for each set of nodes, what lies within it must not be more than what it has. What a container
could not get (`does_not_fit`) is believed only where something happened to excuse it.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from nri_numamem.memorymanager import NodeSet
from nri_numamem.memorymanager.quantity import MEMORY, hugepages_resource
from tests.faults.ground import Amounts, Kept
from tests.faults.node import Container, Key, Node, expected_sizes

POOL = ""
"""The name under which a pod that is placed as a whole has what its containers do not."""

_PLACED = ("admitted", "adopted", "resized", "pinned while running", "pod admitted", "pod adopted")


@dataclass(frozen=True, slots=True)
class Block:
    """What a container has of one resource."""

    key: Key
    nodes: NodeSet
    resource: str
    size_bytes: int


def blocks_of(books: Mapping[str, Any]) -> list[Block]:
    """Return all blocks of a record of the books."""
    return [
        Block((uid, name), NodeSet(block["numaAffinity"]), block["type"], block["size"])
        for uid, containers in books["entries"].items()
        for name, blocks in containers.items()
        for block in blocks
    ]


def shortfalls(records: Iterable[Mapping[str, Any]]) -> dict[Key, dict[str, int]]:
    """Return what containers did not get, by the newest record of each."""
    found: dict[Key, dict[str, int]] = {}
    for record in records:
        if record["event"] in _PLACED:
            key = (record["pod_uid"], record.get("container", POOL))
            found[key] = record.get("does_not_fit", {})
    return found


class Judge:
    """Judges one record of the books."""

    def __init__(
        self,
        node: Node,
        books: Mapping[str, Any],
        records: Iterable[Mapping[str, Any]],
        amounts: Amounts,
    ) -> None:
        self._node = node
        self._machine = books["machineState"]
        self._blocks = blocks_of(books)
        self._amounts = amounts
        self._short = shortfalls(records)
        self._excused = {c.key for c in node.containers() if c.is_excused}
        self._excused |= {(c.pod.uid, POOL) for c in node.containers() if c.is_excused}

    def tables(self) -> Iterator[str]:
        """Tell where the plugin sees another machine, or its sums are wrong."""
        seen = {
            (int(node_id), name): table["allocatable"]
            for node_id, node in self._machine.items()
            for name, table in node["memoryMap"].items()
        }
        if seen != dict(self._amounts):
            yield f"the plugin has {seen} for pods, and not {dict(self._amounts)}"
        for node_id, node in self._machine.items():
            for name, table in node["memoryMap"].items():
                free, reserved = table["free"], table["reserved"]
                if min(free, reserved) < 0 or free + reserved != table["allocatable"]:
                    yield f"node {node_id} {name}: the table does not add up: {table}"

    def room(self) -> Iterator[str]:
        """Tell of sets of nodes that have more running than room, or than is charged there.

        What is kept for containers that have ended gets only what those leave.
        """
        ids = sorted({node_id for node_id, _ in self._amounts})
        running = self._running()
        for resource in sorted({block.resource for block in running}):
            held = [
                (sum(1 << n for n in block.nodes), self._charged(block), block)
                for block in running
                if block.resource == resource
            ]
            for mask in range(1, 1 << len(ids)):
                nodes = NodeSet(n for i, n in enumerate(ids) if mask >> i & 1)
                inside = sum(size for where, size, _ in held if not where & ~mask)
                room = sum(self._amounts.get((n, resource), 0) for n in nodes)
                charged = sum(self._reserved(n, resource) for n in nodes)
                if inside > min(room, charged):
                    who = [b for where, size, b in held if size and not where & ~mask]
                    text = f"{inside} bytes of {resource} run, {charged} are charged"
                    yield f"nodes {nodes}: {text}, there are {room}: {who}"
                    break

    def excuses(self) -> Iterator[str]:
        """Tell what runs with less than it asked for, where nothing excuses it."""
        for block in self._running():
            missing = self._missing(block)
            if missing and block.key not in self._excused:
                yield f"{block} does not fit by {missing} bytes, and nothing excuses it"

    def sums(self) -> Iterator[str]:
        """Tell of pods that hold more hugepages than their sum."""
        held: dict[tuple[str, str], int] = {}
        alive = {container.key for container in self._node.containers()}
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
        """Return what containers hold that live.

        Without the hugepages of pods whose containers cannot be told apart: at Synchronize
        the first one gets them, wherever it is.
        """
        alive = {c.key: c.pod for c in self._node.containers() if c.mems}
        hides = self._node.habits.hides_hugepages
        return [
            block
            for block in self._blocks
            if block.key in alive
            and (block.resource == MEMORY or not hides or len(alive[block.key].specs) == 1)
        ]

    def _reserved(self, node_id: int, resource: str) -> int:
        tables = self._machine.get(str(node_id), {"memoryMap": {}})["memoryMap"]
        reserved: int = tables.get(resource, {"reserved": 0})["reserved"]
        return reserved

    def _missing(self, block: Block) -> int:
        return self._short.get(block.key, {}).get(block.resource, 0)

    def _charged(self, block: Block) -> int:
        if block.key in self._excused and self._node.is_vague:
            return 0
        return max(0, block.size_bytes - self._missing(block))

    def _keys(self) -> set[Key]:
        return {block.key for block in self._blocks}

    def running(self) -> Iterator[str]:
        """Tell what runs pinned and is not on the books with its nodes and amounts."""
        for container in self._node.containers():
            if not container.pod.is_guaranteed or not container.mems:
                continue
            mine = [block for block in self._blocks if block.key == container.key]
            if not mine:
                yield f"{_name(container)} runs on {container.mems} and is not on the books"
                continue
            if {block.nodes for block in mine} != {NodeSet.parse(container.mems)}:
                yield f"{_name(container)} runs on {container.mems}, the books say {mine}"
            sizes = {block.resource: block.size_bytes for block in mine}
            for resource, size in expected_sizes(container, self._node.habits).items():
                if sizes.get(resource) != size:
                    yield f"{_name(container)} has {size} bytes of {resource}, not {sizes}"

    def unpinned(self, excused: set[str]) -> Iterator[str]:
        """Tell what runs without nodes though nobody said that it does not fit."""
        for container in self._node.containers():
            is_ours = container.pod.is_guaranteed and not container.mems
            if is_ours and container.message.id not in excused:
                yield f"{_name(container)} runs without nodes, and nobody said why"

    def held(self) -> Iterator[str]:
        """Tell what was not kept of a pod that is between two containers."""
        for pod in self._node.running():
            memory = [b for b in self._blocks if b.key[0] == pod.uid and b.resource == MEMORY]
            total = sum(block.size_bytes for block in memory)
            for name, held in pod.held.items():
                mine = [block for block in memory if block.key[1] == name]
                if not mine:
                    yield f"{pod.message.name}/{name}: its {held} was not kept"
                elif not pod.was_resized and mine[0].nodes != NodeSet.parse(held.mems):
                    yield f"{pod.message.name}/{name}: {held} was kept on {mine[0].nodes}"
                # What a smaller container gives back is nobody's.
                if not pod.was_resized and total < held.memory_bytes:
                    yield f"{pod.message.name}: {held} of {name} was not kept, {total} bytes are"

    def strangers(self, ended: set[str]) -> Iterator[str]:
        """Tell what is held for pods that are gone, or were never ours.

        `ended` are the uids of pods whose end the plugin cannot know yet.
        """
        ours: dict[str, set[str]] = {}
        for pod in self._node.running():
            if pod.is_guaranteed:
                ours.setdefault(pod.uid, {POOL}).update(pod.tried)
        for pod in self._node.pods.values():  # an older sandbox of the same pod
            if pod.uid in ours:
                ours[pod.uid].update(pod.tried)
        for uid, name in sorted(self._keys()):
            if uid not in ours and uid not in ended:
                yield f"{self._pod_name(uid)}/{name!r} is on the books, and its pod is gone"
            elif uid in ours and name not in ours[uid]:
                yield f"{uid}/{name!r} is on the books, and was never created"

    def _pod_name(self, uid: str) -> str:
        return next((p.message.name for p in self._node.pods.values() if p.uid == uid), uid)

    def kept(self, state: Mapping[Key, Kept]) -> Iterator[str]:
        """Tell where the state file has something else than the books."""
        on_books = {block.key: str(block.nodes) for block in self._blocks}
        in_file = {key: kept.nodes for key, kept in state.items() if kept.nodes}
        if on_books != in_file:
            differ = set(on_books.items()) ^ set(in_file.items())
            yield f"state file and books differ in {sorted(differ)}"


def _name(container: Container) -> str:
    return f"{container.pod.message.name}/{container.spec.name}"


def single_node_with_room(books: Mapping[str, Any], container: Container, node: Node) -> int | None:
    """Return a node that could hold the container by the books, if there is one.

    None for containers whose hugepages are known as the pod's sum only.
    """
    if node.habits.hides_hugepages and any(container.pod.hugepages.values()):
        return None
    sizes = expected_sizes(container, node.habits)
    for node_id, state in books["machineState"].items():
        is_open = not state["numberOfAssignments"] or state["cells"] == [int(node_id)]
        tables = state["memoryMap"]
        if is_open and all(tables.get(n, {"free": 0})["free"] >= s for n, s in sizes.items()):
            return int(node_id)
    return None
