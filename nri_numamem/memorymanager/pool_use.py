"""What the kernel says of its hugepage pools, held against the books.

The books know what was promised to pods, the kernel which pages are in use, and the pods' cgroups
which of them are theirs. So what others took is what remains, per page size and group of nodes
(a group's containers may have their pages on any of its nodes, so only sums can be compared):

- untouched: what pods hold on the books and do not use yet, pod by pod. Of pods whose cgroups
             tell nothing the sum counts, as if no page were in use by others before theirs are.
- room:      free pages, less the untouched.
- foreign:   ``resv_hugepages`` counts pages promised to mappings that have not touched them,
             pods' as well, for the whole system. What is beyond the untouched of all groups is
             foreign; it may end on any node, so every group's room is less by it.

What the books call free beyond that room is withheld from a placement: taken off `free`, and put
back on the books that come of it, so no rule of placement knows of it. Pages that the host keeps
by its reservation are not free on the books, and count as taken only beyond it. A pool that
shrank since the books were made is found in the same way.
Sources: kernel Documentation/admin-guide/mm/hugetlbpage.rst, free_hugepages and resv_hugepages;
Documentation/admin-guide/cgroup-v2.rst, hugetlb.<size>.numa_stat.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from nri_numamem.memorymanager.nodeset import NodeSet
from nri_numamem.memorymanager.state import NodeState, State
from nri_numamem.values import valueclass


@valueclass(frozen=True, slots=True)
class Pool:
    """The pages of one size on one NUMA node, in bytes."""

    used: int
    free: int
    """Pages that are promised to a mapping and not touched count as free."""


NO_POOL = Pool(0, 0)


@valueclass(frozen=True, slots=True)
class PoolUse:
    """The kernel's figures at one moment; page sizes that nobody asked about may be left out."""

    pools: Mapping[int, Mapping[str, Pool]]
    """Node id -> resource name -> pool."""
    promised: Mapping[str, int]
    """Resource name -> bytes promised to mappings that have not touched them, system-wide."""
    by_pods: Mapping[str, Mapping[int, Mapping[str, int]]] = field(default_factory=dict)
    """Pod uid -> node id -> resource name -> bytes in use by the pod, where its cgroup tells."""


Amounts: TypeAlias = Mapping[int, Mapping[str, int]]
"""Node id -> resource name -> bytes, > 0."""


@valueclass(frozen=True, slots=True)
class Outside:
    """Pages that the books call free, and that pods cannot have; empty when there are none."""

    taken: Mapping[NodeSet, Mapping[str, int]] = field(default_factory=dict)
    """Node or group of nodes -> resource name -> bytes, > 0."""
    promised: Mapping[str, int] = field(default_factory=dict)
    """Resource name -> bytes, > 0, that may be taken besides, on any node."""


@valueclass(frozen=True, slots=True)
class Withheld:
    """Books in which what others took is not free."""

    state: State
    amounts: Amounts = field(default_factory=dict)

    def put_back(self, state: State) -> State:
        """Return books that came of these with the withheld bytes free again."""
        return _with_free(state, self.amounts, 1)


def withhold(state: State, use: PoolUse | None) -> Withheld:
    """Take off the free hugepages what the kernel cannot give; None leaves the books alone."""
    if use is None:
        return Withheld(state)
    amounts: dict[int, dict[str, int]] = {}
    for gap in _gaps(state, use):
        left = min(gap.size_bytes + gap.foreign, gap.free)
        for node_id in gap.nodes_most_used_first:
            size_bytes = min(left, state.machine_state[node_id].table(gap.resource).free)
            if size_bytes > 0:
                amounts.setdefault(node_id, {})[gap.resource] = size_bytes
                left -= size_bytes
    return Withheld(_with_free(state, amounts, -1), amounts)


def outside(state: State, use: PoolUse) -> Outside:
    """Return by how much books and kernel differ."""
    taken: dict[NodeSet, dict[str, int]] = {}
    promised: dict[str, int] = {}
    for gap in _gaps(state, use):
        size_bytes = max(0, min(gap.size_bytes, gap.free))
        if size_bytes:
            taken.setdefault(gap.nodes, {})[gap.resource] = size_bytes
        if min(gap.size_bytes + gap.foreign, gap.free) > size_bytes:
            promised[gap.resource] = gap.foreign
    return Outside(taken, promised)


@valueclass(frozen=True, slots=True)
class _Gap:
    """One group of nodes and one page size."""

    nodes: NodeSet
    resource: str
    size_bytes: int
    """How much of the books' free bytes the kernel does not have; negative for room to spare."""
    free: int
    """On the books."""
    foreign: int
    nodes_most_used_first: tuple[int, ...]
    """By how much is in use beyond what pods hold there."""


