"""What a decision was about, and its remedies with the commands that try them.

Everything comes from the record of the decision.
"""

import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from nri_numamem.cli.decisions.names import Names, names_of
from nri_numamem.cli.decisions.outcomes import Requesting, amounts_text, cause_of, request_of
from nri_numamem.cli.render.texts import strategy_text
from nri_numamem.engine.admission import preset
from nri_numamem.engine.admission.records import (
    CPU_REQUEST_BELOW_LIMIT,
    NO_CPU_LIMIT,
    NO_MEMORY_LIMIT,
)
from nri_numamem.engine.core.plan import RecordValue
from nri_numamem.engine.core.providers import format_nodes
from nri_numamem.engine.features.burstable_pods import records as burstable_pods
from nri_numamem.engine.features.claims import records as claims
from nri_numamem.engine.features.memory_policies.records import MemoryPolicyRejected
from nri_numamem.engine.records import connection, containers, pods, running
from nri_numamem.engine.records.common import UNPINNED, Decided, Hints, PagesShown
from nri_numamem.engine.records.plain import fields_of
from nri_numamem.engine.records.record import Amounts, Flat, Record
from nri_numamem.numa import NodeSet, humanize_bytes
from nri_numamem.numa.quantity import sum_mappings
from nri_numamem.observe.history.records import Recorded

_OBSTACLES = {
    NO_MEMORY_LIMIT: "no memory limit",
    NO_CPU_LIMIT: "no CPU limit",
    CPU_REQUEST_BELOW_LIMIT: "a CPU request below its limit",
}
_AGAIN = "restart the pod; the next Synchronize pins it too, if it fits"
_BURSTABLE = "restart the pod when the cause is gone: a new container is pinned if it can be"
_ADVICE: Mapping[type[Record], str] = {
    MemoryPolicyRejected: "correct the annotation or the setting memoryPolicy",
    burstable_pods.BurstableNotPinned: _BURSTABLE,
    burstable_pods.BurstableUnpinned: _BURSTABLE,
    connection.RequestTimedOut: _AGAIN,
    connection.InternalError: _AGAIN,
}
_SET_BY_OTHERS = (
    "only one may set it: memoryManagerPolicy None for the kubelet, or no cpuset.mems in the other "
    "plugin; nri-numamem doctor checks the kubelet"
)
_WHEN_IT_FITS = "restart the pod when it fits; the commands show whether it does"

_Merged = containers.Placed | pods.PodAdmitted
_WithNodes = (
    _Merged
    | containers.PinnedLater
    | containers.Adopted
    | pods.PodAdopted
    | running.Resized
    | running.ResizeRejected
    | running.CpusetMemsMissing
    | running.CpusetMemsConflict
    | burstable_pods.BurstableUnpinned
    | claims.ClaimUsed
)
_WithPrevious = running.Resized | running.CpusetMemsConflict | burstable_pods.BurstableUnpinned


def facts_of(entry: Recorded) -> Iterator[tuple[str, str]]:
    """Yield label and text of what a decision was about."""
    content = containers.content_of(entry.record)
    because = cause_of(entry.record)
    if because:
        yield "because", because
    request = request_of(entry)
    if request:
        is_whole = isinstance(content, containers.Unplaced) and content.pod_request_bytes
        yield "request", f"{amounts_text(request)}{' for the whole pod' if is_whole else ''}"
    others = list(_others(content.considered.value.hints)) if isinstance(content, Decided) else ()
    if others:
        yield "others", ", ".join(others)
    if isinstance(content, _Merged):
        merged = content.merged_hint
        where = "any nodes" if not merged.affinity else format_nodes(merged.affinity)
        yield "merged", f"{where}, {'preferred' if merged.preferred else 'not preferred'}"
    if isinstance(content, MemoryPolicyRejected):
        yield "policy", f"memory policy {content.chosen.policy}, by {content.chosen.source}"
    if isinstance(content, containers.Unplaced | pods.PodRejected):
        yield from _rules(content)
    if isinstance(content, _WithPrevious):
        yield "before", format_nodes(content.previous_nodes) if content.previous_nodes else "none"
    if isinstance(content, _WithNodes):
        yield "nodes", f"{content.nodes}{_hugepage_limit(content)}"
    if isinstance(content, _Merged) and content.strategy:
        source, equal = content.strategy_source, content.equal_nodes
        yield "strategy", strategy_text(content.strategy, source, equal)
    yield from _amounts(content)


def pages_texts(pages: PagesShown) -> Iterator[str]:
    """Yield "memory 64Mi on node 0 and 3Mi on node 1" and "remote 3Mi on node 1"."""
    for label, amounts in (("memory", pages.resident_bytes), ("remote", pages.remote_bytes)):
        if amounts:
            shown = (f"{humanize_bytes(n)} on node {node}" for node, n in amounts.items())
            yield f"{label} {' and '.join(shown)}"


def _rules(record: containers.Unplaced | pods.PodRejected) -> Iterator[tuple[str, str]]:
    """Yield the policy, and room that is set aside for other pods."""
    partition = f"; partition {record.partition}" if record.partition else ""
    yield "policy", f"topologyManagerPolicy {record.policy}{partition}; {record.reason}"
    for text in record.set_aside:
        yield "earmarks", text


