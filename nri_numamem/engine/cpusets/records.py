"""Records of containers whose cgroup does not have the nodes of the accounting."""

from collections.abc import Mapping
from dataclasses import replace

from nri_numamem.engine.admission import records as containers
from nri_numamem.engine.core.events import Container, PodSandbox
from nri_numamem.engine.core.fields import Fields
from nri_numamem.engine.core.plan import Record
from nri_numamem.engine.core.state import EngineState, Holder
from nri_numamem.engine.cpusets.reported import Action, ReportedNodes
from nri_numamem.engine.records.events import EventName
from nri_numamem.numa import NodeSet
from nri_numamem.numa.pages import Pages


def holder_fields(state: EngineState, holder: Holder) -> Fields:
    """Return the fields that name a container; without those of a pod that is not known."""
    uid, name = holder.key
    fields: Fields = {"container": name, "pod_uid": uid, "container_id": holder.container_id}
    pod = state.pods.get(holder.sandbox_id)
    return fields if pod is None else {"pod": pod.name, "namespace": pod.namespace, **fields}


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
    return containers.reapplied(pod, container, nodes, reported.cause)


def missing(state: EngineState, holder: Holder, nodes: NodeSet, obstacle: str = "") -> Record:
    """Record a container whose cgroup has no `cpuset.mems`; `obstacle` forbids a repair."""
    fields: Fields = {
        **holder_fields(state, holder),
        "nodes": str(nodes),
        "outcome": "unpinned" if obstacle else "repair_deferred",
    }
    if obstacle:
        fields |= {
            "cause": obstacle,
            "remedy": "restart the container; or, while the pauses that the migration causes do no "
            f"harm, write {nodes} to cpuset.mems of its cgroup",
        }
    return Record(EventName.CPUSET_MEMS_MISSING, fields, alternate=not obstacle)


def repaired(state: EngineState, holder: Holder, nodes: NodeSet, seen: NodeSet) -> Record:
    """Record that a reply contains the nodes of a container again."""
    fields: Fields = {
        **holder_fields(state, holder),
        "nodes": str(nodes),
        "cgroup_cpuset_mems": str(seen),
        "cause": "the update did not reach the cgroup" if seen else "the cgroup has none",
    }
    return Record(EventName.CPUSET_MEMS_REAPPLIED, fields)


def conflict(
    state: EngineState,
    holder: Holder,
    before: NodeSet,
    nodes: NodeSet,
    shortfall: Mapping[str, int],
) -> Record:
    """Record a container whose `cpuset.mems` something else set to `nodes`."""
    fields: Fields = {
        **holder_fields(state, holder),
        "previous_nodes": str(before),
        "nodes": str(nodes),
    }
    if any(shortfall.values()):
        fields["shortfall_bytes"] = {name: size for name, size in shortfall.items() if size}
    return Record(EventName.CPUSET_MEMS_CONFLICT, fields)


def restored(state: EngineState, holder: Holder, nodes: NodeSet, pages: Pages | None) -> Record:
    """Record that a cgroup has the nodes again that a repair was to set."""
    fields: Fields = {**holder_fields(state, holder), "nodes": str(nodes)}
    return with_pages(Record(EventName.CPUSET_MEMS_RESTORED, fields), nodes, pages)


def with_pages(record: Record, nodes: NodeSet, pages: Pages | None) -> Record:
    """Return the record with the bytes per node, if known, and those that are not on `nodes`."""
    if pages is None:
        return record
    fields = {**record.fields, **page_fields(nodes, pages)}
    return replace(record, fields=fields)


def page_fields(nodes: NodeSet, pages: Pages) -> Fields:
    """Return the bytes of a container per node without page cache, and those not on `nodes`."""
    return {
        "resident_bytes": {str(node): size for node, size in pages.own.items() if size},
        "remote_bytes": {str(node): size for node, size in pages.remote(nodes).items()},
    }
