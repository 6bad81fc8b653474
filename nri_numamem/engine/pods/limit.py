"""The limit of a pod: the amounts that its containers may hold together, per resource.

The limit comes with the pod's sandbox (``request.request_of_pod``); the scheduler counts no more
for the pod. An ended container keeps its memory for the pod's next containers. Where these cannot
reuse it, because they are on other nodes, the pod would hold more than its limit. NRI does not show
which container is an init container, so the rule is about amounts: what ended containers hold
beyond the pod's limit is released, oldest first, when another container needs the room. Below the
limit all of it stays reserved for the pod. A live container keeps what it has. The number of ended
containers is limited too.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from nri_numamem.engine.core.bulk_update import BulkUpdate
from nri_numamem.engine.core.events import PodSandbox
from nri_numamem.engine.core.request import request_of_pod
from nri_numamem.engine.core.state import EngineState
from nri_numamem.memorymanager import Request, release_reusable, remove_container, remove_containers
from nri_numamem.memorymanager.candidates import crosses_groups
from nri_numamem.memorymanager.holder import HolderName
from nri_numamem.topologymanager import Placement

# Far more than pods have. Each creation visits the ended containers of its pod, and a user may
# start thousands of init containers.
ENDED_LIMIT = 128

_NOTHING: Request = {}


def held(
    state: EngineState, pod: PodSandbox, but: HolderName | None = None
) -> tuple[dict[str, int], dict[str, int]]:
    """Return what live and what ended containers of a pod hold: resource -> bytes, twice.

    The container `but` does not count, and neither does what another sandbox of the pod runs.
    """
    uid = pod.uid
    live: dict[str, int] = {}
    ended: dict[str, int] = {}
    reusable = frozenset(state.accounting.reusable.get(uid, ()))
    holders, sandbox_id = state.holders, pod.sandbox_id
    for name, blocks in state.accounting.assignments.get(uid, {}).items():
        # Not runs_in_other_sandbox(): a pod can have thousands of containers.
        holder = holders.get((uid, name))
        if name == but or (holder and holder.sandbox_id != sandbox_id and not holder.ended):
            continue
        sums = ended if name in reusable else live
        for block in blocks:
            sums[block.type] = sums.get(block.type, 0) + block.size
    return live, ended


def excess(
    state: EngineState, pod: PodSandbox, name: HolderName | None = None, request: Request = _NOTHING
) -> dict[str, int]:
    """Return what a pod's ended containers hold beyond its limit: resource -> bytes, > 0.

    The container `name` counts with `request` instead of the blocks that it has.
    """
    if pod.uid not in state.accounting.reusable:
        return {}
    limit = request_of_pod(pod)
    if limit is None:
        return {}
    live, ended = held(state, pod, name)
    found: dict[str, int] = {}
    for resource, size_bytes in ended.items():
        allowed = limit.get(resource, size_bytes)
        allowed -= live.get(resource, 0) + request.get(resource, 0)
        if size_bytes > max(0, allowed) and resource in limit:
            found[resource] = size_bytes - max(0, allowed)
    return found


def release(state: EngineState, uid: str, amounts: Mapping[str, int]) -> EngineState:
    """Return the state in which a pod's ended containers hold `amounts` less, the oldest first.

    A container that so loses all its bytes loses its nodes too.
    """
    before = state.accounting.assignments.get(uid, {})
    state = state.with_accounting(release_reusable(state.accounting, uid, amounts))
    for name in state.accounting.reusable.get(uid, ()):
        blocks = state.accounting.assignments[uid][name]
        if (
            isinstance(name, str)
            and blocks != before[name]
            and not any(block.size for block in blocks)
        ):
            accounting = remove_container(state.accounting, uid, name)
            state = state.without_holder(state.holders[uid, name], accounting)
    return state


def release_oldest_ended(state: EngineState, uid: str) -> EngineState:
    """Return the state in which a pod has at most ENDED_LIMIT ended containers, the newest ones."""
    names = state.accounting.reusable.get(uid, ())
    if len(names) <= ENDED_LIMIT:
        return state
    released = [name for name in names if isinstance(name, str)][:-ENDED_LIMIT]
    accounting = remove_containers(state.accounting, uid, released)
    keys = ((uid, name) for name in released)
    holders = [state.holders[key] for key in keys if key in state.holders]
    return state.without_holders(holders, accounting)


def release_excess(state: EngineState, pod: PodSandbox) -> EngineState:
    """Return the state in which ended containers hold nothing beyond the pod's limit."""
    amounts = excess(state, pod)
    return release(state, pod.uid, amounts) if amounts else state


def release_all_excess(state: EngineState, pods: Iterable[PodSandbox]) -> EngineState:
    """Release the excess of many pods; the largest limit of a pod's sandboxes counts."""
    largest: dict[str, PodSandbox] = {}
    for pod in pods:
        known = largest.get(pod.uid)
        is_larger = known is None or (pod.memory_limit_bytes or 0) > (known.memory_limit_bytes or 0)
        if is_larger and pod.uid in state.accounting.reusable:
            largest[pod.uid] = pod
    bulk = BulkUpdate(state)
    for uid, pod in largest.items():
        before = bulk.pod_view(uid)
        bulk.replace_pod(uid, before, release_excess(before, pod))
    return bulk.finish()


def without_release(
    before: EngineState, released: EngineState, ready: EngineState, placed: Placement
) -> Placement | None:
    """Return the placement of a container in `before`, or None if it needs what was released.

    The container was placed in `ready`, which is `released` or has a new pool. `released` is
    `before` without the excess. On the same nodes the container reuses what ended containers hold
    there, and less of it is beyond the limit. An even group always needs it: each of its nodes must
    have room.
    """
    accounting = before.accounting
    if ready is not released or placed.is_even or crosses_groups(accounting, placed.nodes):
        return None
    kept = replace(placed, before=accounting)
    blocks = kept.accounting.assignments[placed.pod.uid][placed.name]
    return kept if all(block.charged == block.size for block in blocks) else None
