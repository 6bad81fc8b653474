"""Which running pods must end so that a refused container fits: for commands on the host.

The code that places decides the creation without these pods. No request of a runtime comes here:
the text of a refusal has other readers, and the number of combinations is large.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations

from nri_numamem.engine.admission.containers import create_container
from nri_numamem.engine.admission.remedy_inputs import trial_context, without_pods
from nri_numamem.engine.core.context import Context
from nri_numamem.engine.core.events import CreateContainer
from nri_numamem.engine.core.state import EngineState
from nri_numamem.memorymanager import PoolUse, State
from nri_numamem.memorymanager.remedy import Kind, Remedy
from nri_numamem.numa import NodeSet

TRIALS = 2000
"""About a second. A host with 110 pods has 5,995 pairs; the last ones are left out."""

Admits = Callable[[EngineState, PoolUse | None], bool]
"""Decide the refused creation in another state; return whether it is admitted."""


def remedies_on(
    context: Context,
    state: EngineState,
    event: CreateContainer,
    uids: Iterable[str],
    names: Mapping[str, str],
) -> tuple[Remedy, ...]:
    """Return what makes a container fit now, the pods to end included; () if it fits."""
    rejection = create_container(context, state, event).rejection
    if rejection is None:
        return ()
    found = find_pods(state, event.pool_use, admitting(context, event), uids, names)
    return with_pods(rejection.remedies, found)


def with_pods(remedies: Sequence[Remedy], ending: Remedy | None) -> tuple[Remedy, ...]:
    """Return the remedies with the one that names pods, which follows those about hugepages."""
    if ending is None:
        return tuple(remedies)
    pages = (Kind.FREE_HUGEPAGES, Kind.RESERVE_HUGEPAGES)
    first = [each for each in remedies if each.kind in pages]
    return (*first, ending, *(each for each in remedies if each.kind not in pages))


def admitting(context: Context, event: CreateContainer) -> Admits:
    """Return the function that decides a creation."""
    trial = trial_context(context)

    def admits(state: EngineState, use: PoolUse | None) -> bool:
        return create_container(trial, state, replace(event, pool_use=use)).rejection is None

    return admits


def find_pods(
    state: EngineState,
    use: PoolUse | None,
    admits: Admits,
    uids: Iterable[str],
    names: Mapping[str, str],
) -> Remedy | None:
    """Return the pods of `uids` whose end makes a container fit; None if no pods do.

    The smallest pod that suffices, else the smallest two, else as few of all as a search by size
    finds. `names` is pod uid -> "namespace/name", as far as they are known.
    """
    left = TRIALS

    def helps(chosen: Sequence[str]) -> bool:
        nonlocal left
        left -= 1
        return admits(*without_pods(state, use, chosen))

    ordered = sorted(uids, key=lambda uid: (_size(state.accounting, uid), uid))
    if not ordered or not helps(ordered):
        return None
    for chosen in _few(ordered, state.accounting):
        if left < len(ordered):
            break
        if helps(chosen):
            return _remedy(chosen, names)
    needed = list(ordered)
    for uid in reversed(ordered):
        rest = [other for other in needed if other != uid]
        if helps(rest):
            needed = rest
    return _remedy(needed, names)


def _few(ordered: Sequence[str], accounting: State) -> Iterator[tuple[str, ...]]:
    """Yield single pods, then pairs with a node in common, then others, each from the smallest."""
    yield from ((uid,) for uid in ordered)
    nodes = {uid: _nodes(accounting, uid) for uid in ordered}
    size = {uid: _size(accounting, uid) for uid in ordered}

    def rank(pair: tuple[str, str]) -> tuple[bool, int]:
        first, second = pair
        return nodes[first].isdisjoint(nodes[second]), size[first] + size[second]

    yield from sorted(combinations(ordered, 2), key=rank)


def _nodes(accounting: State, uid: str) -> NodeSet:
    found = accounting.assignments.get(uid, {}).values()
    return NodeSet(n for blocks in found for block in blocks for n in block.numa_affinity)


def _size(accounting: State, uid: str) -> int:
    found = accounting.assignments.get(uid, {}).values()
    return sum(block.size for blocks in found for block in blocks)


def _remedy(uids: Iterable[str], names: Mapping[str, str]) -> Remedy:
    return Remedy(Kind.END_PODS, pods={uid: names.get(uid, uid) for uid in uids})
