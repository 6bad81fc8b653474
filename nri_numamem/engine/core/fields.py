"""Fields that records of several events have.

Amounts are bytes; NUMA nodes are in the kernel's list format. Keys are in the order of reading.
"""

from collections.abc import Iterable, Mapping

from nri_numamem.engine.core.events import Container, PodSandbox
from nri_numamem.engine.core.facts import NetworkInterface
from nri_numamem.engine.core.plan import Adjustment
from nri_numamem.engine.core.providers import OtherProviders
from nri_numamem.engine.core.state import EngineState, Holder
from nri_numamem.engine.core.text import NAME_CHARACTERS, cut
from nri_numamem.engine.records.common import (
    AdjustmentShown,
    ContainerNames,
    Hints,
    PodNames,
    RemedyShown,
)
from nri_numamem.engine.records.record import Amounts
from nri_numamem.memorymanager import Hint, State
from nri_numamem.memorymanager.hugepage_pools import masked_bytes
from nri_numamem.memorymanager.remedy import Remedy
from nri_numamem.numa import NodeSet, hugepages_resource

# The beginning of every rejection text: `kubectl describe pod` shows texts of several components.
PREFIX = "numamem: "


def pod_name(pod: PodSandbox, limit: int = NAME_CHARACTERS) -> str:
    """Return NAMESPACE/NAME of a pod for a text, each with at most `limit` characters."""
    return f"{cut(pod.namespace, limit)}/{cut(pod.name, limit)}"


def pod_names(pod: PodSandbox) -> PodNames:
    """Return the fields that name a pod."""
    return PodNames(pod=pod.name, namespace=pod.namespace, pod_uid=pod.uid)


def container_names(pod: PodSandbox, container: Container) -> ContainerNames:
    """Return the fields that name a container."""
    return ContainerNames(
        pod=pod.name,
        namespace=pod.namespace,
        container=container.name,
        pod_uid=pod.uid,
        container_id=container.container_id,
    )


def holder_names(state: EngineState, holder: Holder) -> ContainerNames:
    """Return the fields that name a holder's container; without those of an unknown pod."""
    pod = state.pods.get(holder.sandbox_id)
    return ContainerNames(
        pod=None if pod is None else pod.name,
        namespace=None if pod is None else pod.namespace,
        container=holder.container_name,
        pod_uid=holder.key[0],
        container_id=holder.container_id,
    )


def free_bytes(
    accounting: State, resources: Iterable[str], nodes: Iterable[int]
) -> dict[int, Amounts]:
    """Return the free bytes of some resources on some nodes.

    Only for nodes that a decision concerns: all nodes of a large machine fill a page of the log.
    """
    names, machine = tuple(resources), accounting.machine_state
    found = dict[int, Amounts]()
    for node_id in sorted(nodes):
        if node_id in machine:
            tables = machine[node_id].memory_map
            found[node_id] = {name: tables[name].free for name in names if name in tables}
    return found


def used_outside_of_pods(state: EngineState, resources: Iterable[str]) -> dict[int, Amounts]:
    """Return the hugepages that are used outside of pods, by node and resource, without zeros.

    `state` is that of a decision, in which they are masked.
    """
    names, found = tuple(resources), dict[int, Amounts]()
    for node_id, node in sorted(state.accounting.machine_state.items()):
        amounts = {name: masked_bytes(name, node.table(name)) for name in names}
        used = {name: size_bytes for name, size_bytes in amounts.items() if size_bytes}
        if used:
            found[node_id] = used
    return found


def provider_hints(others: OtherProviders, memory: tuple[Hint, ...] | None = None) -> Hints:
    """Return the hints of the CPUs, devices and network interfaces of a container."""
    network = interface_nodes(others.interfaces)
    return Hints(memory=memory, cpu=others.cpu, devices=(*others.devices,), network=network)


def interface_nodes(interfaces: Iterable[NetworkInterface]) -> dict[str, NodeSet]:
    """Return name -> NUMA nodes of network interfaces; empty where they are unknown."""
    return {each.name: each.nodes for each in interfaces}


def adjustment_shown(adjustment: Adjustment, nodes: NodeSet) -> AdjustmentShown:
    """Return what the reply sets: these NUMA nodes, and hugepage limits if there are any."""
    limits: Mapping[int, int] = adjustment.hugepage_limits
    return AdjustmentShown(
        cpuset_mems=nodes,
        hugepage_limits_bytes={hugepages_resource(size): n for size, n in limits.items()},
        hugepage_route=adjustment.hugepage_route.value if limits else "",
    )


def remedy_shown(remedy: Remedy) -> RemedyShown:
    """Return a remedy with its text."""
    return RemedyShown(
        kind=remedy.kind.value,
        text=remedy.text,
        nodes=remedy.nodes,
        bytes=remedy.amounts,
        setting=remedy.setting,
        values=remedy.values,
        pods=remedy.pods,
    )
