"""Records of ``nri-numamem export``, a process of its own beside the plugin."""

from typing import Annotated

from nri_numamem.engine.records.common import Cause, PodNames, Remedy
from nri_numamem.engine.records.record import AlternateLevel, Level, Record, event
from nri_numamem.numa import NodeSet

NodeName = Annotated[str, "name of the Node object, and of the NodeResourceTopology"]
Input = Annotated[
    str,
    "object, plugin, settings, hugepage_pools, node_ids, nodes_without_cpus, reserved_cpus, "
    "exclusive_cpus, podresources, cgroups, cpu_quotas, pod_names or history; object: no object "
    "can be made",
]


@event("export_started")
class ExportStarted(Record):
    """The exporter has started."""

    node_name: NodeName
    server: Annotated[str, "address of the API server; absent with --no-write"] = ""


@event("export_stopped")
class ExportStopped(Record):
    """The exporter stopped on a signal; the object stays."""


@event(
    "topology_written",
    Level.DEBUG,
    alternate=AlternateLevel(
        Level.INFO, "it is the first one, follows a failure, or the object was missing"
    ),
)
class TopologyWritten(Record):
    """The NodeResourceTopology was written to the API server."""

    node_name: NodeName
    size_bytes: Annotated[int, "size of the object as JSON"]
    created: Annotated[bool, "whether the API server had no object"]
    failed_attempts: Annotated[int, "attempts that failed before this one"] = 0


@event("topology_write_failed", Level.WARNING, remedy="see `remedy`")
class TopologyWriteFailed(Record):
    """The NodeResourceTopology cannot be written; the exporter retries after 1 s to 1 min. A
    failure of the same kind is not recorded again until a write succeeds.
    """

    node_name: NodeName
    failure: Annotated[
        str,
        "credentials, unreachable, unauthorized, forbidden, no_crd, no_node, conflict, rejected "
        "or server_error",
    ]
    cause: Cause
    remedy: Remedy
    http_status: Annotated[int | None, "status of the answer, if there is one"] = None
    field_managers: Annotated[
        tuple[str, ...], "conflict: the programs that have written the object"
    ] = ()


@event("pod_events_failed", Level.WARNING, remedy="see `remedy`")
class PodEventsFailed(Record):
    """Events of pods cannot be written; the exporter retries after 1 s to 1 min. A failure of the
    same kind is not recorded again until a write succeeds.
    """

    failure: Annotated[
        str, "credentials, unreachable, unauthorized, forbidden, conflict, rejected or server_error"
    ]
    cause: Cause
    remedy: Remedy
    http_status: Annotated[int | None, "status of the answer, if there is one"] = None


@event("pod_events_written")
class PodEventsWritten(Record):
    """Events of pods are written again after a failure."""

    dropped: Annotated[int, "Events that were never written: too old, too many, or rejected"] = 0


@event("export_input_missing", Level.WARNING, remedy="see `cause`")
class ExportInputMissing(Record):
    """For 30 s the exporter lacks something that the object is made of."""

    input: Input
    cause: Cause


@event("export_input_restored")
class ExportInputRestored(Record):
    """Nothing is missing of this input any more."""

    input: Input


SliceName = Annotated[str, "name of the ResourceSlice"]


@event("driver_registered")
class DriverRegistered(Record):
    """The kubelet uses this process as the driver of resource claims."""


@event("driver_refused", Level.WARNING, remedy="see `cause`, and the kubelet's log")
class DriverRefused(Record):
    """The kubelet does not use this process as the driver of resource claims."""

    cause: Cause


@event("driver_failed", Level.ERROR, remedy="report `exception`")
class DriverFailed(Record):
    """A call of the kubelet to the driver of resource claims failed because of a bug."""

    method: Annotated[str, "method of the kubelet's interface"]
    cause: Cause
    exception: Annotated[str, "traceback"]


@event(
    "slice_written",
    Level.DEBUG,
    alternate=AlternateLevel(
        Level.INFO, "it is the first one, follows a failure, or something else changed the slice"
    ),
)
class SliceWritten(Record):
    """The ResourceSlice was written to the API server."""

    slice: SliceName
    generation: Annotated[int, "generation of its pool"]
    size_bytes: Annotated[int, "size of the slice as JSON"]
    created: Annotated[bool, "whether the API server had no such slice"]
    failed_attempts: Annotated[int, "attempts that failed before this one"] = 0
    counts_for_node: Annotated[bool, "whether claims count for the Node (KEP-5517)"] = False


