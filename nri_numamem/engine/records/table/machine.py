"""Events of the machine and of the allocation state."""

from nri_numamem.engine.records.events import AlternateLevel, EventName, EventType, Level
from nri_numamem.engine.records.table.common import (
    CAUSE,
    ERROR,
    EXCEPTION,
    NON_POD,
    NON_POD_RSVD,
    REMEDY,
)

EVENTS = {
    EventName.MACHINE: EventType(
        "The plugin starts to decide with these settings on this machine.",
        alternate=AlternateLevel(Level.WARNING, "the kubelet's own Memory Manager is active too"),
        remedy="at level warning: set memoryManagerPolicy: None in the kubelet's configuration",
        fields={
            "version": "version of the plugin",
            "memoryManagerPolicy": "None or Static",
            "topologyManagerPolicy": "none, best-effort, restricted or single-numa-node",
            "topologyManagerScope": "container or pod",
            "reserved_memory_source": "settings, or derived from the kubelet's reservations",
            "nodes": "bytes of memory and reservations, class, use and memory tier by NUMA node",
            "notes": "remarks on the settings",
        },
    ),
    EventName.STRICT_POLICY_WITH_STATIC_CPUS: EventType(
        "The kubelet assigns exclusive CPUs, and the Topology Manager policy refuses containers "
        "whose memory does not match them.",
        level=Level.WARNING,
        remedy="set topologyManagerPolicy: best-effort, or accept the refusals; docs/limits.md "
        "compares the policies",
        fields={
            "cpuManagerPolicy": "policy of the kubelet's CPU manager",
            "topologyManagerPolicy": "restricted or single-numa-node",
            "cost": "share of refused pods in simulations",
        },
    ),
    EventName.NO_NODE_HAS_CPUS: EventType(
        "No NUMA node shows CPUs, so all nodes are used: sysfs is incomplete.",
        level=Level.WARNING,
        remedy="check /sys/devices/system/node/node*/cpulist, and that the host's sysfs is mounted",
        fields={"numa_nodes": "the NUMA nodes of the machine"},
    ),
    EventName.RESERVATION_WITHOUT_EFFECT: EventType(
        "A reservation is for an excluded NUMA node, which pods do not use anyway; nothing is "
        "reserved on other nodes in its place.",
        level=Level.WARNING,
        remedy="remove the entry, or use the node: memoryNodes.override or memoryNodes.withoutCpus",
        fields={
            "setting": "the entry",
            "nodes": "the excluded NUMA node",
            "limits_bytes": "what the entry reserves, by resource",
        },
    ),
    EventName.MACHINE_CHANGED: EventType(
        "NUMA nodes, their classes, memory sizes or hugepage pools changed; the allocation state "
        "is recomputed.",
        alternate=AlternateLevel(Level.DEBUG, "only memory sizes changed, by less than 1 %"),
        fields={
            "nodes": "new and previous figures by NUMA node that changed",
            "removed_nodes": "NUMA nodes that the machine no longer has",
        },
    ),
    EventName.MACHINE_CHANGE_REJECTED: EventType(
        "The settings do not fit the changed machine; the allocation state stays as it was.",
        level=Level.WARNING,
        remedy="adapt the settings to the machine and restart the plugin",
        fields={**CAUSE, **REMEDY},
    ),
    EventName.MACHINE_UNREADABLE: EventType(
        "NUMA nodes or hugepage pools cannot be read from sysfs; the last figures stay in use.",
        level=Level.WARNING,
        remedy="check that the plugin can read /sys/devices/system/node",
        fields=ERROR,
    ),
    EventName.MACHINE_MONITOR_FAILED: EventType(
        "A bug: the periodic check of the machine failed.",
        level=Level.ERROR,
        remedy="report the traceback",
        fields=EXCEPTION,
    ),
    EventName.HUGEPAGE_POOLS_UNREADABLE: EventType(
        "The kernel's hugepage pools cannot be read; only the allocation state decides.",
        level=Level.WARNING,
        remedy="check that the plugin can read /sys/devices/system/node",
        fields=ERROR,
    ),
    EventName.HUGEPAGE_POOLS: EventType(
        "The kernel's hugepage pools beside the allocation state (on SIGUSR1).",
        fields={
            "used_bytes": "pages in use: bytes by NUMA node and size",
            "free_bytes": "free pages: bytes by NUMA node and size",
            "rsvd_bytes": "pages reserved but not yet faulted: bytes by size",
            "assigned_bytes": "pages assigned to pods: bytes by NUMA node and size",
            "used_by_pods_bytes": "pages in use by pods: bytes by NUMA node and size",
            **NON_POD,
            **NON_POD_RSVD,
        },
    ),
    EventName.NON_POD_HUGEPAGES_FOUND: EventType(
        "Processes outside of pods use hugepages that the allocation state counts as free.",
        remedy="reserve these pages with reservedMemory",
        fields={**NON_POD, **NON_POD_RSVD},
    ),
    EventName.NON_POD_HUGEPAGES_CLEARED: EventType(
        "The kernel has all hugepages again that the allocation state counts as free."
    ),
    EventName.UEVENTS_RECEIVED: EventType(
        "The kernel reported changes of memory or NUMA nodes.",
        level=Level.DEBUG,
        fields={
            "is_incomplete": "whether some messages were lost",
            "uevents": "the messages",
            **ERROR,
        },
    ),
    EventName.UEVENTS_UNAVAILABLE: EventType(
        "The plugin cannot subscribe to kernel uevents; it polls the machine instead.",
        fields={**ERROR, "poll_interval_s": "seconds between two checks of the machine"},
    ),
    EventName.STATE_DUMP: EventType(
        "The whole allocation state, in the words of the kubelet's state file (on SIGUSR1).",
        fields={
            "entries": "blocks by pod UID and container",
            "machineState": "memory tables, assignments and group by NUMA node",
            "misaligned": "CPUs and devices without a node in common with the memory of their "
            "container: NUMA nodes by pod UID, container and provider",
        },
    ),
}
