"""The merge of hints in the kubelet's Topology Manager, by brute force.

Source: kubelet topologymanager, policy.go.
"""

from collections.abc import Callable, Iterable
from typing import TypeAlias

from tests.kubelet_managers.values import Hint, HintList, bits

Merged: TypeAlias = tuple[int, bool]
Rank: TypeAlias = Callable[[int], tuple[int, ...]]

_MIXED = -2


def merge(lists: list[HintList], everything: int, rank: Rank, *, is_single: bool) -> Hint:
    """Return the merged hint; `is_single` is the policy single-numa-node."""
    if is_single:
        lists = [
            tuple(h for h in found if h[1] and (h[0] is None or len(bits(h[0])) == 1))
            for found in lists
        ]
    sizes = [[len(bits(h[0])) for h in found if h[0] is not None] for found in lists]
    bound = max((min(found) for found in sizes if found), default=0)
    best: Merged | None = None
    for candidate in sorted(products(lists, everything)):
        best = better(best, candidate, bound, rank)
    if best is None:
        best = (everything, False)
    if is_single and best[0] == everything:
        return None, best[1]
    return best


def products(lists: Iterable[HintList], everything: int) -> set[Merged]:
    """Return all combinations of one hint per list as (mask, preferred)."""
    partial: set[tuple[int, int, bool]] = {(everything, 0, True)}
    for found in lists:
        following = set()
        for mask, first, preferred in partial:
            for own, wanted in found:
                if own is None:
                    following.add((mask, first, preferred and wanted))
                    continue
                same = own if first in (0, own) else _MIXED
                following.add((mask & own, same, preferred and wanted))
        partial = following
    return {(mask, preferred and first != _MIXED) for mask, first, preferred in partial}


def better(current: Merged | None, candidate: Merged, bound: int, rank: Rank) -> Merged | None:
    """Return the better of two merged hints; `bound` is BestNonPreferredAffinityCount."""
    if not candidate[0]:
        return current
    if current is None or current[1] != candidate[1]:
        return candidate if current is None or candidate[1] else current
    have, new = len(bits(current[0])), len(bits(candidate[0]))
    if current[1] or have > bound or (have == bound == new) or (new == have < bound):
        return min(current, candidate, key=lambda hint: rank(hint[0]))
    if have == bound or new > bound or (new != bound and new < have):
        return current
    return candidate
