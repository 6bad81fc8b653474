"""Records of the plugin's process: start and end, lock, jobs."""

from collections.abc import Mapping
from typing import Annotated

from nri_numamem.engine.records.common import (
    Cause,
    Error,
    PathOfFile,
    Remedy,
    Traceback,
    WasRegistered,
)
from nri_numamem.engine.records.record import AlternateLevel, Level, Record, event


@event("not_started", Level.ERROR, remedy="see `error`")
class NotStarted(Record):
    """A launched plugin does not start."""

    error: Error


@event("not_registered", Level.ERROR, remedy="see `remedy`")
class NotRegistered(Record):
    """A launched plugin ended before the runtime configured it, mostly because it was not
    registered in time. The runtime starts it again only at its own next start.
    """

    cause: Cause
    exception: Traceback = ""
    remedy: Remedy


@event("standby", Level.WARNING, remedy="see `remedy`")
class Standby(Record):
    """Another instance holds the lock beside the state file. This one waits, and serves the
    runtime as soon as the lock is free.
    """

    cause: Cause
    remedy: Remedy


@event("taken_over")
class TakenOver(Record):
    """The other instance has released the lock; this one serves the runtime now."""

    waited_s: Annotated[int, "seconds since the record `standby`"]


@event("stopped", kept=True)
class Stopped(Record):
    """The plugin stopped on a signal."""


@event(
    "plugin_exited",
    alternate=AlternateLevel(Level.ERROR, "neither the runtime nor a signal ended it"),
)
class PluginExited(Record):
    """A launched plugin ends."""

    cause: Cause
    was_registered: WasRegistered


@event(
    "capabilities_kept",
    Level.WARNING,
    remedy="a security profile or the unit's SystemCallFilter refused the call in `error`; for "
    "networkHints the unit needs a drop-in file, which nri-numamem doctor describes",
)
class CapabilitiesKept(Record):
    """The plugin could not drop the capabilities that it does not need."""

    error: Error


@event(
    "supervisor_unavailable",
    Level.WARNING,
    remedy="free process ids and memory, then restart the plugin, or the runtime that launched it",
)
class SupervisorUnavailable(Record):
    """The process that watches this one could not be started. Only systemd ends a plugin that is
    stuck, and a launched plugin that ends is not started again.
    """

    error: Error


@event("restarting_after_crash", Level.ERROR, remedy="report the traceback", kept=True)
class RestartingAfterCrash(Record):
    """A launched plugin crashed or was stuck, and is started again."""

    cause: Cause
    away_ms: Annotated[int, "milliseconds since the process before ended"]
    exception: Traceback = ""


@event(
    "restarting_after_disconnect",
    Level.WARNING,
    remedy="see the runtime's log; often a request timed out on a busy host",
    kept=True,
)
class RestartingAfterDisconnect(Record):
    """The runtime disconnected a launched plugin but still runs; another process of the plugin
    connects to the runtime's socket.
    """

    cause: Cause
    away_ms: Annotated[int, "milliseconds since the process before ended"]


@event("restart_failed", Level.ERROR, remedy="see `remedy`")
class RestartFailed(Record):
    """A launched plugin ended and could not be started again at once; it is tried again until
    the runtime ends, each second if no process could be started, otherwise at intervals that
    grow to a minute.
    """

    cause: Cause
    remedy: Remedy


@event("job_failed", Level.ERROR, remedy="report the traceback")
class JobFailed(Record):
    """A bug: a periodic job failed; the job runs again at its next time."""

    job: Annotated[str, "name of the job"]
    exception: Traceback


@event("accounting_invariant_violated", Level.ERROR, remedy="report the record")
class AccountingInvariantViolated(Record):
    """A bug: the accounting contradicts itself; the connection is closed, and the next
    Synchronize rebuilds the state, unless the violations are of groups of NUMA nodes.
    """

    violations: Annotated[tuple[str, ...], "the first violated invariants"]
    violation_count: Annotated[int, "number of all violated invariants"]
    before: Annotated[
        Mapping[str, object], "pods and nodes that changed, as of the last check that passed"
    ]
    after: Annotated[Mapping[str, object], "the same pods and nodes now"]


@event("lock_lost", Level.ERROR, remedy="stop one of the two instances")
class LockLost(Record):
    """The lock file beside the state file was removed or replaced, and another instance holds
    the new one; this instance serves on and writes no state file.
    """

    path: PathOfFile
    error: Error


@event(
    "lock_restored",
    Level.WARNING,
    remedy="do not remove the directory of the state file while the plugin runs",
)
class LockRestored(Record):
    """The lock file beside the state file was missing or replaced; it is locked again."""

    path: PathOfFile


@event(
    "lock_unavailable",
    Level.WARNING,
    remedy="check the disk and the permissions of the state file's directory",
)
class LockUnavailable(Record):
    """The lock beside the state file cannot be taken; a second instance would go unnoticed."""

    path: PathOfFile
    error: Error
