"""The engine's state as one frozen value: the accounting, and the containers that it belongs to.

A transition makes the next state from the last; nothing is changed in place, so a transition that
fails changes nothing. The accounting belongs to the memory manager, by the keys of holders.
The engine adds sandbox ids and container ids, and the previous nodes of pods that ended.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TypeAlias, TypeVar

from nri_numamem.engine.core.claims import ChargedClaim
from nri_numamem.engine.core.earmarks import Earmark
from nri_numamem.engine.core.events import PodSandbox
from nri_numamem.engine.core.providers import NO_OTHER_PROVIDERS, OtherProviders
from nri_numamem.engine.core.reason import NO_REASONS, Reasons
from nri_numamem.memorymanager import Block, State
from nri_numamem.memorymanager.holder import HolderKey, HolderName, container_name
from nri_numamem.memorymanager.state import copy_of
from nri_numamem.numa import CpuSet, NodeSet

_K = TypeVar("_K")
_V = TypeVar("_V")

PreviousNodes: TypeAlias = Mapping[str, Mapping[HolderName, NodeSet]]

# Pods that ended and may start again: static pods after a restart of their sandbox. The limit is
# several times the number of pods on a large host; the kubelet's default limit is 110.
PREVIOUS_NODES_LIMIT = 1024
# More containers than any pod needs; the first ones count.
PREVIOUS_NAMES_LIMIT = 128

NO_PREVIOUS_NODES = NodeSet()
NO_CPUS = CpuSet()


@dataclass(frozen=True, slots=True)
class Holder:
    """The newest container with its key, or a pod as a whole, whose id is that of its sandbox."""

    container_id: str
    sandbox_id: str
    key: HolderKey
    ended: bool = False
    """Stopped; its memory stays reserved for the pod's next containers."""
    misaligned: OtherProviders = NO_OTHER_PROVIDERS
    """Its CPUs and devices that have no NUMA node in common with its memory."""
    is_shared: bool = False
    """It shares the memory of its pod (pod-level resources), and counts with what the other
    containers left of the pod's limit when it was created."""
    cpu_millicores: int = 0
    """Its CPU request; 0 if unknown (``cpu_requests``)."""
    is_movable: bool = False
    """Its pod consents to rebalancing plans by annotation; no decision depends on it."""
    cpus: CpuSet = NO_CPUS
    """The CPUs that a reply set, because they are those of its nodes; empty if none did."""

    @property
    def container_name(self) -> str:
        """The container's name; empty for a pod as a whole."""
        return container_name(self.key[1])


@dataclass(frozen=True, slots=True)
class Cpusets:
    """What is known about `cpuset.mems` in the cgroups of containers, by container id."""

    unconfirmed: frozenset[str] = frozenset()
    """An update sent their nodes, and their cgroup has not shown them yet."""
    repairs: Mapping[str, NodeSet] = field(default_factory=dict)
    """A later reply must send their nodes again; id -> what their cgroup showed."""
    unpinned: frozenset[str] = frozenset()
    """Their cgroup has no `cpuset.mems`, and must not get one while they run."""
    with_devices: frozenset[str] = frozenset()
    without_assignment: frozenset[str] = frozenset()
    """Ids of sandboxes with a running container that fits on no nodes."""
    other_cpus: frozenset[str] = frozenset()
    """Their nodes have other CPUs than a reply set; a later reply must send them."""

    def without(self, container_id: str) -> "Cpusets":
        """Return the value in which the container's cgroup has its nodes."""
        known = self.unconfirmed | self.repairs.keys() | self.unpinned
        if container_id not in known:
            return self
        ids = {container_id}
        repairs = {key: seen for key, seen in self.repairs.items() if key != container_id}
        return replace(
            self, unconfirmed=self.unconfirmed - ids, repairs=repairs, unpinned=self.unpinned - ids
        )

    def forget(self, ids: AbstractSet[str]) -> "Cpusets":
        """Return the value without containers that no holder has any more."""
        known = self.unconfirmed | self.repairs.keys() | self.unpinned | self.with_devices
        if known.isdisjoint(ids):
            return self
        return replace(
            self,
            unconfirmed=self.unconfirmed - ids,
            repairs={key: seen for key, seen in self.repairs.items() if key not in ids},
            unpinned=self.unpinned - ids,
            with_devices=self.with_devices - ids,
        )


