"""The policies of the Topology Manager: merge the hints of several providers, admit the result.

Each provider has a list of hints per resource. A merged hint takes one hint from every list and
intersects them; the best one of all such combinations wins. The intersection decides everything
that follows. So the lists are folded into a map of intersections, and the product of all lists is
not walked.

The winner is the minimum of a key, so the order of lists and hints has no effect. Source: kubelet
topologymanager, policy.go (filterProvidersHints, mergeFilteredHints, HintMerger), policy_none.go,
policy_best_effort.go, policy_restricted.go, policy_single_numa_node.go.
"""

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import TypeAlias

from nri_numamem.memorymanager.candidates import Hint
from nri_numamem.memorymanager.hints import ANYWHERE, MergedHints
from nri_numamem.numa.idset import NodeSet
from nri_numamem.numa.preferences import Preferences

HintList: TypeAlias = Sequence[Hint]

ProviderHints: TypeAlias = Mapping[str, Sequence[Hint] | None] | None
"""The hints of one provider: resource -> hints. None in either place means "no preference", an
empty list means "impossible"."""

_NO_PREFERENCE = (Hint(None, preferred=True),)
_IMPOSSIBLE = (Hint(None, preferred=False),)

Key: TypeAlias = tuple[int, ...]

AllNodes: TypeAlias = NodeSet | Mapping[int, object]
"""The ids of all nodes of the machine."""


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


def merge_hints(
    providers: Iterable[ProviderHints],
    numa_nodes: AllNodes,
    policy: TopologyPolicy,
    preferences: Preferences,
) -> tuple[Hint, bool]:
    """Return the merged hint, and whether the policy admits it.

    The policy `none` merges nothing.
    """
    if policy is TopologyPolicy.NONE:
        return Hint(None, preferred=False), True
    lists = policy.select(hint_lists(providers))
    if policy is not TopologyPolicy.SINGLE_NUMA_NODE:
        hint = _best(lists, numa_nodes, preferences)
        return hint, policy.admits(hint)
    hint = _best(lists, numa_nodes, preferences.without_distances())
    if hint.affinity is not None and len(hint.affinity) == len(numa_nodes):
        hint = Hint(None, hint.preferred)
    return hint, policy.admits(hint)


def merged_hints_of(providers: Sequence[ProviderHints], policy: TopologyPolicy) -> MergedHints:
    """Return the merged hints of some providers, for a provider that comes after them."""
    return fold(policy.select(hint_lists(providers)))


def hint_lists(providers: Iterable[ProviderHints]) -> list[HintList]:
    """Return the lists of all providers and resources; hints replace None and empty lists."""
    lists: list[HintList] = []
    for provider in providers:
        if not provider:
            lists.append(_NO_PREFERENCE)
            continue
        for hints in provider.values():
            if hints is None:
                lists.append(_NO_PREFERENCE)
            else:
                lists.append(hints or _IMPOSSIBLE)
    return lists


def fold(lists: Iterable[HintList]) -> MergedHints:
    """Return every intersection that one hint per list can have.

    Its value is True if all hints of at least one combination with this intersection are preferred,
    and all their affinities are equal.
    """
    families: list[set[int]] = []
    agreed = {ANYWHERE}
    max_of_min_sizes = 0
    for hints in lists:
        families.append({_mask(hint) for hint in hints})
        preferred = {_mask(hint) for hint in hints if hint.preferred}
        both = agreed & preferred
        both |= preferred if ANYWHERE in agreed else set()
        both |= agreed if ANYWHERE in preferred else set()
        agreed = both
        sizes = [len(hint.affinity) for hint in hints if hint.affinity is not None]
        max_of_min_sizes = max(max_of_min_sizes, min(sizes, default=0))
    masks = sorted(_intersections(families))
    return MergedHints({mask: mask in agreed for mask in masks}, max_of_min_sizes)


def _mask(hint: Hint) -> int:
    return ANYWHERE if hint.affinity is None else hint.affinity.mask


def _intersections(families: Sequence[set[int]]) -> set[int]:
    """Return all intersections of one mask from each family."""
    width = max((mask.bit_length() for family in families for mask in family), default=0)
    if sum(map(len, families)) > 1 << width:
        return _by_counting(families, width)
    found = {ANYWHERE}
    for family in families:
        found = {mask & other for mask in found for other in family}
    return found


def _by_counting(families: Sequence[set[int]], width: int) -> set[int]:
    """Return all intersections of full lists: 2^width numbers per family, no products of families.

    The combinations whose intersection contains a mask are one member of each family that contains
    it: a product of counts. From these, the combinations that make just the mask follow.
    """
    anywhere = (2 << width) - 1  # one bit more than any set of nodes has
    products = [1] * (anywhere + 1)
    for family in families:
        counts = [0] * (anywhere + 1)
        for mask in family:
            counts[mask & anywhere] = 1
        _add_supersets(counts, 1)
        products = list(map(int.__mul__, products, counts))
    _add_supersets(products, -1)
    return {ANYWHERE if mask == anywhere else mask for mask, n in enumerate(products) if n}


def _add_supersets(counts: list[int], sign: int) -> None:
    """Add to the count of each mask the counts of all masks that contain it; -1 reverts this."""
    bit = 1
    while bit < len(counts):
        for mask in range(len(counts)):
            if not mask & bit:
                counts[mask] += sign * counts[mask | bit]
        bit *= 2


def _best(lists: Sequence[HintList], machine: AllNodes, preferences: Preferences) -> Hint:
    """Return the best hint; all nodes, not preferred, if every intersection is empty."""
    hints = lists[0] if len(lists) == 1 else ()
    if len(hints) == 1 and hints[0].affinity and all(map(machine.__contains__, hints[0].affinity)):
        return hints[0]  # the usual case: no other provider has a preference
    merged, numa_nodes = fold(lists), NodeSet(machine)

    def key(hint: Hint) -> Key:
        nodes = hint.affinity or NodeSet()
        return (
            *_order(len(nodes), merged.max_of_min_sizes, hint.preferred),
            *preferences.rank(nodes),
        )

    found = [
        Hint(NodeSet.from_mask(mask & numa_nodes.mask), preferred)
        for mask, preferred in merged.masks.items()
        if mask & numa_nodes.mask
    ]
    if len(found) < 2:  # the key costs more than everything above
        return found[0] if found else Hint(numa_nodes, preferred=False)
    return min(found, key=key)


def _order(size: int, bound: int, preferred: bool) -> Key:
    """Return the first part of the key, which the rank of the nodes follows; the minimum wins.

    Preferred hints win. Among the others, hints with `bound` nodes win. `bound` is the largest,
    over the lists, of the size of a list's narrowest hint: fewer nodes are too few for one
    provider, and more are not needed. Then come the widest hints below, then the narrowest above.
    """
    if preferred:
        return (0, 0)
    if size == bound:
        return (1, 0)
    return (2, -size) if size < bound else (3, size)
