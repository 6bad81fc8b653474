"""The kernel's hugepage pools compared with the accounting.

The accounting records which bytes are assigned to pods, the kernel which pages are in use, and
the pods' cgroups which of these pages pods use. The difference is used outside of pods. It is
computed per page size and group of nodes, because the containers of a group may have their pages
on any of its nodes:

- reserved_unfaulted: bytes that pods have reserved in the accounting and not used yet, pod by pod.
                      Pods whose cgroups do not show their use count as one pod, to which all use
                      belongs that no other pod has.
- available:          free pages, less reserved_unfaulted.
- non_pod_rsvd:       ``resv_hugepages`` counts, for the whole system, pages that are reserved for
                      mappings and not faulted yet, those of pods included. What exceeds the
                      reserved_unfaulted of all groups is reserved by other processes. It may be
                      faulted on any node, so each group has that much less available.

Bytes that the accounting has as free and that are not available are masked for a placement: they
are subtracted from `free`, and added again in the state after the placement, so no rule of
placement depends on them. Pages that the host reserves (reservedMemory) are not free in the
accounting, so only use beyond that reservation is masked. A pool that shrank is found in the same
way.
Sources: kernel Documentation/admin-guide/mm/hugetlbpage.rst, free_hugepages and resv_hugepages;
Documentation/admin-guide/cgroup-v2.rst, hugetlb.<size>.numa_stat.
"""

from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from nri_numamem.memorymanager.accounting import remove_container
from nri_numamem.memorymanager.holder import HolderKind
from nri_numamem.memorymanager.state import NodeState, State, Table, without_nodes
from nri_numamem.numa.idset import NodeSet
from nri_numamem.numa.quantity import MEMORY, sum_amounts


@dataclass(frozen=True, slots=True)
class Pool:
    """The pages of one size on one NUMA node, in bytes."""

    used: int
    free: int
    """Pages that are reserved for a mapping and not faulted yet count as free."""


NO_POOL = Pool(0, 0)


@dataclass(frozen=True, slots=True)
class PoolUse:
    """The kernel's figures at one moment; page sizes that are not needed may be missing."""

    pools: Mapping[int, Mapping[str, Pool]]
    """Node id -> resource name -> pool."""
    rsvd: Mapping[str, int]
    """Resource name -> bytes reserved for mappings and not faulted yet, system-wide."""
    by_pods: Mapping[str, Mapping[int, Mapping[str, int]]] = field(default_factory=dict)
    """Pod uid -> node id -> resource name -> bytes in use, for pods whose cgroup shows them."""


Amounts: TypeAlias = Mapping[int, Mapping[str, int]]
"""Node id -> resource name -> bytes, > 0."""


@dataclass(frozen=True, slots=True)
class NonPodHugepages:
    """Hugepages that the accounting has as free and that the kernel cannot provide."""

    used: Mapping[NodeSet, Mapping[str, int]] = field(default_factory=dict)
    """Node or group of nodes -> resource name -> bytes, > 0."""
    rsvd: Mapping[str, int] = field(default_factory=dict)
    """Resource name -> bytes, > 0, reserved by other processes; they may be on any node."""


@dataclass(frozen=True, slots=True)
class MaskedState:
    """A state in which some bytes are not free, and some nodes are absent."""

    state: State
    amounts: Amounts = field(default_factory=dict)
    """The bytes: hugepages that are unavailable, for example."""
    hidden: Mapping[int, NodeState] = field(default_factory=dict)
    """The nodes, by id."""
    earmarks: tuple[str, ...] = ()
    """Ids of the earmarks that are assigned for the placement."""

    def without(self, nodes: NodeSet) -> "MaskedState":
        """Return the value in which these nodes are absent as well."""
        machine = self.state.machine_state
        hidden = {n: machine[n] for n in nodes if n in machine}
        return replace(
            self, state=without_nodes(self.state, nodes), hidden={**self.hidden, **hidden}
        )

    def unmask(self, state: State) -> State:
        """Return a later state with all nodes, in which the masked bytes are free again."""
        if self.hidden:
            machine = dict(sorted({**self.hidden, **state.machine_state}.items()))
            state = State(machine, state.assignments, state.reusable)
        for uid in self.earmarks:
            state = remove_container(state, uid, HolderKind.EARMARK)
        return with_free(state, self.amounts, 1)


def mask_unavailable_hugepages(
    state: State, use: PoolUse, ended: Container[tuple[NodeSet, str]] = ()
) -> MaskedState:
    """Subtract unavailable hugepages from the free ones.

    `ended` are nodes and resource names of ``non_pod_hugepages`` whose use outside of pods is taken
    to have ended; without nodes, the reservations of other processes.
    """
    amounts: dict[int, dict[str, int]] = {}
    for gap in _gaps(state, use):
        size_bytes, non_pod_rsvd = gap.size_bytes, gap.non_pod_rsvd
        if (gap.nodes, gap.resource) in ended:
            size_bytes = min(0, size_bytes)
        if (NodeSet(), gap.resource) in ended:
            non_pod_rsvd = 0
        remaining = min(size_bytes + non_pod_rsvd, gap.free)
        for node_id in gap.nodes_most_used_first:
            size_bytes = min(remaining, state.machine_state[node_id].table(gap.resource).free)
            if size_bytes > 0:
                amounts.setdefault(node_id, {})[gap.resource] = size_bytes
                remaining -= size_bytes
    return MaskedState(with_free(state, amounts, -1), amounts)


