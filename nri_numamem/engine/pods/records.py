"""Records of decisions on pods."""

from collections.abc import Collection, Mapping
from itertools import chain

from nri_numamem.engine.core.candidates import Choice, decision_fields, reasons_in
from nri_numamem.engine.core.context import Context
from nri_numamem.engine.core.events import PodSandbox
from nri_numamem.engine.core.fields import (
    Fields,
    free_bytes,
    hint_value,
    pod_fields,
    used_outside_of_pods,
)
from nri_numamem.engine.core.plan import Record, RecordValue
from nri_numamem.engine.core.state import POOL, EngineState, Holder
from nri_numamem.engine.records.events import EventName
from nri_numamem.memorymanager import Rejection
from nri_numamem.numa import MEMORY, NodeSet
from nri_numamem.topologymanager import Placement

# A user may start thousands of init containers in a pod.
_NAMES_LIMIT = 50


def admitted(
    before: EngineState,
    state: EngineState,
    pod: PodSandbox,
    request: Mapping[str, int],
    placed: Placement,
) -> Record:
    """Record a pod that gets NUMA nodes as a whole; `before` is the state of the decision."""
    previous = before.nodes_before((pod.uid, POOL))
    choice = Choice(placed.before, pod.uid, request, placed.nodes, previous_nodes=previous)
    fields: Fields = {
        **pod_fields(pod),
        "request_bytes": dict(request),
        **decision_fields(choice, state),
        "merged_hint": hint_value(placed.hint),
        "nodes": str(placed.nodes),
    }
    return Record(EventName.POD_ADMITTED, fields)


def adopted(
    state: EngineState,
    pod: PodSandbox,
    request: Mapping[str, int],
    nodes: NodeSet,
    shortfall: Mapping[str, int],
) -> Record:
    """Record a pod whose NUMA nodes cannot hold all of its request."""
    fields: Fields = {
        **pod_fields(pod),
        "request_bytes": dict(request),
        "nodes": str(nodes),
        "free_bytes": free_bytes(state, request, nodes),
        "shortfall_bytes": dict(shortfall),
    }
    return Record(EventName.POD_ADOPTED, fields)


def rejected(
    context: Context,
    state: EngineState,
    pod: PodSandbox,
    request: Mapping[str, int],
    rejection: Rejection,
) -> Record:
    """Record a pod for which no nodes were found; its first container tries again."""
    previous = state.nodes_before((pod.uid, POOL))
    choice = Choice(state.accounting, pod.uid, request, previous_nodes=previous)
    rejection = rejection.explained(reasons_in(choice))
    fields: Fields = {
        **pod_fields(pod),
        "request_bytes": dict(request),
        **decision_fields(choice, state),
        **used_outside_of_pods(state, request),
        "policy": context.policy.topology_manager_policy,
        "reason": rejection.reason,
        "message": rejection.message,
    }
    return Record(EventName.POD_REJECTED, fields)


def released(
    before: EngineState, state: EngineState, pod: PodSandbox, holders: Collection[Holder]
) -> Record:
    """Record a pod that ended; its memory is free again. `state` follows `before`."""
    # The reservation of a pod as a whole has the empty container name.
    names = [holder.key[1] for holder in holders if holder.key[1]]
    fields: Fields = {**pod_fields(pod), "containers": list[RecordValue](names[:_NAMES_LIMIT])}
    if len(names) > _NAMES_LIMIT:
        fields["container_count"] = len(names)
    blocks = chain.from_iterable(before.blocks(holder.key) or () for holder in holders)
    nodes = set(chain.from_iterable(block.numa_affinity for block in blocks))
    fields["free_bytes"] = free_bytes(state, (MEMORY,), nodes)
    return Record(EventName.POD_RELEASED, fields)
