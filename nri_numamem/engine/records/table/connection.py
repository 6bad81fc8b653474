"""Events of the connection to the runtime, and of its requests."""

from nri_numamem.engine.records.events import EventName, EventType, Level
from nri_numamem.engine.records.table.common import (
    CAUSE,
    CONTAINER,
    ERROR,
    EXCEPTION,
    REMEDY,
)

_METHOD = {"method": "type of the request"}
_CREATED = {
    **CONTAINER,
    "sandbox_id": "of CreateContainer: the sandbox of the container",
    "qos_class": "of CreateContainer: the pod's class; a `Guaranteed` container runs unpinned",
}
_LIMIT = {"limit_ms": "time limit of the request"}
_RUNTIME = {
    "runtime": "name of the runtime",
    "runtime_version": "version of the runtime",
    "nri_version": "version of NRI; null if the runtime does not send it",
}
_ENDED = {**CAUSE, "was_registered": "whether the runtime had accepted the registration"}
_REPORT = "a bug: report the traceback"

EVENTS = {
    EventName.CONFIGURED: EventType("The runtime configured the plugin.", fields=_RUNTIME),
    EventName.CONFIGURATION_REJECTED: EventType(
        "The plugin refuses the configuration that the runtime sent.",
        level=Level.ERROR,
        remedy="correct the configuration and restart the runtime",
        fields={**_RUNTIME, **ERROR},
    ),
    EventName.CONFIGURATION_FAILED_INACTIVE: EventType(
        "The configuration is wrong, and the runtime is too old for a refusal: "
        "no container is managed.",
        level=Level.ERROR,
        remedy="correct the configuration and restart the runtime",
        fields=ERROR,
    ),
    EventName.CONFIGURATION_FAILED_EXITING: EventType(
        "The configuration could not be applied; the plugin exits.",
        level=Level.ERROR,
        remedy=_REPORT,
        fields=EXCEPTION,
    ),
    EventName.SYNCHRONIZED: EventType(
        "The allocation state was rebuilt from the runtime's list of pods and containers.",
        fields={
            "pod_count": "pods that the runtime reported",
            "container_count": "containers that the runtime reported",
            "adopted_count": "containers that keep their NUMA nodes",
            "updated_count": "containers whose cpuset.mems is updated",
            "not_managed": "why running containers are not managed, with their number",
            "free_bytes": "free bytes by NUMA node and resource",
        },
    ),
    EventName.SYNCHRONIZE_TOO_LARGE: EventType(
        "The runtime's list of pods and containers exceeds the limit; the connection is closed.",
        level=Level.ERROR,
        remedy="remove stopped pods and containers from the runtime",
        fields=CAUSE,
    ),
    EventName.SYNCHRONIZE_TIMED_OUT: EventType(
        "Synchronize took longer than the runtime waits; the connection is closed.",
        level=Level.ERROR,
        remedy="raise plugin_request_timeout in the runtime's NRI configuration",
        fields={**_METHOD, **_LIMIT, **EXCEPTION},
    ),
    EventName.REQUEST_TIMED_OUT: EventType(
        "A request took too long and got an empty reply; its container runs unpinned.",
        level=Level.ERROR,
        remedy="check the load of the host; `exception` shows where the time was spent",
        fields={**_METHOD, **_LIMIT, **_CREATED, **EXCEPTION},
    ),
    EventName.INTERNAL_ERROR: EventType(
        "A bug: a request got an empty reply; its container runs unpinned.",
        level=Level.ERROR,
        remedy="report the traceback",
        fields={**_METHOD, **_CREATED, **EXCEPTION},
    ),
    EventName.INTERNAL_ERROR_AFTER_REPLY: EventType(
        "A bug: the state after a reply could not be computed; the connection is closed, "
        "and the next Synchronize rebuilds the state.",
        level=Level.ERROR,
        remedy="report the traceback",
        fields=EXCEPTION,
    ),
    EventName.COMMIT_TIMED_OUT: EventType(
        "The state after a reply took too much processor time; the connection is closed, and the "
        "next Synchronize rebuilds the state.",
        level=Level.ERROR,
        remedy="report the traceback, which shows where the time was spent",
        fields=EXCEPTION,
    ),
    EventName.CONNECT_FAILED: EventType(
        "The runtime's NRI socket does not accept a connection; the plugin retries.",
        level=Level.WARNING,
        remedy="start the runtime, and enable NRI in its configuration",
        fields={**CAUSE, **REMEDY},
    ),
    EventName.DISCONNECTED: EventType(
        "The runtime closed the connection; the plugin reconnects.",
        level=Level.WARNING,
        fields=_ENDED,
    ),
    EventName.CONNECTION_CLOSED_BY_PLUGIN: EventType(
        "The plugin closed the connection; it reconnects after five minutes.",
        level=Level.ERROR,
        remedy="see the record before this one",
        fields=_ENDED,
    ),
    EventName.REGISTRATION_REJECTED: EventType(
        "The runtime refused the plugin's registration; the plugin retries after five minutes.",
        level=Level.ERROR,
        remedy="check --idx and --name, and the runtime's log",
        fields=_ENDED,
    ),
    EventName.RUNTIME_NEVER_SYNCHRONIZES: EventType(
        "An old runtime launched the plugin and reports no running pods: "
        "after its restart the allocation state is empty.",
        level=Level.WARNING,
        remedy="`remedy` in the record",
        fields={**CAUSE, **REMEDY},
    ),
    EventName.SWITCHED_TO_EXTERNAL: EventType(
        "A launched plugin reconnects through the runtime's socket, "
        "so that the runtime reports its pods.",
        fields=CAUSE,
    ),
}