def masked_bytes(resource: str, table: Table) -> int:
    """Return the masked bytes of a hugepage pool in a masked state: they are used outside of pods.

    0 for memory.
    """
    return 0 if resource == MEMORY else max(0, table.allocatable - table.reserved - table.free)


def non_pod_hugepages(state: State, use: PoolUse) -> NonPodHugepages:
    """Return the hugepages that are used or reserved outside of pods."""
    used: dict[NodeSet, dict[str, int]] = {}
    rsvd: dict[str, int] = {}
    for gap in _gaps(state, use):
        size_bytes = max(0, min(gap.size_bytes, gap.free))
        if size_bytes:
            used.setdefault(gap.nodes, {})[gap.resource] = size_bytes
        if min(gap.size_bytes + gap.non_pod_rsvd, gap.free) > size_bytes:
            rsvd[gap.resource] = gap.non_pod_rsvd
    return NonPodHugepages(used, rsvd)


@dataclass(frozen=True, slots=True)
class _Gap:
    """The difference for one group of nodes and one page size."""

    nodes: NodeSet
    resource: str
    size_bytes: int
    """Free bytes of the accounting less available bytes; negative if more is available."""
    free: int
    """Free bytes of the accounting."""
    non_pod_rsvd: int
    nodes_most_used_first: tuple[int, ...]
    """By the bytes in use beyond those that pods have reserved there."""


def _gaps(state: State, use: PoolUse) -> Iterator[_Gap]:
    groups = _groups(state)
    for resource in sorted({name for pools in use.pools.values() for name in pools}):
        sums = _sums(state, use, groups, resource)
        reserved_unfaulted = sum(s.reserved_unfaulted for s in sums)
        non_pod_rsvd = max(0, use.rsvd.get(resource, 0) - reserved_unfaulted)
        for group, found in zip(groups, sums, strict=True):
            size_bytes = found.free - (found.kernel_free - found.reserved_unfaulted)
            order = _most_used_first(state, use, group, resource)
            yield _Gap(group, resource, size_bytes, found.free, non_pod_rsvd, order)


@dataclass(slots=True)
class _Sums:
    """The bytes of one group of nodes and one page size."""

    free: int
    """Free bytes of the accounting."""
    kernel_free: int
    uncounted_reserved: int
    """Reserved in the accounting by pods that are not counted one by one."""
    uncounted_used: int
    """Used by these pods, and by all other processes."""
    counted_unfaulted: int = 0
    """Reserved and not used yet, by the pods that are counted one by one."""

    def count_pod(self, reserved: int, used: int) -> None:
        """Count one pod by itself."""
        self.counted_unfaulted += max(0, reserved - used)
        self.uncounted_reserved -= reserved
        self.uncounted_used -= used

    @property
    def reserved_unfaulted(self) -> int:
        """Bytes that pods have reserved and not used yet."""
        uncounted = self.uncounted_reserved - max(0, self.uncounted_used)
        return self.counted_unfaulted + max(0, uncounted)


def _sums(state: State, use: PoolUse, groups: list[NodeSet], resource: str) -> list[_Sums]:
    """Return the sums of each group; pods whose use is known are counted one by one."""
    sums: list[_Sums] = []
    for group in groups:
        tables = [state.machine_state[node_id].table(resource) for node_id in group]
        pools = [_pool(use, node_id, resource) for node_id in group]
        free, reserved = sum(t.free for t in tables), sum(t.reserved for t in tables)
        kernel_free, used = sum(p.free for p in pools), sum(p.used for p in pools)
        sums.append(_Sums(free, kernel_free, reserved, used))
    group_of = {node_id: index for index, group in enumerate(groups) for node_id in group}
    for uid, nodes in use.by_pods.items():
        reserved_in = sum_amounts(
            (group_of[node_id], size_bytes)
            for node_id, size_bytes in _charges(state, uid, resource)
        )
        used_in = sum_amounts(
            (group_of[node_id], sizes.get(resource, 0))
            for node_id, sizes in nodes.items()
            if node_id in group_of
        )
        for index in reserved_in.keys() | used_in.keys():
            sums[index].count_pod(reserved_in.get(index, 0), used_in.get(index, 0))
    return sums


def _charges(state: State, uid: str, resource: str) -> Iterator[tuple[int, int]]:
    """Yield node id and bytes of all charges of a pod."""
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
    """Return sets of nodes: the groups, joined where they overlap, and single nodes."""
    groups: list[NodeSet] = []
    grouped = NodeSet()
    for node_id, node in state.machine_state.items():
        if len(node.cells) > 1:
            known = (other for other in node.cells if other in state.machine_state)
            group = NodeSet([node_id, *known])
            grouped |= group
            for other in groups:
                group = group if group.isdisjoint(other) else group | other
            groups = [other for other in groups if other.isdisjoint(group)] + [group]
    single = [NodeSet([node_id]) for node_id in state.machine_state if node_id not in grouped]
    return sorted([*groups, *single], key=lambda group: next(iter(group)))


def with_free(state: State, amounts: Amounts, sign: int) -> State:
    """Return the state with amounts added to (sign 1) or subtracted from (-1) the free bytes."""
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
