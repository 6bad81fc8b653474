"""Hint generation: the memory manager's hints for the topology manager.

The kubelet lists all hints; here only hints that can decide a merge are listed. All resources of a
request are placed on the same nodes, so they have one list of hints.

There are two intended differences to the kubelet. A request that fits nowhere gives an empty list
("impossible"; the kubelet's empty map means "no preference"). And the list counts once in a merge,
not once per resource: with repeated lists, the merge could intersect two different placements of
one request and choose more nodes than necessary.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from nri_numamem.memorymanager.accounting import remove_container
from nri_numamem.memorymanager.candidates import Candidates, Hint, candidates_for
from nri_numamem.memorymanager.holder import HolderName
from nri_numamem.memorymanager.pod import ContainerKind, Pod
from nri_numamem.memorymanager.state import Block, Request, State
from nri_numamem.numa.closest.cover import Cover
from nri_numamem.numa.idset import NodeSet
from nri_numamem.numa.preferences import Preferences

ANYWHERE = -1
"""The mask in `MergedHints` for "no affinity": every bit is set."""


@dataclass(frozen=True, slots=True)
class MergedHints:
    """The other providers' hints, merged: one hint of each list, in all combinations."""

    masks: Mapping[int, bool] = field(default_factory=lambda: {ANYWHERE: True})
    """Intersection of a combination (or ANYWHERE) -> whether all hints are preferred and all
    affinities are equal, in at least one combination with this intersection."""
    max_of_min_sizes: int = 0
    """The maximum over the lists of the size of the list's smallest affinity; 0 for none."""


NO_OTHER_PROVIDERS = MergedHints()


def container_hints(
    state: State,
    pod: Pod,
    name: HolderName,
    preferences: Preferences,
    others: MergedHints = NO_OTHER_PROVIDERS,
) -> tuple[Hint, ...] | None:
    """Return the hints for one container that can decide a merge with `others`.

    All resources have this one list. None is "no preference": the pod is not Guaranteed, or the
    container is assigned other amounts than it requests. An empty list is "impossible".
    Source: kubelet memorymanager, GetTopologyHints.
    """
    if not pod.guaranteed:
        return None
    request = pod.container(name).requests
    if name in state.assignments.get(pod.uid, ()):
        blocks = kept_blocks(state, pod, name)
        if blocks is not None:
            return regenerate_hints(blocks, request)
        state = remove_container(state, pod.uid, name)
    return hints_for_request(state, pod.uid, request, preferences, others)


def kept_blocks(state: State, pod: Pod, name: HolderName) -> tuple[Block, ...] | None:
    """Return the blocks that an assigned container keeps; None if it must be placed anew.

    A reusable container keeps its blocks if no other container has reused their bytes. Ordinary
    init containers are always reusable, and keep what remains. A container must be placed anew if
    its nodes do not back all bytes of its blocks, or if the machine lacks one of these nodes.
    """
    blocks = state.blocks(pod.uid, name)
    if blocks is None or not all(map(state.machine_state.__contains__, _nodes_of(blocks))):
        return None
    container = pod.container(name)
    is_reusable = name in state.reusable.get(pod.uid, ())
    if container.kind is ContainerKind.INIT:
        return blocks
    # A container that was adopted on full nodes is charged for less than its size. One that is not
    # reusable had no reported end: its creation failed, or the machine lost memory since.
    if not all(block.is_backed for block in blocks):
        return None
    return blocks if not is_reusable or _have_amounts(blocks, container.requests) else None


def _nodes_of(blocks: tuple[Block, ...]) -> Iterator[int]:
    return (node_id for block in blocks for node_id in block.numa_affinity)


def _have_amounts(blocks: tuple[Block, ...], request: Request) -> bool:
    """Return whether blocks have exactly the requested amounts."""
    amounts = {block.type: block.size for block in blocks}
    return len(amounts) == len(blocks) and amounts == dict(request)


def regenerate_hints(blocks: tuple[Block, ...], request: Request) -> tuple[Hint, ...] | None:
    """Return one hint, the nodes of an assigned container; None if it requests other amounts.

    Also return None for a container without blocks. All blocks of a container are on one node
    set. Source: kubelet memorymanager, regenerateHints.
    """
    if not (blocks and _have_amounts(blocks, request)):
        return None
    return (Hint(blocks[0].numa_affinity, preferred=True),)


def hints_for_request(
    state: State,
    uid: str,
    request: Request,
    preferences: Preferences,
    others: MergedHints = NO_OTHER_PROVIDERS,
) -> tuple[Hint, ...] | None:
    """Return the hints for a request of pod `uid` that can decide a merge with `others`.

    None for an empty request. If the others have no affinity, the best hint wins every merge.
    Otherwise, a preferred hint that equals all other affinities wins, if there is one. Otherwise
    the listed sets are few, so all of them are returned; of the sets of unassigned nodes, those are
    returned that could win together with one of the others' intersections.
    """
    if not request:
        return None
    candidates = candidates_for(state, uid, request, preferences.previous_nodes)
    if not others.masks.get(ANYWHERE):  # any hint agrees with others that have no affinity
        agreed = hints_all_agree_on(candidates, others)
        if agreed:
            return agreed
    best = candidates.best(preferences)
    if best is None or others.masks.keys() <= {ANYWHERE}:
        return () if best is None else (candidates.hint(best),)
    # No admissible set is smaller than the best one, so preferred sets have its size.
    found = dict.fromkeys((*candidates.listed, best))
    size = max(others.max_of_min_sizes, len(best))
    for mask in others.masks:
        found.update(
            dict.fromkeys(competitive_sets(candidates.unassigned, mask, size, preferences))
        )
    return tuple(map(candidates.hint, found))


def hints_all_agree_on(candidates: Candidates, others: MergedHints) -> tuple[Hint, ...]:
    """Return the preferred hints that equal all other affinities of some combination.

    Only such hints can make the merged hint preferred.
    """
    agreed = [NodeSet.from_mask(mask) for mask, is_agreed in others.masks.items() if is_agreed]
    hints = [candidates.hint(nodes) for nodes in agreed if candidates.admits(nodes)]
    return tuple([hint for hint in hints if hint.preferred])


def competitive_sets(
    unassigned: Cover, mask: int, size: int, preferences: Preferences
) -> list[NodeSet]:
    """Return the sets of two or more unassigned nodes that could win together with `mask`.

    One is the set whose intersection with the mask ranks first: the merge prefers intersections
    of `size` nodes, then the largest below, then the smallest above. Nodes outside the mask do
    not change the intersection, so the set has all of them to cover the request. The other is
    the mask itself, the only set that can give a preferred result.
    """
    inside = NodeSet.from_mask(unassigned.nodes.mask & mask)
    outside = unassigned.nodes - inside
    remaining = unassigned.without(outside)
    smallest = remaining.smallest_size(1 if outside else 2)
    if smallest is None:
        return []
    best_size = max(smallest, min(size, len(inside)))
    sets = [remaining.best(best_size, preferences) | outside]
    if inside.mask == mask and len(inside) > 1 and unassigned.covers(inside):
        sets.append(inside)
    return sets
