"""The running containers of a Synchronize: with nodes, without nodes, and not managed.

The order is by sandbox and container, and the older of a pod's containers comes first where its age
is known. So the same list always gives the same accounting.
"""

from dataclasses import dataclass, field
from functools import cache
from typing import TypeAlias

from nri_numamem.engine.core.context import Context
from nri_numamem.engine.core.events import Container, PodSandbox, Synchronize
from nri_numamem.engine.core.plan import Update
from nri_numamem.engine.core.reason import Reason
from nri_numamem.engine.core.state import EngineState
from nri_numamem.engine.cpusets.reported import ReportedNodes, reported_nodes
from nri_numamem.engine.records.record import Record
from nri_numamem.numa import NodeSet

# Begins the name of a cgroup in a cause; each container outside of Kubernetes has another one.
_CGROUP_NAME = " in the cgroup parent "

Pinned: TypeAlias = tuple[PodSandbox, Container, ReportedNodes]
"""A managed container that has nodes."""

Unpinned: TypeAlias = tuple[PodSandbox, Container]
"""A managed container that has no nodes."""


@dataclass(frozen=True, slots=True)
class Running:
    """The running containers, in the order in which they are recorded."""

    pinned: list[Pinned]
    unpinned: list[Unpinned]
    not_managed: dict[str, int]
    """The number of the others by cause, without the names of cgroups."""


@dataclass(frozen=True, slots=True)
class Found:
    """Records, updates and reasons of a Synchronize; its steps add to them."""

    records: list[Record] = field(default_factory=list)
    updates: list[Update] = field(default_factory=list)
    pinned: dict[str, Reason] = field(default_factory=dict)
    unpinned: dict[str, Reason] = field(default_factory=dict)


def classify(
    context: Context, old: EngineState, pods: dict[str, PodSandbox], event: Synchronize
) -> Running:
    """Return the running containers.

    `old` is the state before the Synchronize, `pods` has the pods of the event by sandbox id.
    """
    running = Running([], [], {})
    listed_nodes = cache(_listed_nodes)  # many containers have the same nodes
    pod_reasons = {sandbox_id: context.unmanaged_reason(pod) for sandbox_id, pod in pods.items()}
    for container in sorted(event.containers, key=_order):
        pod = pods.get(container.sandbox_id)
        if container.ended or pod is None or container.claims:
            continue
        why = pod_reasons[container.sandbox_id]
        if why is None and not container.name:
            why = context.unmanaged_reason(pod, container)
        if why is not None:
            kept = _kept_nodes(context, old, pod, container, event)
            if kept is not None:
                running.pinned.append((pod, container, kept))
                continue
            cause = why.partition(_CGROUP_NAME)[0]
            running.not_managed[cause] = running.not_managed.get(cause, 0) + 1
            continue
        try:
            listed = listed_nodes(container.cpuset_mems)
        except ValueError:
            continue  # not from this plugin; the kernel used what it could parse
        found = reported_nodes(old, container, listed, keeps_updates=event.keeps_updates)
        if found.nodes:
            running.pinned.append((pod, container, found))
        else:
            running.unpinned.append((pod, container))
    return running


def _kept_nodes(
    context: Context, old: EngineState, pod: PodSandbox, container: Container, event: Synchronize
) -> ReportedNodes | None:
    """Return the nodes of a container that a feature records; None for another one."""
    if not (pod.uid and container.name and (container.cpuset_mems or container.cgroup_mems)):
        return None
    try:
        listed = _listed_nodes(container.cpuset_mems)
    except ValueError:
        return None
    found = reported_nodes(old, container, listed, keeps_updates=event.keeps_updates)
    features = context.all_features
    is_kept = any(f.keeps_nodes(context, old, pod, container, found.nodes) for f in features)
    return found if is_kept else None


def _listed_nodes(cpuset_mems: str) -> ReportedNodes:
    return ReportedNodes(NodeSet.parse(cpuset_mems))


def _order(container: Container) -> tuple[str, int, str]:
    return container.sandbox_id, container.creation_order, container.container_id
