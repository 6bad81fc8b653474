"""What the scheduler may give to resource claims: a ResourceSlice of resource.k8s.io/v1.

One device for each NUMA node and resource, shared by all claims on it. Claims and pods without
claims draw on the same memory. The scheduler subtracts what claims consume, so the size of a device
is what pods without claims leave: free bytes, and those that claims hold.

============================  ====================================================================
node                          in the slice
============================  ====================================================================
of a group of several nodes   none: its containers may use each of its nodes
without normal memory         none: a container cannot have it as its only node
without room for two pages    none: the API server refuses a size below `min` plus `step`
with an earmark               what the earmark leaves, and it is not `empty`
with a share for claims       at most the share (`claims.sharePercent`)
last resort                   behind all others
============================  ====================================================================

The scheduler takes the first device that fits. The fullest node comes first, so that large free
nodes remain for large requests.

A claim on several nodes would make a group of them, and the claims of single nodes there would be
beside it. The scheduler does not know that rule. So a device has the attribute `empty`, and the
classes for several nodes select by it.

Sources: k8s.io/api/resource/v1; k8s.io/dynamic-resource-allocation, structured.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from nri_numamem.engine.core.allowed_nodes import rooms_left
from nri_numamem.engine.core.context import Context
from nri_numamem.engine.core.state import EngineState
from nri_numamem.export.amounts import Amounts, single_node_amounts
from nri_numamem.export.noderesourcetopology import MANAGED_BY, PARTITION, Host, partition_names
from nri_numamem.memorymanager.blocks import page_bytes
from nri_numamem.memorymanager.claims import bytes_of_claims, share_of
from nri_numamem.memorymanager.state import present_resources
from nri_numamem.numa import NodeSet
from nri_numamem.numa.quantity import MEMORY, canonical_resource

API_VERSION = "resource.k8s.io/v1"
DRIVER = "numamem.io"
"""The name of the driver, and the domain of its attributes."""
NUMA_NODE = "resource.kubernetes.io/numaNode"
"""The attribute that drivers of CPUs, GPUs and network interfaces publish too."""
CAPACITY = "size"
CLASS_PREFIX = "dra."
SEVERAL_NODES = "-multi-numa"
"""The end of the names of classes for requests of several nodes."""

DEVICE_LIMIT = 128
"""The API server's limit for a slice."""


def resource_slice(host: Host) -> dict[str, object]:
    """Return the slice of a host, memory first; its pool has no other slice."""
    devices = list(_devices(host))[:DEVICE_LIMIT]
    return {
        "apiVersion": API_VERSION,
        "kind": "ResourceSlice",
        "metadata": {"name": slice_name(host.node_name), "labels": dict([MANAGED_BY])},
        "spec": {
            "driver": DRIVER,
            "nodeName": host.node_name,
            "pool": {"name": host.node_name, "generation": 1, "resourceSliceCount": 1},
            "devices": devices,
        },
    }


def counted_for_node(document: Mapping[str, object]) -> dict[str, Any]:
    """Return a slice of ``resource_slice`` whose claims count for the Node's allocatable amounts.

    Source: KEP-5517, the feature gate DRANodeAllocatableResources.
    """
    spec = _mapping(document, "spec")
    devices = spec["devices"]
    assert isinstance(devices, list)  # noqa: S101 - of this module
    mapping = {"capacityKey": CAPACITY, "capacityMultiplier": "1"}
    counted = [
        {
            **device,
            "nodeAllocatableResources": {
                device["attributes"]["resource"]["string"]: {"mapping": mapping}
            },
        }
        for device in devices
    ]
    return {**document, "spec": {**spec, "devices": counted}}


def is_counted_for_node(document: Mapping[str, object]) -> bool:
    """Return whether the claims of a slice from the API server count for the Node."""
    devices = _mapping(document, "spec").get("devices")
    return any(
        isinstance(device, dict) and "nodeAllocatableResources" in device
        for device in (devices if isinstance(devices, list) else ())
    )


def slice_name(node_name: str) -> str:
    """Return the name of a host's slice."""
    return f"{node_name}-{DRIVER}"


def with_generation(document: Mapping[str, object], generation: int) -> dict[str, Any]:
    """Return a slice of ``resource_slice`` with another generation."""
    spec = _mapping(document, "spec")
    pool = {**_mapping(spec, "pool"), "generation": generation}
    return {**document, "spec": {**spec, "pool": pool}}


def generation_of(document: Mapping[str, object]) -> int:
    """Return the generation of a slice from the API server; 0 without one."""
    generation = _mapping(_mapping(document, "spec"), "pool").get("generation")
    return generation if isinstance(generation, int) else 0


def version_of(document: Mapping[str, object]) -> str:
    """Return the resourceVersion of an object from the API server; "" without one."""
    version = _mapping(document, "metadata").get("resourceVersion")
    return version if isinstance(version, str) else ""


def keeps_capacity(document: Mapping[str, object]) -> bool:
    """Return whether all devices of a slice from the API server may be shared."""
    devices = _mapping(document, "spec").get("devices")
    return all(
        isinstance(device, dict) and device.get("allowMultipleAllocations") is True
        for device in (devices if isinstance(devices, list) else ())
    )


def _mapping(document: Mapping[str, object], key: str) -> Mapping[str, object]:
    value = document.get(key)
    return value if isinstance(value, dict) else {}


