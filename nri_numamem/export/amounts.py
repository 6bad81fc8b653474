"""Amounts of one resource in a zone, and their text.

Quantities are decimal: bytes and devices without a suffix, CPUs as a number or in millicores.
"""

from dataclasses import dataclass

from nri_numamem.engine.core.cpu_requests import MILLICORES


@dataclass(frozen=True, slots=True)
class Amounts:
    """The three amounts of the object, in bytes, millicores or devices."""

    capacity: int
    """What the NUMA node has."""
    allocatable: int
    """What pods may use of it."""
    available: int
    """What the next pod gets. The scheduler uses only this one."""


def resource_of_units(name: str, amounts: Amounts) -> dict[str, str]:
    """Return the entry of a resource that is counted in bytes or devices."""
    return _resource(name, str(amounts.capacity), str(amounts.allocatable), str(amounts.available))


def resource_of_cpus(amounts: Amounts) -> dict[str, str]:
    """Return the entry of `cpu`."""
    shown = map(_cpus, (amounts.capacity, amounts.allocatable, amounts.available))
    return _resource("cpu", *shown)


def _resource(name: str, capacity: str, allocatable: str, available: str) -> dict[str, str]:
    return {
        "name": name,
        "capacity": capacity,
        "allocatable": allocatable,
        "available": available,
    }


def _cpus(millicores: int) -> str:
    """Return the canonical form, as the API server shows it."""
    cpus, rest = divmod(millicores, MILLICORES)
    return f"{millicores}m" if rest else str(cpus)
