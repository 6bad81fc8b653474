"""Equal choices: of NUMA nodes that rank equally, one that leaves room for the rest of the pod.

The kubelet takes the lowest id of equally good nodes. So the first container of a pod can take the
only node that has room for a later one, while it would fit on another node as well. The later
containers are not known yet, but their sum is: the pod's limit less what its live containers hold.
If that sum fits on one node only, and no longer with the container on it, the next equally good
node wins. If the sum fits on no node, the lowest id wins.

The rule applies to placements on one node, container by container. It never gives up a CPU or
device hint, a closer node or the previous nodes, and never leads to a rejection. Sums that need
several nodes, choices between sets of nodes, and the outstanding amounts of other pods have no
measurable effect (``python -m tests.bench.pods_in_part``), but would take time.
"""

from collections.abc import Callable

from nri_numamem.engine.core.context import Context
from nri_numamem.engine.core.events import PodSandbox
from nri_numamem.engine.core.request import request_of_pod
from nri_numamem.engine.core.state import EngineState
from nri_numamem.engine.pods.limit import held
from nri_numamem.memorymanager import Rejection, Request, State
from nri_numamem.memorymanager.candidates import is_admissible
from nri_numamem.memorymanager.holder import HolderName
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
    if not rest or _nodes_with_room(state.accounting, pod.uid, rest) != [placed.nodes]:
        return placed
    if is_admissible(placed.accounting, pod.uid, rest, placed.nodes):
        return placed
    return _on_next_equal_node(context, placed, place) or placed


def _nodes_with_room(accounting: State, uid: str, rest: Request) -> list[NodeSet]:
    """Return the single nodes on which a container with the rest of the pod would fit."""
    nodes = (NodeSet((node_id,)) for node_id in accounting.machine_state)
    return [each for each in nodes if is_admissible(accounting, uid, rest, each)]


def _on_next_equal_node(context: Context, placed: Placement, place: Place) -> Placement | None:
    """Return the placement on the first other node that is as good as that of `placed`."""
    closeness = context.topology.preferences.closeness
    best = closeness(placed.nodes)
    for nodes in (NodeSet((node_id,)) for node_id in placed.before.machine_state):
        # Distances come after the nodes that `place` is given.
        if closeness(nodes) == best and nodes != placed.nodes:
            other = place(nodes)
            if isinstance(other, Placement) and other.nodes == nodes:
                return other
    return None


def remaining_request(
    state: EngineState, pod: PodSandbox, name: HolderName, request: Request
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
