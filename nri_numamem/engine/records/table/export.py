"""Events of ``nri-numamem export``, a process of its own beside the plugin."""

from nri_numamem.engine.records.events import AlternateLevel, EventName, EventType, Level
from nri_numamem.engine.records.table.common import CAUSE, REMEDY

_NODE = {"node_name": "name of the Node object, and of the NodeResourceTopology"}
_INPUT = {
    "input": "object, plugin, settings, hugepage_pools, node_ids, nodes_without_cpus, "
    "reserved_cpus, exclusive_cpus, podresources, "
    "cgroups, cpu_quotas or pod_names; object: no object can be made"
}

EVENTS = {
    EventName.EXPORT_STARTED: EventType(
        "The exporter has started.",
        fields={**_NODE, "server": "address of the API server; absent with --no-write"},
    ),
    EventName.EXPORT_STOPPED: EventType("The exporter stopped on a signal; the object stays."),
    EventName.TOPOLOGY_WRITTEN: EventType(
        "The NodeResourceTopology was written to the API server.",
        level=Level.DEBUG,
        alternate=AlternateLevel(
            Level.INFO, "it is the first one, follows a failure, or the object was missing"
        ),
        fields={
            **_NODE,
            "size_bytes": "size of the object as JSON",
            "created": "whether the API server had no object",
            "failed_attempts": "attempts that failed before this one",
        },
    ),
    EventName.TOPOLOGY_WRITE_FAILED: EventType(
        "The NodeResourceTopology cannot be written; the exporter retries after 1 s to 1 min. A "
        "failure of the same kind is not recorded again until a write succeeds.",
        level=Level.WARNING,
        remedy="see `remedy`",
        fields={
            **_NODE,
            "failure": "credentials, unreachable, unauthorized, forbidden, no_crd, no_node, "
            "conflict, rejected or server_error",
            **CAUSE,
            **REMEDY,
            "http_status": "status of the answer, if there is one",
            "field_managers": "conflict: the programs that have written the object",
        },
    ),
    EventName.EXPORT_INPUT_MISSING: EventType(
        "For 30 s the exporter lacks something that the object is made of.",
        level=Level.WARNING,
        remedy="see `cause`",
        fields={**_INPUT, **CAUSE},
    ),
    EventName.EXPORT_INPUT_RESTORED: EventType(
        "Nothing is missing of this input any more.", fields=_INPUT
    ),
    EventName.PODRESOURCES_STARTED: EventType(
        "The PodResources API is served, with the plugin's memory.",
        fields={"socket": "socket of this process", "kubelet_socket": "socket of the kubelet"},
    ),
    EventName.PODRESOURCES_FAILED: EventType(
        "A request of the PodResources API failed. Equal failures are not recorded again.",
        level=Level.WARNING,
        remedy="see `cause`",
        fields={"method": "method of the API", **CAUSE},
    ),
    EventName.PODRESOURCES_RESTORED: EventType(
        "A request of the PodResources API succeeded after a failure.",
        fields={"method": "method of the API"},
    ),
    EventName.PODRESOURCES_INCOMPLETE: EventType(
        "A reply of the PodResources API lacks something.",
        level=Level.WARNING,
        remedy="see `cause`",
        fields={"input": "cpus or pod_names", **CAUSE},
    ),
}
