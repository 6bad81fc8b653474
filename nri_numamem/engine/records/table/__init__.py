"""The type of every event: its level, description, remedy and fields.

The tables of the modules here are the single source of ``docs/events.md``, of a record's level and
of the fields that a record may have. A field's unit is the end of its name. Names in camel case
are the kubelet's own keys.
"""

from collections.abc import Mapping

from nri_numamem.engine.records.events import EventName, EventType
from nri_numamem.engine.records.table import (
    burstable,
    connection,
    containers,
    cpu_following,
    export,
    machine,
    memory_policies,
    network_hints,
    pods,
    process,
    residency,
    strategies,
)

SECTIONS: Mapping[str, Mapping[EventName, EventType]] = {
    "Containers": containers.EVENTS,
    "Pods": pods.EVENTS,
    "Burstable pods": burstable.EVENTS,
    "Placement strategies": strategies.EVENTS,
    "Memory policies": memory_policies.EVENTS,
    "Network hints": network_hints.EVENTS,
    "Residency of memory": residency.EVENTS,
    "CPUs that follow memory": cpu_following.EVENTS,
    "Machine and allocation state": machine.EVENTS,
    "Runtime connection": connection.EVENTS,
    "Plugin process": process.EVENTS,
    "The process `nri-numamem export`": export.EVENTS,
}
"""Title of a section of the documentation -> its events."""

EVENTS: Mapping[EventName, EventType] = {
    name: event_type for section in SECTIONS.values() for name, event_type in section.items()
}

COMMON_FIELDS: Mapping[str, str] = {
    "ts": "time of the record (UTC, RFC 3339)",
    "level": "debug, info, warning or error",
    "event": "name of the event",
    "request_id": "connection number and request number; all records of one request share it",
    "exception": "traceback",
    "sink_error": "why the record is not in the configured log",
}
"""Keys that the log adds to the fields of any event."""
