"""Memory that pods may not use: parse `--reserved-memory`, and check it against a machine.

A reservation is one entry of the flag, or of `reservedMemory` in a configuration file.
``node_allocatable`` checks whether the reservations add up to the host's reservation.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from nri_numamem.memorymanager.state import Reserved
from nri_numamem.numa.machine import Machine, NumaNode
from nri_numamem.numa.quantity import (
    MEMORY,
    canonical_resource,
    format_quantity,
    hugepages_resource,
    is_memory_resource,
    parse_quantity,
)

_LimitPath = tuple[str, int, str, str]

# The kubelet parses the id with Go's strconv.Atoi.
_INTEGER = re.compile(r"[+-]?\d{1,10}", re.ASCII)


class ReservedMemoryError(ValueError):
    """An invalid reservation; the text is one line that names it."""

    def __init__(self, text: str, path: tuple[str | int, ...] = ()) -> None:
        super().__init__(text)
        self.path = path
        """The setting in question, as keys and list indexes; empty if it is not one setting."""


@dataclass(frozen=True, slots=True)
class Reservation:
    """The reservation of one node: one entry of the flag or of the setting `reservedMemory`."""

    numa_node: int
    limits: Mapping[str, int]
    """Resource name -> bytes."""


def parse_reserved_memory(text: str) -> tuple[Reservation, ...]:
    """Parse one value of `--reserved-memory`: "0:memory=1Gi,hugepages-1Gi=2Gi;1:memory=1Gi".

    If an entry has a type twice, the last one counts. The empty text reserves nothing. Raises
    ReservedMemoryError with the kubelet's texts. Source: kubelet options, ReservedMemoryVar.
    """
    return tuple(_parse_entry(entry) for entry in text.split(";")) if text else ()


def _parse_entry(entry: str) -> Reservation:
    node_text, colon, limits_text = entry.partition(":")
    if not colon or ":" in limits_text:
        raise ReservedMemoryError(
            "the reserved memory has incorrect format, "
            f"expected numaNodeID:type=quantity[,type=quantity...], got {entry}"
        )
    if _INTEGER.fullmatch(node_text) is None:
        raise ReservedMemoryError(
            f"failed to convert the NUMA node ID, exptected integer, got {node_text}"
        )
    return Reservation(int(node_text), dict(map(_parse_limit, limits_text.split(","))))


def _parse_limit(text: str) -> tuple[str, int]:
    resource, equals, quantity = text.partition("=")
    if not equals or "=" in quantity:
        raise ReservedMemoryError(
            f"the reserved limit has incorrect value, expected type=quantatity, got {text}"
        )
    if not is_memory_resource(resource):
        raise ReservedMemoryError(f'memory type conversion error, unknown type: "{resource}"')
    try:
        return resource, parse_quantity(quantity)
    except ValueError as error:
        raise ReservedMemoryError(
            f"failed to parse the quantatity, expected quantatity, got {quantity}"
        ) from error


def reservations_of(reserved: Reserved) -> tuple[Reservation, ...]:
    """Return one entry per node with a reservation."""
    return tuple(Reservation(node_id, limits) for node_id, limits in reserved.items() if limits)


def check_reserved(reservations: Iterable[Reservation], machine: Machine) -> Reserved:
    """Return the reserved bytes of each node of the machine.

    Raises ReservedMemoryError for a node that the machine lacks, an unknown type, a zero limit,
    the same node and type twice, a page size that the node has no pool of, and more than the node
    holds. Source: kubelet configuration validation and memorymanager validateReservedMemory;
    they do not check that it fits.
    """
    nodes = {node.node_id: node for node in machine.nodes}
    reserved: dict[int, dict[str, int]] = {node_id: {} for node_id in nodes}
    for index, entry in enumerate(reservations):
        place = f"reservedMemory[{index}]"
        if entry.numa_node not in nodes:
            raise ReservedMemoryError(
                f"{place}: the reserved memory configuration references a NUMA node "
                f"{entry.numa_node} that does not exist on this machine; "
                f"its NUMA nodes are {machine.node_set}",
                ("reservedMemory", index, "numaNode"),
            )
        for name, size_bytes in entry.limits.items():
            path = ("reservedMemory", index, "limits", name)
            resource = _check_limit(path, nodes[entry.numa_node], name, size_bytes)
            if resource in reserved[entry.numa_node]:
                raise ReservedMemoryError(
                    f"{_place(path)}: {resource} of NUMA node {entry.numa_node} is reserved "
                    "twice; write one entry with the sum",
                    path,
                )
            _check_room(path, nodes[entry.numa_node], resource, size_bytes)
            reserved[entry.numa_node][resource] = size_bytes
    return reserved


def _place(path: _LimitPath) -> str:
    setting, index, key, name = path
    return f"{setting}[{index}].{key}.{name}"


def _check_limit(path: _LimitPath, node: NumaNode, name: str, size_bytes: int) -> str:
    """Return the resource in its canonical spelling."""
    here = _place(path)
    if size_bytes <= 0:
        raise ReservedMemoryError(
            f"{here}: the limit is zero; remove it, or reserve an amount", path
        )
    try:
        resource = canonical_resource(name)
    except ValueError as error:
        raise ReservedMemoryError(
            f"{here}: unknown type; use memory or a hugepage resource such as hugepages-2Mi", path
        ) from error
    pools = [hugepages_resource(page_size_bytes) for page_size_bytes in sorted(node.hugepages)]
    if resource not in (MEMORY, *pools):
        raise ReservedMemoryError(
            f"{here}: NUMA node {node.node_id} has no such pages; "
            f"its pools are: {', '.join(pools) or 'none'}",
            path,
        )
    return resource


def _check_room(path: _LimitPath, node: NumaNode, resource: str, size_bytes: int) -> None:
    room = {hugepages_resource(size): size * pages for size, pages in node.hugepages.items()}
    room[MEMORY] = max(0, node.memory_bytes - node.hugepages_bytes)
    if size_bytes > room[resource]:
        besides = " besides its hugepages" if resource == MEMORY else ""
        raise ReservedMemoryError(
            f"{_place(path)}: {format_quantity(size_bytes)} do not fit on NUMA node "
            f"{node.node_id}, which has {format_quantity(room[resource])}{besides}; "
            "reserve less there",
            path,
        )
