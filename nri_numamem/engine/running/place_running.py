"""Nodes for a container that runs without nodes: it was created while the plugin was away.

To set the nodes of a running container moves its memory. So if it has more than may move, the node
with most of its memory wins over equally good ones. Where too much would still move, the container
is placed and stays unpinned.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from nri_numamem.engine.admission import alignment, duplicates, pod_level, records
from nri_numamem.engine.admission.placement import place_container
from nri_numamem.engine.admission.pod_placement import place_in_pod
from nri_numamem.engine.core import allowed_nodes, shortfalls
from nri_numamem.engine.core.bulk_update import BulkUpdate
from nri_numamem.engine.core.candidates import reasons_in
from nri_numamem.engine.core.context import Context
from nri_numamem.engine.core.cpu_requests import RunningSums
from nri_numamem.engine.core.events import Container, PodSandbox
from nri_numamem.engine.core.plan import Adjustment, Update
from nri_numamem.engine.core.reasons import reason_of
from nri_numamem.engine.core.request import Request, ToPlace, request_for
from nri_numamem.engine.core.state import EngineState, Holder
from nri_numamem.engine.cpusets import check as cpuset_check
from nri_numamem.engine.cpusets.verdict import MOVED_BYTES_LIMIT
from nri_numamem.engine.records.containers import (
    Misaligned,
    PinnedWhileRunning,
    Placed,
    RunningUnpinnedNoCapacity,
    Unplaced,
)
from nri_numamem.engine.records.record import Record, become
from nri_numamem.engine.records.running import CpusetMemsMissing
from nri_numamem.engine.running.containers import Found, Unpinned
from nri_numamem.memorymanager import Rejection
from nri_numamem.memorymanager.holder import HolderName
from nri_numamem.memorymanager.hugepage_pools import MaskedState
from nri_numamem.numa import NodeSet


@dataclass(frozen=True, slots=True)
class PlacedRunning:
    """What follows for a container that ran without nodes."""

    state: EngineState
    updates: tuple[Update, ...] = ()
    """They pin the container, and extend those that share memory with it."""
    records: tuple[Record, ...] = ()
    """Why it was placed so, or rejected; empty if the request is unknown."""
    is_placed: bool = False
    missing: Record | None = None
    """Why the placed container stays unpinned, if it does."""


def place_running(
    context: Context,
    state: EngineState,
    pod: PodSandbox,
    container: Container,
    request: Request | None,
    cpu_requests: Mapping[int, int] | None = None,
) -> PlacedRunning:
    """Choose nodes for a container that runs without nodes, and record it there.

    `cpu_requests` are the sums by node, in millicores, if `state` is the view of one pod.
    Where too much memory would move, the container is placed and stays unpinned.
    """
    if request is None:
        return PlacedRunning(state)
    new = ToPlace(pod, container, request, context.other_providers_of(container))
    masked = allowed_nodes.mask_others(context, pod, MaskedState(state.accounting))
    seen = state.with_accounting(masked.state) if masked.hidden else state
    if masked.hidden:
        new = replace(new, others=new.others.within(NodeSet(masked.state.machine_state)))
    preferring = _prefer_nodes_of_memory(seen, pod, container)
    for feature in context.features:
        context = feature.preferring(context, preferring, pod, container, cpu_requests)
    place = place_in_pod if context.places_pods else place_container
    ready, placed = place(context, preferring, new)
    if preferring is not seen:
        ready = replace(ready, previous_nodes=state.previous_nodes)
    if isinstance(placed, Rejection):
        placed = allowed_nodes.with_cause(context, pod, placed, masked, request.resources)
        choice = records.choice_of_rejected(seen, new, placed)
        placed = placed.explained(reasons_in(choice))
        unplaced = records.unplaced_as(Unplaced, context, seen, new, placed)
        return PlacedRunning(state, records=(unplaced,))
    ready, updates = pod_level.extended(seen, ready, pod.uid)
    holder, more = alignment.placed(ready, new, placed)
    state = ready.with_holder(holder, masked.unmask(placed.accounting))
    adjustment = Adjustment(str(placed.nodes))
    record = records.placed_as(Placed, ready, state, new, placed, adjustment, updates)
    found = (record, *more)
    left = cpuset_check.leave_unpinned(state, pod, container)
    if left is not None:
        return PlacedRunning(left[0], updates, found, is_placed=True, missing=left[1])
    own = Update(container.container_id, str(placed.nodes))
    return PlacedRunning(state, (*updates, own), found, is_placed=True)


def place_all(
    context: Context, state: EngineState, unpinned: list[Unpinned], found: Found
) -> EngineState:
    """Place running containers that have no nodes; add the updates that pin them."""
    bulk = BulkUpdate(state)
    unassigned, unpinned_ids = list[str](), set[str]()
    cpus = RunningSums(state, context.machine) if context.compares_cpu_requests() else None
    is_short = shortfalls.has_any(state)
    for pod, container in unpinned:
        if is_short:
            bulk.charge_shortfalls()  # what one pod leaves is not for the next one
        before = bulk.pod_view(pod.uid)
        after, duplicate = duplicates.separate(before, pod, container)
        request = request_for(after, pod, container)
        sums = None if cpus is None else cpus.sums
        ran = place_running(context, after, pod, container, request, sums)
        bulk.replace_pod(pod.uid, before, ran.state)
        if cpus is not None:
            cpus.replace(before, ran.state)
        if ran.is_placed:
            found.updates.extend(ran.updates)
        else:
            unassigned.append(pod.sandbox_id)
        found.records.extend(
            _while_running(record)
            for record in ran.records
            if ran.missing is None or isinstance(record, Misaligned)
        )
        found.records.extend(record for record in (ran.missing, duplicate) if record is not None)
        holder = Holder(container.container_id, pod.sandbox_id, (pod.uid, container.name))
        if ran.missing is not None:
            unpinned_ids.add(container.container_id)
            found.unpinned[holder.container_id] = reason_of(CpusetMemsMissing, state, holder)
        elif ran.is_placed:
            found.pinned[holder.container_id] = reason_of(PinnedWhileRunning, state, holder)
        elif request is not None:
            found.unpinned[holder.container_id] = reason_of(
                RunningUnpinnedNoCapacity, state, holder
            )
    cpusets = replace(state.cpusets, unpinned=state.cpusets.unpinned | unpinned_ids)
    return bulk.finish().with_cpusets(cpusets).with_unassigned(unassigned)


def _while_running(record: Record) -> Record:
    """Return the record of a placement as that of a container that runs."""
    match record:
        case Placed():
            return PinnedWhileRunning(placed=record)
        case Unplaced():
            return become(record, RunningUnpinnedNoCapacity)
        case _:
            return record


def _prefer_nodes_of_memory(
    state: EngineState, pod: PodSandbox, container: Container
) -> EngineState:
    """Return the state in which the node with most of a large container's memory is preferred.

    It counts as the previous nodes of the container, like those of a pod that returns.
    """
    use = container.cgroup_use
    amounts = {} if use is None or use.memory_bytes is None else use.memory_bytes
    is_large = sum(amounts.values()) > MOVED_BYTES_LIMIT
    if not is_large or state.nodes_before((pod.uid, container.name)):
        return state
    most = max(amounts, key=lambda node_id: (amounts[node_id], -node_id))
    nodes: dict[HolderName, NodeSet] = {container.name: NodeSet([most])}
    return replace(state, previous_nodes={**state.previous_nodes, pod.uid: nodes})
