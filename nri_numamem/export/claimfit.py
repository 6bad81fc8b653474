"""Where the scheduler could allocate a resource claim on a host: its search, on the host's slice.

The scheduler takes the first solution: requests, alternatives and devices in their order. Requests
of other drivers are left out, so a constraint holds for the requests of this driver only.

Example: node 0 has 10Gi for claims and node 1 has 50Gi. A claim of 40Gi is allocated on node 1, and
one of 60Gi nowhere: 10Gi are missing on node 1.

Sources: k8s.io/api/resource/v1; k8s.io/dynamic-resource-allocation, structured.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TypeAlias

from nri_numamem.export.noderesourcetopology import Host
from nri_numamem.export.resourceslice import (
    CAPACITY,
    DRIVER,
    NUMA_NODE,
    SEVERAL_NODES,
    class_name,
    resource_slice,
)
from nri_numamem.memorymanager.blocks import page_bytes
from nri_numamem.memorymanager.claims import ClaimAmounts, bytes_of_claims, sum_of
from nri_numamem.memorymanager.state import present_resources
from nri_numamem.numa.quantity import MEMORY, parse_quantity

# Classes that exist in a cluster although this host may lack the resource.
_USUAL = (MEMORY, "hugepages-1Gi", "hugepages-2Mi")


class ClaimSpecError(ValueError):
    """A claim cannot be evaluated; the text is one line."""


@dataclass(frozen=True, slots=True)
class Option:
    """A request, or an alternative of one, for devices of this driver."""

    name: str
    """`mem`, or `mem/near` for an alternative."""
    resource: str
    size_bytes: int
    """Of each device, whole pages."""
    count: int
    """How many devices."""
    needs_empty: bool
    """Whether only NUMA nodes without pods and claims have devices for it."""

    @property
    def request(self) -> str:
        """The name of the request."""
        return self.name.partition("/")[0]


@dataclass(frozen=True, slots=True)
class Device:
    """A device of the slice."""

    node_id: int
    resource: str
    free_bytes: int
    """What claims do not hold."""
    attributes: Mapping[str, object]

    def fits(self, option: Option) -> bool:
        """Return whether the device alone is enough for a request."""
        is_selected = self.resource == option.resource and (
            not option.needs_empty or self.attributes["empty"] is True
        )
        return is_selected and self.free_bytes >= option.size_bytes


_Chosen: TypeAlias = tuple[tuple[Option, Device], ...]


@dataclass(frozen=True, slots=True)
class ClaimFit:
    """Where a claim could be allocated."""

    options: tuple[Option, ...]
    devices: tuple[Device, ...]
    """In the order of the slice."""
    others: tuple[str, ...]
    """Requests of other drivers."""
    chosen: _Chosen | None
    """The scheduler's first solution; None if there is none."""

    @property
    def amounts(self) -> ClaimAmounts:
        """Return what the first solution takes; empty if there is none."""
        return sum_of(
            {device.node_id: {option.resource: option.size_bytes}}
            for option, device in self.chosen or ()
        )


def fit_claim(host: Host, spec: object) -> ClaimFit:
    """Return where a claim with this spec could be allocated; raise ClaimSpecError."""
    present = present_resources(host.state.accounting)
    classes = {
        class_name(resource) + end: (resource, bool(end))
        for resource in (*_USUAL, *present)
        for end in ("", SEVERAL_NODES)
    }
    body = _mapping("devices", _mapping("spec", spec).get("devices"))
    requests: list[tuple[Option, ...]] = []
    others: list[str] = []
    for entry in _list("requests", body.get("requests")):
        request = _mapping("requests", entry)
        name = str(request.get("name"))
        options = tuple(_options(name, request, classes))
        if options:
            requests.append(options)
        else:
            others.append(name)
    constraints = [
        _mapping("constraints", c) for c in _list("constraints", body.get("constraints"))
    ]
    devices = tuple(_devices(host))
    chosen = _search(requests, constraints, devices, ())
    return ClaimFit(tuple(o for each in requests for o in each), devices, tuple(others), chosen)


