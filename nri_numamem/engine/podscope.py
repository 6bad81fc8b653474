"""Pod scope: a pod's sum is placed at once, and its containers share the nodes.

The sum is what the sandbox tells: the memory limit of `pod_resources` and the hugepage limits of
the pod's cgroup. It is held by the pod's pool, an entry in the books under the empty container
name, which has given its bytes back from the start: the pod's containers take them over when
they are created on the same nodes. The sandbox's end releases the pool with the rest.

A pod whose sandbox was started when there was no room has no pool. Nothing is remembered of that;
its next container asks again, and is refused for the pod while there still is none. A pod without
a known sum, and one whose containers are on different nodes already, is placed container by
container. With topologyManagerPolicy none there are no scopes.
Source: kubelet topologymanager, scope_pod.go (one merge, one hint for all containers).
"""

from collections.abc import Iterable, Mapping
from functools import partial

from nri_numamem.engine import records
from nri_numamem.engine.context import Context, Placed
from nri_numamem.engine.draft import Draft
from nri_numamem.engine.events import PodSandbox
from nri_numamem.engine.plan import Record
from nri_numamem.engine.providers import Others, words_for
from nri_numamem.engine.request import held, request_of_pod
from nri_numamem.engine.state import EngineState, Holder
from nri_numamem.memorymanager import (
    Explanation,
    NodeSet,
    PoolUse,
    Rejection,
    Request,
    State,
    adopt,
    give_back,
    remove_container,
    withhold,
)
from nri_numamem.memorymanager.refusal import NOT_ALIGNED, TOPOLOGY

POOL = ""
"""The container name of a pod's pool; no container has it."""


def start(
    context: Context, state: EngineState, pod: PodSandbox, pool_use: PoolUse | None = None
) -> tuple[EngineState, tuple[Record, ...]]:
    """Admit a pod whose sandbox was started; a rejection is a record, and changes nothing.

    Whether the kernel has the pod's hugepages is seen here; its containers then have them.
    """
    request = _request(context, pod)
    if request is None:
        return state, ()
    pool = state.holders.get((pod.uid, POOL))
    if pool is not None:  # of the pod's former sandbox, whose end was not told
        return _with_pool(state, pod, state.books), ()
    if _containers(state, pod.uid):
        return state, ()
    key = (pod.uid, POOL)
    withheld = withhold(state.books, pool_use)
    placed = context.place(withheld.state, key, request, home=state.home(key))
    if isinstance(placed, Rejection):
        seen = state.with_books(withheld.state)
        return state, (records.pod_rejected(context, seen, pod, request, placed),)
    state = _with_pool(state, pod, withheld.put_back(placed.books))
    return state, (records.pod_admitted(state, pod, request, placed),)


def place(
    context: Context,
    state: EngineState,
    pod: PodSandbox,
    name: str,
    resources: Request,
    others: Others,
) -> tuple[EngineState, Placed | Rejection]:
    """Place a container of a pod, on the pod's nodes if it is placed as a whole."""
    key = (pod.uid, name)
    if not context.places_pods:
        return state, context.place(state.books, key, resources, others, state.home(key))
    ready = _with_room(context, state, pod, others)
    if isinstance(ready, Rejection):
        return state, ready
    nodes = pool_nodes(ready, pod.uid)
    if nodes is None:
        return ready, context.place(ready.books, key, resources, others, ready.home(key))
    if context.is_strict and others.is_apart_from(nodes):
        message = f"{NOT_ALIGNED}; the pod's memory is on {words_for(nodes)}"
        return state, Rejection(TOPOLOGY, partial(Explanation, message))
    return ready, context.place_on(ready.books, key, resources, nodes)


def pool_nodes(state: EngineState, uid: str) -> NodeSet | None:
    """Return the nodes of a pod that is placed as a whole."""
    blocks = state.blocks((uid, POOL))
    return blocks[0].numa_affinity if blocks else None


def take_from_pool(context: Context, state: EngineState, pod: PodSandbox) -> EngineState:
    """Leave in the pool what the pod's containers do not hold; for one that was not placed here."""
    request, nodes = _request(context, pod), pool_nodes(state, pod.uid)
    if request is None or nodes is None:
        return state
    return _adopt(state, pod, nodes, request)[0]


