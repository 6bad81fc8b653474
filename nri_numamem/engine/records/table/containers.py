"""Events of containers."""

from nri_numamem.engine.records.events import AlternateLevel, EventName, EventType, Level
from nri_numamem.engine.records.table.common import (
    ADJUSTMENT,
    CANDIDATES,
    CAUSE,
    CONTAINER,
    FREE,
    HINTS,
    MERGED_HINT,
    NODES,
    PAGES,
    REFUSAL_ID,
    REMEDY,
    REPEATED,
    REQUEST,
    SHORTFALL,
    USED_OUTSIDE,
)
from nri_numamem.engine.records.table.strategies import STRATEGY

_HUGEPAGE_SOURCE = {
    "hugepage_source": "where the hugepage request was read: container, unified or pod"
}
_EVEN_NODES = {
    "even_nodes": "how many nodes the annotation `interleave:N` requests; each has an equal part",
}
_ADMITTED = {
    **CONTAINER,
    **REQUEST,
    **HINTS,
    **CANDIDATES,
    **FREE,
    **MERGED_HINT,
    **NODES,
    **ADJUSTMENT,
    **_HUGEPAGE_SOURCE,
    **_EVEN_NODES,
    "shares_pod_memory": "true if it shares the pod's limit (pod-level resources): the request is "
    "what the pod's other containers leave of it",
    "extended_container_ids": "containers that share memory with it and get its NUMA nodes too",
    "released_bytes": "bytes by resource that ended containers held beyond the pod's limit, "
    "and that are free now",
    **STRATEGY,
}
_REMEDIES = {
    "remedies": "what makes the request fit, the best first; each was tried: kind, text, and NUMA "
    "nodes, bytes by resource, or a setting with its values",
}
_REJECTED = {
    **CONTAINER,
    **REQUEST,
    **HINTS,
    **CANDIDATES,
    **FREE,
    **USED_OUTSIDE,
    **_EVEN_NODES,
    "policy": "Topology Manager policy",
    "reason": "the kubelet's reason: TopologyAffinityError or UnexpectedAdmissionError",
    "message": "why each NUMA node was passed over",
    **_REMEDIES,
    "holders": "the largest holders of the requested resources (at most 16): names, NUMA nodes and "
    "bytes",
    "pod_request_bytes": "request of the pod as a whole, which the candidates are for "
    "(topologyManagerScope: pod)",
    **REFUSAL_ID,
    **REPEATED,
}
_EXCLUDED = {"excluded_nodes": "those of the NUMA nodes that are excluded (memoryNodes)"}
_ADOPTED = {**CONTAINER, **REQUEST, **NODES, **FREE, **SHORTFALL, **_EXCLUDED}
_RESIZE = {
    **CONTAINER,
    "previous_memory_bytes": "memory limit before the resize",
    **REQUEST,
    "previous_nodes": "NUMA nodes before the resize",
    "candidates": CANDIDATES["candidates"],
    **NODES,
    **ADJUSTMENT,
    **SHORTFALL,
    **FREE,
}
_MAKE_ROOM = "free memory on the NUMA nodes, or lower the request; `nri-numamem inspect` shows them"

