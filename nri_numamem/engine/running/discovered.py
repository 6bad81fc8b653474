"""Running containers that the runtime never reported.

Some runtimes do not report containers that are created while a plugin synchronizes. A scan of the
cgroups finds them (``nri_numamem.daemon.cgroup_scan``), and here they enter the accounting. A
container whose `cpuset.mems` is set keeps its nodes; another one is placed by the rules, and its
cgroup's limit is its request. Its name is unknown, so the container's id is its name until the next
Synchronize.

To pin such a container takes an update, which is pending until a reply can carry it
(``cpusets.pending``). A container whose memory must not move stays unpinned (``verdict``).
"""

from collections.abc import Iterable
from dataclasses import replace

from nri_numamem.engine.admission.preset import record_running
from nri_numamem.engine.admission.records import adopted
from nri_numamem.engine.core import reasons, shortfalls
from nri_numamem.engine.core.context import Context
from nri_numamem.engine.core.decision import Transition
from nri_numamem.engine.core.events import ContainersFound
from nri_numamem.engine.core.reason import NO_REASONS
from nri_numamem.engine.core.request import request_for
from nri_numamem.engine.core.state import EngineState, Holder
from nri_numamem.engine.pods import limit as pod_limit
from nri_numamem.engine.pods import scope as pod_scope
from nri_numamem.engine.records.common import UNPINNED
from nri_numamem.engine.records.containers import (
    Adopted,
    Placed,
    Unplaced,
    UnreportedContainerFound,
)
from nri_numamem.engine.records.record import Record
from nri_numamem.engine.records.running import CpusetMemsMissing
from nri_numamem.engine.running.place_running import place_running


def containers_found(context: Context, state: EngineState, event: ContainersFound) -> Transition:
    """Record the containers that are still unknown; nothing is refused."""
    records, new = list[Record](), NO_REASONS
    for pod, container in event.found:
        is_known = state.holder(container.container_id) is not None
        is_managed = context.unmanaged_reason(pod, container) is None
        request = request_for(state.with_pod(pod), pod, container)
        if is_known or not is_managed or request is None:
            continue
        state = shortfalls.charged(state.with_pod(pod))
        if container.cgroup_mems:
            nodes, excluded = container.cgroup_mems, context.classification.excluded
            state, shortfall = record_running(context, state, pod, container, request, nodes)
            made = adopted(state, pod, container, request, nodes, shortfall, excluded)
            records += _unreported((made,), "adopted")
            state = pod_scope.take_from_pool(context, state, pod)
            state = pod_limit.release_excess(state, pod)
            holder = state.holders[pod.uid, container.name]
            new |= reasons.pinned(UnreportedContainerFound, state, holder)
            continue
        ran = place_running(context, state, pod, container, request)
        state = ran.state
        if not ran.is_placed:
            state = state.with_unassigned([pod.sandbox_id])
            records.extend(_unreported(ran.records, UNPINNED))
            holder = Holder(container.container_id, pod.sandbox_id, (pod.uid, container.name))
            new |= reasons.unpinned(UnreportedContainerFound, state, holder)
            continue
        state = pod_limit.release_excess(state, pod)
        found = {update.container_id for update in ran.updates}
        state = replace(state, pending=state.pending | found)
        holder = state.holders[pod.uid, container.name]
        if ran.missing is None:
            records.extend(_unreported(ran.records, "pinning_deferred"))
            new |= reasons.pinned(UnreportedContainerFound, state, holder)
        else:
            records += (*_unreported(ran.records, UNPINNED), ran.missing)
            new |= reasons.unpinned(CpusetMemsMissing, state, holder)
    return Transition(state, tuple(records), reasons=new)


def _unreported(made: Iterable[Record], outcome: str) -> list[Record]:
    return [
        UnreportedContainerFound(found=record, outcome=outcome)
        if isinstance(record, Placed | Unplaced | Adopted)
        else record
        for record in made
    ]
