"""Make the report of the facts: what is where, what fits, and what differs.

Differences are those between the plugin's accounting, the containers' cgroups and the kernel.
"""

from collections.abc import Iterator, Mapping, Sequence

from nri_numamem.cli.live.facts import Cgroup, Facts, pod_names
from nri_numamem.cli.live.outside import outside_uses
from nri_numamem.cli.render.texts import format_time
from nri_numamem.cli.status.capacity import all_nodes, condition_of, largest, partitions_of
from nri_numamem.cli.status.report import (
    Condition,
    ContainerRow,
    Difference,
    Kind,
    Report,
    is_notable,
)
from nri_numamem.engine.admission.alignment import misaligned_containers
from nri_numamem.engine.core.allowed_nodes import without_earmarks
from nri_numamem.engine.core.providers import format_nodes
from nri_numamem.engine.core.reason import Reason
from nri_numamem.engine.core.state import EngineState
from nri_numamem.engine.features.residency.head_room import head_rooms
from nri_numamem.engine.records import containers
from nri_numamem.memorymanager import mask_unavailable_hugepages, nodes_of
from nri_numamem.memorymanager.holder import container_name
from nri_numamem.memorymanager.hugepage_pools import MaskedState
from nri_numamem.numa import MEMORY, humanize_bytes

_REASONS: Mapping[str, str] = {
    containers.UnpinnedNoCapacity.event: "nothing fitted when it was created (RunUnpinned)",
    containers.RunningUnpinnedNoCapacity.event: "it began while the plugin was away, and nothing "
    "fits",
    containers.UnreportedContainerFound.event: "the runtime does not report it, so it cannot be "
    "pinned",
}


def judge(facts: Facts) -> Report:
    """Return the report."""
    state = facts.state
    if facts.context is None:
        rows = () if state is None else _rows(facts, state)
        return Report(facts, containers=rows)
    if state is None:
        state = EngineState(facts.context.empty_accounting())
    found = MaskedState(state.accounting)
    if facts.pool_use is not None:
        found = mask_unavailable_hugepages(state.accounting, facts.pool_use)
    outside, masked = dict(found.amounts), without_earmarks(state, found).state
    nodes, rows = tuple(all_nodes(facts.context, state, outside)), _rows(facts, state)
    return Report(
        facts,
        nodes,
        *largest(facts.context, masked),
        rows,
        tuple(_differences(facts, state, rows)),
        tuple(partitions_of(facts.context, masked, nodes)),
    )


def _rows(facts: Facts, state: EngineState) -> tuple[ContainerRow, ...]:
    """Return the containers by pod and name."""
    found = (*_assigned(facts, state), *_unpinned(facts, state))
    return tuple(sorted(found, key=lambda row: (row.title, row.name, row.container_id)))


def _assigned(facts: Facts, state: EngineState) -> Iterator[ContainerRow]:
    """Yield the containers of the accounting."""
    cgroups = facts.cgroups or {}
    names = pod_names(state)
    for key, holder in state.holders.items():
        blocks = state.blocks(key) or ()
        condition = condition_of(holder)
        if condition is Condition.RESERVED and not any(block.size for block in blocks):
            continue  # its containers use all of it
        reason = state.reasons.pinned.get(holder.container_id)
        yield ContainerRow(
            key[0],
            *names.get(key[0], ("", "")),
            name=holder.container_name,
            container_id=holder.container_id,
            condition=condition,
            nodes=nodes_of(blocks),
            amounts={block.type: block.size for block in blocks},
            cgroup=cgroups.get(holder.container_id) if condition is Condition.RUNNING else None,
            since_s=0 if reason is None else reason.since_s,
        )


def _unpinned(facts: Facts, state: EngineState) -> Iterator[ContainerRow]:
    """Yield the running containers of Guaranteed pods without an assignment."""
    names = pod_names(state)
    for container_id, cgroup in (facts.cgroups or {}).items():
        if container_id in state.keys:
            continue
        reason = state.reasons.unpinned.get(container_id)
        yield ContainerRow(
            cgroup.pod_uid,
            *names.get(cgroup.pod_uid, ("", "")),
            name="" if reason is None else container_name(reason.key[1]),
            container_id=container_id,
            condition=Condition.UNPINNED,
            nodes=cgroup.mems,
            amounts={MEMORY: cgroup.memory_limit_bytes},
            cgroup=cgroup,
            since_s=0 if reason is None else reason.since_s,
            reason=_text_of(facts, reason),
        )


def _text_of(facts: Facts, reason: Reason | None) -> str:
    """Return why a container has no assignment."""
    if facts.state is None:
        return "the plugin has no state"
    if reason is not None:
        return _REASONS.get(reason.event, f"{reason.event}; nri-numamem explain shows more")
    now = ", or just now" if facts.holder is not None else ""
    return f"it began while the plugin was away{now}"


# The system uses some memory on every host, whatever is reserved for it.
_SHORT_LEAST_SHARE = 0.1