@event("slice_write_failed", Level.WARNING, remedy="see `remedy`")
class SliceWriteFailed(Record):
    """The ResourceSlice cannot be written; it is tried again after 1 s to 1 min. A failure of the
    same kind is not recorded again until a write succeeds.
    """

    slice: SliceName
    failure: Annotated[
        str,
        "credentials, unreachable, unauthorized, forbidden, no_api, dropped, no_node, conflict, "
        "rejected or server_error; dropped: the API server accepts the slice without capacities "
        "that can be shared",
    ]
    cause: Cause
    remedy: Remedy
    http_status: Annotated[int | None, "status of the answer, if there is one"] = None


ClaimName = Annotated[str, "name of the ResourceClaim"]
ClaimNamespace = Annotated[str, "namespace of the claim"]
ClaimUid = Annotated[str, "UID of the claim"]


@event("prepare_succeeded", Level.DEBUG)
class PrepareSucceeded(Record):
    """The kubelet has the devices of a resource claim."""

    claim: ClaimName
    namespace: ClaimNamespace
    claim_uid: ClaimUid
    duration_ms: Annotated[int, "time that the call took for this claim"]
    already_charged: Annotated[bool, "whether the plugin had charged the claim before"] = False


@event("prepare_failed", Level.WARNING, remedy="see `cause`; the kubelet retries after 60 to 90 s")
class PrepareFailed(Record):
    """A resource claim is not prepared, so that the containers of its pod do not start."""

    claim: ClaimName
    namespace: ClaimNamespace
    claim_uid: ClaimUid
    cause: Cause


@event("unprepare_failed", Level.WARNING, remedy="see `cause`; the kubelet retries")
class UnprepareFailed(Record):
    """A resource claim cannot be unprepared, so that its pod is not removed."""

    claim: ClaimName
    namespace: ClaimNamespace
    claim_uid: ClaimUid
    cause: Cause


@event(
    "claim_intent_dropped",
    Level.WARNING,
    remedy="none if no pod with a claim is stuck; else delete it",
)
class ClaimIntentDropped(Record):
    """What an earlier process wrote about resource claims cannot be used."""

    cause: Cause


@event("deleted_claim_released")
class DeletedClaimReleased(Record):
    """A resource claim does not exist any more, and the kubelet has not unprepared it."""

    claim: ClaimName
    namespace: ClaimNamespace
    claim_uid: ClaimUid


@event("rebalancing_began")
class RebalancingBegan(Record):
    """The agent sets room aside for a refused pod, and evicts others for it."""

    names: PodNames
    nodes: Annotated[NodeSet, "NUMA nodes on which the pod then fits"]
    evictions: Annotated[tuple[str, ...], "the pods to evict, as NAMESPACE/NAME"]
    earmark: Annotated[str, "uid of the earmark"]


@event(
    "rebalancing_ended",
    alternate=AlternateLevel(Level.WARNING, "the refused pod does not run"),
)
class RebalancingEnded(Record):
    """A plan of the agent has ended."""

    names: PodNames
    result: Annotated[
        str,
        "done: the pod runs; refused: an eviction or the room was refused, or the pod was deleted; "
        "expired: nothing changed for 10 min; stopped: the agent has stopped",
    ]
    cause: Annotated[str | None, "why the pod does not run"] = None
    evicted: Annotated[tuple[str, ...], "the pods that were evicted, as NAMESPACE/NAME"] = ()


@event("rebalancing_declined")
class RebalancingDeclined(Record):
    """The agent evicts no pod for a refused one; it is considered again after 5 min. An equal cause
    is not recorded again for the pod.
    """

    names: PodNames
    cause: Cause


@event("rebalancing_failed", Level.WARNING, remedy="see `cause`")
class RebalancingFailed(Record):
    """The agent cannot look for refused pods. An equal failure is not recorded again."""

    cause: Cause
    exception: Annotated[str | None, "traceback, if the cause is a bug"] = None


@event("podresources_started")
class PodresourcesStarted(Record):
    """The PodResources API is served, with the plugin's memory."""

    socket: Annotated[str, "socket of this process"]
    kubelet_socket: Annotated[str, "socket of the kubelet"]


@event("podresources_failed", Level.WARNING, remedy="see `cause`")
class PodresourcesFailed(Record):
    """A request of the PodResources API failed. Equal failures are not recorded again."""

    method: Annotated[str, "method of the API"]
    cause: Cause
    exception: Annotated[str | None, "traceback, if the cause is a bug"] = None


@event("podresources_restored")
class PodresourcesRestored(Record):
    """A request of the PodResources API succeeded after a failure."""

    method: Annotated[str, "method of the API"]


@event("podresources_incomplete", Level.WARNING, remedy="see `cause`")
class PodresourcesIncomplete(Record):
    """A reply of the PodResources API lacks something."""

    input: Annotated[str, "cpus or pod_names"]
    cause: Cause
