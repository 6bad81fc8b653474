"""CPUs follow memory: a pinned container gets the CPUs of its NUMA nodes in `cpuset.cpus`.

The CPUs are shared by all containers on the same nodes; no container gets CPUs for itself. A
container whose `cpuset.cpus` something else set is never touched. Only new pins get CPUs: a
container that runs without keeps running on all CPUs. The CPUs of a container change with its
nodes, and when CPUs of its nodes come or go.

An NRI reply can set `cpuset.cpus`, but not clear it. So with ``prefer`` the decision of the
creation stays, whatever other containers come and go.

At a Synchronize the runtime shows the CPUs but not who set them. They are from this plugin if they
are exactly those of the container's nodes, or those that the state has for the container.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace

from nri_numamem.engine.core import events
from nri_numamem.engine.core.context import Context
from nri_numamem.engine.core.cpu_requests import MILLICORES, cpu_requests, requested_millicores
from nri_numamem.engine.core.decision import Decision, Transition
from nri_numamem.engine.core.plan import Update
from nri_numamem.engine.core.state import NO_CPUS, EngineState, Holder
from nri_numamem.engine.features.cpu_following import records
from nri_numamem.engine.features.cpu_following.shared_cpus import (
    cpus_beside,
    has_cpus_of_nodes,
    has_static_manager,
)
from nri_numamem.engine.records.record import Record
from nri_numamem.memorymanager.holder import HolderKey
from nri_numamem.numa import CpuFollowing, CpuSet, NodeSet

_CARRIERS = (events.CreateContainer, events.UpdateContainer, events.StopContainer)

# As of ``cpusets.pending``: the runtime applies updates within the call.
_UPDATES_PER_REPLY = 8


def add_cpus(
    context: Context, state: EngineState, event: events.Event, decision: Decision
) -> Decision:
    """Return the decision with CPUs in its plan, for containers that follow their memory.

    `state` is the state before the event.
    """
    if isinstance(event, events.Synchronize):
        return _synchronize(context, state, event, decision)
    if isinstance(event, events.MachineChanged | events.HostCpus):
        return _with_state(decision, lambda done: _changed(done.context or context, done))
    plan = decision.plan
    if plan.refusal is not None:
        return decision
    if isinstance(event, events.CreateContainer):
        decision = _create(context, state, event, decision)
    is_carrier = isinstance(event, _CARRIERS)
    if plan.updates or (is_carrier and state.cpusets.other_cpus):
        decision = _update(context, state, decision, is_carrier=is_carrier)
    return decision


def choose_cpus(
    context: Context,
    state: EngineState,
    key: HolderKey,
    container: events.Container,
    nodes: NodeSet,
    requests: Mapping[int, int] | None = None,
) -> tuple[CpuSet, str]:
    """Return the CPUs for a container on `nodes`, and why it gets none, or fewer than its limit.

    `state` need not have the container. `requests` is ``cpu_requests`` of it, if it is known.
    """
    if container.cpuset_cpus:
        return NO_CPUS, "it has a cpuset.cpus already"
    cpus = cpus_beside(context, nodes)
    if not cpus:
        return NO_CPUS, "all CPUs of the machine are reserved or isolated"
    size = len(cpus) * MILLICORES
    obstacle = ""
    if requests is None:
        requests = cpu_requests(state, context.machine)
    others = _requested_by_others(context, state, key, nodes, cpus, requests)
    requested = others + requested_millicores(container)
    if requested > size:
        obstacle = f"{_cpus(requested)} are requested on its NUMA nodes, which have {len(cpus)}"
    elif (container.cpu_limit_millicores or 0) > size:
        limit = _cpus(container.cpu_limit_millicores or 0)
        obstacle = f"its CPU limit is {limit}, and its NUMA nodes have {len(cpus)}"
    if obstacle and context.policy.cpu_following is CpuFollowing.PREFER:
        return NO_CPUS, obstacle
    return cpus, obstacle


def _requested_by_others(
    context: Context,
    state: EngineState,
    key: HolderKey,
    nodes: NodeSet,
    cpus: CpuSet,
    requests: Mapping[int, int],
) -> int:
    """Return the CPU requests in millicores on some nodes, and on those of `cpus`.

    The CPUs beside memory without CPUs are those of other nodes.
    """
    near = (
        n.node_id
        for n in context.machine.nodes
        if n.node_id in nodes or not cpus.isdisjoint(n.cpus)
    )
    sum_of_all = sum(requests[node_id] for node_id in near)
    holder, blocks = state.holders.get(key), state.blocks(key)
    if holder is None or holder.ended or not blocks:
        return sum_of_all
    own = holder.cpu_millicores if blocks[0].numa_affinity.issubset(nodes) else 0
    return sum_of_all - own


def _cpus(millicores: int) -> str:
    return f"{millicores / MILLICORES:g} CPUs"


def _create(
    context: Context, state: EngineState, event: events.CreateContainer, decision: Decision
) -> Decision:
    adjustment, container = decision.plan.adjustment, event.container
    if adjustment is None or not adjustment.cpuset_mems:
        return decision
    key, nodes = (event.pod.uid, container.name), NodeSet.parse(adjustment.cpuset_mems)
    cpus, cause = choose_cpus(context, state, key, container, nodes)
    record = records.chosen(event.pod, container, nodes, cpus, cause)
    if not cpus:
        return decision.with_records(record)
    adjustment = replace(adjustment, cpuset_cpus=str(cpus))
    decision = replace(decision, plan=replace(decision.plan, adjustment=adjustment))
    given = {container.container_id: cpus}
    return _with_state(decision, lambda done: _with_cpus(done, given)).with_records(record)


def _update(
    context: Context, before: EngineState, decision: Decision, *, is_carrier: bool
) -> Decision:
    """Add the CPUs of the new nodes to updates of containers, and updates of CPUs that changed.

    A container that is not managed any more has no holder after the update.
    """
    done, plan = decision.compute_transition(), decision.plan
    state = done.state
    updates = dict[str, Update]()
    changed = dict[str, CpuSet]()
    found = list[Record]()
    for update in plan.updates:
        holder = state.holder(update.container_id) or before.holder(update.container_id)
        updates[update.container_id] = update
        cpus = NO_CPUS
        if holder is not None and holder.cpus:
            cpus = cpus_beside(context, NodeSet.parse(update.cpuset_mems))
        if holder is not None and cpus:
            changed[update.container_id] = cpus
            updates[update.container_id] = replace(update, cpuset_cpus=str(cpus))
            if cpus != holder.cpus:
                found.append(records.changed(state, holder, cpus))
    waiting = [one for one in sorted(state.cpusets.other_cpus) if one not in updates]
    sent = waiting[:_UPDATES_PER_REPLY] if is_carrier else []
    for container_id in sent:
        holder = state.holder(container_id)
        cpus = NO_CPUS if holder is None or holder.ended else _wanted(context, state, holder)
        if holder is not None and cpus not in (NO_CPUS, holder.cpus):
            changed[container_id] = cpus
            updates[container_id] = Update(container_id, "", str(cpus))
            found.append(records.changed(state, holder, cpus))
    cpusets = replace(
        state.cpusets, other_cpus=frozenset(one for one in waiting if one not in sent)
    )
    done = _with_cpus(replace(done, state=state.with_cpusets(cpusets)), changed)
    done = replace(done, records=(*done.records, *found))
    plan = replace(plan, updates=tuple(updates.values()))
    return replace(decision, plan=plan, compute_transition=lambda: done)


def _synchronize(
    context: Context, old: EngineState, event: events.Synchronize, decision: Decision
) -> Decision:
    """Record the CPUs of running containers; give CPUs to containers that are pinned now."""
    if not decision.plan.updates:
        return _with_state(decision, lambda done: _known(context, old, event, done))
    done = _known(context, old, event, decision.compute_transition())
    found, updates, given = list[Record](), list[Update](), dict[str, CpuSet]()
    containers = {container.container_id: container for container in event.containers}
    requests = cpu_requests(done.state, context.machine)
    for update in decision.plan.updates:
        holder, container = done.state.holder(update.container_id), containers[update.container_id]
        nodes = NodeSet.parse(update.cpuset_mems)
        cpus = NO_CPUS
        if holder is not None and holder.cpus:
            cpus = cpus_beside(context, nodes)
        elif holder is not None and not container.cpuset_mems:
            cpus, cause = choose_cpus(context, done.state, holder.key, container, nodes, requests)
            pod = done.state.pods[holder.sandbox_id]
            found.append(records.chosen(pod, container, nodes, cpus, cause))
        if cpus:
            given[update.container_id] = cpus
        updates.append(replace(update, cpuset_cpus=str(cpus)))
    done = _changed(context, _with_cpus(done, given))
    done = replace(done, records=(*done.records, *found))
    return replace(
        decision,
        plan=replace(decision.plan, updates=tuple(updates)),
        compute_transition=lambda: done,
    )


def _known(
    context: Context, old: EngineState, event: events.Synchronize, done: Transition
) -> Transition:
    """Return the transition in which holders have the CPUs that this plugin set."""
    restored = old.restored
    found = dict[str, CpuSet]()
    for container in event.containers:
        holder = done.state.holder(container.container_id)
        if holder is None or holder.ended:
            continue
        before = old.holder(container.container_id) or (
            None if restored is None else restored.holder(container.container_id)
        )
        cpus = NO_CPUS if before is None else before.cpus
        shown = _parse(container.cpuset_cpus)
        is_hidden = not shown and not event.keeps_updates
        if cpus and (shown == cpus or is_hidden):
            found[container.container_id] = cpus
        elif shown and has_cpus_of_nodes(context, container):
            found[container.container_id] = shown
    return _changed(context, _with_cpus(done, found))


def _parse(text: str) -> CpuSet:
    try:
        return CpuSet.parse(text)
    except ValueError:
        return NO_CPUS


def _changed(context: Context, done: Transition) -> Transition:
    """Return the transition after which containers with other CPUs than their nodes wait."""
    if has_static_manager(context.policy, context.host_cpus):
        return done
    state = done.state
    other = frozenset(
        holder.container_id
        for holder in state.holders.values()
        if holder.cpus and not holder.ended and holder.cpus != _wanted(context, state, holder)
    )
    if other == state.cpusets.other_cpus:
        return done
    return replace(done, state=state.with_cpusets(replace(state.cpusets, other_cpus=other)))


def _wanted(context: Context, state: EngineState, holder: Holder) -> CpuSet:
    blocks = state.blocks(holder.key)
    return cpus_beside(context, blocks[0].numa_affinity) if blocks else holder.cpus


def _with_state(decision: Decision, follow: Callable[[Transition], Transition]) -> Decision:
    """Return the decision whose transition is followed by `follow`."""
    return replace(decision, compute_transition=lambda: follow(decision.compute_transition()))


def _with_cpus(done: Transition, cpus: dict[str, CpuSet]) -> Transition:
    """Return the transition after which holders have these CPUs, by container id."""
    changed = dict[HolderKey, Holder]()
    for container_id, found in cpus.items():
        holder = done.state.holder(container_id)
        if holder is not None and holder.cpus != found:
            changed[holder.key] = replace(holder, cpus=found)
    if not changed:
        return done
    state = done.state
    holders = {**state.holders, **changed}
    return replace(done, state=state.with_all(state.accounting, holders, state.keys))
