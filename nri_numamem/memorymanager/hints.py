"""Topology hints of the memory manager: what it tells the Topology Manager.

``topology_hints`` gives only the hints that can decide a merge; ``full_hints`` lists all of
them, as the kubelet does, for people and for comparisons on small machines. All resources of a
request share one placement, so their hint lists are always the same list.

Two differences to the kubelet, on purpose: a request that fits nowhere gives an empty list per
resource ("impossible"; the kubelet's empty map reads as "no preference"), and the list counts
once in a merge, not once per resource. With the list repeated, the merge could intersect two
different placements of one request and ask for more nodes than it needs.
"""

from collections.abc import Iterator, Mapping
from dataclasses import field
from itertools import combinations

from nri_numamem.memorymanager.books import remove_container, resource_order
from nri_numamem.memorymanager.choices import Choices, choices_for, is_admissible
from nri_numamem.memorymanager.cover import Cover
from nri_numamem.memorymanager.hint import Hint, HintMap, Preferences
from nri_numamem.memorymanager.nodeset import NodeSet
from nri_numamem.memorymanager.pod import ContainerKind, Pod, pod_request
from nri_numamem.memorymanager.state import Block, Request, State
from nri_numamem.values import valueclass

# full_hints() visits 2^N - 1 sets: 16 nodes take about a second, and nobody reads more.
FULL_HINTS_NODES = 16

ANYWHERE = -1
"""Stands for "no affinity" among the masks of `Offers`: every bit is set."""


@valueclass(frozen=True, slots=True)
class Offers:
    """What the other providers' hints come to, each combination of one hint per list merged."""

    masks: Mapping[int, bool] = field(default_factory=lambda: {ANYWHERE: True})
    """Mask that they have in common (or ANYWHERE) -> whether all are preferred and agree."""
    narrowest: int = 0
    """The largest, over the lists, of the size of a list's narrowest affinity; 0 for none."""


NO_OTHERS = Offers()


def topology_hints(
    state: State, pod: Pod, name: str, preferences: Preferences, others: Offers = NO_OTHERS
) -> HintMap | None:
    """Return the hints for one container that can decide a merge with `others`.

    None is "no preference" (the pod is not Guaranteed, or the container holds something else
    than it asks for); an empty list per resource is "impossible".
    Source: kubelet memorymanager, GetTopologyHints.
    """
    request = pod.container(name).requests
    return _for_each(request, container_hints(state, pod, name, preferences, others))


def container_hints(
    state: State, pod: Pod, name: str, preferences: Preferences, others: Offers = NO_OTHERS
) -> tuple[Hint, ...] | None:
    """Return the one list that all resources have in topology_hints()."""
    if not pod.guaranteed:
        return None
    request = pod.container(name).requests
    if state.blocks(pod.uid, name) is not None:
        blocks = kept_blocks(state, pod, name)
        if blocks is not None:
            return _regenerate(blocks, request)
        state = remove_container(state, pod.uid, name)
    return hints_for_request(state, pod.uid, request, preferences, others)


def pod_topology_hints(
    state: State, pod: Pod, preferences: Preferences, others: Offers = NO_OTHERS
) -> HintMap | None:
    """Return the hints for a whole pod that can decide a merge with `others`.

    A pod that holds something already is told its own nodes again, all of them.
    Source: kubelet memorymanager, GetPodTopologyHints, as repaired in pull request 141070.
    """
    return _for_each(pod_request(pod), pod_hints(state, pod, preferences, others))


def pod_hints(
    state: State, pod: Pod, preferences: Preferences, others: Offers = NO_OTHERS
) -> tuple[Hint, ...] | None:
    """Return the one list that all resources have in pod_topology_hints()."""
    request = pod_request(pod)
    if not (pod.guaranteed and request):
        return None
    own = NodeSet()
    for container in pod.containers:
        for block in state.blocks(pod.uid, container.name) or ():
            own |= block.numa_affinity
    if own:
        return (Hint(own, preferred=True),)
    return hints_for_request(state, pod.uid, request, preferences, others)


def hints_for_request(
    state: State,
    uid: str,
    request: Request,
    preferences: Preferences,
    others: Offers = NO_OTHERS,
) -> tuple[Hint, ...] | None:
    """Return the hints for a request of pod `uid`; None for an empty request."""
    if not request:
        return None
    choices = choices_for(state, uid, request, preferences.home)
    return _that_matter(choices, preferences, others)