NO_CPUSETS = Cpusets()


@dataclass(frozen=True, slots=True)
class EngineState:
    """The whole state of the engine."""

    accounting: State
    pods: Mapping[str, PodSandbox] = field(default_factory=dict)
    """Sandbox id -> pod, while the sandbox exists and was not stopped."""
    holders: Mapping[HolderKey, Holder] = field(default_factory=dict)
    keys: Mapping[str, HolderKey] = field(default_factory=dict)
    """Container id -> key of its holder; of two holders with one id the newer one."""
    previous_nodes: PreviousNodes = field(default_factory=dict)
    """Pod uid -> name of its holder -> nodes of ended pods, oldest first.

    At most PREVIOUS_NODES_LIMIT pods, with PREVIOUS_NAMES_LIMIT names each.
    """
    pending: frozenset[str] = frozenset()
    """Ids of containers whose assigned nodes a later reply must send to the runtime."""
    restored: "EngineState | None" = None
    """The state of an earlier process, until the first Synchronize confirms or drops its parts."""
    cpusets: Cpusets = NO_CPUSETS
    outstanding: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """Pod uid -> resource -> bytes of the pod's limit that its containers do not hold yet; only
    begun pods (see ``outstanding``)."""
    claims: Mapping[str, ChargedClaim] = field(default_factory=dict)
    """Uid -> resource claim, each charged in the accounting."""
    earmarks: Mapping[str, Earmark] = field(default_factory=dict)
    """Uid -> room that is set aside; the accounting does not have it."""
    reasons: Reasons = field(default=NO_REASONS, compare=False)
    """For people; no decision depends on it."""

    def holder(self, container_id: str) -> Holder | None:
        """Return the holder with this container id; None if there is none any more."""
        key = self.keys.get(container_id)
        return None if key is None else self.holders[key]

    def blocks(self, key: HolderKey) -> tuple[Block, ...] | None:
        """Return the blocks of a container; None if it has no assignment."""
        return self.accounting.assignments.get(key[0], {}).get(key[1])

    def blocks_of_live_others(self, key: HolderKey) -> Iterator[tuple[Block, ...]]:
        """Yield the blocks of each other container of a pod that has not ended."""
        uid, name = key
        for other, blocks in self.accounting.assignments.get(uid, {}).items():
            if other != name and self._is_live((uid, other)):
                yield blocks

    def runs_in_other_sandbox(self, key: HolderKey, sandbox_id: str) -> bool:
        """Return whether a container runs, in another sandbox than this one."""
        holder = self.holders.get(key)
        return holder is not None and not holder.ended and holder.sandbox_id != sandbox_id

    def _is_live(self, key: HolderKey) -> bool:
        holder = self.holders.get(key)
        return holder is not None and not holder.ended

    def nodes_before(self, key: HolderKey) -> NodeSet:
        """Return the nodes that a container had when its pod ended; empty if unknown."""
        return self.previous_nodes.get(key[0], {}).get(key[1], NO_PREVIOUS_NODES)

    def previous_nodes_with(self, ended: Iterable[Holder]) -> PreviousNodes:
        """Return the previous nodes, with those of holders that are about to end added."""
        previous_nodes = copy_of(self.previous_nodes)
        added: dict[str, dict[HolderName, NodeSet]] = {}
        for holder in ended:
            uid, name = holder.key
            blocks = self.blocks(holder.key)
            if blocks:
                added.setdefault(uid, {})[name] = blocks[0].numa_affinity
        for uid, nodes in added.items():
            newest = {**previous_nodes.pop(uid, {}), **nodes}
            previous_nodes[uid] = dict(islice(newest.items(), PREVIOUS_NAMES_LIMIT))
        for uid in list(islice(previous_nodes, max(0, len(previous_nodes) - PREVIOUS_NODES_LIMIT))):
            del previous_nodes[uid]
        return previous_nodes

    def with_pod(self, pod: PodSandbox) -> "EngineState":
        """Return the state with the sandbox added."""
        if self.pods.get(pod.sandbox_id) == pod:
            return self
        pods = copy_of(self.pods)
        pods[pod.sandbox_id] = pod
        return replace(self, pods=pods)

    def without_pod(self, sandbox_id: str, previous_nodes: PreviousNodes) -> "EngineState":
        """Return the state without the sandbox, and with these previous nodes."""
        pods, cpusets = without(self.pods, sandbox_id), self.cpusets
        if sandbox_id in cpusets.without_assignment:
            remaining = cpusets.without_assignment - {sandbox_id}
            cpusets = replace(cpusets, without_assignment=remaining)
        return replace(self, pods=pods, previous_nodes=previous_nodes, cpusets=cpusets)

    def with_accounting(self, accounting: State) -> "EngineState":
        """Return the state with another accounting."""
        return replace(self, accounting=accounting)

    def with_holder(self, holder: Holder, accounting: State) -> "EngineState":
        """Return the state with another accounting, in which `holder` is the holder of its key."""
        holders, keys = copy_of(self.holders), copy_of(self.keys)
        old = holders.get(holder.key)
        if old is not None:
            _drop_id(keys, old)
        holders[holder.key] = holder
        keys[holder.container_id] = holder.key
        state = self.with_all(accounting, holders, keys)
        return state if old is None else state.without_cpusets((old,))

    def without_holder(self, holder: Holder, accounting: State) -> "EngineState":
        """Return the state with another accounting, in which the holder's key has no holder."""
        return self.without_holders((holder,), accounting)

    def without_holders(self, removed: Collection[Holder], accounting: State) -> "EngineState":
        """Return the state with another accounting, without some holders."""
        holders, keys = copy_of(self.holders), copy_of(self.keys)
        for holder in removed:
            _drop_id(keys, holder)
            holders.pop(holder.key, None)
        return self.with_all(accounting, holders, keys).without_cpusets(removed)

    def without_cpusets(self, former: Iterable[Holder]) -> "EngineState":
        """Return the state without the cpusets of former holders; ids may belong to others now."""
        ids = {holder.container_id for holder in former} - self.keys.keys()
        return self.with_cpusets(self.cpusets.forget(ids))

    def with_cpusets(self, cpusets: Cpusets) -> "EngineState":
        """Return the state with other knowledge of the cgroups' cpusets."""
        return self if cpusets == self.cpusets else replace(self, cpusets=cpusets)

    def with_unassigned(self, sandbox_ids: Iterable[str]) -> "EngineState":
        """Return the state in which containers of these sandboxes run that no nodes could hold."""
        known = self.cpusets.without_assignment.union(sandbox_ids)
        return self.with_cpusets(replace(self.cpusets, without_assignment=known))

    def with_devices(self, container_id: str) -> "EngineState":
        """Return the state in which the container has devices."""
        cpusets = replace(self.cpusets, with_devices=self.cpusets.with_devices | {container_id})
        return replace(self, cpusets=cpusets)

    def with_all(
        self, accounting: State, holders: Mapping[HolderKey, Holder], keys: Mapping[str, HolderKey]
    ) -> "EngineState":
        """Return the state with another accounting and other holders."""
        return replace(self, accounting=accounting, holders=holders, keys=keys)

    def with_outstanding(self, outstanding: Mapping[str, Mapping[str, int]]) -> "EngineState":
        """Return the state with other outstanding amounts."""
        return replace(self, outstanding=outstanding)

    def with_reasons(self, reasons: Reasons) -> "EngineState":
        """Return the state with other reasons."""
        return replace(self, reasons=reasons)


def _drop_id(keys: dict[str, HolderKey], holder: Holder) -> None:
    # A runtime uses each id once; if it does not, the id belongs to the newest holder.
    if keys.get(holder.container_id) == holder.key:
        del keys[holder.container_id]


def without(mapping: Mapping[_K, _V], key: _K) -> dict[_K, _V]:
    """Return a copy of `mapping` without `key`, which may be absent."""
    copy = copy_of(mapping)
    copy.pop(key, None)
    return copy
