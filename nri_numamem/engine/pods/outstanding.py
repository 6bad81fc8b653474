"""Outstanding amounts: what the containers of a begun pod do not hold yet of their pod's limit.

NRI shows one container at a time. Without a look at the whole pod, two pods can each start a
container, and then lack memory for the other one; both keep what they have, and wait for each
other. So a pod begins only if its whole limit fits beside what begun pods still need. The amounts
are sums over all NUMA nodes: nothing is known about later containers that would allow blocks on
nodes. They count against the first container of another pod only, never against a container of a
begun pod.

A pod has begun when it has an assignment of a container, live or ended. So after a Synchronize it
is a pod with a running container, or one that had begun before. A pod without a known limit has no
outstanding amount.
"""

from collections.abc import Iterable, Mapping
from itertools import chain

from nri_numamem.engine.core import allowed_nodes, events
from nri_numamem.engine.core.context import Context
from nri_numamem.engine.core.events import PodSandbox
from nri_numamem.engine.core.request import request_of_pod
from nri_numamem.engine.core.state import EngineState, without
from nri_numamem.memorymanager import Rejection, Request, State
from nri_numamem.memorymanager.blocks import sum_blocks
from nri_numamem.memorymanager.candidates import free_bytes
from nri_numamem.memorymanager.holder import HolderName
from nri_numamem.memorymanager.policy_static import NO_DEFAULT
from nri_numamem.memorymanager.rejection import UNEXPECTED, allocation_failed, reject_pod
from nri_numamem.memorymanager.state import copy_of
from nri_numamem.numa import MEMORY, NodeSet

_NOTHING: Request = {}


def after(state: EngineState, event: events.Event) -> EngineState:
    """Return the state after an event, with the outstanding amounts that follow from it."""
    pod = getattr(event, "pod", None)
    return computed(state) if pod is None else _with_pod(state, pod)


def amounts_of(state: EngineState, pod: PodSandbox) -> Mapping[str, int]:
    """Return the outstanding amounts of a pod: resource -> bytes, > 0; none if it has not begun."""
    limit = request_of_pod(pod)
    containers = state.accounting.assignments.get(pod.uid)
    if limit is None or containers is None or not _has_begun(containers):
        return _NOTHING
    held = sum_blocks(chain.from_iterable(containers.values()))
    missing = {name: size - held.get(name, 0) for name, size in limit.items()}
    return {name: size for name, size in missing.items() if size > 0}


def lacking(
    context: Context, free: EngineState, available: State, pod: PodSandbox, request: Request
) -> tuple[Rejection, EngineState] | None:
    """Return why a pod cannot begin, and the state whose nodes together lack room; None if it can.

    `free` has the nodes that the pod may use, `available` is the accounting with all nodes. Where
    other pods may use more nodes than this one, these are compared too.
    """
    limit = pod.memory_limit_bytes
    # A pod of one container, as most are, has nothing outstanding.
    if not limit or not (free.outstanding or limit > request[MEMORY] or pod.hugepage_limits):
        return None
    for state in (free, allowed_nodes.around(context, free, available, pod)):
        found = None if state is None else rejection_of_first(state, pod, request, context)
        if state is not None and found is not None:
            return found, state
    return None


def rejection_of_first(
    state: EngineState, pod: PodSandbox, request: Request, context: Context
) -> Rejection | None:
    """Return why a pod cannot begin with a container, or None if it can or has begun.

    A pod has begun even if its running containers have no assignment; it then has no outstanding
    amount. With RunUnpinned the pod runs anyway, so its first container is placed where it fits. In
    pod scope the pod is placed as a whole before.
    """
    found = _needed_by_first(state, pod, request, context)
    if found is None or not _missing(state, *found):
        return None
    # The kubelet's error for the container that then finds no room.
    return reject_pod(state.accounting, *found, UNEXPECTED, allocation_failed(NO_DEFAULT))


def missing_for_first(
    state: EngineState, pod: PodSandbox, request: Request, context: Context
) -> Mapping[str, int]:
    """Return what all nodes together lack for a pod that has not begun: resource -> bytes, > 0."""
    found = _needed_by_first(state, pod, request, context)
    return _NOTHING if found is None else _missing(state, *found)


