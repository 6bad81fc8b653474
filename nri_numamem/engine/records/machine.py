"""Records of the machine and of the allocation state."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated

from nri_numamem.engine.records.common import Cause, Error, Hints, Remedy, Traceback
from nri_numamem.engine.records.record import AlternateLevel, Amounts, Flat, Level, Record, event
from nri_numamem.numa import NodeSet


@dataclass(frozen=True, slots=True, kw_only=True)
class OutsideOfPods(Flat):
    """The use of hugepages outside of pods."""

    non_pod_bytes: Annotated[
        Mapping[str, Amounts],
        "hugepages in use by processes outside of pods: bytes by NUMA nodes and size",
    ]
    non_pod_rsvd_bytes: Annotated[
        Amounts, "hugepages reserved, not yet faulted, by processes outside of pods"
    ] = field(default_factory=dict)


@event(
    "machine",
    alternate=AlternateLevel(Level.WARNING, "the kubelet's own Memory Manager is active too"),
    remedy="at level warning: set memoryManagerPolicy: None in the kubelet's configuration",
    kept=True,
)
class Machine(Record):
    """The plugin starts to decide with these settings on this machine."""

    version: Annotated[str, "version of the plugin"]
    memoryManagerPolicy: Annotated[str, "None or Static"]
    topologyManagerPolicy: Annotated[str, "none, best-effort, restricted or single-numa-node"]
    topologyManagerScope: Annotated[str, "container or pod"]
    reserved_memory_source: Annotated[str, "settings, or derived from the kubelet's reservations"]
    nodes: Annotated[
        Mapping[str, object],
        "bytes of memory and reservations, class, use and memory tier by NUMA node",
    ]
    notes: Annotated[tuple[str, ...], "remarks on the settings"]


@event(
    "strict_policy_with_static_cpus",
    Level.WARNING,
    remedy="set topologyManagerPolicy: best-effort, or accept the refusals; docs/limits.md "
    "compares the policies",
)
class StrictPolicyWithStaticCpus(Record):
    """The kubelet assigns exclusive CPUs, and the Topology Manager policy refuses containers
    whose memory does not match them.
    """

    cpuManagerPolicy: Annotated[str, "policy of the kubelet's CPU manager"]
    topologyManagerPolicy: Annotated[str, "restricted or single-numa-node"]
    cost: Annotated[str, "share of refused pods in simulations"]


@event(
    "no_node_has_cpus",
    Level.WARNING,
    remedy="check /sys/devices/system/node/node*/cpulist, and that the host's sysfs is mounted",
)
class NoNodeHasCpus(Record):
    """No NUMA node shows CPUs, so all nodes are used: sysfs is incomplete."""

    numa_nodes: Annotated[NodeSet, "the NUMA nodes of the machine"]


@event(
    "reservation_without_effect",
    Level.WARNING,
    remedy="remove the entry, or use the node: memoryNodes.override or memoryNodes.withoutCpus",
)
class ReservationWithoutEffect(Record):
    """A reservation is for an excluded NUMA node, which pods do not use anyway; nothing is
    reserved on other nodes in its place.
    """

    setting: Annotated[str, "the entry"]
    nodes: Annotated[NodeSet, "the excluded NUMA node"]
    limits_bytes: Annotated[Amounts, "what the entry reserves, by resource"]


@event(
    "machine_changed",
    alternate=AlternateLevel(Level.DEBUG, "only memory sizes changed, by less than 1 %"),
)
class MachineChanged(Record):
    """NUMA nodes, their classes, memory sizes or hugepage pools changed; the allocation state is
    recomputed.
    """

    nodes: Annotated[Mapping[str, object], "new and previous figures by NUMA node that changed"]
    removed_nodes: Annotated[NodeSet, "NUMA nodes that the machine no longer has"] = field(
        default_factory=NodeSet
    )


@event(
    "machine_change_rejected",
    Level.WARNING,
    remedy="adapt the settings to the machine and restart the plugin",
)
class MachineChangeRejected(Record):
    """The settings do not fit the changed machine; the allocation state stays as it was."""

    cause: Cause
    remedy: Remedy


@event(
    "machine_unreadable",
    Level.WARNING,
    remedy="check that the plugin can read /sys/devices/system/node",
)
class MachineUnreadable(Record):
    """NUMA nodes or hugepage pools cannot be read from sysfs; the last figures stay in use."""

    error: Error


@event("machine_monitor_failed", Level.ERROR, remedy="report the traceback")
class MachineMonitorFailed(Record):
    """A bug: the periodic check of the machine failed."""

    exception: Traceback


@event(
    "hugepage_pools_unreadable",
    Level.WARNING,
    remedy="check that the plugin can read /sys/devices/system/node",
)
class HugepagePoolsUnreadable(Record):
    """The kernel's hugepage pools cannot be read; only the allocation state decides."""

    error: Error


@event("hugepage_pools")
class HugepagePools(Record):
    """The kernel's hugepage pools beside the allocation state (on SIGUSR1)."""

    used_bytes: Annotated[Mapping[int, Amounts], "pages in use: bytes by NUMA node and size"]
    free_bytes: Annotated[Mapping[int, Amounts], "free pages: bytes by NUMA node and size"]
    rsvd_bytes: Annotated[Amounts, "pages reserved but not yet faulted: bytes by size"]
    assigned_bytes: Annotated[
        Mapping[int, Amounts], "pages assigned to pods: bytes by NUMA node and size"
    ]
    used_by_pods_bytes: Annotated[
        Mapping[int, Amounts], "pages in use by pods: bytes by NUMA node and size"
    ]
    outside: OutsideOfPods


@event("non_pod_hugepages_found", remedy="reserve these pages with reservedMemory")
class NonPodHugepagesFound(Record):
    """Processes outside of pods use hugepages that the allocation state counts as free."""

    outside: OutsideOfPods


@event("non_pod_hugepages_cleared")
class NonPodHugepagesCleared(Record):
    """The kernel has all hugepages again that the allocation state counts as free."""


@event("uevents_received", Level.DEBUG)
class UeventsReceived(Record):
    """The kernel reported changes of memory or NUMA nodes."""

    is_incomplete: Annotated[bool, "whether some messages were lost"]
    uevents: Annotated[tuple[str, ...] | None, "the messages"] = None
    error: Error = ""


@event("uevents_unavailable")
class UeventsUnavailable(Record):
    """The plugin cannot subscribe to kernel uevents; it polls the machine instead."""

    error: Error
    poll_interval_s: Annotated[int, "seconds between two checks of the machine"]


@event("state_dump")
class StateDump(Record):
    """The whole allocation state, in the words of the kubelet's state file (on SIGUSR1)."""

    entries: Annotated[object, "blocks by pod UID and container"]
    machineState: Annotated[object, "memory tables, assignments and group by NUMA node"]
    misaligned: Annotated[
        Mapping[str, Mapping[str, Hints]] | None,
        "CPUs and devices without a node in common with the memory of their container: NUMA nodes"
        " by pod UID, container and provider",
    ] = None
