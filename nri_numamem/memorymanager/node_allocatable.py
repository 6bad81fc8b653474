"""The host's reservation as a whole, and its distribution over the NUMA nodes.

The kubelet subtracts `kubeReserved`, `systemReserved` and the hard eviction threshold from the
host's memory, and requires that the reservations per NUMA node add up to exactly that sum. This
module computes the sum and compares it with the configured reservations; without any, it
distributes the sum over the nodes.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from nri_numamem.memorymanager.reserved_memory import (
    Reservation,
    ReservedMemoryError,
    check_reserved,
    reservations_of,
)
from nri_numamem.memorymanager.state import Reserved
from nri_numamem.numa.idset import NodeSet
from nri_numamem.numa.machine import Machine
from nri_numamem.numa.memory_nodes import without_nodes
from nri_numamem.numa.quantity import (
    EXACT_ONE,
    MEMORY,
    canonical_resource,
    format_quantity,
    hugepages_page_size,
    is_memory_resource,
    parse_exact,
    parse_quantity,
    sum_mappings,
)

NO_NODES = NodeSet()

MEMORY_AVAILABLE = "memory.available"
# The kubelet's default hard eviction threshold for memory.
DEFAULT_EVICTION = {MEMORY_AVAILABLE: "100Mi"}

# Shares are whole mebibytes, so that people can read the derived reservations.
_GRAIN = 1024**2

_PERCENTAGE = re.compile(r"(\d{1,3}(?:\.\d{1,9})?)%", re.ASCII)


@dataclass(frozen=True, slots=True)
class HostReservation:
    """The kubelet's three settings for reserved memory; amounts as in the configuration."""

    kube_reserved: Mapping[str, str] = field(default_factory=dict)
    system_reserved: Mapping[str, str] = field(default_factory=dict)
    eviction_hard: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_given(self) -> bool:
        """Whether any of the settings is set."""
        return bool(self.kube_reserved or self.system_reserved or self.eviction_hard)

    def parts(self, capacity_bytes: int) -> Mapping[str, Mapping[str, int]]:
        """Return resource -> setting -> bytes > 0 for memory and hugepages.

        A percentage refers to the memory capacity. Without evictionHard, the kubelet's default
        counts; an evictionHard without memory reserves nothing. Raises ReservedMemoryError for an
        amount that is not a quantity. Source: kubelet, getReservedMemory and
        hardEvictionReservation.
        """
        settings = {"kubeReserved": self.kube_reserved, "systemReserved": self.system_reserved}
        parts: dict[str, dict[str, int]] = {}
        for setting, amounts in settings.items():
            for resource, text in amounts.items():
                if is_memory_resource(resource):
                    place = f"{setting}.{resource}"
                    name, size_bytes = _name(place), _read(place, text, capacity_bytes=None)
                    parts.setdefault(name, {})[setting] = size_bytes
        eviction = (self.eviction_hard or DEFAULT_EVICTION).get(MEMORY_AVAILABLE, "0")
        place = f"evictionHard.{MEMORY_AVAILABLE}"
        parts.setdefault(MEMORY, {})["evictionHard"] = _read(place, eviction, capacity_bytes)
        positive = {
            resource: {setting: size for setting, size in amounts.items() if size}
            for resource, amounts in parts.items()
        }
        return {resource: amounts for resource, amounts in positive.items() if amounts}


def _name(place: str) -> str:
    try:
        return canonical_resource(place.partition(".")[2])
    except ValueError as error:
        raise ReservedMemoryError(f"{place}: {error}", (place.partition(".")[0],)) from error


def _read(place: str, text: str, capacity_bytes: int | None) -> int:
    percentage = None if capacity_bytes is None else _PERCENTAGE.fullmatch(text)
    setting, _, name = place.partition(".")
    if percentage is not None and capacity_bytes is not None:
        share = parse_exact(percentage[1])
        if share > 100 * EXACT_ONE:  # Source: kubelet eviction, parseThresholdStatement
            problem = f"{text} is more than 100%; write a smaller percentage, or an amount"
            raise ReservedMemoryError(f"{place}: {problem}", (setting, name))
        return capacity_bytes * share // (100 * EXACT_ONE)
    try:
        return parse_quantity(text)
    except ValueError as error:
        raise ReservedMemoryError(f"{place}: {error}", (setting, name)) from error


def resolve_reserved(
    reservations: Iterable[Reservation],
    host: HostReservation,
    machine: Machine,
    excluded: NodeSet = NO_NODES,
) -> Reserved:
    """Return the reserved bytes of each node that is not excluded, from all settings.

    Reservations per node are checked against the machine, and against the host's reservation if
    that is set too. Without them, the host's reservation is distributed over the nodes. Excluded
    nodes get no share, and do not count for percentages; their written reservations are checked,
    and then have no effect. Raises ReservedMemoryError. Source: kubelet memorymanager,
    getSystemReservedMemory.
    """
    written = tuple(reservations)
    used = without_nodes(machine, excluded)
    capacity_bytes = sum(node.memory_bytes for node in used.nodes)
    parts = host.parts(capacity_bytes)
    if not written:
        _check_totals(parts, used)
        return check_reserved(reservations_of(derive(_sums(parts), used)), used)
    reserved = check_reserved(written, machine)
    if host.is_given:
        _check_sum(reserved, parts, used)
    return {node_id: limits for node_id, limits in reserved.items() if node_id not in excluded}