def _gaps(state: State, use: PoolUse) -> Iterator[_Gap]:
    groups = _groups(state)
    for resource in sorted({name for pools in use.pools.values() for name in pools}):
        sums = _sums(state, use, groups, resource)
        foreign = max(0, use.promised.get(resource, 0) - sum(s.untouched for s in sums))
        for group, found in zip(groups, sums, strict=True):
            size_bytes = found.free - (found.kernel_free - found.untouched)
            order = _most_used_first(state, use, group, resource)
            yield _Gap(group, resource, size_bytes, found.free, foreign, order)


@dataclass(slots=True)
class _Sums:
    """One group of nodes and one page size, in bytes."""

    free: int
    """On the books."""
    kernel_free: int
    others_held: int
    """By pods that were not counted one by one."""
    others_used: int
    """By those, and by whoever else."""
    untouched_by_counted: int = 0

    def count(self, holds: int, uses: int) -> None:
        """Count a pod by itself."""
        self.untouched_by_counted += max(0, holds - uses)
        self.others_held -= holds
        self.others_used -= uses

    @property
    def untouched(self) -> int:
        """What pods hold and do not use."""
        return self.untouched_by_counted + max(0, self.others_held - max(0, self.others_used))


def _sums(state: State, use: PoolUse, groups: list[NodeSet], resource: str) -> list[_Sums]:
    """Add up each group; pods whose use is known are counted one by one."""
    sums: list[_Sums] = []
    for group in groups:
        tables = [state.machine_state[node_id].table(resource) for node_id in group]
        pools = [_pool(use, node_id, resource) for node_id in group]
        free, held = sum(t.free for t in tables), sum(t.reserved for t in tables)
        sums.append(_Sums(free, sum(p.free for p in pools), held, sum(p.used for p in pools)))
    places = {node_id: place for place, group in enumerate(groups) for node_id in group}
    for uid, nodes in use.by_pods.items():
        held_and_used: dict[int, tuple[int, int]] = {}
        for node_id, held in _held(state, uid, resource):
            before = held_and_used.get(places[node_id], (0, 0))
            held_and_used[places[node_id]] = (before[0] + held, before[1])
        for node_id, sizes in nodes.items():
            if node_id in places:
                before = held_and_used.get(places[node_id], (0, 0))
                held_and_used[places[node_id]] = (before[0], before[1] + sizes.get(resource, 0))
        for place, (holds, uses) in held_and_used.items():
            sums[place].count(holds, uses)
    return sums


def _held(state: State, uid: str, resource: str) -> Iterator[tuple[int, int]]:
    """Yield node id and bytes of what a pod has on the books."""
    for blocks in state.assignments.get(uid, {}).values():
        for block in blocks:
            if block.type == resource:
                yield from block.charges


def _pool(use: PoolUse, node_id: int, resource: str) -> Pool:
    return use.pools.get(node_id, {}).get(resource, NO_POOL)


def _most_used_first(state: State, use: PoolUse, group: NodeSet, resource: str) -> tuple[int, ...]:
    def unused(node_id: int) -> int:
        reserved = state.machine_state[node_id].table(resource).reserved
        return reserved - _pool(use, node_id, resource).used

    return tuple(sorted(group, key=unused))


def _groups(state: State) -> list[NodeSet]:
    """Return the machine's nodes, those together whose assignments may share their pages."""
    joined: list[NodeSet] = []
    grouped = NodeSet()
    for node_id, node in state.machine_state.items():
        if len(node.cells) > 1:
            known = (other for other in node.cells if other in state.machine_state)
            group = NodeSet([node_id, *known])
            grouped |= group
            for other in joined:
                group = group if group.isdisjoint(other) else group | other
            joined = [other for other in joined if other.isdisjoint(group)] + [group]
    alone = [NodeSet([node_id]) for node_id in state.machine_state if node_id not in grouped]
    return sorted([*joined, *alone], key=lambda group: next(iter(group)))


def _with_free(state: State, amounts: Amounts, sign: int) -> State:
    if not amounts:
        return state
    machine: dict[int, NodeState] = dict(state.machine_state)
    for node_id, sizes in amounts.items():
        tables = dict(machine[node_id].memory_map)
        for resource, size_bytes in sizes.items():
            table = tables[resource]
            tables[resource] = replace(table, free=table.free + sign * size_bytes)
        machine[node_id] = replace(machine[node_id], memory_map=tables)
    return replace(state, machine_state=machine)