def full_hints(state: State, pod: Pod, name: str) -> HintMap | None:
    """Return all hints for one container in the kubelet's order, smallest sets first.

    A request that fits nowhere gives an empty map, as in the kubelet. Raises ValueError on a
    machine with more than 16 NUMA nodes.
    """
    if not pod.guaranteed:
        return None
    request = pod.container(name).requests
    blocks = state.blocks(pod.uid, name)
    if blocks is not None:
        return _for_each(request, _regenerate(blocks, request))
    if len(state.machine_state) > FULL_HINTS_NODES:
        raise ValueError(
            f"{len(state.machine_state)} NUMA nodes have too many sets to list all hints; "
            f"this works for up to {FULL_HINTS_NODES} nodes"
        )
    choices = choices_for(state, pod.uid, request, NodeSet())
    hints = tuple(
        choices.hint(nodes)
        for size in range(1, len(state.machine_state) + 1)
        for nodes in map(NodeSet, combinations(state.machine_state, size))
        if is_admissible(state, pod.uid, request, nodes)
    )
    return _for_each(request, hints) if hints else {}


def kept_blocks(state: State, pod: Pod, name: str) -> tuple[Block, ...] | None:
    """Return the blocks with which an assigned container stays where it is; else None.

    One that gave back has lost its place if other containers have used up its bytes. Ordinary
    init containers always give back, and keep what is left. A place on a node that the machine
    does not have (any more) is none.
    """
    blocks = state.blocks(pod.uid, name)
    if blocks is None or not all(map(state.machine_state.__contains__, _nodes_of(blocks))):
        return None
    container = pod.container(name)
    gave_back = name in state.reusable.get(pod.uid, ())
    if container.kind is ContainerKind.INIT or not gave_back:
        return blocks
    # What was adopted on nodes that were too full is not all there.
    is_whole = all(block.charged == block.size for block in blocks)
    return blocks if is_whole and _holds(blocks, container.requests) else None


def _nodes_of(blocks: tuple[Block, ...]) -> Iterator[int]:
    return (node_id for block in blocks for node_id in block.numa_affinity)


def _holds(blocks: tuple[Block, ...], request: Request) -> bool:
    """Tell whether blocks are exactly what is requested."""
    held = {block.type: block.size for block in blocks}
    return len(held) == len(blocks) and held == dict(request)


def _regenerate(blocks: tuple[Block, ...], request: Request) -> tuple[Hint, ...] | None:
    """Return the place that an assigned container has; None when it asks for something else.

    None as well for one that has nothing and asks for nothing: all its blocks have one place.
    """
    if not (blocks and _holds(blocks, request)):
        return None
    return (Hint(blocks[0].numa_affinity, preferred=True),)


def _for_each(request: Request, hints: tuple[Hint, ...] | None) -> HintMap | None:
    if hints is None:
        return None
    return dict.fromkeys(sorted(request, key=resource_order), hints)


def _that_matter(choices: Choices, preferences: Preferences, others: Offers) -> tuple[Hint, ...]:
    """Return hints whose merge with `others` has the same result as that of all hints.

    Without other affinities the best hint wins every merge, and with them one of the preferred
    hints with which all agree, if there are any. Otherwise the listed sets are few and all given;
    for the sets of unassigned nodes, each mask that the others offer is asked which of them could
    win: the mask itself (the only way to a preferred result), or the set whose intersection with
    the mask ranks first among results that are not preferred.
    """
    if not others.masks.get(ANYWHERE):  # any hint agrees with others that have no affinity
        agreeing = _agreeing(choices, others)
        if agreeing:
            return agreeing
    best = choices.best(preferences)
    if best is None or others.masks.keys() <= {ANYWHERE}:
        return () if best is None else (choices.hint(best),)
    # No admissible set is smaller than the best one: preferred hints are the smallest there are.
    found = dict.fromkeys((*choices.listed, best))
    bound = max(others.narrowest, len(best))
    for mask in others.masks:
        found.update(dict.fromkeys(_answers(choices.unassigned, mask, bound, preferences)))
    return tuple(map(choices.hint, found))


def _agreeing(choices: Choices, others: Offers) -> tuple[Hint, ...]:
    """Return the preferred hints with which all others agree; nothing else is preferred then."""
    agreed = [NodeSet.from_mask(mask) for mask, agree in others.masks.items() if agree]
    hints = [choices.hint(nodes) for nodes in agreed if choices.admits(nodes)]
    return tuple([hint for hint in hints if hint.preferred])


def _answers(unassigned: Cover, mask: int, bound: int, preferences: Preferences) -> list[NodeSet]:
    """Return the sets of two or more unassigned nodes that could win together with `mask`.

    The merge likes results of `bound` nodes most, then the largest below, then the smallest
    above; a set may have any nodes outside the mask, and the more the better it covers.
    """
    inside = NodeSet.from_mask(unassigned.nodes.mask & mask)
    outside = unassigned.nodes - inside
    rest = unassigned.without(outside)
    least = rest.smallest(1 if outside else 2)
    if least is None:
        return []
    size = max(least, min(bound, len(inside)))
    answers = [rest.best(size, preferences) | outside]
    if inside.mask == mask and len(inside) > 1 and unassigned.covers(inside):
        answers.append(inside)
    return answers
