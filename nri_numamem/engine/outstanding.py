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

from collections.abc import Mapping
from functools import partial

from nri_numamem.engine import events
from nri_numamem.engine.context import Context
from nri_numamem.engine.events import PodSandbox
from nri_numamem.engine.request import request_of_pod, sum_blocks
from nri_numamem.engine.state import POOL, EngineState, without
from nri_numamem.memorymanager import Explanation, Rejection, Request
from nri_numamem.memorymanager.rejection import UNEXPECTED
from nri_numamem.memorymanager.state import copy_of
from nri_numamem.numa import humanize_bytes

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
    held = sum_blocks(containers)
    missing = {name: size - held.get(name, 0) for name, size in limit.items()}
    return {name: size for name, size in missing.items() if size > 0}


def rejection_of_first(
    state: EngineState, pod: PodSandbox, request: Request, context: Context
) -> Rejection | None:
    """Return why a pod cannot begin with a container, or None if it can or has begun.

    With RunUnpinned the pod runs in any case, so its first container is placed where it fits. In
    pod scope the pod is placed as a whole before.
    """
    limit = request_of_pod(pod)
    containers = state.accounting.assignments.get(pod.uid, {})
    if limit is None or not context.rejects or context.places_pods or _has_begun(containers):
        return None
    for name, size in limit.items():
        own = max(size, request.get(name, 0))
        others = sum(
            amounts.get(name, 0) for uid, amounts in state.outstanding.items() if uid != pod.uid
        )
        free = sum(node.table(name).free for node in state.accounting.machine_state.values())
        if own + others > free:
            return Rejection(UNEXPECTED, partial(_explain, name, size, others, free))
    return None


def _explain(name: str, size: int, others: int, free: int) -> Explanation:
    beside = ""
    if others:
        needed = humanize_bytes(others, round_up=True)
        beside = f", and pods of which some containers run still need {needed}"
    return Explanation(
        f"the containers of the pod need {name} {humanize_bytes(size, round_up=True)} together"
        f"{beside}; all NUMA nodes together have {humanize_bytes(free)} free; "
        "the pod's first container is refused, so that the pod does not start in part"
    )


def _has_begun(containers: Mapping[str, object]) -> bool:
    return any(name != POOL for name in containers)


def _with_pod(state: EngineState, pod: PodSandbox) -> EngineState:
    uid = pod.uid
    if uid not in state.accounting.assignments and uid not in state.outstanding:
        return state
    if pod.sandbox_id not in state.pods:
        pod = next((other for other in state.pods.values() if other.uid == uid), pod)
    amounts = amounts_of(state, pod) if pod.sandbox_id in state.pods else _NOTHING
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
