"""Synchronize: rebuild the accounting from everything that the runtime has.

The runtime is the truth. A container that runs with a `cpuset.mems` keeps its nodes, even where no
rule would have placed it there, such as on an excluded node. Memory that a pod kept between two of
its containers stays reserved while the pod exists. A managed container that runs unpinned (it was
created while the plugin was absent) is placed now, and updated unless that would move too much
(``place_running``). The order is by sandbox id and container id, so the same list always gives the
same accounting.

A runtime may list running containers without their pod: containerd leaves out a sandbox whose state
it could not read when it started. Such a pod is kept as it was known.

Where only the sum of a pod's hugepages is known, it stays with the container that had it, and else
goes to the pod's oldest container.

Where runtime, cgroup and accounting show different nodes, ``cpusets.reported`` decides, and they
may be sent again. Of the updates that may move memory because a cgroup lacks its nodes, the reply
contains one; later replies contain the others.

Where every container has its nodes, the reply contains no update, and the accounting is rebuilt
after it.
"""

from dataclasses import replace
from functools import partial

from nri_numamem.engine.admission import alignment, duplicates, records
from nri_numamem.engine.core import shortfalls
from nri_numamem.engine.core.bulk_update import BulkUpdate
from nri_numamem.engine.core.context import Context
from nri_numamem.engine.core.decision import NO_PLAN, Decision
from nri_numamem.engine.core.events import Container, PodSandbox, Synchronize
from nri_numamem.engine.core.fields import free_bytes, pod_names
from nri_numamem.engine.core.plan import Plan, Update
from nri_numamem.engine.core.reason import Reasons
from nri_numamem.engine.core.reasons import reason_of
from nri_numamem.engine.core.request import Request
from nri_numamem.engine.core.state import Cpusets, EngineState
from nri_numamem.engine.cpusets import check as cpuset_check
from nri_numamem.engine.cpusets import records as cpuset_records
from nri_numamem.engine.cpusets.reported import Action
from nri_numamem.engine.pods import limit as pod_limit
from nri_numamem.engine.pods import scope as pod_scope
from nri_numamem.engine.records.connection import Synchronized
from nri_numamem.engine.records.containers import Adopted
from nri_numamem.engine.records.record import Record
from nri_numamem.engine.records.running import (
    CpusetMemsConflict,
    CpusetMemsMissing,
    CpusetMemsReapplied,
    PodNotListed,
    StaleReservationDropped,
)
from nri_numamem.engine.running.containers import Found, Pinned, Running, classify
from nri_numamem.engine.running.place_running import place_all
from nri_numamem.engine.running.requests import RunningRequests
from nri_numamem.memorymanager import adopt_again, mark_reusable
from nri_numamem.memorymanager.candidates import crosses_groups
from nri_numamem.memorymanager.holder import HolderKind
from nri_numamem.numa import MEMORY, NodeSet

_STALE = "its NUMA nodes do not exist any more, are excluded, or have assignments of another group"


def synchronize(context: Context, state: EngineState, event: Synchronize) -> Decision:
    """Return the state that the runtime describes, with updates for containers in wrong places."""
    old = known_state(state)
    unlisted = _unlisted_pods(old, event)
    event = replace(event, pods=(*event.pods, *unlisted)) if unlisted else event
    pods = {pod.sandbox_id: pod for pod in event.pods}
    running = classify(context, old, pods, event)
    rebuild = partial(_rebuild, context, old, event, pods, running, is_restored=old is not state)
    if not running.unpinned and all(nodes.action is Action.NONE for *_, nodes in running.pinned):
        decision = Decision(NO_PLAN, lambda: rebuild().compute_transition())
    else:
        decision = rebuild()
    warnings = [PodNotListed(names=pod_names(pod)) for pod in unlisted]
    return decision.with_records(*warnings) if warnings else decision