def _check_totals(parts: Mapping[str, Mapping[str, int]], machine: Machine) -> None:
    """Raise ReservedMemoryError if the host's reservation exceeds what the nodes have together."""
    for resource, amounts in parts.items():
        weights, grain = _weights(resource, machine)
        unit = 1 if resource == MEMORY else grain
        room_bytes, total = sum(weights.values()) * unit, sum(amounts.values())
        if total > room_bytes:
            setting = max(amounts, key=lambda name: amounts[name])
            key = MEMORY_AVAILABLE if setting == "evictionHard" else resource
            besides = " besides their hugepages" if resource == MEMORY else ""
            raise ReservedMemoryError(
                f"{setting}.{key}: {_addition(resource, parts, total)} of {resource} are "
                f"reserved, but the NUMA nodes have {format_quantity(room_bytes)}{besides}; "
                "reserve less",
                (setting, key),
            )


def _sums(parts: Mapping[str, Mapping[str, int]]) -> dict[str, int]:
    return {resource: sum(amounts.values()) for resource, amounts in parts.items()}


def derive(totals: Mapping[str, int], machine: Machine) -> Reserved:
    """Distribute totals (resource -> bytes) over the nodes, in proportion to their amounts.

    A node's amount of memory is its memory less its hugepages. Shares are whole mebibytes and
    whole pages; the last node with a share gets the remainder. The result has no nodes without a
    share. Raises ReservedMemoryError if no node has any of a resource.
    """
    shares: dict[int, dict[str, int]] = {}
    for resource, total in sorted(totals.items()):
        weights, grain = _weights(resource, machine)
        if total and not any(weights.values()):
            raise ReservedMemoryError(
                f"{format_quantity(total)} of {resource} are reserved, but no NUMA node of this "
                "machine has any; do not reserve it"
            )
        for node_id, share in _distribute(total, weights, grain).items():
            shares.setdefault(node_id, {})[resource] = share
    return dict(sorted(shares.items()))


def _weights(resource: str, machine: Machine) -> tuple[dict[int, int], int]:
    """Return each node's amount of a resource, and the unit of the shares."""
    if resource == MEMORY:
        weights = {n.node_id: n.memory_bytes - n.hugepages_bytes for n in machine.nodes}
        return {node_id: max(0, weight) for node_id, weight in weights.items()}, _GRAIN
    size = hugepages_page_size(resource)
    return {node.node_id: node.hugepages.get(size, 0) for node in machine.nodes}, size


def _distribute(total: int, weights: Mapping[int, int], grain: int) -> dict[int, int]:
    node_ids = [node_id for node_id, weight in weights.items() if weight]
    sum_of_weights = sum(weights.values())
    shares: dict[int, int] = {}
    end = weight = 0
    for node_id in node_ids:
        start = end
        weight += weights[node_id]
        is_last = node_id == node_ids[-1]
        end = total if is_last else total * weight // sum_of_weights // grain * grain
        if end > start:
            shares[node_id] = end - start
    return shares


def _check_sum(
    reserved: Reserved, parts: Mapping[str, Mapping[str, int]], machine: Machine
) -> None:
    """Raise ReservedMemoryError unless the reservations add up to the host's reservation.

    The error has a line to paste into the configuration.
    """
    written = sum_mappings(reserved.values())
    required = _sums(parts)
    for resource in sorted({*written, *required}, key=lambda name: (name != MEMORY, name)):
        actual, expected = written.get(resource, 0), required.get(resource, 0)
        if actual != expected:
            raise ReservedMemoryError(
                f'the total amount "{format_quantity(actual)}" of type "{resource}" is not '
                f'equal to the value "{format_quantity(expected)}" determined by Node '
                "Allocatable feature; "
                f"{_addition(resource, parts, expected)}, reservedMemory adds up to "
                f"{format_quantity(actual)}; {_remedy(resource, reserved, required, machine)}",
                ("reservedMemory",),
            )


def _addition(resource: str, parts: Mapping[str, Mapping[str, int]], total: int) -> str:
    terms = [f"{name} {format_quantity(size)}" for name, size in parts.get(resource, {}).items()]
    if len(terms) < 2:
        return terms[0] if terms else "nothing is reserved"
    return f"{' + '.join(terms)} = {format_quantity(total)}"


def _remedy(resource: str, written: Reserved, required: Mapping[str, int], machine: Machine) -> str:
    """Return how to correct one resource; what is written for the others stays."""
    if resource != MEMORY and not required.get(resource):
        return f"add {resource} to kubeReserved or systemReserved, or remove it from reservedMemory"
    corrected = derive({resource: required.get(resource, 0)}, machine)
    others = {
        node: {name: size for name, size in limits.items() if name != resource}
        for node, limits in written.items()
    }
    nodes = sorted({*corrected, *others})
    merged = {node: {**corrected.get(node, {}), **others.get(node, {})} for node in nodes}
    return f"write reservedMemory: {_to_paste(merged)}"


def _to_paste(reserved: Reserved) -> str:
    """Return the value of `reservedMemory` in YAML's flow style."""
    entries: tuple[Reservation, ...] = reservations_of(reserved)
    texts = []
    for entry in entries:
        limits = ", ".join(f"{name}: {format_quantity(b)}" for name, b in entry.limits.items())
        texts.append(f"{{numaNode: {entry.numa_node}, limits: {{{limits}}}}}")
    return f"[{', '.join(texts)}]"
