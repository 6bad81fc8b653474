"""The four policies of the Topology Manager and their rules.

Source: kubelet topologymanager, policy_none.go, policy_best_effort.go, policy_restricted.go,
policy_single_numa_node.go.
"""

from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import TypeAlias

from nri_numamem.memorymanager.hint import Hint

HintList: TypeAlias = Sequence[Hint]


class TopologyPolicy(StrEnum):
    """What the Topology Manager requires of a merged hint; the values of topologyManagerPolicy."""

    NONE = "none"
    """Nothing is merged, every container is admitted."""
    BEST_EFFORT = "best-effort"
    """The best merged hint is used, whatever it is."""
    RESTRICTED = "restricted"
    """The merged hint must be preferred."""
    SINGLE_NUMA_NODE = "single-numa-node"
    """The merged hint must be preferred and name one node."""

    @property
    def admits_all(self) -> bool:
        """Return whether the policy admits hints that are not preferred."""
        return self in (TopologyPolicy.NONE, TopologyPolicy.BEST_EFFORT)

    def admits(self, hint: Hint) -> bool:
        """Return whether the policy admits a container with this merged hint."""
        return hint.preferred or self.admits_all

    def admits_several_nodes(self, hint: Hint) -> bool:
        """Return whether the policy admits a container on all nodes of this hint."""
        return self is not TopologyPolicy.SINGLE_NUMA_NODE and self.admits(hint)

    def select(self, lists: Iterable[HintList]) -> list[HintList]:
        """Return the hint lists without the hints that the policy ignores."""
        if self is not TopologyPolicy.SINGLE_NUMA_NODE:
            return list(lists)
        return [[hint for hint in hints if _is_single(hint)] for hints in lists]


def _is_single(hint: Hint) -> bool:
    """Return whether a hint is preferred and names one node, or no particular nodes."""
    return hint.preferred and (hint.affinity is None or len(hint.affinity) == 1)
