"""The settings for memory that is not for pods: per NUMA node, and for the whole host."""

import re
from collections.abc import Iterable, Mapping

from nri_numamem.config.setting import AMOUNT, Kind, integer
from nri_numamem.config.values import (
    SettingsError,
    SettingsPath,
    read_amount_text,
    read_integer,
    read_mapping,
    read_quantity,
    show,
    suggest,
)
from nri_numamem.kubelet.config_file import EVICTION_SIGNALS, RESERVABLE
from nri_numamem.memorymanager.reserved_memory import Reservation
from nri_numamem.numa.idset import NODE_ID_LIMIT
from nri_numamem.numa.quantity import (
    HUGEPAGES_PREFIX,
    MEMORY,
    format_quantity,
    hugepages_page_size,
    hugepages_resource,
    is_memory_resource,
)

# evictionHard takes "10%" as well as an amount.
_PERCENTAGE = re.compile(r"\d{1,3}(\.\d{1,9})?%", re.ASCII)


def _read_reservations(path: SettingsPath, value: object) -> tuple[Reservation, ...]:
    if not isinstance(value, list):
        remedy = "write a list such as [{numaNode: 0, limits: {memory: 1Gi}}]"
        raise SettingsError(path, f"{show(value)} instead of a list", remedy)
    return tuple(_reservation((*path, index), entry) for index, entry in enumerate(value))


def _reservation(path: SettingsPath, value: object) -> Reservation:
    entry = read_mapping(path, value, ("numaNode", "limits"))
    node_id = read_integer(
        (*path, "numaNode"), entry.get("numaNode"), least=0, most=NODE_ID_LIMIT - 1
    )
    limits: dict[str, int] = {}
    limits_path = (*path, "limits")
    for name, quantity in read_mapping(limits_path, entry.get("limits")).items():
        here = (*limits_path, name)
        resource = _resource(here, name)
        if resource in limits:
            raise SettingsError(here, f"{resource} is given twice", "keep one of the two")
        limits[resource] = _whole_pages(here, resource, read_quantity(here, quantity))
    if not limits:
        remedy = "write what to reserve, such as {memory: 1Gi}, or remove the entry"
        raise SettingsError(limits_path, "nothing is reserved", remedy)
    return Reservation(node_id, limits)


def _resource(path: SettingsPath, name: str) -> str:
    """Return the canonical spelling, so that hugepages-2048Ki means the pool hugepages-2Mi."""
    if name == MEMORY:
        return name
    try:
        return hugepages_resource(hugepages_page_size(name))
    except ValueError as error:
        remedy = "use memory or a hugepage resource such as hugepages-2Mi"
        raise SettingsError(path, str(error), remedy) from error


def _whole_pages(path: SettingsPath, resource: str, size_bytes: int) -> int:
    """Return the amount; raise SettingsError if it is not a multiple of the page size."""
    if resource != MEMORY and size_bytes % (page_bytes := hugepages_page_size(resource)):
        page = format_quantity(page_bytes)
        problem = f"{format_quantity(size_bytes)} is not a whole number of {page} pages"
        near = format_quantity(-(-size_bytes // page_bytes) * page_bytes)
        raise SettingsError(path, problem, f"write a multiple of {page}, such as {near}")
    return size_bytes


def _read_amounts(path: SettingsPath, value: object) -> dict[str, str]:
    """Return amounts as text; amounts of memory must be valid, since they are added up later."""
    amounts: dict[str, str] = {}
    for name, amount in read_mapping(path, value).items():
        here = (*path, name)
        if name.startswith(HUGEPAGES_PREFIX):
            _resource(here, name)
        elif name not in RESERVABLE:
            raise SettingsError(here, "unknown name", suggest(name, RESERVABLE))
        amounts[name] = read_amount_text(here, amount)
        if is_memory_resource(name):
            read_quantity(here, amount)
    return amounts


def _read_thresholds(path: SettingsPath, value: object) -> dict[str, str]:
    """Return amounts or percentages as text; that of memory must be valid."""
    thresholds: dict[str, str] = {}
    for name, amount in read_mapping(path, value).items():
        here = (*path, name)
        if name not in EVICTION_SIGNALS:
            raise SettingsError(here, "unknown name", suggest(name, EVICTION_SIGNALS))
        thresholds[name] = text = read_amount_text(here, amount)
        if name == "memory.available" and _PERCENTAGE.fullmatch(text) is None:
            read_quantity(here, amount)
    return thresholds


def _write_reservations(reservations: Iterable[Reservation]) -> list[object] | None:
    return [
        {
            "numaNode": entry.numa_node,
            "limits": {name: format_quantity(size) for name, size in entry.limits.items()},
        }
        for entry in reservations
    ] or None


def _write_amounts(amounts: Mapping[str, str]) -> dict[str, str] | None:
    return dict(amounts) or None


def _amounts_of(names: str) -> Mapping[str, object]:
    """Return the schema of a mapping of names that match a pattern to amounts."""
    return {
        "type": "object",
        "propertyNames": {"pattern": names},
        "additionalProperties": AMOUNT,
    }


RESERVATIONS = Kind(
    "list of `numaNode` and `limits` (resource: amount)",
    _read_reservations,
    _write_reservations,
    "[]",
    {
        "type": "array",
        "items": {
            "type": "object",
            "additionalProperties": False,
            "required": ["numaNode", "limits"],
            "properties": {
                "numaNode": integer(0, NODE_ID_LIMIT - 1).schema,
                "limits": _amounts_of(f"^({MEMORY}|{HUGEPAGES_PREFIX}.+)$"),
            },
        },
    },
)
AMOUNTS = Kind(
    "mapping of resource to amount",
    _read_amounts,
    _write_amounts,
    "{}",
    _amounts_of(f"^({'|'.join(RESERVABLE)}|{HUGEPAGES_PREFIX}.+)$"),
)
THRESHOLDS = Kind(
    "mapping of eviction signal to amount or percentage",
    _read_thresholds,
    _write_amounts,
    "{}",
    _amounts_of(f"^({'|'.join(map(re.escape, EVICTION_SIGNALS))})$"),
)
