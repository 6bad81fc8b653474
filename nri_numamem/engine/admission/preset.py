"""A container that already has its NUMA nodes: it is recorded on them, and never changed."""

from collections.abc import Mapping

from nri_numamem.engine.admission import alignment, records
from nri_numamem.engine.core import reasons
from nri_numamem.engine.core.context import Context
from nri_numamem.engine.core.decision import NO_PLAN, Decision
from nri_numamem.engine.core.events import Container, CreateContainer, PodSandbox
from nri_numamem.engine.core.request import Request
from nri_numamem.engine.core.state import EngineState
from nri_numamem.engine.core.text import cut_name
from nri_numamem.engine.pods import limit as pod_limit
from nri_numamem.engine.pods import scope as pod_scope
from nri_numamem.engine.records.containers import Adopted
from nri_numamem.memorymanager import adopt
from nri_numamem.numa import NodeSet

CAUSE = "its cpuset.mems was set before, by the kubelet's Memory Manager or another plugin"


def adopt_preset(
    context: Context, state: EngineState, event: CreateContainer, request: Request
) -> Decision:
    """Record a container with the `cpuset.mems` that it already has; never change it."""
    pod, container = event.pod, event.container
    try:
        nodes = NodeSet.parse(container.cpuset_mems)
    except ValueError:
        why = f"its cpuset.mems {cut_name(container.cpuset_mems)!r} is no list of NUMA nodes"
        record = records.not_managed(pod, container, why, is_invalid=True)
        return Decision.computed(NO_PLAN, state, record)
    next_state, shortfall = record_running(context, state, pod, container, request, nodes)
    if container.has_devices:
        next_state = next_state.with_devices(container.container_id)
    next_state = pod_scope.take_from_pool(context, next_state, pod)
    next_state = pod_limit.release_excess(next_state, pod)
    excluded = context.classification.excluded
    made = records.adopted(next_state, pod, container, request, nodes, shortfall, excluded, CAUSE)
    next_state, more = alignment.with_preset_nodes(context, next_state, pod, container, nodes)
    holder = next_state.holders[pod.uid, container.name]
    pinned = reasons.pinned(Adopted, next_state, holder)
    return Decision.computed(NO_PLAN, next_state, made, *more, reasons=pinned)


def record_running(
    context: Context,
    state: EngineState,
    pod: PodSandbox,
    container: Container,
    request: Request,
    nodes: NodeSet,
) -> tuple[EngineState, Mapping[str, int]]:
    """Record a container that has its nodes; also return its shortfall in bytes."""
    is_even = context.charges_evenly(pod, container.name, nodes)
    uid, resources = pod.uid, request.resources
    adopted = adopt(state.accounting, uid, container.name, nodes, resources, is_even=is_even)
    return state.with_holder(
        alignment.holder_of(pod, container, request), adopted.state
    ), adopted.shortfall