def with_classes(host: Host) -> dict[str, object]:
    """Return a List with the slice of a host and the classes of its resources."""
    classes = device_classes(present_resources(host.state.accounting))
    return {"apiVersion": "v1", "kind": "List", "items": [*classes, resource_slice(host)]}


def device_classes(resources: Iterable[str]) -> list[dict[str, object]]:
    """Return two classes for each resource: for requests of one node, and of several."""
    return [
        _class(class_name(resource) + end, _selector(resource) + condition)
        for resource in resources
        for end, condition in (
            ("", ""),
            (SEVERAL_NODES, f' && device.attributes["{DRIVER}"].empty'),
        )
    ]


def class_name(resource: str) -> str:
    """Return the name of a resource's class: `dra.memory`, `dra.hugepages-2m`."""
    return CLASS_PREFIX + resource.lower().removesuffix("i")


def _selector(resource: str) -> str:
    return f'device.driver == "{DRIVER}" && device.attributes["{DRIVER}"].resource == "{resource}"'


def _class(name: str, expression: str) -> dict[str, object]:
    return {
        "apiVersion": API_VERSION,
        "kind": "DeviceClass",
        "metadata": {"name": name, "labels": dict([MANAGED_BY])},
        "spec": {"selectors": [{"cel": {"expression": expression}}]},
    }


def _devices(host: Host) -> Iterable[dict[str, object]]:
    accounting = host.state.accounting
    amounts = single_node_amounts(host.context, host.state, host.pool_use)
    held = bytes_of_claims(accounting, accounting.assignments)
    nodes = _fullest_first(host.context, amounts)
    attributes = _attributes(host.context, host.state, nodes)
    percent = host.context.policy.claims_share_percent
    for resource in present_resources(accounting):
        for node_id in nodes:
            if len(accounting.machine_state[node_id].cells) > 1:
                continue
            size_bytes = amounts[node_id][resource].available + held.get((node_id, resource), 0)
            if percent:
                share = share_of(accounting.machine_state[node_id], resource, percent)
                size_bytes = min(size_bytes, share)
            if size_bytes >= 2 * page_bytes(resource):
                yield _device(node_id, resource, size_bytes, attributes[node_id])


def _fullest_first(context: Context, found: Mapping[int, Mapping[str, Amounts]]) -> list[int]:
    last_resort = context.classification.last_resort
    return sorted(found, key=lambda n: (n in last_resort, found[n][MEMORY].available, n))


def _attributes(
    context: Context, state: EngineState, nodes: Iterable[int]
) -> dict[int, dict[str, object]]:
    """Return node id -> the attributes of the devices of a node."""
    sockets, partitions = _sockets(context), partition_names(context)
    set_aside = NodeSet(n for room in rooms_left(state).values() for n in room.nodes)
    found: dict[int, dict[str, object]] = {}
    for n in nodes:
        is_empty = not state.accounting.machine_state[n].number_of_assignments
        is_empty = is_empty and n not in set_aside
        tier = context.classification.classes[n].value
        found[n] = {NUMA_NODE: {"int": n}, "tier": {"string": tier}, "empty": {"bool": is_empty}}
        if n in sockets:
            found[n]["socket"] = {"int": sockets[n]}
        if n in partitions:
            found[n][PARTITION] = {"string": partitions[n]}
    return found


def _sockets(context: Context) -> Mapping[int, int]:
    """Return node id -> number of its group of nearest nodes; empty if they overlap.

    A node without CPUs is in no group: it may be equally far from all others.
    """
    nodes = [node for node in context.machine.nodes if node.cpus]
    near: dict[int, NodeSet] = {}
    for node in nodes:
        others = [node.distance_to(o.node_id) for o in nodes if o is not node]
        least = min(others, default=0)
        near[node.node_id] = NodeSet(
            o.node_id for o in nodes if o is node or node.distance_to(o.node_id) == least
        )
    groups = sorted(set(near.values()), key=min)
    if sum(map(len, groups)) > len(nodes):
        return {}
    return {node_id: number for number, group in enumerate(groups) for node_id in group}


def device_name(node_id: int, resource: str) -> str:
    """Return the name of a device, a DNS label: `memory-1`, `hugepages-2mi-0`."""
    return f"{resource.lower()}-{node_id}"


def device_of(name: str) -> tuple[int, str]:
    """Return node id and resource of a device's name; raise ValueError for other names."""
    kind, _, node = name.rpartition("-")
    is_number = node.isascii() and node.isdecimal() and len(node) < 6
    try:
        # The last letter but one is the capital of "2Mi".
        resource = canonical_resource(kind if kind == MEMORY else kind[:-2] + kind[-2:].title())
    except ValueError:
        resource = ""
    if not is_number or device_name(int(node), resource) != name:
        raise ValueError(f"{name!r:.80} is not a device such as memory-1 or hugepages-2mi-0")
    return int(node), resource


def _device(
    node_id: int, resource: str, size_bytes: int, attributes: Mapping[str, object]
) -> dict[str, object]:
    step = str(page_bytes(resource))  # requests are rounded up to it
    return {
        "name": device_name(node_id, resource),
        "allowMultipleAllocations": True,
        "attributes": {"resource": {"string": resource}, **attributes},
        "capacity": {
            CAPACITY: {
                "value": str(size_bytes),
                "requestPolicy": {"default": step, "validRange": {"min": step, "step": step}},
            }
        },
    }
