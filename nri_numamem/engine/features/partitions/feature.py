"""Partitions: pods of a kind are placed on NUMA nodes that are set apart for them.

``numa.partitions`` has the rules that give a pod its nodes. A container that is pinned is placed
on them as if the machine had no others. One that is not pinned gets them as its `cpuset.mems` when
it is created, if its partition confines it or another one is closed to it; nothing is charged. What
runs keeps its nodes.

A Guaranteed container that fits nowhere and runs all the same (RunUnpinned) is not confined: after
a restart its nodes would look like an assignment.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import NamedTuple

from nri_numamem.engine.core.context import Context, qos_of_cgroup_parent
from nri_numamem.engine.core.decision import Decision
from nri_numamem.engine.core.events import (
    CreateContainer,
    Event,
    PodSandbox,
    RunPodSandbox,
    Synchronize,
)
from nri_numamem.engine.core.feature import AllowedNodes, Feature
from nri_numamem.engine.core.plan import Adjustment
from nri_numamem.engine.core.providers import format_nodes
from nri_numamem.engine.core.state import EngineState
from nri_numamem.engine.features.partitions import records
from nri_numamem.engine.records.record import Record
from nri_numamem.memorymanager import QosClass
from nri_numamem.numa import (
    Layout,
    Machine,
    NodeSet,
    PartitionNodes,
    Preferences,
    lay_out,
)


class _OnMachine(NamedTuple):
    layout: Layout
    allowed: Mapping[str, AllowedNodes]
    """By the name of the partition."""


class PartitionedNodes(Feature):
    """Pods are placed on the nodes of their partition (`partitions`)."""

    limits_nodes = True

    def __init__(self) -> None:
        self._known: tuple[Machine, NodeSet, _OnMachine] | None = None
        """Machine and excluded nodes of the last call, and what follows from them.

        Metrics call this from another thread, so it is replaced as a whole.
        """

    def layout(self, context: Context) -> Layout:
        """Return the partitions on the machine."""
        return self._on_machine(context).layout

    def _on_machine(self, context: Context) -> _OnMachine:
        known, excluded = self._known, context.classification.excluded
        if known is None or known[0] is not context.machine or known[1] != excluded:
            distances = context.topology.preferences.distances
            preferences = Preferences(distances, context.policy.prefer_closest_numa_nodes)
            nodes = context.memory_nodes
            layout = lay_out(context.policy.partitions, nodes - excluded, nodes, preferences)
            rest = layout.rest.nodes
            allowed = {each.partition.name: _allowed(each, rest) for each in layout.partitions}
            known = self._known = context.machine, excluded, _OnMachine(layout, allowed)
        return known[2]

    def is_on(self, context: Context) -> bool:
        """Return whether memory is managed."""
        return context.policy.is_static

    def warnings(self, context: Context) -> Iterable[Record]:
        """Return a warning for each partition whose nodes the machine lacks."""
        if not self.is_on(context):
            return ()
        found = self.layout(context).partitions
        return tuple(records.unusable(each) for each in found if each.problem)

    def allowed_nodes(self, context: Context, pod: PodSandbox) -> AllowedNodes | None:
        """Return the nodes of the pod's partition; for the rest, those of no exclusive one."""
        known = self._on_machine(context)
        found = known.layout.of_pod(pod.namespace, pod.labels)
        return known.allowed[found.partition.name]

    def unpinned_nodes(self, context: Context, pod: PodSandbox) -> NodeSet:
        """Return the nodes for the pod's containers that are not pinned; empty for all nodes."""
        layout = self.layout(context)
        found = layout.of_pod(pod.namespace, pod.labels)
        return layout.unpinned_nodes_of(pod.namespace, found)

    def complete(
        self, context: Context, state: EngineState, event: Event, decision: Decision
    ) -> Decision:
        """Return the decision in which a container that is not pinned is confined."""
        if not self.is_on(context):
            return decision
        if isinstance(event, CreateContainer):
            return self._confine(context, event, decision)
        if isinstance(event, RunPodSandbox):
            names = self.layout(context).matching(event.pod.namespace, event.pod.labels)
            if len(names) > 1:
                return decision.with_records_before(records.ambiguous(event.pod, names))
        if isinstance(event, Synchronize):
            found = self._unconfined(context, event)
            return decision.with_records(records.unconfined(found)) if found else decision
        return decision

    def _confine(self, context: Context, event: CreateContainer, decision: Decision) -> Decision:
        pod, container, plan = event.pod, event.container, decision.plan
        is_left = plan.adjustment is None and plan.refusal is None and not container.cpuset_mems
        if not is_left or (decision.rejection is not None and _is_guaranteed(pod)):
            return decision
        layout = self.layout(context)
        found = layout.of_pod(pod.namespace, pod.labels)
        nodes = layout.unpinned_nodes_of(pod.namespace, found)
        if not nodes:
            return decision
        plan = replace(plan, adjustment=Adjustment(str(nodes)))
        confined = records.confined(pod, container, found.partition.name, nodes)
        return replace(decision, plan=plan).with_records(confined)

    def _unconfined(self, context: Context, event: Synchronize) -> list[str]:
        """Return NAMESPACE/POD/CONTAINER of running ones that a creation would confine."""
        pods = {pod.sandbox_id: pod for pod in event.pods}
        found = list[str]()
        for container in event.containers:
            pod = pods.get(container.sandbox_id)
            if pod is None or container.ended or container.cpuset_mems or _is_guaranteed(pod):
                continue
            if self.unpinned_nodes(context, pod):
                found.append(f"{pod.namespace}/{pod.name}/{container.name}")
        return found


def _is_guaranteed(pod: PodSandbox) -> bool:
    return qos_of_cgroup_parent(pod.cgroup_parent) is QosClass.GUARANTEED


def _allowed(found: PartitionNodes, rest: NodeSet) -> AllowedNodes:
    around = rest if found.nodes.issubset(rest) else found.nodes
    return AllowedNodes(found.partition.name, found.nodes, _cause(found), around)


def _cause(found: PartitionNodes) -> str:
    """Return why a pod may be placed on no other nodes."""
    name = f"partition {found.partition.name}"
    if found.problem:
        return f"{name} is unusable: {found.problem}"
    if found.partition.is_rest:
        return f"pods without a partition have {format_nodes(found.nodes)}"
    return f"{name} has {format_nodes(found.nodes)}"
