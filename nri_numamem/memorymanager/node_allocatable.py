"""The host's reservation as a whole, and how it is spread over the NUMA nodes.

The kubelet takes `kubeReserved`, `systemReserved` and the hard eviction threshold off the host's
memory, and demands that the reservations per NUMA node add up to exactly the same. Here the
sum is computed, compared with what was written, and, where nothing was written, spread.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import field

from nri_numamem.memorymanager.machine import Machine
from nri_numamem.memorymanager.quantity import (
    EXACT_ONE,
    MEMORY,
    canonical_resource,
    format_quantity,
    hugepages_page_size,
    is_memory_resource,
    parse_exact,
    parse_quantity,
)
from nri_numamem.memorymanager.reserved import (
    HasReservation,
    Reservation,
    ReservedMemoryError,
    check_reserved,
    reservations_of,
)
from nri_numamem.memorymanager.state import Reserved
from nri_numamem.values import valueclass

MEMORY_AVAILABLE = "memory.available"
# The kubelet's default hard eviction threshold for memory.
DEFAULT_EVICTION = {MEMORY_AVAILABLE: "100Mi"}

# Shares are whole mebibytes, so that people can read what was derived.
_GRAIN = 1024**2

_PERCENTAGE = re.compile(r"(\d{1,3}(?:\.\d{1,9})?)%", re.ASCII)


@valueclass(frozen=True, slots=True)
class HostReservation:
    """What the host keeps for itself, in the kubelet's three settings; amounts as written."""

    kube_reserved: Mapping[str, str] = field(default_factory=dict)
    system_reserved: Mapping[str, str] = field(default_factory=dict)
    eviction_hard: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_given(self) -> bool:
        """Tell whether anything of it was set."""
        return bool(self.kube_reserved or self.system_reserved or self.eviction_hard)

    def parts(self, capacity_bytes: int) -> Mapping[str, Mapping[str, int]]:
        """Return resource -> setting -> bytes for memory and hugepages, zeros left out.

        A percentage is taken of the memory capacity. Without any evictionHard the kubelet's
        default counts; with one that does not name memory, nothing. Raises ReservedMemoryError
        for an amount that cannot be read. Source: kubelet, getReservedMemory and
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
        kept = {
            resource: {setting: size for setting, size in amounts.items() if size}
            for resource, amounts in parts.items()
        }
        return {resource: amounts for resource, amounts in kept.items() if amounts}


def _name(place: str) -> str:
    try:
        return canonical_resource(place.partition(".")[2])
    except ValueError as error:
        raise ReservedMemoryError(f"{place}: {error}") from error


def _read(place: str, text: str, capacity_bytes: int | None) -> int:
    percentage = None if capacity_bytes is None else _PERCENTAGE.fullmatch(text)
    if percentage is not None and capacity_bytes is not None:
        return capacity_bytes * parse_exact(percentage[1]) // (100 * EXACT_ONE)
    try:
        return parse_quantity(text)
    except ValueError as error:
        raise ReservedMemoryError(f"{place}: {error}") from error


def resolve_reserved(
    reservations: Iterable[HasReservation], host: HostReservation, machine: Machine
) -> Reserved:
    """Return what is reserved on each node, from everything that was configured.

    Written reservations are checked against the machine, and against the host's reservation when
    that is given too; without any, the host's reservation is spread. Raises ReservedMemoryError.
    """
    written = tuple(reservations)
    capacity_bytes = sum(node.memory_bytes for node in machine.nodes)
    parts = host.parts(capacity_bytes)
    if not written:
        return check_reserved(reservations_of(derive(_sums(parts), machine)), machine)
    reserved = check_reserved(written, machine)
    if host.is_given:
        _check_sum(reserved, parts, machine)
    return reserved


def _sums(parts: Mapping[str, Mapping[str, int]]) -> dict[str, int]:
    return {resource: sum(amounts.values()) for resource, amounts in parts.items()}


def derive(totals: Mapping[str, int], machine: Machine) -> Reserved:
    """Spread totals (resource -> bytes) over the nodes in proportion to what these have of it.

    Of memory they have what their hugepages leave; shares are whole mebibytes and whole pages,
    and the last node with a share takes the odd rest. Nodes without a share are left out. Raises
    ReservedMemoryError when no node has any.
    """
    shares: dict[int, dict[str, int]] = {}
    for resource, total in sorted(totals.items()):
        weights, grain = _weights(resource, machine)
        if total and not any(weights.values()):
            raise ReservedMemoryError(
                f"{format_quantity(total)} of {resource} are reserved, but no NUMA node of this "
                "machine has any; do not reserve it"
            )
        for node_id, share in _spread(total, weights, grain).items():
            shares.setdefault(node_id, {})[resource] = share
    return dict(sorted(shares.items()))


def _weights(resource: str, machine: Machine) -> tuple[dict[int, int], int]:
    """Return what each node has of a resource, and the unit to deal it out in."""
    if resource == MEMORY:
        taken = {
            node.node_id: sum(size * pages for size, pages in node.hugepages.items())
            for node in machine.nodes
        }
        return {n.node_id: max(0, n.memory_bytes - taken[n.node_id]) for n in machine.nodes}, _GRAIN
    size = hugepages_page_size(resource)
    return {node.node_id: node.hugepages.get(size, 0) for node in machine.nodes}, size


def _spread(total: int, weights: Mapping[int, int], grain: int) -> dict[int, int]:
    having = [node_id for node_id, weight in weights.items() if weight]
    whole = sum(weights.values())
    shares: dict[int, int] = {}
    dealt = seen = 0
    for node_id in having:
        seen += weights[node_id]
        is_last = node_id == having[-1]
        upto = total if is_last else total * seen // whole // grain * grain
        if upto > dealt:
            shares[node_id] = upto - dealt
        dealt = upto
    return shares


def _check_sum(
    reserved: Reserved, parts: Mapping[str, Mapping[str, int]], machine: Machine
) -> None:
    """Raise unless the reservations add up to the host's, with a line to paste."""
    written: dict[str, int] = {}
    for limits in reserved.values():
        for resource, size_bytes in limits.items():
            written[resource] = written.get(resource, 0) + size_bytes
    wanted = _sums(parts)
    for resource in sorted({*written, *wanted}, key=lambda name: (name != MEMORY, name)):
        have, want = written.get(resource, 0), wanted.get(resource, 0)
        if have != want:
            raise ReservedMemoryError(
                f'the total amount "{format_quantity(have)}" of type "{resource}" is not equal '
                f'to the value "{format_quantity(want)}" determined by Node Allocatable feature; '
                f"{_addition(resource, parts, want)}, reservedMemory adds up to "
                f"{format_quantity(have)}; write reservedMemory: {_to_paste(wanted, machine)}"
            )


def _addition(resource: str, parts: Mapping[str, Mapping[str, int]], want: int) -> str:
    terms = [f"{name} {format_quantity(size)}" for name, size in parts.get(resource, {}).items()]
    return f"{' + '.join(terms) or 'nothing is reserved'} = {format_quantity(want)}"


def _to_paste(totals: Mapping[str, int], machine: Machine) -> str:
    """Return the value of `reservedMemory` in YAML's flow style."""
    entries: tuple[Reservation, ...] = reservations_of(derive(totals, machine))
    texts = []
    for entry in entries:
        limits = ", ".join(f"{name}: {format_quantity(b)}" for name, b in entry.limits.items())
        texts.append(f"{{numaNode: {entry.numa_node}, limits: {{{limits}}}}}")
    return f"[{', '.join(texts)}]"
