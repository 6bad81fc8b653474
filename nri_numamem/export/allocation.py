"""What the scheduler allocated to a resource claim, from the claim as the API server sends it.

A claim has one result for each device. Results of other drivers are not read. Those of this driver
name devices of the host's slice (``resourceslice``), and the amount that the claim consumes:

    {"request": "mem/near", "driver": "numamem.io", "pool": "worker-3", "device": "memory-1",
     "shareID": "...", "consumedCapacity": {"size": "40Gi"}}

An alternative belongs to its request: the kubelet and containers name `mem` for `mem/near`.
Source: k8s.io/api/resource/v1, DeviceRequestAllocationResult.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from nri_numamem.export.resourceslice import CAPACITY, DRIVER, device_of
from nri_numamem.memorymanager.claims import Claim, ClaimAmounts, sum_of
from nri_numamem.numa.quantity import parse_quantity


class AllocationError(ValueError):
    """A claim cannot be prepared on this host; the text is the reason."""


@dataclass(frozen=True, slots=True)
class AllocatedDevice:
    """A device of this host that a claim may use."""

    request: str
    name: str
    share_id: str
    """The id of the claim's share of the device; "" without one."""
    amounts: ClaimAmounts


@dataclass(frozen=True, slots=True)
class Allocation:
    """A claim and its devices."""

    claim: Claim
    devices: tuple[AllocatedDevice, ...]


def allocation_of(document: Mapping[str, object], uid: str, node_name: str) -> Allocation:
    """Return what a claim has of a host; raise AllocationError.

    `uid` is that of the claim that the kubelet prepares.
    """
    metadata = _mapping(document, "metadata")
    found = _text(metadata, "uid")
    if found != uid:
        raise AllocationError(
            f"the claim was deleted and made anew: its uid is {found!r:.80}, the kubelet's is "
            f"{uid!r:.80}; delete the pod"
        )
    status = _mapping(document, "status")
    devices = tuple(_devices(status, node_name))
    requests: dict[str, list[ClaimAmounts]] = {}
    for device in devices:
        requests.setdefault(device.request, []).append(device.amounts)
    claim = Claim(
        uid,
        _text(metadata, "namespace"),
        _text(metadata, "name"),
        {name: sum_of(amounts) for name, amounts in requests.items()},
        frozenset(_pods(status)),
    )
    return Allocation(claim, devices)


def _devices(status: Mapping[str, object], node_name: str) -> Iterator[AllocatedDevice]:
    if "allocation" not in status:
        raise AllocationError("the claim is not allocated; wait for the scheduler")
    results = _list(_mapping(_mapping(status, "allocation"), "devices"), "results")
    own = [result for result in results if _text(result, "driver") == DRIVER]
    if not own:
        raise AllocationError(f"the claim has no device of the driver {DRIVER}")
    for result in own:
        yield _device(result, node_name)


def _device(result: Mapping[str, object], node_name: str) -> AllocatedDevice:
    name, pool = _text(result, "device"), _text(result, "pool")
    if pool != node_name:
        raise AllocationError(
            f"device {name} is of the pool {pool}, and this is node {node_name}; name the Node "
            "object with --node-name"
        )
    try:
        node_id, resource = device_of(name)
    except ValueError as error:
        raise AllocationError(str(error)) from error
    if result.get("adminAccess"):
        raise AllocationError(f"device {name}: adminAccess is not supported: memory is charged")
    amounts = {node_id: {resource: _size_bytes(result, name)}}
    share_id = _text(result, "shareID") if "shareID" in result else ""
    return AllocatedDevice(_text(result, "request").partition("/")[0], name, share_id, amounts)


def _size_bytes(result: Mapping[str, object], name: str) -> int:
    if "consumedCapacity" not in result:
        raise AllocationError(
            f"device {name} is allocated without an amount: enable DRAConsumableCapacity in the "
            "API server and the scheduler, and create the claim anew"
        )
    size = _text(_mapping(result, "consumedCapacity"), CAPACITY)
    try:
        size_bytes = parse_quantity(size)
    except ValueError as error:
        raise AllocationError(f"device {name}: consumedCapacity.{CAPACITY}: {error}") from error
    if not size_bytes:
        raise AllocationError(f"device {name}: consumedCapacity.{CAPACITY} is 0")
    return size_bytes


def _pods(status: Mapping[str, object]) -> Iterable[str]:
    if "reservedFor" not in status:
        return ()
    consumers = _list(status, "reservedFor")
    return (_text(each, "uid") for each in consumers if each.get("resource") == "pods")


def _mapping(entry: Mapping[str, object], key: str) -> Mapping[str, object]:
    value = entry.get(key)
    if not isinstance(value, dict):
        raise AllocationError(f"not a valid ResourceClaim: {key} is not an object")
    return value


def _list(entry: Mapping[str, object], key: str) -> list[Mapping[str, object]]:
    value = entry.get(key)
    if not isinstance(value, list) or not all(isinstance(each, dict) for each in value):
        raise AllocationError(f"not a valid ResourceClaim: {key} is not a list of objects")
    return value


def _text(entry: Mapping[str, object], key: str) -> str:
    value = entry.get(key)
    if not isinstance(value, str) or not value:
        raise AllocationError(f"not a valid ResourceClaim: {key} is not a text")
    return value
