"""The names of all events that the plugin records, and what is known about an event's type.

The names are the keys of logs, metrics and documents. ``engine.records.table`` has the type of
each event: level, description, remedy and fields.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class EventName(StrEnum):
    """What happened. A name never changes its meaning between releases."""

    ACCOUNTING_INVARIANT_VIOLATED = "accounting_invariant_violated"
    ADMITTED = "admitted"
    ADOPTED = "adopted"
    BURSTABLE_NOT_PINNED = "burstable_not_pinned"
    BURSTABLE_PINNED = "burstable_pinned"
    BURSTABLE_UNPINNED = "burstable_unpinned"
    COMMIT_TIMED_OUT = "commit_timed_out"
    CONFIGURATION_FAILED_EXITING = "configuration_failed_exiting"
    CONFIGURATION_FAILED_INACTIVE = "configuration_failed_inactive"
    CONFIGURATION_REJECTED = "configuration_rejected"
    CONFIGURATION_RELOADED = "configuration_reloaded"
    CONFIGURATION_RELOAD_FAILED = "configuration_reload_failed"
    CONFIGURED = "configured"
    CONNECT_FAILED = "connect_failed"
    CONNECTION_CLOSED_BY_PLUGIN = "connection_closed_by_plugin"
    CONTAINER_CGROUP_UNREADABLE = "container_cgroup_unreadable"
    CONTAINER_ENDED = "container_ended"
    CPUS_FOLLOW_MEMORY = "cpus_follow_memory"
    CPUS_LEFT_TO_KUBELET = "cpus_left_to_kubelet"
    CPUS_NOT_SET = "cpus_not_set"
    CPUS_SET = "cpus_set"
    CPUSET_MEMS_CONFLICT = "cpuset_mems_conflict"
    CPUSET_MEMS_MISSING = "cpuset_mems_missing"
    CPUSET_MEMS_REAPPLIED = "cpuset_mems_reapplied"
    CPUSET_MEMS_RESTORED = "cpuset_mems_restored"
    DISCONNECTED = "disconnected"
    DUPLICATE_CONTAINER = "duplicate_container"
    EXPORT_INPUT_MISSING = "export_input_missing"
    EXPORT_INPUT_RESTORED = "export_input_restored"
    EXPORT_STARTED = "export_started"
    EXPORT_STOPPED = "export_stopped"
    HEAD_ROOM_LOW = "head_room_low"
    HEAD_ROOM_RESTORED = "head_room_restored"
    HISTORY_RECORDS_DROPPED = "history_records_dropped"
    HISTORY_UNUSABLE = "history_unusable"
    HUGEPAGE_POOLS = "hugepage_pools"
    HUGEPAGE_POOLS_UNREADABLE = "hugepage_pools_unreadable"
    INTERNAL_ERROR = "internal_error"
    INTERNAL_ERROR_AFTER_REPLY = "internal_error_after_reply"
    JOB_FAILED = "job_failed"
    KUBELET_CPU_STATE_UNREADABLE = "kubelet_cpu_state_unreadable"
    LOCK_LOST = "lock_lost"
    LOCK_RESTORED = "lock_restored"
    LOCK_UNAVAILABLE = "lock_unavailable"
    LOG_RECORDS_DROPPED = "log_records_dropped"
    LOG_LEVEL_CHANGED = "log_level_changed"
    LOG_REOPENED = "log_reopened"
    MACHINE = "machine"
    MACHINE_CHANGE_REJECTED = "machine_change_rejected"
    MACHINE_CHANGED = "machine_changed"
    MACHINE_MONITOR_FAILED = "machine_monitor_failed"
    MACHINE_UNREADABLE = "machine_unreadable"
    MEMORY_POLICY_IGNORED = "memory_policy_ignored"
    MEMORY_POLICY_REJECTED = "memory_policy_rejected"
    MEMORY_POLICY_SET = "memory_policy_set"
    METRICS_ENDPOINT_FAILED = "metrics_endpoint_failed"
    METRICS_ENDPOINT_RETRYING = "metrics_endpoint_retrying"
    METRICS_ENDPOINT_STARTED = "metrics_endpoint_started"
    METRICS_TEXTFILE_FAILED = "metrics_textfile_failed"
    METRICS_TEXTFILE_RETRYING = "metrics_textfile_retrying"
    METRICS_TEXTFILE_STARTED = "metrics_textfile_started"
    MISALIGNED = "misaligned"
    NETWORK_HINTS_DISABLED = "network_hints_disabled"
    NETWORK_HINTS_FOUND = "network_hints_found"
    NETWORK_HINTS_INCOMPLETE = "network_hints_incomplete"
    NETWORK_NAMESPACES_CLOSED = "network_namespaces_closed"
    NO_NODE_HAS_CPUS = "no_node_has_cpus"
    NON_POD_HUGEPAGES_CLEARED = "non_pod_hugepages_cleared"
    NON_POD_HUGEPAGES_FOUND = "non_pod_hugepages_found"
    NOT_MANAGED = "not_managed"
    NOT_REGISTERED = "not_registered"
    NOT_STARTED = "not_started"
    ON_EXCLUDED_NODES = "on_excluded_nodes"
    OVERCOMMIT_RESOLVED = "overcommit_resolved"
    OVERCOMMITTED = "overcommitted"
    PINNED_WHILE_RUNNING = "pinned_while_running"
    PLUGIN_EXITED = "plugin_exited"
    PLACEMENT_STRATEGY_IGNORED = "placement_strategy_ignored"
    POD_ADMITTED = "pod_admitted"
    POD_ADOPTED = "pod_adopted"
    POD_CGROUP_UNREADABLE = "pod_cgroup_unreadable"
    POD_REJECTED = "pod_rejected"
    POD_RELEASED = "pod_released"
    PODRESOURCES_FAILED = "podresources_failed"
    PODRESOURCES_INCOMPLETE = "podresources_incomplete"
    PODRESOURCES_RESTORED = "podresources_restored"
    PODRESOURCES_STARTED = "podresources_started"
    PROTOBUF_VULNERABLE = "protobuf_vulnerable"
    REGISTRATION_REJECTED = "registration_rejected"
    REJECTED = "rejected"
    REMOTE_MEMORY_CLEARED = "remote_memory_cleared"
    REMOTE_MEMORY_FOUND = "remote_memory_found"
    REQUEST_TIMED_OUT = "request_timed_out"
    RESERVATION_WITHOUT_EFFECT = "reservation_without_effect"
    RESIZE_REJECTED = "resize_rejected"
    RESIZED = "resized"
    CAPABILITIES_KEPT = "capabilities_kept"
    RESTART_FAILED = "restart_failed"
    RESTARTING_AFTER_DISCONNECT = "restarting_after_disconnect"
    RESTARTING_AFTER_CRASH = "restarting_after_crash"
    RUNNING_UNPINNED_NO_CAPACITY = "running_unpinned_no_capacity"
    RUNTIME_NEVER_SYNCHRONIZES = "runtime_never_synchronizes"
    STALE_RESERVATION_DROPPED = "stale_reservation_dropped"
    STANDBY = "standby"
    STATE_DUMP = "state_dump"
    STATE_FILE_OTHER_VERSION = "state_file_other_version"
    STATE_FILE_UNREADABLE = "state_file_unreadable"
    STATE_FILE_UNUSABLE = "state_file_unusable"
    STATE_FILE_WRITE_FAILED = "state_file_write_failed"
    STATE_FILE_WRITE_RECOVERED = "state_file_write_recovered"
    STATE_RESTORED = "state_restored"
    STOPPED = "stopped"
    STRICT_POLICY_WITH_STATIC_CPUS = "strict_policy_with_static_cpus"
    SWITCHED_TO_EXTERNAL = "switched_to_external"
    SUPERVISOR_UNAVAILABLE = "supervisor_unavailable"
    SYNCHRONIZE_TIMED_OUT = "synchronize_timed_out"
    SYNCHRONIZE_TOO_LARGE = "synchronize_too_large"
    SYNCHRONIZED = "synchronized"
    TAKEN_OVER = "taken_over"
    TOPOLOGY_WRITE_FAILED = "topology_write_failed"
    TOPOLOGY_WRITTEN = "topology_written"
    UEVENTS_RECEIVED = "uevents_received"
    UEVENTS_UNAVAILABLE = "uevents_unavailable"
    UNPINNED_NO_CAPACITY = "unpinned_no_capacity"
    UNREPORTED_CONTAINER_FOUND = "unreported_container_found"
    UPDATE_WITHOUT_EFFECT = "update_without_effect"


class Level(StrEnum):
    """How much attention an event needs."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class AlternateLevel:
    """The level of an event under a condition."""

    level: Level
    condition: str
    """When the event has this level: a clause that completes "if ..."."""


@dataclass(frozen=True, slots=True)
class EventType:
    """What all records of one event have in common."""

    summary: str
    """One sentence for operators."""
    level: Level = Level.INFO
    alternate: AlternateLevel | None = None
    remedy: str = ""
    """What an operator can do; "" if nothing needs to be done."""
    fields: Mapping[str, str] = field(default_factory=dict)
    """Name -> meaning of every field that a record may have. Units come last in the names."""

    def level_if(self, *, alternate: bool) -> Level:
        """Return the event's level, or its alternate level."""
        return self.alternate.level if alternate and self.alternate is not None else self.level
