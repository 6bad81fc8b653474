"""Fields that records of several events have.

Amounts are bytes; NUMA nodes are in the kernel's list format. Keys are in the order of reading.
"""

from collections.abc import Iterable, Mapping

from nri_numamem.engine.core.events import Container, NetworkInterface, PodSandbox
from nri_numamem.engine.core.plan import Adjustment, RecordValue
from nri_numamem.engine.core.providers import CPU, DEVICES, NETWORK, OtherProviders
from nri_numamem.engine.core.state import EngineState
from nri_numamem.engine.core.text import NAME_CHARACTERS, cut
from nri_numamem.memorymanager import Hint
from nri_numamem.memorymanager.hugepage_pools import masked_bytes
from nri_numamem.memorymanager.remedy import Remedy
from nri_numamem.numa import hugepages_resource

# The beginning of every rejection text: `kubectl describe pod` shows texts of several components.
PREFIX = "numamem: "

Fields = dict[str, RecordValue]


def pod_name(pod: PodSandbox, limit: int = NAME_CHARACTERS) -> str:
    """Return NAMESPACE/NAME of a pod for a text, each with at most `limit` characters."""
    return f"{cut(pod.namespace, limit)}/{cut(pod.name, limit)}"


def pod_fields(pod: PodSandbox) -> Fields:
    """Return the fields that name a pod."""
    return {"pod": pod.name, "namespace": pod.namespace, "pod_uid": pod.uid}


def container_fields(pod: PodSandbox, container: Container) -> Fields:
    """Return the fields that name a container."""
    return {
        "pod": pod.name,
        "namespace": pod.namespace,
        "container": container.name,
        "pod_uid": pod.uid,
        "container_id": container.container_id,
    }


def free_bytes(state: EngineState, resources: Iterable[str], nodes: Iterable[int]) -> Fields:
    """Return the free bytes of some resources on some nodes: {node: {resource: bytes}}.

    Only for nodes that a decision concerns: all nodes of a large machine fill a page of the log.
    """
    names, machine = tuple(resources), state.accounting.machine_state
    found: Fields = {}
    for node_id in sorted(nodes):
        if node_id in machine:
            tables = machine[node_id].memory_map
            found[str(node_id)] = {name: tables[name].free for name in names if name in tables}
    return found


def used_outside_of_pods(state: EngineState, resources: Iterable[str]) -> Fields:
    """Return the field with the hugepages that are used outside of pods, by node and resource.

    Empty if there are none. `state` is that of a decision, in which they are masked.
    """
    names, found = tuple(resources), Fields()
    for node_id, node in sorted(state.accounting.machine_state.items()):
        amounts = {name: masked_bytes(name, node.table(name)) for name in names}
        used = {name: size_bytes for name, size_bytes in amounts.items() if size_bytes}
        if used:
            found[str(node_id)] = used
    return {"used_outside_of_pods_bytes": found} if found else {}


def provider_hints(others: OtherProviders) -> Fields:
    """Return the hints of the CPUs, devices and network interfaces of a container."""
    hints: Fields = {}
    if others.cpu is not None:
        hints[CPU] = str(others.cpu)
    if others.devices:
        hints[DEVICES] = [str(nodes) for nodes in others.devices]
    if others.interfaces:
        hints[NETWORK] = interface_nodes(others.interfaces)
    return hints


def interface_nodes(interfaces: Iterable[NetworkInterface]) -> Fields:
    """Return name -> NUMA nodes of network interfaces; "" where they are unknown."""
    return {each.name: str(each.nodes) for each in interfaces}


def hint_value(hint: Hint) -> Fields:
    """Return a topology hint: {affinity, preferred}; the affinity None means any nodes."""
    affinity = None if hint.affinity is None else str(hint.affinity)
    return {"affinity": affinity, "preferred": hint.preferred}


def adjustment_value(adjustment: Adjustment) -> Fields:
    """Return what the reply sets: cpuset_mems, and hugepage limits if there are any."""
    value: Fields = {"cpuset_mems": adjustment.cpuset_mems}
    if adjustment.hugepage_limits:
        limits: Mapping[int, int] = adjustment.hugepage_limits
        value["hugepage_limits_bytes"] = {hugepages_resource(size): n for size, n in limits.items()}
        value["hugepage_route"] = adjustment.hugepage_route.value
    return value


def remedy_value(remedy: Remedy) -> Fields:
    """Return a remedy: {kind, text}, and the parameters that its kind has."""
    value: Fields = {"kind": remedy.kind.value, "text": remedy.text}
    if remedy.nodes:
        value["nodes"] = str(remedy.nodes)
    if remedy.amounts:
        value["bytes"] = dict(remedy.amounts)
    if remedy.setting:
        value |= {"setting": remedy.setting, "values": [*remedy.values]}
    if remedy.pods:
        value["pods"] = dict(remedy.pods)
    return value
