"""Equal choices: of NUMA nodes that rank equally, the one after which the rest of the pod fits.

The kubelet takes the lowest id of equally good nodes. So the first container of a pod can take the
only node that has room for a later one, while it would fit on another node as well. The later
containers are not known yet, but their sum is: the pod's limit less what its live containers hold.
The first equally good node wins after which one node set has room for that sum. If there is none,
the lowest id wins.

The rule applies to placements on one node, container by container. It never gives up a CPU or
device hint, a closer node or the previous nodes, and never leads to a rejection. Choices between
sets of several nodes, and the outstanding amounts of other pods, have no measurable effect
(``python -m tests.bench.pods_in_part``).
"""

from collections.abc import Callable

from nri_numamem.engine.context import Context
from nri_numamem.engine.events import PodSandbox
from nri_numamem.engine.pod_limit import held
from nri_numamem.engine.request import request_of_pod
from nri_numamem.engine.state import EngineState
from nri_numamem.memorymanager import Rejection, Request, State
from nri_numamem.memorymanager.candidates import Candidates
from nri_numamem.numa import NodeSet
from nri_numamem.topologymanager import Placement

Place = Callable[[NodeSet], Placement | Rejection]
"""Places the container as before; of equally good sets the given one wins."""


def place_with_room(
    context: Context,
    state: EngineState,
    pod: PodSandbox,
    request: Request,
    place: Place,
    previous_nodes: NodeSet,
) -> Placement | Rejection:
    """Place a container; on one of several equally good nodes, so that the pod's rest fits."""
    placed = place(previous_nodes)
    if isinstance(placed, Rejection) or len(placed.nodes) > 1 or placed.nodes == previous_nodes:
        return placed
    # A pod of one container, as most are, has no rest.
    rest = remaining_request(state, pod, placed.name, request)
    if not rest or _has_room(context, placed.accounting, pod.uid, rest):
        return placed
    if not _has_room(context, state.accounting, pod.uid, rest):
        return placed
    return _with_room(context, state, placed, place, rest) or placed


def _with_room(
    context: Context, state: EngineState, placed: Placement, place: Place, rest: Request
) -> Placement | None:
    """Return the placement on the first node as good as that of `placed` that leaves room."""
    rank = context.topology.preferences.rank
    *best, _id = rank(placed.nodes)
    for nodes in (NodeSet((node_id,)) for node_id in state.accounting.machine_state):
        *found, _id = rank(nodes)
        # Distances come after the nodes that `place` is given.
        other = place(nodes) if found == best and nodes != placed.nodes else placed
        if isinstance(other, Rejection) or other.nodes != nodes:
            continue
        if _has_room(context, other.accounting, placed.pod.uid, rest):
            return other
    return None


def remaining_request(
    state: EngineState, pod: PodSandbox, name: str, request: Request
) -> Request | None:
    """Return what the pod's later containers may request; None or empty for nothing.

    What ended containers hold belongs to it: the later ones may reuse it.
    """
    limit = request_of_pod(pod)
    if limit is None or all(size <= request.get(each, 0) for each, size in limit.items()):
        return None
    live, _ = held(state, pod, but=name)
    rest = {each: size - live.get(each, 0) - request.get(each, 0) for each, size in limit.items()}
    return {each: size for each, size in rest.items() if size > 0}


def _has_room(context: Context, accounting: State, uid: str, rest: Request) -> bool:
    """Return whether the policy would admit one container with the rest of the pod."""
    candidates = Candidates(accounting, uid, rest, NodeSet())
    best = candidates.best(context.topology.preferences)
    if best is None or len(best) == 1:
        return best is not None
    return context.topology.policy.admits_several_nodes(candidates.hint(best))
