"""Make the report of the facts: what is where, and what fits."""

from collections import Counter
from collections.abc import Iterator, Mapping

from nri_numamem.cli.live.facts import Cgroup, Facts, pod_names
from nri_numamem.cli.status.differences import find_differences
from nri_numamem.cli.status.report import (
    Amounts,
    Condition,
    ContainerRow,
    Cpus,
    Node,
    Report,
)
from nri_numamem.engine.core.context import Context
from nri_numamem.engine.core.cpu_requests import cpu_requests, usable_millicores
from nri_numamem.engine.core.reason import Reason
from nri_numamem.engine.core.state import EngineState, Holder
from nri_numamem.engine.records.containers import (
    RunningUnpinnedNoCapacity,
    UnpinnedNoCapacity,
    UnreportedContainerFound,
)
from nri_numamem.memorymanager import (
    NodeState,
    mask_unavailable_hugepages,
    nodes_of,
)
from nri_numamem.memorymanager.holder import HolderKind, container_name
from nri_numamem.memorymanager.largest import largest_on_group, largest_on_node
from nri_numamem.memorymanager.state import present_resources
from nri_numamem.numa import MEMORY, NodeSet
from nri_numamem.topologymanager import TopologyPolicy

_REASONS: Mapping[str, str] = {
    UnpinnedNoCapacity.event: "nothing fitted when it was created (RunUnpinned)",
    RunningUnpinnedNoCapacity.event: "it began while the plugin was away, and nothing fits",
    UnreportedContainerFound.event: "the runtime does not report it, so it cannot be pinned",
}

_Outside = Mapping[int, Mapping[str, int]]


def judge(facts: Facts) -> Report:
    """Return the report."""
    state = facts.state
    if facts.context is None:
        rows = () if state is None else tuple(_rows(facts, state))
        return Report(facts, containers=rows)
    if state is None:
        state = EngineState(facts.context.empty_accounting())
    masked = state.accounting
    outside: _Outside = {}
    if facts.pool_use is not None:
        found = mask_unavailable_hugepages(state.accounting, facts.pool_use)
        masked, outside = found.state, found.amounts
    resources = present_resources(masked)
    allows_groups = facts.context.topology.policy is not TopologyPolicy.SINGLE_NUMA_NODE
    rows = tuple(_rows(facts, state))
    return Report(
        facts,
        tuple(_nodes(facts.context, state, outside)),
        {name: largest_on_node(masked, name) for name in resources},
        {name: largest_on_group(masked, name) for name in resources if allows_groups},
        rows,
        tuple(find_differences(facts, state, rows)),
    )


def _nodes(context: Context, state: EngineState, outside: _Outside) -> Iterator[Node]:
    """Yield the nodes that are not excluded."""
    held, cpus = _held_bytes(state), _cpus(context, state)
    for node_id, node in state.accounting.machine_state.items():
        of_node = outside.get(node_id, {})
        yield Node(
            node_id,
            node.cells,
            node.number_of_assignments > 0,
            context.classification.classes[node_id].value,
            context.classification.use_of(node_id).value,
            {
                name: _amounts(node, name, held[node_id, name], of_node.get(name, 0))
                for name in node.memory_map
            },
            cpus.get(node_id),
        )


def _cpus(context: Context, state: EngineState) -> dict[int, Cpus]:
    """Return node -> its CPUs; empty where CPU requests do not count."""
    if not context.compares_cpu_requests():
        return {}
    requests, usable = cpu_requests(state, context.machine), usable_millicores(context)
    return {node_id: Cpus(requests[node_id], usable[node_id]) for node_id in requests}


def _amounts(node: NodeState, resource: str, held: int, outside: int) -> Amounts:
    table = node.table(resource)
    return Amounts(
        total=table.total,
        system_reserved=min(table.system_reserved, table.total),
        pools=max(0, table.total - table.system_reserved - table.allocatable),
        outside=outside,
        assigned=table.reserved - held,
        held=held,
        free=table.free - outside,
    )


