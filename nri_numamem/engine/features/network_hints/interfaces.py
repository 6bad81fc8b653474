"""Network interfaces as hints: which NUMA nodes a new container should be near.

An interface with hardware counts as a device of the container. The setting networkHints decides
which interfaces a request has; an annotation of the pod can only switch them off.
"""

from collections.abc import Iterator
from dataclasses import replace

from nri_numamem.engine.core.annotations import NETWORK_HINTS
from nri_numamem.engine.core.context import Context
from nri_numamem.engine.core.decision import Decision
from nri_numamem.engine.core.events import CreateContainer, Event
from nri_numamem.engine.core.facts import NetworkInterface, NetworkRequest
from nri_numamem.engine.core.feature import Feature
from nri_numamem.engine.core.state import EngineState
from nri_numamem.engine.features.network_hints import records
from nri_numamem.engine.records.record import Record

OFF = "false"
"""The annotation that switches the hints off."""
ON = "true"
"""The annotation that changes nothing, as any other text; those are recorded."""


class NetworkHints(Feature):
    """NUMA nodes of network interfaces are hints (`networkHints`)."""

    def is_on(self, context: Context) -> bool:
        """Return whether requests have interfaces."""
        return context.policy.network_hints

    def requested(self, state: EngineState, event: Event) -> Event:
        """Return a creation whose container has the interfaces that count."""
        if not isinstance(event, CreateContainer):
            return event
        request = event.network
        if request is None or _annotation(event) == OFF:
            return event
        container = replace(event.container, interfaces=_found(request))
        return replace(event, container=container)

    def complete(
        self, context: Context, state: EngineState, event: Event, decision: Decision
    ) -> Decision:
        """Return the decision on a new container with records of its interfaces."""
        if not isinstance(event, CreateContainer) or event.network is None:
            return decision
        return decision.with_records(*_records(event, event.network))


def _records(event: CreateContainer, request: NetworkRequest) -> Iterator[Record]:
    found, annotation = _found(request), _annotation(event)
    shown = records.found(event, request)
    if annotation == OFF:
        if found:
            yield records.NetworkHintsDisabled(found=shown)
        return
    obstacle = request.obstacle
    if annotation not in ("", ON):
        obstacle = obstacle or f"the annotation {annotation!r} is neither true nor false"
    if found:
        yield records.NetworkHintsFound(found=shown)
    if obstacle:
        yield records.NetworkHintsIncomplete(found=shown, cause=obstacle)


def _found(request: NetworkRequest) -> tuple[NetworkInterface, ...]:
    return tuple(each for each in request.interfaces if each.nodes)


def _annotation(event: CreateContainer) -> str:
    return event.pod.annotation(NETWORK_HINTS, event.container.name)


FEATURE = NetworkHints()
