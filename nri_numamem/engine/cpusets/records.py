"""Records of containers whose cgroup does not have the nodes of the accounting."""

from collections.abc import Mapping
from dataclasses import replace

from nri_numamem.engine.core.events import Container, PodSandbox
from nri_numamem.engine.core.fields import holder_names
from nri_numamem.engine.core.state import EngineState, Holder
from nri_numamem.engine.cpusets.reported import Action, ReportedNodes
from nri_numamem.engine.records.common import UNPINNED, PagesShown
from nri_numamem.engine.records.record import Record
from nri_numamem.engine.records.running import (
    CpusetMemsConflict,
    CpusetMemsMissing,
    CpusetMemsReapplied,
    CpusetMemsRestored,
    CpusetRecord,
)
from nri_numamem.numa import NodeSet
from nri_numamem.numa.pages import Pages


def reported(
    state: EngineState,
    pod: PodSandbox,
    container: Container,
    reported: ReportedNodes,
    *,
    is_sent: bool,
) -> Record:
    """Record what a Synchronize does about the nodes of a container that `state` has."""
    holder, nodes = state.holders[pod.uid, container.name], reported.nodes
    if reported.action is Action.SHOW_UNPINNED:
        return missing(state, holder, nodes, reported.cause)
    if reported.action is Action.SHOW_CONFLICT:
        shortfall = {
            block.type: block.size - block.charged for block in state.blocks(holder.key) or ()
        }
        return conflict(state, holder, reported.previous or NodeSet(), nodes, shortfall)
    if not is_sent:
        return missing(state, holder, nodes)
    return CpusetMemsReapplied(
        names=holder_names(state, holder),
        nodes=nodes,
        runtime_cpuset_mems=container.cpuset_mems,
        cgroup_cpuset_mems=str(container.cgroup_mems or ""),
        cause=reported.cause,
    )


def missing(
    state: EngineState, holder: Holder, nodes: NodeSet, obstacle: str = ""
) -> CpusetMemsMissing:
    """Record a container whose cgroup has no `cpuset.mems`; `obstacle` forbids a repair."""
    remedy = (
        "restart the container; or, while the pauses that the migration causes do no "
        f"harm, write {nodes} to cpuset.mems of its cgroup"
    )
    return CpusetMemsMissing(
        names=holder_names(state, holder),
        nodes=nodes,
        outcome=UNPINNED if obstacle else "repair_deferred",
        cause=obstacle,
        remedy=remedy if obstacle else "",
        alternate=not obstacle,
    )


def repaired(
    state: EngineState, holder: Holder, nodes: NodeSet, seen: NodeSet
) -> CpusetMemsReapplied:
    """Record that a reply contains the nodes of a container again."""
    return CpusetMemsReapplied(
        names=holder_names(state, holder),
        nodes=nodes,
        cgroup_cpuset_mems=str(seen),
        cause="the update did not reach the cgroup" if seen else "the cgroup has none",
    )


def conflict(
    state: EngineState,
    holder: Holder,
    before: NodeSet,
    nodes: NodeSet,
    shortfall: Mapping[str, int],
) -> CpusetMemsConflict:
    """Record a container whose `cpuset.mems` something else set to `nodes`."""
    return CpusetMemsConflict(
        names=holder_names(state, holder),
        previous_nodes=before,
        nodes=nodes,
        shortfall_bytes={name: size for name, size in shortfall.items() if size},
    )


def restored(
    state: EngineState, holder: Holder, nodes: NodeSet, pages: Pages | None
) -> CpusetMemsRestored:
    """Record that a cgroup has the nodes again that a repair was to set."""
    names = holder_names(state, holder)
    shown = None if pages is None else pages_shown(nodes, pages)
    return CpusetMemsRestored(names=names, nodes=nodes, pages=shown)


def with_pages(record: CpusetRecord, nodes: NodeSet, pages: Pages | None) -> CpusetRecord:
    """Return the record with the bytes per node, if known, and those that are not on `nodes`."""
    return record if pages is None else replace(record, pages=pages_shown(nodes, pages))


def pages_shown(nodes: NodeSet, pages: Pages) -> PagesShown:
    """Return the bytes of a container per node without page cache, and those not on `nodes`."""
    resident = {node: size for node, size in pages.own.items() if size}
    return PagesShown(resident_bytes=resident, remote_bytes=pages.remote(nodes))