def synchronize(
    context: Context, old: EngineState, fresh: EngineState, pods: Iterable[PodSandbox]
) -> tuple[EngineState, list[Record]]:
    """Make the pools anew, around the containers that `fresh` has on its books.

    A pod without containers gets the pool that it had; if it had none, it waits for its next
    container: the runtime tells of pods that ended long ago as well.
    """
    found: list[Record] = []
    draft = Draft(fresh)
    for pod in sorted(pods, key=lambda pod: pod.sandbox_id):
        request = _request(context, pod)
        if request is None:
            continue
        before = draft.part(pod.uid)
        nodes = _nodes(old, before, pod)
        if nodes is not None:
            after, shortfall = _adopt(before, pod, nodes, request)
            draft.put(pod.uid, before, after)
            if shortfall:
                found.append(records.pod_adopted(after, pod, request, nodes, shortfall))
    return draft.finish(), found


def _request(context: Context, pod: PodSandbox) -> Request | None:
    """Return the sum of a pod that is to be placed as a whole."""
    return request_of_pod(pod) if context.places_pods and context.manages(pod) else None


def _containers(state: EngineState, uid: str) -> dict[str, NodeSet]:
    """Return the nodes of the pod's containers that are on the books."""
    return {
        name: blocks[0].numa_affinity
        for name, blocks in state.books.assignments.get(uid, {}).items()
        if name != POOL
    }


def _with_room(
    context: Context, state: EngineState, pod: PodSandbox, others: Others
) -> EngineState | Rejection:
    """Return the state in which the pod has a pool, if it is placed as a whole.

    Only when the first container comes the other providers' hints are known; the pod then moves
    if it must.
    """
    request = _request(context, pod)
    if request is None or _containers(state, pod.uid):
        return state
    nodes = pool_nodes(state, pod.uid)
    if nodes is not None and not others.is_apart_from(nodes):
        return state
    key = (pod.uid, POOL)
    books, home = remove_container(state.books, *key), state.home(key)
    placed = context.place(books, key, request, others, home)
    if isinstance(placed, Rejection) and others:
        # The first container may have CPUs on a part of the pod's nodes only.
        alone = context.place(books, key, request, home=home)
        if isinstance(alone, Placed) and not others.is_apart_from(alone.nodes):
            placed = alone
    return placed if isinstance(placed, Rejection) else _with_pool(state, pod, placed.books)


def _nodes(old: EngineState, fresh: EngineState, pod: PodSandbox) -> NodeSet | None:
    """Return the nodes on which the runtime's answer shows the pod, or on which it was."""
    sandboxes = {h.sandbox_id for key, h in fresh.holders.items() if key[0] == pod.uid}
    if sandboxes:
        nodes = set(_containers(fresh, pod.uid).values())
        return nodes.pop() if len(nodes) == 1 and pod.sandbox_id in sandboxes else None
    pool = old.holders.get((pod.uid, POOL))
    is_its_own = pool is not None and pool.sandbox_id == pod.sandbox_id
    return pool_nodes(old, pod.uid) if is_its_own else None


def _adopt(
    state: EngineState, pod: PodSandbox, nodes: NodeSet, request: Request
) -> tuple[EngineState, Mapping[str, int]]:
    """Put what is left of the sum into the pool; also says what did not fit, in bytes."""
    containers = state.books.assignments.get(pod.uid, {})
    taken = held({name: blocks for name, blocks in containers.items() if name != POOL})
    left = {name: max(0, size - taken.get(name, 0)) for name, size in request.items()}
    adopted = adopt(state.books, pod.uid, POOL, nodes, left)
    return _with_pool(state, pod, adopted.state), adopted.shortfall


def _with_pool(state: EngineState, pod: PodSandbox, books: State) -> EngineState:
    # The sandbox's id stands in for a container's; the runtime gives out each id once.
    pool = Holder(pod.sandbox_id, pod.sandbox_id, (pod.uid, POOL), ended=True)
    return state.with_holder(pool, give_back(books, *pool.key))