def _differences(
    facts: Facts, state: EngineState, rows: Sequence[ContainerRow]
) -> Iterator[Difference]:
    """Yield the differences: those of containers in the order of the rows, then those of nodes."""
    misaligned = {holder.container_id: str(away) for holder, away in misaligned_containers(state)}
    for row in rows:
        if row.condition is Condition.UNPINNED:
            yield Difference(Kind.UNPINNED, _text_of_unpinned(row), row.container_id)
        elif row.condition is Condition.RUNNING:
            yield from _of_assignment(facts, state, row)
            if facts.cgroups is not None:
                yield from _of_cgroup(facts, row, facts.cgroups.get(row.container_id))
            if row.container_id in misaligned:
                text = f"its memory is on no node of its {misaligned[row.container_id]}"
                yield Difference(Kind.MISALIGNED, text, row.container_id)
    for use in outside_uses(facts):
        yield Difference(Kind.NON_POD_HUGEPAGES, use.text)
    yield from _of_memory(facts, state)
    yield from _of_head_room(facts, state)


def _text_of_unpinned(row: ContainerRow) -> str:
    if row.nodes:
        text = f"has no assignment, and its cpuset.mems is {row.nodes}"
    else:
        text = "runs unpinned"
    since = f" since {format_time(row.since_s)}" if row.since_s else ""
    return f"{text}{since}: {row.reason}"


def _of_assignment(facts: Facts, state: EngineState, row: ContainerRow) -> Iterator[Difference]:
    if facts.context is None:
        return
    missing = row.nodes - facts.context.machine.node_set
    if missing:
        text = f"placed on {format_nodes(missing)}, which the machine does not have"
        yield Difference(Kind.NODE_MISSING, text, row.container_id)
    elif facts.context.uses(row.nodes):
        for block in state.blocks((row.uid, row.name)) or ():
            short = block.size - block.charged
            if short:
                place = format_nodes(row.nodes)
                text = f"{humanize_bytes(short)} of its {block.type} exceed what {place} can hold"
                yield Difference(Kind.OVERCOMMITTED, text, row.container_id)


def _of_cgroup(facts: Facts, row: ContainerRow, cgroup: Cgroup | None) -> Iterator[Difference]:
    if cgroup is None:
        text = "it has no processes: it ended, and the runtime has not reported that yet"
        if facts.holder is None:
            text = "it has no processes: it ended after the plugin did"
        yield Difference(Kind.NOT_RUNNING, text, row.container_id)
        return
    if not cgroup.mems:
        text = (
            f"placed on {format_nodes(row.nodes)}, but its cgroup has no cpuset.mems, so its "
            "memory can be anywhere; nri-numamem explain shows why, a restart pins it"
        )
        yield Difference(Kind.CPUSET_MEMS_UNSET, text, row.container_id)
    elif cgroup.mems != row.nodes:
        text = (
            f"placed on {format_nodes(row.nodes)}, but its cpuset.mems is {cgroup.mems}: something "
            "else set it, such as the kubelet's memory manager, or an update is under way"
        )
        yield Difference(Kind.CPUSET_MEMS_DIFFERS, text, row.container_id)
    elif cgroup.effective_mems and cgroup.effective_mems != cgroup.mems:
        text = (
            f"its cpuset.mems is {cgroup.mems}, but only {cgroup.effective_mems} has an effect: a "
            "cgroup above it allows no more, or a node is offline"
        )
        yield Difference(Kind.CPUSET_MEMS_NOT_EFFECTIVE, text, row.container_id)
    private, remote = row.private_bytes or 0, row.remote_bytes or 0
    if is_notable(remote, private):
        text = (
            f"{humanize_bytes(remote)} of its {humanize_bytes(private)} are not on "
            f"{format_nodes(row.nodes)}: allocated before it was pinned, and not moved"
        )
        yield Difference(Kind.REMOTE_MEMORY, text, row.container_id)


def _of_memory(facts: Facts, state: EngineState) -> Iterator[Difference]:
    """Compare free bytes of groups: containers of a group use any of its nodes."""
    machine = state.accounting.machine_state
    for nodes in dict.fromkeys(node.cells for node in machine.values()):
        if not all(node_id in facts.available_bytes for node_id in nodes):
            continue
        free = sum(machine[node_id].table(MEMORY).free for node_id in nodes)
        available = sum(facts.available_bytes[node_id] for node_id in nodes)
        if available < free * (1 - _SHORT_LEAST_SHARE):
            text = (
                f"{format_nodes(nodes)}: {humanize_bytes(free)} are free in the accounting, and "
                f"{humanize_bytes(available)} in the kernel, page cache included; the system and "
                "pods that are not managed use the rest"
            )
            yield Difference(Kind.NON_POD_MEMORY, text)


def _of_head_room(facts: Facts, state: EngineState) -> Iterator[Difference]:
    """Compare what containers may still allocate with what is available, if a setting does so."""
    limit = facts.settings.residency.head_room
    if limit is None or facts.cgroups is None:
        return
    for room in head_rooms(state, facts.resident_bytes, facts.available_bytes):
        if room.most_bytes < limit.warn_below(room.total_bytes):
            text = (
                f"{format_nodes(room.nodes)}: {humanize_bytes(room.most_available_bytes)} are "
                f"available in the kernel, and containers may still allocate "
                f"{humanize_bytes(room.unfaulted_bytes)}: so an OOM kill is possible there"
            )
            yield Difference(Kind.HEAD_ROOM_LOW, text)