def _options(
    name: str, request: Mapping[str, object], classes: Mapping[str, tuple[str, bool]]
) -> Iterator[Option]:
    """Yield the alternatives of a request; none if one of them is of another driver."""
    alternatives = [
        _mapping(name, entry) for entry in _list(name, request.get("firstAvailable"))
    ] or [_mapping(name, request.get("exactly"))]
    if not all(wanted.get("deviceClassName") in classes for wanted in alternatives):
        return
    for wanted in alternatives:
        full = f"{name}/{wanted['name']}" if "firstAvailable" in request else name
        if wanted.get("selectors") or wanted.get("allocationMode") == "All":
            raise ClaimSpecError(f"{full}: selectors and the mode All cannot be evaluated here")
        resource, needs_empty = classes[str(wanted["deviceClassName"])]
        amounts = _mapping(full, _mapping(full, wanted.get("capacity")).get("requests"))
        page = page_bytes(resource)
        try:
            size_bytes = parse_quantity(str(amounts.get(CAPACITY, page)))
            count = int(str(wanted.get("count", 1)))
        except ValueError as error:
            raise ClaimSpecError(f"{full}: {error}") from error
        yield Option(full, resource, -(-size_bytes // page) * page, count, needs_empty)


def _devices(host: Host) -> Iterator[Device]:
    accounting = host.state.accounting
    held = bytes_of_claims(accounting, accounting.assignments)
    spec = _mapping("slice", resource_slice(host)["spec"])
    for entry in _list("devices", spec["devices"]):
        device = _mapping("device", entry)
        attributes = {
            name: next(iter(_mapping(name, value).values()))
            for name, value in _mapping("attributes", device["attributes"]).items()
        }
        capacity = _mapping("size", _mapping("capacity", device["capacity"])[CAPACITY])
        node_id, resource = int(str(attributes[NUMA_NODE])), str(attributes["resource"])
        free_bytes = int(str(capacity["value"])) - held.get((node_id, resource), 0)
        yield Device(node_id, resource, free_bytes, attributes)


def _search(
    requests: Sequence[tuple[Option, ...]],
    constraints: Sequence[Mapping[str, object]],
    devices: Sequence[Device],
    chosen: _Chosen,
) -> _Chosen | None:
    """Return the first solution that has the devices chosen so far; None without one."""
    if not requests:
        return chosen
    for option in requests[0]:
        fitting = [device for device in devices if device.fits(option)]
        for picked in combinations(fitting, option.count):
            trial = (*chosen, *((option, device) for device in picked))
            if _has_room(trial) and all(_holds(each, trial) for each in constraints):
                found = _search(requests[1:], constraints, devices, trial)
                if found is not None:
                    return found
    return None


def _has_room(chosen: _Chosen) -> bool:
    """Return whether each device is enough for all requests on it."""
    return all(
        sum(option.size_bytes for option, other in chosen if other is device) <= device.free_bytes
        for _, device in chosen
    )


def _holds(constraint: Mapping[str, object], chosen: _Chosen) -> bool:
    names = _list("constraints", constraint.get("requests"))
    name = str(constraint.get("matchAttribute") or constraint.get("distinctAttribute"))
    values = [
        device.attributes.get(name.removeprefix(f"{DRIVER}/"))
        for option, device in chosen
        if not names or option.name in names or option.request in names
    ]
    different = len(set(values))
    is_match = "matchAttribute" in constraint
    return None not in values and (different <= 1 if is_match else different == len(values))


def _mapping(place: str, value: object) -> Mapping[str, object]:
    """Return a mapping; null is an empty one."""
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise ClaimSpecError(f"{place}: expected a mapping")
    return value


def _list(place: str, value: object) -> Sequence[object]:
    """Return a list; null is an empty one."""
    if value is None:
        return []
    if not isinstance(value, list):
        raise ClaimSpecError(f"{place}: expected a list")
    return value
