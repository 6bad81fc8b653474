"""Events of network interfaces as hints."""

from nri_numamem.engine.records.events import AlternateLevel, EventName, EventType, Level
from nri_numamem.engine.records.table.common import CAUSE, CONTAINER, WARNED_BEFORE

_INTERFACES = {
    **CONTAINER,
    "interfaces": "NUMA node of each network interface, by name; empty if it has no hardware or "
    "its node is unknown",
}

EVENTS = {
    EventName.NETWORK_HINTS_FOUND: EventType(
        "A container is created, and the NUMA nodes of network interfaces count as hints.",
        fields=_INTERFACES,
    ),
    EventName.NETWORK_HINTS_DISABLED: EventType(
        "A container is created without hints of its network interfaces, because the pod's "
        "annotation switches them off.",
        level=Level.DEBUG,
        fields=_INTERFACES,
    ),
    EventName.NETWORK_NAMESPACES_CLOSED: EventType(
        "The setting networkHints is on, but the plugin cannot read the network namespaces of "
        "pods: it lacks the capability CAP_SYS_ADMIN, or its helper process did not start or has "
        "ended. Only network devices that the OCI runtime moves into a container count as hints.",
        level=Level.WARNING,
        remedy="see `cause`; docs/network-hints.md has the drop-in file of the systemd unit. A "
        "helper starts only with the plugin",
        fields=CAUSE,
    ),
    EventName.NETWORK_HINTS_INCOMPLETE: EventType(
        "A container is created without hints of some or all of its network interfaces.",
        level=Level.WARNING,
        alternate=AlternateLevel(Level.DEBUG, WARNED_BEFORE),
        remedy="see `cause`; `nri-numamem doctor` checks what the setting networkHints needs",
        fields={**_INTERFACES, **CAUSE},
    ),
}