def _held_bytes(state: EngineState) -> Counter[tuple[int, str]]:
    """Return (node id, resource) -> bytes that no running container uses."""
    held = Counter[tuple[int, str]]()
    for key, holder in state.holders.items():
        if _condition(holder) is Condition.RUNNING:
            continue
        for block in state.blocks(key) or ():
            for node_id, size_bytes in block.charges:
                held[node_id, block.type] += size_bytes
    return held


def _condition(holder: Holder) -> Condition:
    if holder.key[1] is HolderKind.POD:
        return Condition.RESERVED
    return Condition.ENDED if holder.ended else Condition.RUNNING


def _rows(facts: Facts, state: EngineState) -> list[ContainerRow]:
    """Return the containers by pod and name."""
    return sorted(
        (*_assigned(facts, state), *_unpinned(facts, state)),
        key=lambda row: (row.title, row.name, row.container_id),
    )


def _assigned(facts: Facts, state: EngineState) -> Iterator[ContainerRow]:
    """Yield the containers of the accounting."""
    cgroups = facts.cgroups or {}
    names = pod_names(state)
    for key, holder in state.holders.items():
        blocks = state.blocks(key) or ()
        condition = _condition(holder)
        if condition is Condition.RESERVED and not any(block.size for block in blocks):
            continue  # its containers use all of it
        cgroup = cgroups.get(holder.container_id) if condition is Condition.RUNNING else None
        reason = state.reasons.pinned.get(holder.container_id)
        namespace, pod = names.get(key[0], ("", ""))
        nodes = nodes_of(blocks)
        yield ContainerRow(
            uid=key[0],
            namespace=namespace,
            pod=pod,
            name=holder.container_name,
            container_id=holder.container_id,
            condition=condition,
            nodes=nodes,
            amounts={block.type: block.size for block in blocks},
            private_bytes=_private_bytes(cgroup),
            file_bytes=None if cgroup is None else cgroup.file_bytes,
            remote_bytes=_remote_bytes(cgroup, nodes),
            since_s=0 if reason is None else reason.since_s,
        )


def _unpinned(facts: Facts, state: EngineState) -> Iterator[ContainerRow]:
    """Yield the running containers of Guaranteed pods without an assignment."""
    names = pod_names(state)
    for container_id, cgroup in (facts.cgroups or {}).items():
        if container_id in state.keys:
            continue
        reason = state.reasons.unpinned.get(container_id)
        namespace, pod = names.get(cgroup.pod_uid, ("", ""))
        yield ContainerRow(
            uid=cgroup.pod_uid,
            namespace=namespace,
            pod=pod,
            name="" if reason is None else container_name(reason.key[1]),
            container_id=container_id,
            condition=Condition.UNPINNED,
            nodes=cgroup.mems,
            amounts={MEMORY: cgroup.memory_limit_bytes},
            private_bytes=_private_bytes(cgroup),
            file_bytes=cgroup.file_bytes,
            remote_bytes=_remote_bytes(cgroup, cgroup.mems),
            since_s=0 if reason is None else reason.since_s,
            reason=_text_of(facts, reason),
        )


def _text_of(facts: Facts, reason: Reason | None) -> str:
    """Return why a container has no assignment."""
    if facts.state is None:
        return "there is no state of the plugin"
    if reason is not None:
        return _REASONS.get(reason.event, f"see {reason.event} in docs/events.md")
    now = ", or in this second" if facts.holder is not None else ""
    return f"it began while the plugin was away{now}"


def _private_bytes(cgroup: Cgroup | None) -> int | None:
    if cgroup is None or cgroup.private_bytes is None:
        return None
    return sum(cgroup.private_bytes.values())


def _remote_bytes(cgroup: Cgroup | None, nodes: NodeSet) -> int | None:
    if cgroup is None or cgroup.private_bytes is None or not nodes:
        return None
    return sum(size for node_id, size in cgroup.private_bytes.items() if node_id not in nodes)