def _unlisted_pods(old: EngineState, event: Synchronize) -> list[PodSandbox]:
    """Return the known pods of running containers that are not in the list of pods."""
    listed = {pod.sandbox_id for pod in event.pods}
    running = {each.sandbox_id for each in event.containers if not each.ended}
    return [old.pods[each] for each in sorted(running - listed) if each in old.pods]


def _rebuild(
    context: Context,
    old: EngineState,
    event: Synchronize,
    pods: dict[str, PodSandbox],
    running: Running,
    *,
    is_restored: bool,
) -> Decision:
    """Rebuild the accounting; `old` is the state before, restored or of this process."""
    pinned, unpinned = running.pinned, running.unpinned
    known, old = old, _without_unnamed(old, event)
    gone = [holder for holder in old.holders.values() if holder.sandbox_id not in pods]
    new = EngineState(
        context.empty_accounting(), pods, previous_nodes=old.previous_nodes_with(gone)
    )
    for feature in context.features:
        new = feature.began(new, known, event)
    found = Found()
    new = _adopt_all(context, known, old, new, pinned, found)
    if is_restored:
        old, more = _drop_stale_reservations(old, new)
        found.records.extend(more)
    new = _keep_reservations(old, new)
    new, more = pod_scope.synchronize(context, old, new, event.pods)
    found.records.extend(more)
    repeated_count = len(found.updates)
    new = place_all(context, shortfalls.charged(new), unpinned, found)
    new = pod_limit.release_all_excess(new, event.pods)
    new = cpuset_check.synchronize(old, new, event.containers, found.updates[repeated_count:])
    new, more = alignment.synchronize(context, old, new, event.containers)
    made = Synchronized(
        pod_count=len(event.pods),
        container_count=len(event.containers),
        adopted_count=len(pinned),
        updated_count=len(found.updates),
        not_managed=running.not_managed,
        free_bytes=free_bytes(new.accounting, (MEMORY,), new.accounting.machine_state),
    )
    # A runtime rejects a reply that names a container twice.
    by_container = {update.container_id: update for update in found.updates}
    return Decision.computed(
        Plan(updates=tuple(by_container.values())),
        new,
        *found.records,
        *more,
        made,
        reasons=Reasons(found.pinned, found.unpinned),
    )


def known_state(state: EngineState) -> EngineState:
    """Return the state of this process if it has containers, else the restored state."""
    if state.restored is None or state.holders:
        return state
    return replace(state.restored, previous_nodes=state.previous_nodes)


def _without_unnamed(old: EngineState, event: Synchronize) -> EngineState:
    """Return the state without containers that were found unnamed, and now have their names."""
    for container in event.containers:
        holder = None if container.ended else old.holder(container.container_id)
        if holder is not None and holder.key[1] == holder.container_id:
            old = old.without_holder(holder, old.accounting)
    return old


def _adopt_all(
    context: Context,
    known: EngineState,
    old: EngineState,
    state: EngineState,
    pinned: list[Pinned],
    found: Found,
) -> EngineState:
    """Record running containers on their nodes; add updates for those in wrong places.

    `known` is `old` with the containers that had no names.
    """
    bulk = BulkUpdate(state)
    requests = RunningRequests(known, old)
    repairs, unpinned, is_repaired = dict[str, NodeSet](), set[str](), False
    for pod, container, reported in pinned:
        container_id, nodes = container.container_id, reported.nodes
        duplicate = _separate_duplicate(bulk, pod, container)
        if duplicate is not None:
            requests.forget()
        request = requests.request(bulk.present(), pod, container)
        if request is not None:
            found.records.append(_adopt(context, bulk, pod, container, request, nodes))
            holder = bulk.present().holders[pod.uid, container.name]
            found.pinned[container_id] = reason_of(Adopted, state, holder)
            requests.recorded(holder, bulk.present().blocks(holder.key) or ())
        found.records.extend(() if duplicate is None else (duplicate,))
        action, machine = reported.action, context.machine
        if action is Action.NONE or request is None or not nodes.issubset(machine.node_set):
            continue
        if action is Action.REPAIR and is_repaired:
            repairs[container_id] = container.cgroup_mems or NodeSet()
        elif action is Action.SHOW_UNPINNED:
            unpinned.add(container_id)
            found.unpinned[container_id] = reason_of(CpusetMemsMissing, state, holder)
        elif action is Action.SHOW_CONFLICT:
            found.pinned[container_id] = reason_of(CpusetMemsConflict, state, holder)
        else:
            found.updates.append(Update(container_id, str(nodes)))
            found.pinned[container_id] = reason_of(CpusetMemsReapplied, state, holder)
            is_repaired |= action is Action.REPAIR
        is_sent = container_id not in repairs
        after = bulk.present()
        found.records.append(
            cpuset_records.reported(after, pod, container, reported, is_sent=is_sent)
        )
    cpusets = Cpusets(repairs=repairs, unpinned=frozenset(unpinned))
    return bulk.finish().with_cpusets(cpusets)


