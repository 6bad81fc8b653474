"""The machine changed while pods run: memory was added or removed, or a hugepage pool was resized.

The accounting is rebuilt for the new machine from its assignments, as a Synchronize of the same
containers would do: running containers keep their nodes, and pods keep the memory of ended
containers and of their pools. Assignments that exceed their nodes are recorded once, and so is the
end of such an overcommitment. A machine on which the reservations of the policy are impossible is
rejected: the accounting of the old machine stays.

Memory sizes always drift a little where a balloon driver is active. Such a drift is recorded at
level debug until it adds up to more than one percent. How a change is noticed is unknown here.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from nri_numamem.engine.core import claims, shortfalls
from nri_numamem.engine.core.context import Context
from nri_numamem.engine.core.decision import Transition
from nri_numamem.engine.core.events import HostCpus, MachineChanged
from nri_numamem.engine.core.fields import holder_names, pod_names
from nri_numamem.engine.core.plan import RecordValue
from nri_numamem.engine.core.state import EngineState, Holder
from nri_numamem.engine.pods import limit as pod_limit
from nri_numamem.engine.pods import scope as pod_scope
from nri_numamem.engine.records import machine as records
from nri_numamem.engine.records.machine import MachineChangeRejected
from nri_numamem.engine.records.record import Record
from nri_numamem.engine.records.running import (
    Assigned,
    OnExcludedNodes,
    OvercommitResolved,
    Overcommitted,
)
from nri_numamem.memorymanager import Block, ReservedMemoryError, adopt_again, mark_reusable
from nri_numamem.memorymanager.holder import HolderKind
from nri_numamem.numa import (
    MEMORY,
    Machine,
    MemoryNodesError,
    NodeSet,
    NumaNode,
    hugepages_resource,
)

# Of a node's memory. A reboot changes less, and the small steps of a balloon driver add up.
_DRIFT_PERCENT = 1


def rebaseline(context: Context, state: EngineState, event: MachineChanged) -> Transition:
    """Return context and state for the new machine; the old ones if it cannot be used."""
    machine = event.machine
    if machine == context.machine:
        return Transition(state)
    try:
        changed = Context.of(machine, context.policy, context.all_features)
        changed = replace(changed, host_cpus=context.host_cpus)
    except (MemoryNodesError, ReservedMemoryError) as error:
        return Transition(state, (_rejected(error),))
    is_drift = _is_drift(context.announced, machine)
    if is_drift:
        changed = replace(changed, announced=context.announced)
    new = rebuilt(changed, state)
    record = _changed(context, changed, new, is_drift=is_drift)
    known = tuple(context.node_warnings())
    warnings = (found for found in changed.node_warnings() if found not in known)
    moved = _excluded_containers(context, changed, new)
    overcommitments = _overcommitments(context, state, changed, new)
    return Transition(new, (record, *warnings, *moved, *overcommitments), changed)


def host_cpus_read(context: Context, state: EngineState, event: HostCpus) -> Transition:
    """Return the context with these CPUs; the accounting does not depend on them."""
    if event == context.host_cpus:
        return Transition(state)
    return Transition(state, context=replace(context, host_cpus=event))


def rebuilt(context: Context, state: EngineState) -> EngineState:
    """Return the state with all assignments in the accounting of another machine or policy.

    The order is that of a Synchronize.
    """
    holders = {key: h for key, h in state.holders.items() if isinstance(key[1], str)}
    running = [h for h in holders.values() if not h.ended]
    ended = [h for h in holders.values() if h.ended]
    accounting = claims.charged(context.empty_accounting(), state.claims.values())
    for holder in sorted(running, key=lambda h: (h.sandbox_id, h.container_id)):
        accounting = adopt_again(accounting, *holder.key, _blocks(state, holder))
    for holder in sorted(ended, key=lambda h: h.key):
        accounting = adopt_again(accounting, *holder.key, _blocks(state, holder))
        accounting = mark_reusable(accounting, *holder.key)
    keys = {container_id: key for container_id, key in state.keys.items() if key in holders}
    new = replace(state, accounting=accounting, holders=holders, keys=keys)
    new = pod_scope.synchronize(context, state, new, state.pods.values())[0]
    return pod_limit.release_all_excess(shortfalls.charged(new), state.pods.values())


def _blocks(state: EngineState, holder: Holder) -> tuple[Block, ...]:
    uid, name = holder.key
    return state.accounting.assignments[uid][name]


def _rejected(error: ValueError) -> Record:
    return MachineChangeRejected(
        cause=str(error),
        remedy="adapt the settings to the machine and restart the plugin; "
        "until then the accounting is that of the machine before",
    )


def _is_drift(before: Machine, now: Machine) -> bool:
    """Return whether the machines differ only by a little memory."""
    if before.node_set != now.node_set:
        return False
    return all(
        replace(new, memory_bytes=old.memory_bytes) == old
        and abs(new.memory_bytes - old.memory_bytes) * 100 <= old.memory_bytes * _DRIFT_PERCENT
        for old, new in zip(before.nodes, now.nodes, strict=True)
    )


def _changed(before: Context, now: Context, state: EngineState, *, is_drift: bool) -> Record:
    """Return the record of the change; it has only nodes that changed."""
    old = {node.node_id: _figures(before, node) for node in before.announced.nodes}
    nodes: dict[str, RecordValue] = {}
    for node in now.machine.nodes:
        known, figures = old.get(node.node_id, {}), _figures(now, node)
        if figures != known:
            changes = nodes[str(node.node_id)] = _differences(known, figures)
            used = state.accounting.machine_state.get(node.node_id)
            if used is not None:
                free = {name: table.free for name, table in used.memory_map.items()}
                changes["free_bytes"] = free
    gone = before.announced.node_set - now.machine.node_set
    return records.MachineChanged(nodes=nodes, removed_nodes=gone, alternate=is_drift)


def _differences(
    old: Mapping[str, RecordValue], new: Mapping[str, RecordValue]
) -> dict[str, RecordValue]:
    found: dict[str, RecordValue] = {}
    for name, figure in new.items():
        if old.get(name) != figure:
            found[name] = figure
            if name in old:
                found[f"previous_{name}"] = old[name]
    found.update((f"previous_{name}", old[name]) for name in old if name not in new)
    return found


def _figures(context: Context, node: NumaNode) -> dict[str, RecordValue]:
    pools = {hugepages_resource(size): size * count for size, count in node.hugepages.items()}
    distances = " ".join(f"{other}:{distance}" for other, distance in node.distances.items())
    return {
        MEMORY: node.memory_bytes,
        **pools,
        "cpus": len(node.cpus),
        "distances": distances,
        **context.class_fields(node),
    }


def _excluded_containers(before: Context, now: Context, state: EngineState) -> Iterator[Record]:
    """Yield the records of assignments on nodes that become excluded; nothing moves."""
    excluded = now.classification.excluded - before.classification.excluded
    for key, holder in sorted(state.holders.items()):
        blocks = state.accounting.assignments[key[0]][key[1]]
        if blocks and not excluded.isdisjoint(blocks[0].numa_affinity):
            yield OnExcludedNodes(
                assigned=_assigned(state, holder, blocks),
                excluded_nodes=blocks[0].numa_affinity & excluded,
            )


def _overcommitments(
    context_before: Context, before: EngineState, context: Context, now: EngineState
) -> Iterator[Record]:
    """Yield the records of assignments that begin or cease to exceed their nodes."""
    for key, holder in sorted(now.holders.items()):
        blocks = _counted(context, now.accounting.assignments[key[0]][key[1]])
        blocks_before = _counted(context_before, before.blocks(key) or ())
        shortfall = _shortfall(blocks)
        if shortfall == _shortfall(blocks_before):
            continue
        # On a full node each drift makes a small difference, which is not worth a line in the log.
        old, new = (_shortfall(b, _DRIFT_PERCENT).keys() for b in (blocks_before, blocks))
        is_small = not (new - old or (old and not new))
        kind = Overcommitted if new - old or (is_small and shortfall) else OvercommitResolved
        assigned = _assigned(now, holder, blocks)
        yield kind(assigned=assigned, shortfall_bytes=shortfall, alternate=is_small)


def _counted(context: Context, blocks: tuple[Block, ...]) -> tuple[Block, ...]:
    """Return the blocks without excluded nodes; an excluded node may hold any number of bytes."""
    return blocks if blocks and context.uses(blocks[0].numa_affinity) else ()


def _shortfall(blocks: tuple[Block, ...], least_percent: int = 0) -> dict[str, int]:
    """Return resource name -> bytes without room on the nodes, above a percentage of the block."""
    missing = ((block, block.size - block.charged) for block in blocks)
    return {b.type: left for b, left in missing if left * 100 > b.size * least_percent}


def _assigned(state: EngineState, holder: Holder, blocks: tuple[Block, ...]) -> Assigned:
    """Return the assignment of a container, or that of a pod as a whole."""
    nodes, pod = blocks[0].numa_affinity, state.pods[holder.sandbox_id]
    is_pool = holder.key[1] is HolderKind.POD
    return Assigned(
        names=pod_names(pod) if is_pool else holder_names(state, holder),
        ended=None if is_pool else holder.ended,
        request_bytes={block.type: block.size for block in blocks},
        nodes=nodes,
        removed_nodes=nodes - NodeSet(state.accounting.machine_state),
    )
