"""Looks at the cgroups of known containers: compare them with the accounting.

``verdict`` has the rules.
"""

from collections.abc import Iterable
from dataclasses import replace

from nri_numamem.engine.admission import alignment
from nri_numamem.engine.core import reasons
from nri_numamem.engine.core.context import Context
from nri_numamem.engine.core.decision import Transition
from nri_numamem.engine.core.events import Container, CpusetRead, CpusetsRead, PodSandbox
from nri_numamem.engine.core.plan import Update
from nri_numamem.engine.core.reason import NO_REASONS
from nri_numamem.engine.core.state import Cpusets, EngineState, Holder
from nri_numamem.engine.cpusets import records
from nri_numamem.engine.cpusets.verdict import Verdict, judge, repair_obstacle
from nri_numamem.engine.pods import scope as pod_scope
from nri_numamem.engine.records.record import Record
from nri_numamem.engine.records.running import CpusetMemsConflict, CpusetMemsMissing
from nri_numamem.memorymanager import Block, adopt
from nri_numamem.numa import NodeSet


def synchronize(
    old: EngineState, new: EngineState, containers: Iterable[Container], placed: Iterable[Update]
) -> EngineState:
    """Return the state with the containers that have devices, or nodes that no cgroup showed yet.

    `placed` are the updates of containers that had no nodes before the Synchronize.
    """
    known = [container for container in containers if container.container_id in new.keys]
    sent = {update.container_id for update in placed}
    unseen = {c.container_id for c in known if c.cgroup_mems is None}
    cpusets = replace(
        new.cpusets,
        unconfirmed=frozenset(sent | (unseen & old.cpusets.unconfirmed & old.keys.keys())),
        with_devices=frozenset(c.container_id for c in known if c.has_devices),
    )
    return new.with_cpusets(cpusets)


def leave_unpinned(
    state: EngineState, pod: PodSandbox, container: Container
) -> tuple[EngineState, Record] | None:
    """Return the state in which a container that `state` has just placed gets no nodes now.

    The container runs, and never had nodes. To set them would move its memory, as a repair does, so
    the same limit applies. None if nothing forbids it. A container without a cgroup has no memory.
    """
    key = (pod.uid, container.name)
    blocks = state.blocks(key)
    if container.cgroup_mems is None or not blocks:
        return None
    nodes, use = blocks[0].numa_affinity, container.cgroup_use
    obstacle = repair_obstacle(nodes, use, blocks, has_devices=container.has_devices)
    verdict = judge(nodes, NodeSet(), use, is_unconfirmed=False, obstacle=obstacle)
    if verdict is not Verdict.UNPINNED:
        return None
    cpusets = state.cpusets
    unpinned = replace(cpusets, unpinned=cpusets.unpinned | {container.container_id})
    record = records.missing(state, state.holders[key], nodes, obstacle)
    return state.with_cpusets(unpinned), record


def cpusets_read(context: Context, state: EngineState, event: CpusetsRead) -> Transition:
    """Compare cgroups with the accounting; return the state with repairs and adopted nodes."""
    found, new = list[Record](), NO_REASONS
    for read in event.found:
        holder = state.holder(read.container_id)
        blocks = None if holder is None else state.blocks(holder.key)
        if holder is None or holder.ended or not blocks or read.container_id in state.pending:
            continue
        done = _compare(context, state, holder, blocks, read)
        state, new = done.state, new | done.reasons
        found += done.records
    return Transition(state, tuple(found), reasons=new)


def _compare(
    context: Context,
    state: EngineState,
    holder: Holder,
    blocks: tuple[Block, ...],
    read: CpusetRead,
) -> Transition:
    container_id, cpusets = holder.container_id, state.cpusets
    nodes = blocks[0].numa_affinity
    has_devices = container_id in cpusets.with_devices
    obstacle = repair_obstacle(nodes, read.use, blocks, has_devices=has_devices)
    is_unconfirmed = container_id in cpusets.unconfirmed
    is_waiting = cpusets.repairs.get(container_id) == read.mems
    verdict = judge(
        nodes, read.mems, read.use, is_unconfirmed=is_unconfirmed or is_waiting, obstacle=obstacle
    )
    after = cpusets.without(container_id)
    if verdict is Verdict.IN_PLACE:
        return Transition(state.with_cpusets(after))
    if verdict is Verdict.CONFLICT:
        return _adopt(context, state.with_cpusets(after), holder, blocks, read)
    missing = records.missing(state, holder, nodes, obstacle)
    shown = (records.with_pages(missing, nodes, read.pages),)
    if verdict is Verdict.UNPINNED:
        after = replace(after, unpinned=after.unpinned | {container_id})
        if container_id in cpusets.unpinned:
            return Transition(state.with_cpusets(after))
        unpinned = reasons.unpinned(CpusetMemsMissing, state, holder)
        return Transition(state.with_cpusets(after), shown, reasons=unpinned)
    after = with_repair(after, container_id, read.mems)
    return Transition(state.with_cpusets(after), () if is_waiting or read.mems else shown)


def with_repair(cpusets: Cpusets, container_id: str, seen: NodeSet) -> Cpusets:
    """Return the value in which a later reply sends the container's nodes again."""
    return replace(cpusets, repairs={**cpusets.repairs, container_id: seen})


def _adopt(
    context: Context,
    state: EngineState,
    holder: Holder,
    blocks: tuple[Block, ...],
    read: CpusetRead,
) -> Transition:
    """Record a container on the nodes that something else set."""
    resources = {block.type: block.size for block in blocks}
    adopted = adopt(state.accounting, *holder.key, read.mems, resources)
    after = state.with_holder(alignment.with_nodes(holder, read.mems), adopted.state)
    pod = after.pods.get(holder.sandbox_id)
    if pod is not None:
        after = pod_scope.take_from_pool(context, after, pod)
    nodes = blocks[0].numa_affinity
    conflict = records.conflict(after, holder, nodes, read.mems, adopted.shortfall)
    record = records.with_pages(conflict, nodes, read.pages)
    return Transition(after, (record,), reasons=reasons.pinned(CpusetMemsConflict, after, holder))


def unpinned_containers(state: EngineState) -> frozenset[str]:
    """Return the ids of live containers whose cgroup had no `cpuset.mems` at the last look."""
    waiting = (one for one, seen in state.cpusets.repairs.items() if not seen)
    found = ((one, state.holder(one)) for one in state.cpusets.unpinned.union(waiting))
    return frozenset(one for one, holder in found if holder is not None and not holder.ended)


def nodes_of_container(state: EngineState, container_id: str) -> NodeSet:
    """Return the nodes of a live container; empty if it has none."""
    holder = state.holder(container_id)
    blocks = None if holder is None or holder.ended else state.blocks(holder.key)
    return blocks[0].numa_affinity if blocks else NodeSet()
