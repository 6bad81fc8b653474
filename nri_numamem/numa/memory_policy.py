"""Memory policies of the kernel, and which of them the settings allow.

A memory policy (set_mempolicy(2)) says from which of its NUMA nodes a process takes memory;
`cpuset.mems` says which nodes it may use at all. The container runtime sets the policy of a
container's first process, and its children inherit it.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from nri_numamem.numa.idset import NodeSet
from nri_numamem.numa.quantity import format_quantity


class PolicyMode(StrEnum):
    """The mode of a policy, by numactl's names."""

    INTERLEAVE = "interleave"
    """Page by page over the nodes."""
    WEIGHTED_INTERLEAVE = "weighted-interleave"
    """The same, in proportion to the host's weights of the nodes."""
    BIND = "bind"
    """From no other nodes, even if these are full."""
    PREFERRED = "preferred"
    """From the first of the nodes, then from any."""
    PREFERRED_MANY = "preferred-many"
    """From the nodes, then from any."""
    LOCAL = "local"
    """From the node of the CPU that touches a page first; this mode has no nodes."""


MIN_PER_NODE_BYTES = 256 << 20
"""The default of `min_per_node_bytes`: several times the caches of a processor. A program with a
smaller part per node takes little of their bandwidth, but closes the nodes as a large one does."""

# More NUMA nodes than any machine has; the kernel knows at most 1,024.
_COUNT = re.compile(r"[1-9]\d{0,3}", re.ASCII)


class OnUnsupported(StrEnum):
    """What happens to a container whose policy cannot be set."""

    IGNORE = "Ignore"
    REJECT = "Reject"


@dataclass(frozen=True, slots=True)
class MemoryPolicy:
    """The policy of one container.

    The kernel keeps the nodes and applies those of them that `cpuset.mems` allows
    (MPOL_F_STATIC_NODES). Without that flag it would renumber them at each change of `cpuset.mems`.
    """

    mode: PolicyMode
    nodes: NodeSet = field(default_factory=NodeSet)
    """Empty for the mode `local` only."""


@dataclass(frozen=True, slots=True)
class MemoryPolicies:
    """The setting `memoryPolicy`."""

    modes: tuple[PolicyMode, ...] = ()
    """The modes that annotations may choose."""
    namespaces: tuple[str, ...] = ()
    """The namespaces whose pods may choose; empty: all."""
    defaults: Mapping[str, PolicyMode] = field(default_factory=dict)
    """Namespace -> policy of its containers without an annotation."""
    runtimes: tuple[str, ...] | None = None
    """The handlers whose OCI runtime sets policies; None: detected."""
    on_unsupported: OnUnsupported = OnUnsupported.IGNORE
    max_nodes: int = 0
    """The most NUMA nodes that an annotation may request for `interleave`; 0: it may not."""
    min_per_node_bytes: int = MIN_PER_NODE_BYTES
    """The smallest part of a container's memory, hugepages included, on each requested node."""

    @property
    def is_active(self) -> bool:
        """Return whether any container may get a policy."""
        return bool(self.modes or self.defaults)

    def obstacle(self, namespace: str, text: str) -> str:
        """Return why an annotation of this text may not choose a policy; "" if it may."""
        if not self.modes:
            return "memoryPolicy.modes is empty, so annotations choose no policy"
        if self.namespaces and namespace not in self.namespaces:
            return "memoryPolicy.namespaces does not list the pod's namespace"
        mode, _, number = text.partition(":")
        if mode not in tuple(PolicyMode):
            return f"it is none of {', '.join(PolicyMode)}"
        if mode not in self.modes:
            return f"memoryPolicy.modes allows only {', '.join(self.modes)}"
        return self._obstacle_of_number(mode, number) if mode != text else ""

    def _obstacle_of_number(self, mode: str, number: str) -> str:
        """Return why an annotation may not request this number of nodes; "" if it may."""
        if mode != PolicyMode.INTERLEAVE:
            return f"{mode} takes no number of NUMA nodes, only {PolicyMode.INTERLEAVE} does"
        if _COUNT.fullmatch(number) is None or int(number) < 2:
            return f"N in {mode}:N must be a number of NUMA nodes, 2 or more"
        if self.max_nodes < 2:
            return (
                f"memoryPolicy.maxNodes is {self.max_nodes}, so annotations request no number of "
                "NUMA nodes"
            )
        if int(number) > self.max_nodes:
            return f"memoryPolicy.maxNodes allows at most {self.max_nodes} NUMA nodes"
        return ""

    def obstacle_of_size(self, size_bytes: int, count: int) -> str:
        """Return why a container of this size may not request so many nodes; "" if it may."""
        if size_bytes >= count * self.min_per_node_bytes:
            return ""
        least = format_quantity(self.min_per_node_bytes)
        return (
            f"memoryPolicy.minPerNode requires {least} on each NUMA node; the container requests "
            f"{format_quantity(size_bytes)} for {count}"
        )


def mode_and_count(text: str) -> tuple[PolicyMode, int]:
    """Return the mode of an annotation, and how many NUMA nodes it requests; 0 for no number.

    The annotation has no obstacle, see ``MemoryPolicies.obstacle``.
    """
    mode, _, number = text.partition(":")
    return PolicyMode(mode), int(number or 0)


def policy_of(mode: PolicyMode, nodes: NodeSet, near: NodeSet) -> MemoryPolicy:
    """Return the policy of a container that may use `nodes`; there is at least one.

    `near` are the nodes of its devices or CPUs, which the modes `preferred` and `preferred-many`
    choose if `nodes` has any of them.
    """
    if mode is PolicyMode.LOCAL:
        return MemoryPolicy(mode)
    if mode in (PolicyMode.PREFERRED, PolicyMode.PREFERRED_MANY):
        nodes = nodes & near or nodes
    return MemoryPolicy(mode, nodes)
