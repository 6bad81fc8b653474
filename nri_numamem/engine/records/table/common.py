"""Fields that several events share."""

POD = {
    "pod": "name of the pod",
    "namespace": "namespace of the pod",
    "pod_uid": "UID of the pod",
}

CONTAINER = {
    "pod": POD["pod"],
    "namespace": POD["namespace"],
    "container": "name of the container",
    "pod_uid": POD["pod_uid"],
    "container_id": "the runtime's ID of the container",
}

REQUEST = {"request_bytes": "requested bytes by resource"}
NODES = {"nodes": "NUMA nodes in the kernel's list format"}
FREE = {
    "free_bytes": "free bytes by NUMA node and resource after the decision, of the nodes that it "
    "concerns"
}
SHORTFALL = {
    "shortfall_bytes": "bytes by resource that exceed what is allocatable on the NUMA nodes"
}
CAUSE = {"cause": "why"}
ERROR = {"error": "text of the error"}
EXCEPTION = {"exception": "traceback"}
REMEDY = {"remedy": "what to do"}
NON_POD = {
    "non_pod_bytes": "hugepages in use by processes outside of pods: bytes by NUMA nodes and size"
}
NON_POD_RSVD = {
    "non_pod_rsvd_bytes": "hugepages reserved, not yet faulted, by processes outside of pods"
}
USED_OUTSIDE = {
    "used_outside_of_pods_bytes": "requested hugepages that are free in the allocation state and "
    "used outside of pods: bytes by NUMA node and resource, without zeros"
}
HINTS = {
    "hints": "topology hints by provider: memory (of the candidates), cpu, devices, "
    "network (by interface)"
}
MERGED_HINT = {"merged_hint": "topology hint that results from those of all providers"}
CANDIDATES = {
    "candidates": "node sets that were considered (at most 8), each with a rule, see below",
    "omitted_candidates": "number of further node sets",
}
REPEATED = {
    "repeat_count": "only in the history, and of resizes: records of the same contents since the "
    "one before, which were left out; the intervals grow up to 1 hour"
}
WARNED_BEFORE = "it is not the first record of this event for the pod"
"""A condition of the level debug (``daemon.pod_warnings``)."""

REFUSAL_ID = {
    "refusal_id": "request of the container's first refusal for this reason, if this is a retry; "
    "the text of every retry has it"
}
ADJUSTMENT = {"adjustment": "what the plugin sets: cpuset_mems, hugepage limits and their route"}
PAGES = {
    "resident_bytes": "memory of the container by NUMA node, without page cache",
    "remote_bytes": "of these, bytes on NUMA nodes other than those of the allocation state",
}
