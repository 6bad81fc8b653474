"""Merge the hints of several providers into one, and judge it by policy.

Each provider answers with a list of hints per resource. A merged hint takes one hint from every
list and intersects them; the best one over all such combinations wins. Combinations with the same
intersection are the same to everything that follows, so the lists are folded into a map of
intersections, instead of walking the product of all lists.

The winner is the minimum of a key, so no order of lists or hints can change it. Source: kubelet
topologymanager, policy.go (filterProvidersHints, mergeFilteredHints, HintMerger).
"""

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import TypeAlias

from nri_numamem.memorymanager.hint import Hint, Preferences
from nri_numamem.memorymanager.hints import ANYWHERE, NO_OTHERS, Offers
from nri_numamem.memorymanager.nodeset import NodeSet


class Policy(StrEnum):
    """What the Topology Manager demands of a merged hint."""

    NONE = "none"
    BEST_EFFORT = "best-effort"
    RESTRICTED = "restricted"
    SINGLE_NUMA_NODE = "single-numa-node"


ProviderHints: TypeAlias = Mapping[str, Sequence[Hint] | None] | None
"""One provider's answer: resource -> hints. None in either place is "no preference", an empty
list is "impossible"."""

HintList: TypeAlias = Sequence[Hint]

_NO_PREFERENCE = (Hint(None, preferred=True),)
_IMPOSSIBLE = (Hint(None, preferred=False),)

Key: TypeAlias = tuple[int, ...]

AllNodes: TypeAlias = NodeSet | Mapping[int, object]
"""The ids of all nodes of the machine."""


def merge(
    providers: Iterable[ProviderHints],
    numa_nodes: AllNodes,
    policy: Policy,
    preferences: Preferences,
) -> tuple[Hint, bool]:
    """Return the merged hint, and whether the policy admits it.

    With `none` nothing is merged.
    """
    if policy is Policy.NONE:
        return Hint(None, preferred=False), admits_all(policy)
    lists = hint_lists(providers)
    if policy is not Policy.SINGLE_NUMA_NODE:
        hint = _best(lists, numa_nodes, preferences)
        return hint, hint.preferred or admits_all(policy)
    single = [[hint for hint in hints if _is_single(hint)] for hints in lists]
    hint = _best(single, numa_nodes, preferences.narrowest())
    if hint.affinity is not None and len(hint.affinity) == len(numa_nodes):
        hint = Hint(None, hint.preferred)
    return hint, hint.preferred


def admits_all(policy: Policy) -> bool:
    """Tell whether the policy admits hints that are not preferred.

    Whatever is merged with "impossible" is one.
    """
    return policy is Policy.BEST_EFFORT or policy is Policy.NONE


def offers_of(providers: Sequence[ProviderHints], policy: Policy) -> Offers:
    """Return what some providers' hints come to, for a provider that answers after them."""
    if not providers:
        return NO_OTHERS
    lists = hint_lists(providers)
    if policy is Policy.SINGLE_NUMA_NODE:
        lists = [[hint for hint in hints if _is_single(hint)] for hints in lists]
    return fold(lists)


def hint_lists(providers: Iterable[ProviderHints]) -> list[HintList]:
    """Return the lists of all providers and resources, with hints in place of special answers."""
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


def _is_single(hint: Hint) -> bool:
    return hint.preferred and (hint.affinity is None or len(hint.affinity) == 1)


def fold(lists: Iterable[HintList]) -> Offers:
    """Return every intersection that one hint per list can have.

    It is True when all hints that make it are preferred and those with an affinity agree, for at
    least one combination that makes it.
    """
    families: list[set[int]] = []
    agreed = {ANYWHERE}
    narrowest = 0
    for hints in lists:
        families.append({_mask(hint) for hint in hints})
        preferred = {_mask(hint) for hint in hints if hint.preferred}
        both = agreed & preferred
        both |= preferred if ANYWHERE in agreed else set()
        both |= agreed if ANYWHERE in preferred else set()
        agreed = both
        sizes = [len(hint.affinity) for hint in hints if hint.affinity is not None]
        narrowest = max(narrowest, min(sizes, default=0))
    masks = sorted(_intersections(families))
    return Offers({mask: mask in agreed for mask in masks}, narrowest)


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
    """Do the same for full lists: 2^width numbers per family instead of products of families.

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
    """Add to the count of each mask those of all masks that contain it; or undo this (-1)."""
    bit = 1
    while bit < len(counts):
        for mask in range(len(counts)):
            if not mask & bit:
                counts[mask] += sign * counts[mask | bit]
        bit *= 2


def _best(lists: Sequence[HintList], machine: AllNodes, preferences: Preferences) -> Hint:
    """Return the hint that wins; all nodes, not preferred, when no intersection is left."""
    hints = lists[0] if len(lists) == 1 else ()
    if len(hints) == 1 and hints[0].affinity and all(map(machine.__contains__, hints[0].affinity)):
        return hints[0]  # as nearly always: no other provider has a preference
    offers, numa_nodes = fold(lists), NodeSet(machine)

    def key(hint: Hint) -> Key:
        nodes = hint.affinity or NodeSet()
        return (*_order(len(nodes), offers.narrowest, hint.preferred), *preferences.rank(nodes))

    found = [
        Hint(NodeSet.from_mask(mask & numa_nodes.mask), preferred)
        for mask, preferred in offers.masks.items()
        if mask & numa_nodes.mask
    ]
    if len(found) < 2:  # the key takes longer than all that was done so far
        return found[0] if found else Hint(numa_nodes, preferred=False)
    return min(found, key=key)


def _order(size: int, bound: int, preferred: bool) -> Key:
    """Return what goes before the rank of the nodes; less is better.

    Preferred hints win. Of the others those win that have as many nodes as the widest of all
    lists' narrowest hints (`bound`): less would starve one provider, more is waste. Failing that,
    the widest below, then the narrowest above.
    """
    if preferred:
        return (0, 0)
    if size == bound:
        return (1, 0)
    return (2, -size) if size < bound else (3, size)