def _needed_by_first(
    state: EngineState, pod: PodSandbox, request: Request, context: Context
) -> tuple[Request, Request] | None:
    """Return what a pod needs to begin, and what begun pods still need; None if it may begin."""
    limit = request_of_pod(pod)
    containers = state.accounting.assignments.get(pod.uid, {})
    if limit is None or not context.rejects or context.places_pods or _has_begun(containers):
        return None
    if pod.sandbox_id in state.cpusets.without_assignment:
        return None  # some of it runs already
    waiting = {uid: amounts for uid, amounts in state.outstanding.items() if uid != pod.uid}
    if context.limits_nodes and waiting:
        usable = NodeSet(state.accounting.machine_state)
        places = _possible_nodes(context, state, pod)
        waiting = {uid: waiting[uid] for uid, nodes in places.items() if nodes.issubset(usable)}
    others = sum_of(waiting.values())
    needed = {name: max(size, request.get(name, 0)) for name, size in limit.items()}
    return needed, {name: others[name] for name in limit if name in others}


def _possible_nodes(context: Context, state: EngineState, pod: PodSandbox) -> Mapping[str, NodeSet]:
    """Return uid -> the nodes that a pod may use, for other pods with outstanding amounts."""
    return {
        each.uid: allowed_nodes.possible_nodes(context, state.accounting, each)
        for each in state.pods.values()
        if each.uid in state.outstanding and each.uid != pod.uid
    }


def crowded(context: Context, state: EngineState, pod: PodSandbox, placed: State) -> NodeSet:
    """Return the nodes on which a placement takes what begun pods need that may use no others.

    `state` is that of the placement, and `placed` the accounting after it. The nodes are a part of
    those that `pod` may use; ``rejection_of_first`` compares what is needed on all of them.
    """
    if not context.limits_nodes or not state.outstanding:
        return NodeSet()
    if context.places_pods or not context.rejects:
        return NodeSet()
    found, before, machine = NodeSet(), state.accounting, NodeSet(placed.machine_state)
    places = _possible_nodes(context, state, pod)
    for nodes in dict.fromkeys(places.values()):
        if nodes == machine or not nodes.issubset(machine):
            continue
        inside = (state.outstanding[uid] for uid, each in places.items() if each.issubset(nodes))
        for name, size in sum_of(inside).items():
            free = free_bytes(placed, nodes, name)
            if size > free < free_bytes(before, nodes, name):
                found |= nodes
    return found


def has_begun(state: EngineState, pod: PodSandbox) -> bool:
    """Return whether a pod has an assignment of a container."""
    return _has_begun(state.accounting.assignments.get(pod.uid, {}))


def _missing(state: EngineState, needed: Request, others: Request) -> dict[str, int]:
    nodes = state.accounting.machine_state
    missing = {
        name: size + others.get(name, 0) - free_bytes(state.accounting, nodes, name)
        for name, size in needed.items()
    }
    return {name: size for name, size in missing.items() if size > 0}


def sum_of(several: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """Return the sums of amounts, by resource name."""
    sums: dict[str, int] = {}
    for amounts in several:
        for name, size in amounts.items():
            sums[name] = sums.get(name, 0) + size
    return sums


def _has_begun(containers: Iterable[HolderName]) -> bool:
    return any(isinstance(name, str) for name in containers)


def _with_pod(state: EngineState, pod: PodSandbox) -> EngineState:
    uid = pod.uid
    if uid not in state.accounting.assignments and uid not in state.outstanding:
        return state
    # A runtime shows the limit of the sandbox's creation after a resize of the pod as well.
    known = state.pods.get(pod.sandbox_id)
    if known is None:
        known = next((other for other in state.pods.values() if other.uid == uid), None)
    amounts = _NOTHING if known is None else amounts_of(state, known)
    if amounts == state.outstanding.get(uid, _NOTHING):
        return state
    if not amounts:
        return state.with_outstanding(without(state.outstanding, uid))
    outstanding = copy_of(state.outstanding)
    outstanding[uid] = amounts
    return state.with_outstanding(outstanding)


def computed(state: EngineState) -> EngineState:
    """Return the state with the outstanding amounts of all pods.

    Of a pod's sandboxes the one with the largest limit counts.
    """
    largest: dict[str, PodSandbox] = {}
    for pod in state.pods.values():
        known = largest.get(pod.uid)
        if known is None or (pod.memory_limit_bytes or 0) > (known.memory_limit_bytes or 0):
            largest[pod.uid] = pod
    found = ((uid, amounts_of(state, pod)) for uid, pod in largest.items())
    outstanding = {uid: amounts for uid, amounts in found if amounts}
    return state if outstanding == state.outstanding else state.with_outstanding(outstanding)
