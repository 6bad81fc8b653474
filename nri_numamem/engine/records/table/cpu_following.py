"""Events of CPUs that follow memory."""

from nri_numamem.engine.records.events import EventName, EventType, Level
from nri_numamem.engine.records.table.common import CONTAINER, ERROR, NODES

_CPUS = {"cpus": "CPUs that it shares with others, in the kernel's list format"}

EVENTS = {
    EventName.CPUS_SET: EventType(
        "A container gets the CPUs of its NUMA nodes (cpuFollowsMemory).",
        fields={
            **CONTAINER,
            **NODES,
            **_CPUS,
            "previous_cpus": "of a container that runs: the CPUs that it had",
            "cause": "with `require`: why these CPUs may be too few",
        },
    ),
    EventName.CPUS_NOT_SET: EventType(
        "A pinned container gets no CPUs and runs on any (cpuFollowsMemory).",
        fields={**CONTAINER, **NODES, "cause": "why"},
    ),
    EventName.CPUS_LEFT_TO_KUBELET: EventType(
        "The setting cpuFollowsMemory has no effect, because the kubelet's CPU manager is static "
        "and sets the CPUs of all containers.",
        level=Level.WARNING,
        remedy="set cpuManagerPolicy: none for the kubelet, or cpuFollowsMemory: off",
    ),
    EventName.CPUS_FOLLOW_MEMORY: EventType(
        "The kubelet's CPU manager is no longer static; cpuFollowsMemory has an effect.",
    ),
    EventName.KUBELET_CPU_STATE_UNREADABLE: EventType(
        "The state file of the kubelet's CPU manager, or the list of isolated CPUs, cannot be "
        "read. Containers whose CPUs the kubelet sets are left as they are all the same.",
        level=Level.WARNING,
        remedy="check the file, and --kubelet-root",
        fields=ERROR,
    ),
}