def _separate_duplicate(bulk: BulkUpdate, pod: PodSandbox, container: Container) -> Record | None:
    """Separate a container from a running duplicate (``duplicates``); most have none."""
    if duplicates.running_duplicate(bulk.present(), pod, container) is None:
        return None
    before = bulk.pod_view(pod.uid)
    after, record = duplicates.separate(before, pod, container)
    bulk.replace_pod(pod.uid, before, after)
    return record


def _adopt(
    context: Context,
    bulk: BulkUpdate,
    pod: PodSandbox,
    container: Container,
    request: Request,
    nodes: NodeSet,
) -> Record:
    """Record a container on the nodes on which it runs."""
    holder = alignment.holder_of(pod, container, request)
    is_even = context.charges_evenly(pod, container.name, nodes)
    shortfall = bulk.adopt(holder, nodes, request.resources, is_even=is_even)
    after, excluded = bulk.present(), context.classification.excluded
    return records.adopted(after, pod, container, request, nodes, shortfall, excluded)


def _drop_stale_reservations(
    restored: EngineState, new: EngineState
) -> tuple[EngineState, list[Record]]:
    """Return the restored state without reservations that groups of running containers forbid.

    Machine and settings may have changed since the state was written. A reservation backs no
    running container, so it may be dropped; amounts are capped to what is free, as in every
    adoption.
    """
    found: list[Record] = []
    bulk = BulkUpdate(new)
    for key, holder in sorted(restored.holders.items()):
        blocks = restored.blocks(key)
        if holder.sandbox_id not in new.pods or key in new.holders or not blocks:
            continue
        if key[1] is HolderKind.POD and key[0] in new.accounting.assignments:
            continue  # made again on the nodes of the pod's containers
        nodes = blocks[0].numa_affinity
        before = bulk.pod_view(key[0])
        if not crosses_groups(before.accounting, nodes):
            accounting = adopt_again(before.accounting, *key, blocks)
            bulk.replace_pod(key[0], before, before.with_accounting(accounting))
        else:
            found.append(
                StaleReservationDropped(
                    pod_uid=key[0],
                    container=holder.container_name,
                    request_bytes={block.type: block.size for block in blocks},
                    nodes=nodes,
                    cause=_STALE,
                )
            )
            restored = restored.without_holder(holder, restored.accounting)
    return restored, found


def _keep_reservations(old: EngineState, new: EngineState) -> EngineState:
    """Return the state in which pods that still exist keep the memory of their ended containers."""
    bulk = BulkUpdate(new)
    for key, holder in sorted(old.holders.items()):
        blocks = old.blocks(key)
        if holder.sandbox_id not in new.pods or key in new.holders or not blocks:
            continue
        if key[1] is HolderKind.POD:
            continue  # made again when all containers are recorded
        before = bulk.pod_view(key[0])
        accounting = adopt_again(before.accounting, *key, blocks)
        after = before.with_holder(replace(holder, ended=True), mark_reusable(accounting, *key))
        bulk.replace_pod(key[0], before, after)
    return bulk.finish()
