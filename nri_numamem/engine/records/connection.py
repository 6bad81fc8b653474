"""Records of the connection to the runtime, and of its requests."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

from nri_numamem.engine.records.common import (
    Cause,
    ContainerNames,
    Error,
    Remedy,
    Traceback,
    WasRegistered,
)
from nri_numamem.engine.records.record import Amounts, Flat, Level, Record, event


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeNames(Flat):
    """The runtime as it names itself."""

    runtime: Annotated[str, "name of the runtime"]
    runtime_version: Annotated[str, "version of the runtime"]
    nri_version: Annotated[str | None, "version of NRI; null if the runtime does not send it"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Created(Flat):
    """The container of a CreateContainer."""

    names: ContainerNames
    sandbox_id: Annotated[str, "of CreateContainer: the sandbox of the container"]
    qos_class: Annotated[
        str,
        "of CreateContainer: the pod's class; a `Guaranteed` container runs unpinned",
    ]


@event("configured", kept=True)
class Configured(Record):
    """The runtime configured the plugin."""

    runtime: RuntimeNames


@event(
    "configuration_rejected",
    Level.ERROR,
    remedy="correct the configuration and restart the runtime",
)
class ConfigurationRejected(Record):
    """The plugin refuses the configuration that the runtime sent."""

    runtime: RuntimeNames
    error: Error


@event(
    "configuration_failed_inactive",
    Level.ERROR,
    remedy="correct the configuration and restart the runtime",
    kept=True,
)
class ConfigurationFailedInactive(Record):
    """The configuration is wrong, and the runtime is too old for a refusal: no container is
    managed.
    """

    error: Error


@event("configuration_failed_exiting", Level.ERROR, remedy="a bug: report the traceback")
class ConfigurationFailedExiting(Record):
    """The configuration could not be applied; the plugin exits."""

    exception: Traceback


@event("synchronized", kept=True)
class Synchronized(Record):
    """The allocation state was rebuilt from the runtime's list of pods and containers."""

    pod_count: Annotated[int, "pods that the runtime reported"]
    container_count: Annotated[int, "containers that the runtime reported"]
    adopted_count: Annotated[int, "containers that keep their NUMA nodes"]
    updated_count: Annotated[int, "containers whose cpuset.mems is updated"]
    not_managed: Annotated[
        Mapping[str, int], "why running containers are not managed, with their number"
    ]
    free_bytes: Annotated[Mapping[int, Amounts], "free bytes by NUMA node and resource"]


@event(
    "synchronize_too_large",
    Level.ERROR,
    remedy="remove stopped pods and containers from the runtime",
)
class SynchronizeTooLarge(Record):
    """The runtime's list of pods and containers exceeds the limit; the connection is closed."""

    cause: Cause


@event(
    "synchronize_timed_out",
    Level.ERROR,
    remedy="raise plugin_request_timeout in the runtime's NRI configuration",
    kept=True,
)
class SynchronizeTimedOut(Record):
    """Synchronize took longer than the runtime waits; the connection is closed."""

    method: Annotated[str, "type of the request"]
    limit_ms: Annotated[int, "time limit of the request"]
    exception: Traceback


@event(
    "request_timed_out",
    Level.ERROR,
    remedy="check the load of the host; `exception` shows where the time was spent",
    kept=True,
)
class RequestTimedOut(Record):
    """A request took too long and got an empty reply; its container runs unpinned."""

    method: Annotated[str, "type of the request"]
    limit_ms: Annotated[int, "time limit of the request"]
    created: Created | None = None
    exception: Traceback


@event("internal_error", Level.ERROR, remedy="report the traceback", kept=True)
class InternalError(Record):
    """A bug: a request got an empty reply; its container runs unpinned."""

    method: Annotated[str, "type of the request"] = ""
    created: Created | None = None
    exception: Traceback


@event("internal_error_after_reply", Level.ERROR, remedy="report the traceback", kept=True)
class InternalErrorAfterReply(Record):
    """A bug: the state after a reply could not be computed; the connection is closed, and the
    next Synchronize rebuilds the state.
    """

    exception: Traceback


@event(
    "commit_timed_out",
    Level.ERROR,
    remedy="report the traceback, which shows where the time was spent",
    kept=True,
)
class CommitTimedOut(Record):
    """The state after a reply took too much processor time; the connection is closed, and the
    next Synchronize rebuilds the state.
    """

    exception: Traceback


@event(
    "connect_failed", Level.WARNING, remedy="start the runtime, and enable NRI in its configuration"
)
class ConnectFailed(Record):
    """The runtime's NRI socket does not accept a connection; the plugin retries."""

    cause: Cause
    remedy: Remedy


@event("disconnected", Level.WARNING, kept=True)
class Disconnected(Record):
    """The runtime closed the connection; the plugin reconnects."""

    cause: Cause
    was_registered: WasRegistered


@event(
    "connection_closed_by_plugin", Level.ERROR, remedy="see the record before this one", kept=True
)
class ConnectionClosedByPlugin(Record):
    """The plugin closed the connection; it reconnects after five minutes."""

    cause: Cause
    was_registered: WasRegistered


@event("registration_rejected", Level.ERROR, remedy="check --idx and --name, and the runtime's log")
class RegistrationRejected(Record):
    """The runtime refused the plugin's registration; the plugin retries after five minutes."""

    cause: Cause
    was_registered: WasRegistered


@event("runtime_never_synchronizes", Level.WARNING, remedy="`remedy` in the record")
class RuntimeNeverSynchronizes(Record):
    """An old runtime launched the plugin and reports no running pods: after its restart the
    allocation state is empty.
    """

    cause: Cause
    remedy: Remedy


@event("switched_to_external")
class SwitchedToExternal(Record):
    """A launched plugin reconnects through the runtime's socket, so that the runtime reports its
    pods.
    """

    cause: Cause