def _amounts(content: Flat) -> Iterator[tuple[str, str]]:
    if isinstance(content, claims.ClaimUsed):
        source = "set by the plugin" if content.sets_memory_limit else "its own"
        yield "limit", f"{humanize_bytes(content.memory_limit_bytes)} memory, {source}"
    if isinstance(content, running.CpusetMemsConflict) and content.pages is not None:
        yield "pages", ", ".join(pages_texts(content.pages))
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
            yield "holds", f"{who} has {held} on {format_nodes(holder.nodes)}"


def _others(hints: Hints) -> Iterator[str]:
    """Yield a text for each hint of another provider than memory."""
    if hints.cpu:
        yield f"cpu on {format_nodes(hints.cpu)}"
    if hints.devices:
        yield f"devices on {' and '.join(map(format_nodes, hints.devices))}"
    for name, nodes in hints.network.items():
        yield f"network interface {name} on {format_nodes(nodes)}"


def _hugepage_limit(content: Flat) -> str:
    with_limits = containers.Placed | running.Resized | claims.ClaimUsed
    if not isinstance(content, with_limits) or content.adjustment is None:
        return ""
    limits = content.adjustment.hugepage_limits_bytes
    return f"; hugepage limit {amounts_text(limits)}" if limits else ""


@dataclass(frozen=True, slots=True)
class Advice:
    """What to do; empty if nothing needs to be done."""

    remedies: tuple[Mapping[str, RecordValue], ...] = ()
    """Alternatives, the best first: `text`, and of a tried remedy its `kind` and parameters."""
    commands: tuple[str, ...] = ()
    """Command lines that try it."""

    @property
    def texts(self) -> tuple[str, ...]:
        """Return the remedies as texts."""
        return tuple(str(each.get("text")) for each in self.remedies)


def advice_to(text: str, commands: tuple[str, ...] = ()) -> Advice:
    """Return the advice with one remedy; without a text only the commands."""
    return Advice(({"text": text},) if text else (), commands)


def advice_of(names: Names, decision: Recorded | None, siblings: Sequence[Recorded]) -> Advice:
    """Return the advice for the last decision on a container."""
    if decision is None:
        return Advice()
    match decision.record:
        case containers.Unplaced() as record:
            return Advice(tuple(map(fields_of, record.remedies)), commands_for(names))
        case pods.PodRejected():
            return Advice((), commands_for(names))
        case running.ResizeRejected() as record:  # the kubelet retries the resize
            return Advice(tuple(map(fields_of, record.remedies)))
        case claims.ClaimUseRejected() | claims.ClaimResizeRejected() as record:
            return advice_to(record.remedy)
        case containers.NotManaged() as record:
            return advice_to(_for_not_managed(record, siblings), commands_for(names))
        case containers.UnreportedContainerFound(outcome=outcome) if outcome == UNPINNED:
            return advice_to(_WHEN_IT_FITS, commands_for(names))
        case running.CpusetMemsMissing() as record:
            return advice_to(record.remedy)
        case running.CpusetMemsConflict() | containers.Adopted(cause=preset.CAUSE):
            return advice_to(_SET_BY_OTHERS)
        case record:
            return advice_to(_ADVICE.get(type(record), ""))


def obstacles_text(entry: Recorded) -> str:
    """Return what keeps the pod of a container from being Guaranteed: "no memory limit, ..."."""
    record = entry.record
    found = record.qos_obstacles if isinstance(record, containers.NotManaged) else None
    return " and ".join(_OBSTACLES.get(one, one) for one in found or ())


def commands_for(names: Names, without: Iterable[str] = ()) -> tuple[str, ...]:
    """Return the commands that try a pod now, without some pods of the host."""
    get = shlex.join(["kubectl", "get", "pod", "-n", names.namespace, names.pod, "-o", "yaml"])
    options = "".join(f"--without {shlex.quote(pod)} " for pod in without)
    return (f"{get} > pod.yaml", f"nri-numamem simulate --now {options}pod.yaml")


def _for_not_managed(decision: containers.NotManaged, siblings: Sequence[Recorded]) -> str:
    if decision.qos_class != "Burstable":
        if "memoryManagerPolicy" in decision.cause:
            return "set memoryManagerPolicy Static"
        return "give every container of the pod equal limits and requests for cpu and memory"
    broken = [names_of(entry).container for entry in siblings if obstacles_text(entry)]
    if broken:
        who = ", ".join(broken)
        return (
            f"give {who} equal limits and requests for cpu and memory; the pod becomes Guaranteed "
            "when all its containers have them"
        )
    return (
        "compare requests.memory with limits.memory of every container of the pod: NRI does not "
        "show memory requests"
    )


def free_on(entry: Recorded, nodes: NodeSet) -> Amounts:
    """Return the free bytes of a node set in an entry: resource -> bytes."""
    content = containers.content_of(entry.record)
    return _summed(content.free_bytes if isinstance(content, Requesting) else {}, nodes)


def used_outside_on(entry: Recorded, nodes: NodeSet) -> Amounts:
    """Return the hugepages of a node set that are used outside of pods: resource -> bytes."""
    content = containers.content_of(entry.record)
    if not isinstance(content, containers.Unplaced | pods.PodRejected):
        return {}
    return _summed(content.used_outside_of_pods_bytes, nodes)


def _summed(amounts: Mapping[int, Amounts], nodes: NodeSet) -> Amounts:
    return sum_mappings(amounts.get(node, {}) for node in nodes)
