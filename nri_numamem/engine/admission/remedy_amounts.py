"""Proposals for a refused request, not tried yet: node sets to empty, and smaller requests."""

from collections.abc import Iterator, Mapping
from itertools import accumulate

from nri_numamem.engine.core.candidates import Choice
from nri_numamem.memorymanager.blocks import page_bytes
from nri_numamem.memorymanager.candidates import candidates_for, free_bytes
from nri_numamem.numa import MEMORY, NodeSet

_MI = 1 << 20

# Each proposal takes a trial.
_SETS = 4
_HALVINGS = 6


class Proposals:
    """Proposals for one request, the best first."""

    def __init__(self, choice: Choice, missing: Mapping[str, int], *, is_of_all: bool) -> None:
        """Take the refused request, and what all nodes together lack for its pod, if they do.

        `is_of_all` is whether the request was refused for that.
        """
        self._choice = choice
        self._missing = missing
        self._is_of_all = is_of_all
        self._machine = choice.accounting.machine_state
        self.request = {name: size for name, size in choice.resources.items() if size}
        found = candidates_for(choice.accounting, choice.uid, choice.resources, NodeSet())
        self.needed_nodes = found.minimum if choice.chooser is None else choice.chooser.node_count
        """The fewest nodes that could hold the request; None if all could not."""

    def sets_to_empty(self) -> Iterator[NodeSet]:
        """Yield node sets to try, the cheapest first; the last one has all nodes."""
        count, machine = self.needed_nodes, self._machine
        ids = sorted(machine, key=self._cost_of_node)
        if self._is_of_all:
            yield from [NodeSet([n]) for n in ids][:_SETS]
        elif count is not None:
            sets = [NodeSet([n]) for n in ids] if count == 1 else [*self._groups(count)]
            large = [nodes for nodes in sets if not self.short(nodes, is_empty=True)]
            yield from large[:_SETS]
            if count > 1:
                yield from self._new_groups(ids, count)
        yield NodeSet(machine)

    def _cost_of_node(self, node_id: int) -> tuple[bool, bool, int, int]:
        """Order nodes: those of the CPUs and devices, then those with few bytes to release."""
        node, others = self._machine[node_id], self._choice.others
        is_remote = others.is_disjoint_from(NodeSet([node_id]))
        is_grouped = len(node.cells) > 1
        if self.needed_nodes == 1 and not is_grouped:
            return is_remote, is_grouped, sum(self.short(NodeSet([node_id])).values()), node_id
        cells = [self._machine[n] for n in node.cells if n in self._machine]
        reserved = sum(table.reserved for each in cells for table in each.memory_map.values())
        return is_remote, is_grouped, reserved, node_id

    def _groups(self, count: int) -> Iterator[NodeSet]:
        """Yield the groups that could hold the request, the one with most free memory first."""
        groups = {node.cells for node in self._machine.values() if len(node.cells) >= count}
        yield from sorted(groups, key=lambda g: (sum(self.short(g).values()), g.mask))

    def _new_groups(self, ids: list[int], count: int) -> Iterator[NodeSet]:
        """Yield sets of nodes that could become a group of `count` nodes."""
        largest = sorted(ids, key=lambda n: -self._machine[n].table(MEMORY).allocatable)
        yield from dict.fromkeys(NodeSet(order[:count]) for order in (ids, largest))

    def is_usable(self, nodes: NodeSet) -> bool:
        """Return whether the request may join the assignments on these nodes."""
        return all(
            not node.number_of_assignments or node.cells == nodes
            for node in (self._machine[n] for n in nodes)
        )

    def short(self, nodes: NodeSet, *, is_empty: bool = False) -> dict[str, int]:
        """Return resource -> bytes, > 0, that nodes lack for the request now, or if empty."""
        found = [self._machine[n] for n in nodes if n in self._machine]
        chooser = self._choice.chooser
        short: dict[str, int] = {}
        for name, size in self.request.items():
            tables = [node.table(name) for node in found]
            amounts = [table.allocatable if is_empty else table.free for table in tables]
            lacking = size - sum(amounts) if chooser is None else chooser.short_bytes(size, amounts)
            if lacking > 0:
                short[name] = lacking
        return short

    def smaller_requests(self) -> Iterator[dict[str, int]]:
        """Yield requests that some nodes have free, the largest first, then ever smaller ones."""
        parts = (tuple(self._part_for(nodes).items()) for nodes in self._sets_with_room())
        usable = [dict(items) for items in dict.fromkeys(parts) if items]
        yield from sorted(usable, key=self._share, reverse=True)[:_SETS]
        for power in range(1, _HALVINGS + 1):
            part = {n: max(_floor(n, size >> power), _unit(n)) for n, size in self.request.items()}
            yield {name: min(size, self.request[name]) for name, size in part.items()}

    def _share(self, part: Mapping[str, int]) -> list[int]:
        """Return how much of the request a part is: its least share first, in 1/1000."""
        shares = sorted(part[name] * 1000 // size for name, size in self.request.items())
        return [*shares, *part.values()]

    def _sets_with_room(self) -> Iterator[NodeSet]:
        machine = self._machine
        yield from (NodeSet([n]) for n in machine)
        yield from (node.cells for node in machine.values() if len(node.cells) > 1)
        others = self._choice.others
        yield from filter(None, (others.cpu, *others.all_devices))
        unassigned = [n for n, node in machine.items() if not node.number_of_assignments]
        for name in self.request:
            most = sorted(unassigned, key=lambda n: (-machine[n].table(name).free, n))
            yield from (NodeSet(ids) for ids in accumulate([n] for n in most))
        yield NodeSet(machine)

    def _part_for(self, nodes: NodeSet) -> dict[str, int]:
        """Return the part of the request that fits on nodes; {} if it is all of it, or nothing."""
        choice, chooser = self._choice, self._choice.chooser
        part: dict[str, int] = {}
        for name, size in self.request.items():
            if chooser is not None:
                tables = [self._machine[n].table(name) for n in nodes if n in self._machine]
                free = chooser.most_bytes([_floor(name, table.free) for table in tables])
            else:
                free = free_bytes(choice.accounting, nodes, name)
                free += choice.accounting.reusable_bytes(choice.uid, nodes, name)
            most = size - self._missing.get(name, 0)
            part[name] = size if min(free, most) >= size else _floor(name, max(0, min(free, most)))
        return part if all(part.values()) and part != self.request else {}


def _floor(resource: str, size_bytes: int) -> int:
    """Return the size in whole pages, and memory in whole Mi if it has any."""
    unit = 1 if resource == MEMORY and size_bytes < _MI else _unit(resource)
    return size_bytes // unit * unit


def _unit(resource: str) -> int:
    return _MI if resource == MEMORY else page_bytes(resource)
