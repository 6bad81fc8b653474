"""Pod scope: a pod's memory is placed as a whole, and its containers share the nodes.

The pod's sum is in its sandbox: the memory limit of `pod_resources` and the hugepage limits of the
pod's cgroup. It is assigned to the pod's pool, whose holder is the pod as a whole. The pool is
reusable from the start: the pod's containers take over its bytes when they are created on the same
nodes. The end of the sandbox releases the pool with the containers.

A pod whose sandbox was started when there was no room has no pool. Nothing else is remembered: room
is made when its next container is created, or that container is refused. A pod without a known sum,
and a pod whose containers are on different nodes already, is placed container by container. With
topologyManagerPolicy none there are no scopes. ``placement`` chooses the nodes.
"""

from collections.abc import Iterable, Mapping
from itertools import chain

from nri_numamem.engine.core.bulk_update import BulkUpdate
from nri_numamem.engine.core.context import Context
from nri_numamem.engine.core.events import PodSandbox
from nri_numamem.engine.core.request import request_of_pod
from nri_numamem.engine.core.state import EngineState, Holder
from nri_numamem.engine.pods import records
from nri_numamem.engine.records.record import Record
from nri_numamem.memorymanager import Block, Request, State, adopt, mark_reusable, remove_container
from nri_numamem.memorymanager.blocks import sum_blocks
from nri_numamem.memorymanager.holder import HolderKind, HolderName
from nri_numamem.numa import NodeSet


def pool_nodes(state: EngineState, uid: str) -> NodeSet | None:
    """Return the nodes of a pod's pool; None without a pool."""
    blocks = state.blocks((uid, HolderKind.POD))
    return blocks[0].numa_affinity if blocks else None


def take_from_pool(context: Context, state: EngineState, pod: PodSandbox) -> EngineState:
    """Return the state whose pool has only what the pod's containers do not have.

    For containers that were adopted or resized; a placement takes from the pool by itself.
    """
    request, nodes = request_of_pod(pod), pool_nodes(state, pod.uid)
    if not context.places_pods or request is None or nodes is None:
        return state
    return _adopt(state, pod, nodes, request)[0]


def synchronize(
    context: Context, old: EngineState, new: EngineState, pods: Iterable[PodSandbox]
) -> tuple[EngineState, list[Record]]:
    """Return the state with the pools of all pods, around the containers that `new` has.

    A pod without containers gets the pool that it had in `old`. If it had none, its next container
    makes room: the runtime also lists pods that ended long ago. A pod on an excluded node gets no
    pool, so its next containers are placed one by one, on other nodes.
    """
    found: list[Record] = []
    bulk = BulkUpdate(new)
    for pod in sorted(pods, key=lambda pod: pod.sandbox_id):
        request = pod_resources(context, pod)
        if request is None:
            continue
        before = bulk.pod_view(pod.uid)
        nodes = _nodes(old, before, pod)
        if nodes is not None and context.uses(nodes):
            after, shortfall = _adopt(before, pod, nodes, request)
            bulk.replace_pod(pod.uid, before, after)
            if shortfall:
                found.append(records.adopted(after, pod, request, nodes, shortfall))
    return bulk.finish(), found


def pod_resources(context: Context, pod: PodSandbox) -> Request | None:
    """Return the sum of a pod that is placed as a whole; None for another pod."""
    return request_of_pod(pod) if context.places_pods and context.manages(pod) else None


def container_nodes(state: EngineState, uid: str) -> dict[str, NodeSet]:
    """Return container name -> nodes of the pod's containers that have an assignment."""
    return {
        name: blocks[0].numa_affinity
        for name, blocks in state.accounting.assignments.get(uid, {}).items()
        if isinstance(name, str)
    }


def _nodes(old: EngineState, new: EngineState, pod: PodSandbox) -> NodeSet | None:
    """Return the one node set of the pod's containers, or that of its pool in `old`."""
    sandboxes = {h.sandbox_id for key, h in new.holders.items() if key[0] == pod.uid}
    if sandboxes:
        nodes = set(container_nodes(new, pod.uid).values())
        return nodes.pop() if len(nodes) == 1 and pod.sandbox_id in sandboxes else None
    pool = old.holders.get((pod.uid, HolderKind.POD))
    is_of_sandbox = pool is not None and pool.sandbox_id == pod.sandbox_id
    return pool_nodes(old, pod.uid) if is_of_sandbox else None


def _adopt(
    state: EngineState, pod: PodSandbox, nodes: NodeSet, request: Request
) -> tuple[EngineState, Mapping[str, int]]:
    """Adopt the unused part of the sum as the pool; also return its shortfall in bytes.

    What another sandbox of the pod runs is no part of the sum of this sandbox.
    """
    containers: dict[HolderName, tuple[Block, ...]] = {
        name: blocks
        for name, blocks in state.accounting.assignments.get(pod.uid, {}).items()
        if isinstance(name, str)
        and not state.runs_in_other_sandbox((pod.uid, name), pod.sandbox_id)
    }
    used = sum_blocks(chain.from_iterable(containers.values()))
    remaining = {name: max(0, size - used.get(name, 0)) for name, size in request.items()}
    adopted = adopt(state.accounting, pod.uid, HolderKind.POD, nodes, remaining)
    return with_pool(state, pod, adopted.state), adopted.shortfall


def without_pool(state: EngineState, uid: str) -> EngineState:
    """Return the state whose accounting has no pool for the pod."""
    return state.with_accounting(remove_container(state.accounting, uid, HolderKind.POD))


def with_pool(state: EngineState, pod: PodSandbox, accounting: State) -> EngineState:
    """Return the state with a new accounting, in which the pod's pool can be reused."""
    # The sandbox's id replaces a container's id; the runtime uses each id once.
    pool = Holder(pod.sandbox_id, pod.sandbox_id, (pod.uid, HolderKind.POD), ended=True)
    return state.with_holder(pool, mark_reusable(accounting, *pool.key))