EVENTS = {
    EventName.ADMITTED: EventType(
        "A container is created and pinned to NUMA nodes.", fields=_ADMITTED
    ),
    EventName.ADOPTED: EventType(
        "A container already has its NUMA nodes, which are entered in the allocation state.",
        alternate=AlternateLevel(
            Level.WARNING, "the NUMA nodes cannot hold all of its request, or are excluded"
        ),
        remedy="with `shortfall_bytes`: move pods away from these NUMA nodes; with "
        "`excluded_nodes`: the pod stays there until it is created anew",
        fields=_ADOPTED,
    ),
    EventName.MISALIGNED: EventType(
        "The memory of a container is on no NUMA node of its CPUs, or of one of its devices.",
        level=Level.WARNING,
        remedy="free memory on the nodes of the CPUs and devices, then recreate the pod; the "
        "policy restricted refuses such containers",
        fields={
            **CONTAINER,
            **NODES,
            "misaligned": "NUMA nodes of the CPUs and devices, by provider: cpu, devices, network",
            "causes": "why, by provider: the rule for these nodes (see rules of candidates), or "
            "adopted if the container had its nodes already",
        },
    ),
    EventName.REJECTED: EventType(
        "A container's creation is refused because no NUMA nodes can hold its request.",
        level=Level.WARNING,
        remedy=_MAKE_ROOM,
        fields=_REJECTED,
    ),
    EventName.UNPINNED_NO_CAPACITY: EventType(
        "A container is created unpinned because no NUMA nodes can hold its request "
        "(whenUnsatisfiable: RunUnpinned).",
        level=Level.WARNING,
        remedy=_MAKE_ROOM,
        fields=_REJECTED,
    ),
    EventName.RUNNING_UNPINNED_NO_CAPACITY: EventType(
        "A running container stays unpinned because no NUMA nodes can hold its request.",
        level=Level.WARNING,
        remedy="free memory on the NUMA nodes, then restart the container",
        fields=_REJECTED,
    ),
    EventName.NOT_MANAGED: EventType(
        "A container is not managed; the plugin changes nothing.",
        level=Level.DEBUG,
        alternate=AlternateLevel(Level.WARNING, "its cpuset.mems cannot be parsed"),
        fields={
            **CONTAINER,
            **CAUSE,
            "qos_class": "the pod's class by its cgroup: `Guaranteed`, `Burstable`, `BestEffort`, "
            "or `Unknown`",
            "memory_limit_bytes": "memory limit of the container; null if it has none",
            "pod_memory_limit_bytes": "memory limit of the pod, or sum of its containers' limits; "
            "null if unknown",
            "qos_obstacles": "of a Burstable pod: what of the container keeps the pod from being "
            "Guaranteed (`no_memory_limit`, `no_cpu_limit`, `cpu_request_below_limit`), as far as "
            "NRI shows it; NRI does not show memory requests",
            **REPEATED,
        },
    ),
    EventName.PINNED_WHILE_RUNNING: EventType(
        "A running container without NUMA nodes is pinned by an update.", fields=_ADMITTED
    ),
    EventName.UNREPORTED_CONTAINER_FOUND: EventType(
        "A running container was found that the runtime never reported.",
        level=Level.WARNING,
        remedy="none; it was created while the plugin was away",
        fields={
            **_ADMITTED,
            **_REJECTED,
            **SHORTFALL,
            **_EXCLUDED,
            "outcome": "adopted, pinning_deferred (with the next reply) or unpinned",
        },
    ),
    EventName.DUPLICATE_CONTAINER: EventType(
        "Two sandboxes of one pod run a container of the same name; both are recorded, the "
        "earlier one under its ID.",
        level=Level.WARNING,
        remedy="compare `crictl pods` with the kubelet's pods, and stop the sandbox that the "
        "kubelet does not use",
        fields={
            **CONTAINER,
            "sandbox_id": "the runtime's ID of the sandbox of this container",
            "other_container_id": "the runtime's ID of the earlier container",
            "other_sandbox_id": "the runtime's ID of its sandbox",
        },
    ),
    EventName.CPUSET_MEMS_CONFLICT: EventType(
        "Something else set cpuset.mems of a running container; the allocation state follows.",
        level=Level.WARNING,
        remedy="find what writes it: the kubelet's own Memory Manager, another plugin, an operator",
        fields={
            **CONTAINER,
            "previous_nodes": "NUMA nodes in the allocation state before; `remote_bytes` are not "
            "on these",
            **NODES,
            **SHORTFALL,
            **PAGES,
        },
    ),
    EventName.CPUSET_MEMS_MISSING: EventType(
        "The cgroup of a running container has no cpuset.mems; it gets memory from any NUMA node.",
        level=Level.WARNING,
        alternate=AlternateLevel(Level.INFO, "an update sets it with the next reply"),
        remedy="at level warning: see `remedy`",
        fields={
            **CONTAINER,
            **NODES,
            "outcome": "repair_deferred (with the next reply) or unpinned",
            **CAUSE,
            **REMEDY,
            **PAGES,
        },
    ),
    EventName.CPUSET_MEMS_REAPPLIED: EventType(
        "A running container's cpuset.mems is not in its cgroup, or not in the runtime; the update "
        "is repeated.",
        fields={
            **CONTAINER,
            **NODES,
            "runtime_cpuset_mems": "cpuset.mems that the runtime shows",
            "cgroup_cpuset_mems": "cpuset.mems of the cgroup",
            **CAUSE,
        },
    ),
    EventName.CPUSET_MEMS_RESTORED: EventType(
        "The cgroup of a running container has its NUMA nodes again, after cpuset_mems_missing.",
        fields={**CONTAINER, **NODES, **PAGES},
    ),
    EventName.RESIZED: EventType(
        "The memory limit of a running container changed.",
        alternate=AlternateLevel(Level.WARNING, "the NUMA nodes cannot hold the new limit"),
        fields=_RESIZE,
    ),
    EventName.RESIZE_REJECTED: EventType(
        "A larger memory limit of a running container is refused; the container runs on as before.",
        level=Level.WARNING,
        remedy="see `remedies`; the kubelet retries",
        fields={
            **_RESIZE,
            **_REMEDIES,
            **REFUSAL_ID,
            **REPEATED,
        },
    ),
    EventName.UPDATE_WITHOUT_EFFECT: EventType(
        "A container is updated, but not its memory limit, or it is not managed; the plugin "
        "changes nothing.",
        level=Level.DEBUG,
        fields={**CONTAINER, **CAUSE},
    ),
    EventName.CONTAINER_ENDED: EventType(
        "A container ended; its pod may reuse the memory.",
        fields={
            **CONTAINER,
            "reusable_bytes": "bytes by resource that stay reserved for the pod",
        },
    ),
    EventName.ON_EXCLUDED_NODES: EventType(
        "The machine changed, and a NUMA node of a container is now excluded; it is not moved.",
        level=Level.WARNING,
        remedy="create the pod anew to move it, or set memoryNodes.override for the NUMA node",
        fields={
            **CONTAINER,
            "ended": "whether the container has ended, so that its pod may reuse the memory",
            **REQUEST,
            **NODES,
            "removed_nodes": "NUMA nodes of the container that the machine no longer has",
            **_EXCLUDED,
        },
    ),
    EventName.OVERCOMMITTED: EventType(
        "The machine changed, and the NUMA nodes of a container no longer hold its request.",
        level=Level.WARNING,
        alternate=AlternateLevel(Level.DEBUG, "only the size of the shortfall changed"),
        remedy="move pods away from these NUMA nodes",
        fields={
            **CONTAINER,
            "ended": "whether the container has ended, so that its pod may reuse the memory",
            **REQUEST,
            **NODES,
            "removed_nodes": "NUMA nodes of the container that the machine no longer has",
            **SHORTFALL,
        },
    ),
    EventName.OVERCOMMIT_RESOLVED: EventType(
        "The NUMA nodes of a container hold its request again.",
        alternate=AlternateLevel(Level.DEBUG, "the shortfall was small"),
        fields={
            **CONTAINER,
            "ended": "whether the container has ended, so that its pod may reuse the memory",
            **REQUEST,
            **NODES,
            "removed_nodes": "NUMA nodes of the container that the machine no longer has",
            **SHORTFALL,
        },
    ),
    EventName.STALE_RESERVATION_DROPPED: EventType(
        "A reservation that the state file kept for a pod is dropped.",
        level=Level.WARNING,
        fields={
            "pod_uid": CONTAINER["pod_uid"],
            "container": CONTAINER["container"],
            **REQUEST,
            **NODES,
            **CAUSE,
        },
    ),
    EventName.CONTAINER_CGROUP_UNREADABLE: EventType(
        "A container's cgroup cannot be read; the runtime's figures are used.",
        level=Level.WARNING,
        remedy="check the permissions of the plugin on the cgroup filesystem",
        fields={"error": "text of the error"},
    ),
}
