"""Network interfaces as hints: which NUMA nodes a new container should be near.

An interface with hardware counts as a device of the container. The setting networkHints decides
which interfaces a request has; an annotation of the pod can only switch them off.
"""

from dataclasses import replace

from nri_numamem.engine.core.events import NETWORK_HINTS, CreateContainer, NetworkRequest
from nri_numamem.engine.features.network_hints import records
from nri_numamem.engine.records.record import Record

OFF = "false"
"""The annotation that switches the hints off."""
ON = "true"
"""The annotation that changes nothing, as any other text; those are recorded."""


def apply(
    event: CreateContainer, request: NetworkRequest
) -> tuple[CreateContainer, tuple[Record, ...]]:
    """Return the event whose container has the interfaces that count, and the records."""
    found = tuple(each for each in request.interfaces if each.nodes)
    shown = records.found(event, request)
    annotation = event.pod.annotation(NETWORK_HINTS, event.container.name)
    if annotation == OFF:
        return event, (records.NetworkHintsDisabled(found=shown),) if found else ()
    obstacle = request.obstacle
    if annotation not in ("", ON):
        obstacle = obstacle or f"the annotation {annotation!r} is neither true nor false"
    noted: tuple[Record, ...] = ()
    if found:
        noted = (records.NetworkHintsFound(found=shown),)
    if obstacle:
        noted = (*noted, records.NetworkHintsIncomplete(found=shown, cause=obstacle))
    if not found:
        return event, noted
    return replace(event, container=replace(event.container, interfaces=found)), noted
