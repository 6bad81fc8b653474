"""Records of network interfaces as hints."""

from nri_numamem.engine.core.events import CreateContainer, NetworkRequest
from nri_numamem.engine.core.fields import Fields, container_fields, interface_nodes
from nri_numamem.engine.core.plan import Record
from nri_numamem.engine.records.events import EventName


def found(event: CreateContainer, request: NetworkRequest) -> Record:
    """Record a container whose placement takes network interfaces into account."""
    return Record(EventName.NETWORK_HINTS_FOUND, _fields(event, request))


def disabled(event: CreateContainer, request: NetworkRequest) -> Record:
    """Record a container whose annotation switches the hints off."""
    return Record(EventName.NETWORK_HINTS_DISABLED, _fields(event, request))


def incomplete(event: CreateContainer, request: NetworkRequest, cause: str) -> Record:
    """Record a container that is placed without some or all of its interfaces."""
    fields: Fields = {**_fields(event, request), "cause": cause}
    return Record(EventName.NETWORK_HINTS_INCOMPLETE, fields)


def _fields(event: CreateContainer, request: NetworkRequest) -> Fields:
    return {
        **container_fields(event.pod, event.container),
        "interfaces": interface_nodes(request.interfaces),
    }
