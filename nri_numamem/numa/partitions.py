"""Partitions: NUMA nodes that are set apart for a kind of pods.

A pod belongs to the first partition whose namespaces and labels match it. All other pods are the
rest, which an entry of the name `default` may describe. A partition's pods are placed on its nodes.
The rest may use every node that no exclusive partition has. So the sets of nodes of two kinds of
pods are disjoint, or one contains the other.

An example on four nodes, of which 0 and 1 are close::

    web:  nodes 2-3, exclusive: guaranteed
    jobs: count: 1

`web` has nodes 2-3. `jobs` has the closest set of one node that no other partition has: node 0. The
rest may use nodes 0-1.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from fnmatch import fnmatchcase

from nri_numamem.numa.closest.cover import Cover
from nri_numamem.numa.idset import NodeSet
from nri_numamem.numa.preferences import Preferences

REST = "default"
"""The name of the entry that describes the rest."""
SYSTEM_NAMESPACE = "kube-system"


class PartitionsError(ValueError):
    """Partitions that leave no NUMA node to other pods; the text is one line with the remedy."""

    path: tuple[str | int, ...] = ("partitions",)
    """The setting in question, as keys."""


class Exclusive(StrEnum):
    """Which other containers stay off the nodes of a partition."""

    NONE = "none"
    GUARANTEED = "guaranteed"
    """Those that are pinned."""
    ALL = "all"
    """Those that are pinned, and by their `cpuset.mems` those that are not."""


@dataclass(frozen=True, slots=True)
class Partition:
    """One entry of the setting `partitions`."""

    name: str
    nodes: NodeSet = field(default_factory=NodeSet)
    """Empty if `count` is set."""
    count: int = 0
    """Number of nodes, of which the closest ones are taken; 0 if `nodes` is set."""
    namespaces: tuple[str, ...] = ()
    """Names, or patterns such as `ml-*`; empty: all namespaces."""
    selector: Mapping[str, str] = field(default_factory=dict)
    """Labels of the pod, all of which must match; empty: all pods."""
    exclusive: Exclusive = Exclusive.NONE
    confine: bool = False
    """Whether containers that are not pinned get the partition's nodes."""

    @property
    def is_rest(self) -> bool:
        """Return whether the entry describes the pods that no partition matches."""
        return self.name == REST

    def matches(self, namespace: str, labels: Mapping[str, str]) -> bool:
        """Return whether a pod belongs to the partition, unless an earlier one matches too."""
        is_listed = not self.namespaces or any(fnmatchcase(namespace, p) for p in self.namespaces)
        return is_listed and all(labels.get(key) == value for key, value in self.selector.items())


def label_keys_of(partitions: Iterable[Partition]) -> tuple[str, ...]:
    """Return the keys of the labels that a selector names, sorted."""
    return (*sorted({key for each in partitions for key in each.selector}),)


@dataclass(frozen=True, slots=True)
class PartitionNodes:
    """A partition on one machine."""

    partition: Partition
    nodes: NodeSet
    """Those that its pods may use; empty if there is a problem."""
    problem: str = ""
    """Why it is unusable, as in "NUMA node 3 cannot be used on this machine"; "" if it is not."""


@dataclass(frozen=True, slots=True)
class Layout:
    """The partitions of one machine."""

    entries: tuple[PartitionNodes, ...]
    """In the order of the setting, without the rest."""
    rest: PartitionNodes
    unpinned_nodes: NodeSet
    """The nodes that `exclusive: all` leaves to containers that are not pinned; may be empty."""
    closed: NodeSet = field(default_factory=NodeSet)
    """The nodes of the partitions with `exclusive: all`."""

    @property
    def partitions(self) -> tuple[PartitionNodes, ...]:
        """Return all, the rest last."""
        return (*self.entries, self.rest)

    def of_pod(self, namespace: str, labels: Mapping[str, str]) -> PartitionNodes:
        """Return the partition of a pod: the first that matches, or the rest."""
        for each in self.entries:
            if each.partition.matches(namespace, labels):
                return each
        return self.rest

    def matching(self, namespace: str, labels: Mapping[str, str]) -> tuple[str, ...]:
        """Return the names of all partitions that match a pod, the first one included."""
        found = (each.partition for each in self.entries)
        return tuple(each.name for each in found if each.matches(namespace, labels))

    def unpinned_nodes_of(self, namespace: str, found: PartitionNodes) -> NodeSet:
        """Return the nodes for a container of a partition that is not pinned; empty for all.

        A container of kube-system keeps all nodes unless its partition lists that namespace.
        """
        is_system = namespace == SYSTEM_NAMESPACE
        if is_system and SYSTEM_NAMESPACE not in found.partition.namespaces:
            return NodeSet()
        if found.partition.confine and found.nodes:
            return found.nodes
        if self.closed.issubset(found.nodes):
            return NodeSet()
        return self.unpinned_nodes | (found.nodes & self.closed)


def lay_out(
    partitions: Sequence[Partition],
    usable: NodeSet,
    memory_nodes: NodeSet,
    preferences: Preferences,
) -> Layout:
    """Return the partitions on a machine.

    `usable` are the nodes on which containers may be pinned, `memory_nodes` those that have memory.
    `preferences` order the sets of a `count`. Two partitions have no common node. A partition whose
    nodes the machine lacks has none, so the others may use those that it has.
    """
    rest = next((each for each in partitions if each.is_rest), Partition(REST))
    others = [each for each in partitions if not each.is_rest]
    free = usable
    for each in others:
        free -= each.nodes if each.nodes.issubset(usable) else NodeSet()
    entries = list[PartitionNodes]()
    exclusive, closed = NodeSet(), NodeSet()
    for each in others:
        found = _on_machine(each, usable, free, preferences)
        entries.append(found)
        free -= found.nodes
        if each.exclusive is not Exclusive.NONE:
            exclusive |= found.nodes
        if each.exclusive is Exclusive.ALL:
            closed |= found.nodes
    left = usable - exclusive
    problem = "" if left else "the partitions leave no NUMA node to the other pods"
    unpinned = memory_nodes - closed if closed else NodeSet()
    return Layout((*entries,), PartitionNodes(rest, left, problem), unpinned, closed)


def _on_machine(
    partition: Partition, usable: NodeSet, free: NodeSet, preferences: Preferences
) -> PartitionNodes:
    missing = partition.nodes - usable
    if missing:
        noun = "NUMA node" if len(missing) == 1 else "NUMA nodes"
        return PartitionNodes(
            partition, NodeSet(), f"{noun} {missing} cannot be used on this machine"
        )
    if partition.nodes:
        return PartitionNodes(partition, partition.nodes)
    if partition.count > len(free):
        problem = f"count is {partition.count}; NUMA nodes in no other partition: {free or 'none'}"
        return PartitionNodes(partition, NodeSet(), problem)
    cover = Cover(dict.fromkeys(free, (0,)), (0,))
    return PartitionNodes(partition, cover.best(partition.count, preferences))
