"""What a decision was about, as labels and texts."""

from collections.abc import Iterator, Mapping

from nri_numamem.cli.explain.advice import (
    amounts_text,
    request_of,
)
from nri_numamem.cli.render.texts import strategy_text
from nri_numamem.engine.features.burstable_pods import records as burstable_pods
from nri_numamem.engine.features.memory_policies.records import MemoryPolicyRejected
from nri_numamem.engine.records import connection, containers, pods, running
from nri_numamem.engine.records.common import Decided, Hints
from nri_numamem.engine.records.record import Flat, Record
from nri_numamem.numa import NodeSet
from nri_numamem.observe.history.records import Recorded

_CAUSES: Mapping[type[Record], str] = {
    containers.UnpinnedNoCapacity: "whenUnsatisfiable is RunUnpinned, and nothing fits",
    containers.RunningUnpinnedNoCapacity: "it was created while the plugin was away, and nothing "
    "fits",
    containers.UnreportedContainerFound: "the runtime did not report it, and nothing fits",
    connection.RequestTimedOut: "its creation took too long, and got an empty reply",
    connection.InternalError: "a bug: its creation got an empty reply",
    running.CpusetMemsMissing: "its cgroup has no cpuset.mems",
}

_WithNodes = (
    containers.Placed
    | containers.PinnedLater
    | containers.Adopted
    | running.Resized
    | running.ResizeRejected
    | pods.PodAdmitted
    | pods.PodAdopted
    | running.CpusetMemsMissing
    | burstable_pods.BurstableUnpinned
)


def facts_of(entry: Recorded) -> Iterator[tuple[str, str]]:
    """Yield label and text of what a decision was about."""
    content = containers.content_of(entry.record)
    because = _cause_of(entry.record)
    if because:
        yield "because", because
    request = request_of(entry)
    if request:
        is_whole = isinstance(content, containers.Unplaced) and content.pod_request_bytes
        yield "request", f"{amounts_text(request)}{' for the whole pod' if is_whole else ''}"
    others = list(_others(content.considered.value.hints)) if isinstance(content, Decided) else ()
    if others:
        yield "others", ", ".join(others)
    if isinstance(content, containers.Placed | pods.PodAdmitted):
        merged = content.merged_hint
        where = "any nodes" if not merged.affinity else nodes_text(merged.affinity)
        yield "merged", f"{where}, {'preferred' if merged.preferred else 'not preferred'}"
    yield from _policy(content)
    if isinstance(content, running.Resized | burstable_pods.BurstableUnpinned):
        yield "before", nodes_text(content.previous_nodes)
    if isinstance(content, _WithNodes):
        yield "nodes", f"{content.nodes}{_hugepage_limit(content)}"
    if isinstance(content, containers.Placed | pods.PodAdmitted) and content.strategy:
        source, equal = content.strategy_source, content.equal_nodes
        yield "strategy", strategy_text(content.strategy, source, equal)
    yield from _amounts(content)


def _policy(content: Flat) -> Iterator[tuple[str, str]]:
    if isinstance(content, MemoryPolicyRejected):
        yield "policy", f"memory policy {content.chosen.policy}, by {content.chosen.source}"
    if isinstance(content, containers.Unplaced | pods.PodRejected):
        yield "policy", f"topologyManagerPolicy {content.policy}; {content.reason}"


def _cause_of(record: Record) -> str:
    """Return why a container runs unpinned; "" for other records."""
    match record:
        case running.CpusetMemsMissing() if record.cause:
            return record.cause
        case (
            MemoryPolicyRejected()
            | burstable_pods.BurstableNotPinned()
            | burstable_pods.BurstableUnpinned()
        ):
            return record.cause
        case _:
            return _CAUSES.get(type(record), "")


def _amounts(content: Flat) -> Iterator[tuple[str, str]]:
    if isinstance(
        content, containers.Adopted | running.Resized | running.ResizeRejected | pods.PodAdopted
    ):
        short = content.shortfall_bytes
        if short:
            yield "short", f"{amounts_text(short)} more than is allocatable there"
    if isinstance(content, containers.Unplaced):
        for holder in content.holders[:3]:
            who = f"{holder.namespace}/{holder.pod}/{holder.container}"
            held = amounts_text(holder.held_bytes)
            yield "holds", f"{who} has {held} on {nodes_text(holder.nodes)}"


def _others(hints: Hints) -> Iterator[str]:
    """Yield a text for each hint of another provider than memory."""
    if hints.cpu:
        yield f"cpu on {nodes_text(hints.cpu)}"
    if hints.devices:
        yield f"devices on {' and '.join(map(nodes_text, hints.devices))}"
    for name, nodes in hints.network.items():
        yield f"network interface {name} on {nodes_text(nodes)}"


def nodes_text(nodes: NodeSet) -> str:
    """Return "node 0" or "nodes 0-1"."""
    return f"node{'s' if len(nodes) != 1 else ''} {nodes}".rstrip()


def _hugepage_limit(content: Flat) -> str:
    if not isinstance(content, containers.Placed | running.Resized) or content.adjustment is None:
        return ""
    limits = content.adjustment.hugepage_limits_bytes
    return f"; hugepage limit {amounts_text(limits)}" if limits else ""
