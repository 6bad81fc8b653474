"""A ResourceClaimTemplate of resource.k8s.io/v1, and the part of a pod that uses it.

What must be on one NUMA node is one claim, because constraints do not reach across claims. The
scheduler tries devices in the order of the requests. Memory comes first, so a NUMA node without
room is left before CPUs are tried there.

===================================  ===========================================================
claim of                             requests
===================================  ===========================================================
one NUMA node                        one for each resource and device; a constraint demands the
                                     same `resource.kubernetes.io/numaNode`
several NUMA nodes, memory only      one that counts them
several NUMA nodes, with hugepages,  a group for each, as for one NUMA node; a constraint demands
CPUs or devices                      different NUMA nodes for the memory of the groups
===================================  ===========================================================

Memory on several NUMA nodes has two alternatives, `near` (all on one socket) and `any`. In groups
each request has its own alternatives, and the scheduler would mix them: the first free NUMA node as
`near`, and `any` other one, although a pair on one socket is free elsewhere. So further constraints
demand that `near` of the first group and `any` of another one, or the reverse, are on the same NUMA
node. They never are, so the groups are all `near` or all `any`.

Sources: k8s.io/api/resource/v1; k8s.io/dynamic-resource-allocation, structured.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from nri_numamem.export.resourceslice import (
    API_VERSION,
    CAPACITY,
    DRIVER,
    NUMA_NODE,
    SEVERAL_NODES,
    class_name,
)
from nri_numamem.memorymanager.blocks import largest_part, resource_order
from nri_numamem.numa.quantity import MEMORY, format_quantity

CPU_CLASS = "dra.cpu"
CPU_CAPACITY = "dra.cpu/cpu"
"""The class and the capacity of dra-driver-cpu in its grouped mode."""
SOCKET = f"{DRIVER}/socket"
NEAR, ANY = "near", "any"
"""The alternatives of memory on several nodes, in this order."""
CLAIM = "numa"
"""The name of the claim in the pod."""
IMAGE = "IMAGE"
"""To be replaced by the reader."""

NODES_MOST = 8
GROUPS_MOST = 6
"""The scheduler refuses a claim after it has tried each order of the groups: 65 ms for 6, but 5 s
for 8, and its limit is 10 s for all claims of a pod."""
DEVICES_MOST = 32
"""The scheduler never allocates a claim with more devices."""


@dataclass(frozen=True, slots=True)
class Needs:
    """What a pod needs on one or several NUMA nodes, an equal part on each."""

    amounts: Mapping[str, int]
    """Resource name -> bytes on all nodes together, > 0; with `memory`."""
    cpus: int = 0
    """On all nodes together, a multiple of `nodes`."""
    devices: tuple[str, ...] = ()
    """The class of each device; the devices of one class go to the nodes in turn."""
    nodes: int = 1

    @property
    def parts(self) -> dict[str, int]:
        """Return resource name -> bytes on each node, whole pages; memory first."""
        ordered = sorted(self.amounts, key=resource_order)
        return {name: largest_part(name, self.amounts[name], self.nodes) for name in ordered}

    @property
    def is_memory_only(self) -> bool:
        """Return whether nothing but memory is needed."""
        return len(self.amounts) == 1 and not self.cpus and not self.devices

    @property
    def device_count(self) -> int:
        """Return the number of devices that the claim gets."""
        return self.nodes * (len(self.amounts) + bool(self.cpus)) + len(self.devices)


def claim_template(name: str, needs: Needs) -> dict[str, object]:
    """Return the template of the claim."""
    return {
        "apiVersion": API_VERSION,
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": name},
        "spec": {"spec": claim_spec(needs)},
    }


def pod_with_claim(
    name: str, needs: Needs, *, is_counted_for_node: bool = False
) -> dict[str, object]:
    """Return a pod with one container, which uses a claim of the template with the same name.

    Requests and limits repeat the claim. The scheduler counts the Node's CPUs and memory by
    requests, and a pod without any is BestEffort. They do not repeat memory and hugepages that the
    claim itself counts for the Node.
    """
    parts = {} if is_counted_for_node else needs.parts
    bytes_of = {resource: part * needs.nodes for resource, part in parts.items()}
    amounts = {"cpu": str(needs.cpus)} if needs.cpus else {}
    amounts |= {resource: format_quantity(size) for resource, size in bytes_of.items()}
    resources: dict[str, object] = {"claims": [{"name": CLAIM}]}
    if amounts:
        resources |= {"requests": amounts, "limits": amounts}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {
            "resourceClaims": [{"name": CLAIM, "resourceClaimTemplateName": name}],
            "containers": [{"name": name, "image": IMAGE, "resources": resources}],
        },
    }


def claim_spec(needs: Needs) -> dict[str, object]:
    """Return the spec of the claim."""
    if needs.nodes > 1 and needs.is_memory_only:
        requests = [_memory_request("mem", needs.parts[MEMORY], {"count": needs.nodes})]
        constraints = [_match([f"mem/{NEAR}"], SOCKET)]
    else:
        groups = [list(_group(needs, number)) for number in range(needs.nodes)]
        requests = [request for group in groups for request in group]
        names = [[str(request["name"]) for request in group] for group in groups]
        constraints = [_match(group, NUMA_NODE) for group in names if len(group) > 1]
        constraints += _between([group[0] for group in names])
    devices = {"requests": requests, "constraints": constraints}
    return {"devices": {key: value for key, value in devices.items() if value}}


def _group(needs: Needs, number: int) -> Iterator[dict[str, object]]:
    """Yield the requests of one node, memory first."""
    is_alone = needs.nodes == 1
    side, end = ("", "") if is_alone else (f"-{number}", SEVERAL_NODES)
    for resource, part in needs.parts.items():
        if resource == MEMORY and not is_alone:
            yield _memory_request(f"mem{side}", part)
            continue
        name = "mem" if resource == MEMORY else resource.lower()
        size = format_quantity(part)
        yield _exactly(f"{name}{side}", _amount(class_name(resource) + end, CAPACITY, size))
    if needs.cpus:
        cpus = str(needs.cpus // needs.nodes)
        yield _exactly(f"cpus{side}", _amount(CPU_CLASS, CPU_CAPACITY, cpus))
    for index, device_class in enumerate(needs.devices):
        if needs.devices[:index].count(device_class) % needs.nodes == number:
            yield _exactly(f"device-{index}", {"deviceClassName": device_class})


def _memory_request(
    name: str, part: int, more: Mapping[str, object] | None = None
) -> dict[str, object]:
    """Return a request of memory for claims of several nodes."""
    device_class = class_name(MEMORY) + SEVERAL_NODES
    wanted = {**_amount(device_class, CAPACITY, format_quantity(part)), **(more or {})}
    return {"name": name, "firstAvailable": [{"name": each, **wanted} for each in (NEAR, ANY)]}


def _exactly(name: str, wanted: Mapping[str, object]) -> dict[str, object]:
    return {"name": name, "exactly": wanted}


def _amount(device_class: str, key: str, amount: str) -> dict[str, object]:
    return {"deviceClassName": device_class, "capacity": {"requests": {key: amount}}}


def _match(requests: list[str], attribute: str) -> dict[str, object]:
    return {"requests": requests, "matchAttribute": attribute}


def _between(memory: list[str]) -> Iterator[dict[str, object]]:
    """Yield the constraints between groups, given the names of their requests of memory."""
    first, *others = memory
    if not others:
        return
    yield {"requests": memory, "distinctAttribute": NUMA_NODE}
    yield _match([f"{name}/{NEAR}" for name in memory], SOCKET)
    for name in others:
        yield _match([f"{first}/{NEAR}", f"{name}/{ANY}"], NUMA_NODE)
        yield _match([f"{first}/{ANY}", f"{name}/{NEAR}"], NUMA_NODE)
