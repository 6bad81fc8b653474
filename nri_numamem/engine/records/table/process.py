"""Events of the plugin's process: start, end, state file, metrics."""

from nri_numamem.engine.records.events import AlternateLevel, EventName, EventType, Level
from nri_numamem.engine.records.table.common import CAUSE, ERROR, EXCEPTION, REMEDY

_PATH = {"path": "path of the file"}
_ADDRESS = {"address": "host and port, or the path of a Unix socket"}
_ERROR_AND_RENAMED = {
    **ERROR,
    "renamed_to": "new name of the file",
    "rename_error": "why the file was not renamed",
}
_AWAY = {"away_ms": "milliseconds since the process before ended"}
_WRITE = "check the disk and the permissions; the plugin retries every 30 s"

EVENTS = {
    EventName.NOT_STARTED: EventType(
        "A launched plugin does not start.",
        level=Level.ERROR,
        remedy="see `error`",
        fields=ERROR,
    ),
    EventName.NOT_REGISTERED: EventType(
        "A launched plugin ended before the runtime configured it, mostly because it was not "
        "registered in time. The runtime starts it again only at its own next start.",
        level=Level.ERROR,
        remedy="see `remedy`",
        fields={**CAUSE, **EXCEPTION, **REMEDY},
    ),
    EventName.STANDBY: EventType(
        "Another instance holds the lock beside the state file. This one waits, and serves the "
        "runtime as soon as the lock is free.",
        level=Level.WARNING,
        remedy="see `remedy`",
        fields={**CAUSE, **REMEDY},
    ),
    EventName.TAKEN_OVER: EventType(
        "The other instance has released the lock; this one serves the runtime now.",
        fields={"waited_s": "seconds since the record `standby`"},
    ),
    EventName.STOPPED: EventType("The plugin stopped on a signal."),
    EventName.PLUGIN_EXITED: EventType(
        "A launched plugin ends.",
        alternate=AlternateLevel(Level.ERROR, "neither the runtime nor a signal ended it"),
        fields={**CAUSE, "was_registered": "whether the runtime had accepted the registration"},
    ),
    EventName.CAPABILITIES_KEPT: EventType(
        "The plugin could not drop the capabilities that it does not need.",
        level=Level.WARNING,
        remedy="a security profile or the unit's SystemCallFilter refused the call in `error`; for "
        "networkHints the unit needs the drop-in file of docs/network-hints.md",
        fields=ERROR,
    ),
    EventName.SUPERVISOR_UNAVAILABLE: EventType(
        "The process that watches this one could not be started. Only systemd ends a plugin that "
        "is stuck, and a launched plugin that ends is not started again.",
        level=Level.WARNING,
        remedy="free process ids and memory, then restart the plugin, or the runtime that "
        "launched it",
        fields=ERROR,
    ),
    EventName.RESTARTING_AFTER_CRASH: EventType(
        "A launched plugin crashed or was stuck, and is started again.",
        level=Level.ERROR,
        remedy="report the traceback",
        fields={**CAUSE, **_AWAY, **EXCEPTION},
    ),
    EventName.RESTARTING_AFTER_DISCONNECT: EventType(
        "The runtime disconnected a launched plugin but still runs; another process of the plugin "
        "connects to the runtime's socket.",
        level=Level.WARNING,
        remedy="see the runtime's log; often a request timed out on a busy host",
        fields={**CAUSE, **_AWAY},
    ),
    EventName.RESTART_FAILED: EventType(
        "A launched plugin ended and could not be started again at once; it is tried again until "
        "the runtime ends, each second if no process could be started, otherwise at intervals that "
        "grow to a minute.",
        level=Level.ERROR,
        remedy="see `remedy`",
        fields={**CAUSE, **REMEDY},
    ),
    EventName.JOB_FAILED: EventType(
        "A bug: a periodic job failed; the job runs again at its next time.",
        level=Level.ERROR,
        remedy="report the traceback",
        fields={"job": "name of the job", **EXCEPTION},
    ),
    EventName.ACCOUNTING_INVARIANT_VIOLATED: EventType(
        "A bug: the accounting contradicts itself; the connection is closed, and the next "
        "Synchronize rebuilds the state.",
        level=Level.ERROR,
        remedy="report the record",
        fields={
            "violations": "the first violated invariants",
            "violation_count": "number of all violated invariants",
            "before": "pods and nodes that changed, as of the last check that passed",
            "after": "the same pods and nodes now",
        },
    ),
    EventName.LOCK_LOST: EventType(
        "The lock file beside the state file was removed or replaced, and another instance holds "
        "the new one; this instance serves on and writes no state file.",
        level=Level.ERROR,
        remedy="stop one of the two instances",
        fields={**_PATH, **ERROR},
    ),
    EventName.LOCK_RESTORED: EventType(
        "The lock file beside the state file was missing or replaced; it is locked again.",
        level=Level.WARNING,
        remedy="do not remove the directory of the state file while the plugin runs",
        fields=_PATH,
    ),
    EventName.LOCK_UNAVAILABLE: EventType(
        "The lock beside the state file cannot be taken; a second instance would go unnoticed.",
        level=Level.WARNING,
        remedy="check the disk and the permissions of the state file's directory",
        fields={**_PATH, **ERROR},
    ),
    EventName.LOG_RECORDS_DROPPED: EventType(
        "Log records were lost, because the log could not be written, or not fast enough.",
        level=Level.WARNING,
        remedy="check the disk of `logFile`, or the journal",
        fields={"dropped_records": "lost records since the last one of this event"},
    ),
    EventName.LOG_REOPENED: EventType(
        "SIGHUP: the log file, if there is one, was closed and opened again.",
    ),
    EventName.LOG_LEVEL_CHANGED: EventType(
        "SIGUSR2: the log level was switched to debug, or back.",
        fields={"log_level": "level in use from now on, until SIGHUP or SIGUSR2"},
    ),
    EventName.CONFIGURATION_RELOADED: EventType(
        "SIGHUP: the configuration was read again.",
        alternate=AlternateLevel(Level.WARNING, "some settings need a restart"),
        remedy="restart the plugin, or the runtime that launched it, to apply `needs_restart`",
        fields={
            "applied": "settings that changed, and are in effect",
            "needs_restart": "settings that changed in the file, and take effect at a restart",
        },
    ),
    EventName.CONFIGURATION_RELOAD_FAILED: EventType(
        "SIGHUP: the configuration cannot be read or used; the former settings stay in effect.",
        level=Level.ERROR,
        remedy="correct the configuration and send SIGHUP again",
        fields=ERROR,
    ),
    EventName.PROTOBUF_VULNERABLE: EventType(
        "The installed protobuf, which parses the runtime's messages, has a known vulnerability.",
        level=Level.WARNING,
        remedy="see `remedy`",
        fields={
            "protobuf_version": "installed version",
            "implementation": "`python` or `compiled`",
            "vulnerability": "number of the vulnerability (CVE)",
            **REMEDY,
        },
    ),
    EventName.STATE_RESTORED: EventType(
        "The state file of an earlier process was read.",
        fields={
            "containers": "containers in the file",
            "ended_pods": "ended pods whose NUMA nodes are known",
        },
    ),
    EventName.STATE_FILE_UNREADABLE: EventType(
        "The state file cannot be read; the plugin starts without it.",
        level=Level.WARNING,
        remedy="check the permissions",
        fields={**_PATH, **ERROR},
    ),
    EventName.STATE_FILE_OTHER_VERSION: EventType(
        "The state file was written by another version of the plugin and renamed; "
        "the plugin starts without it.",
        level=Level.WARNING,
        remedy="none; to return to that version, stop the plugin and rename the file back",
        fields={**_PATH, **_ERROR_AND_RENAMED, "file_version": "version of the file's format"},
    ),
    EventName.STATE_FILE_UNUSABLE: EventType(
        "The state file is damaged and renamed; the plugin starts without it.",
        level=Level.WARNING,
        remedy="none; the renamed file can be deleted",
        fields={**_PATH, **_ERROR_AND_RENAMED},
    ),
    EventName.STATE_FILE_WRITE_FAILED: EventType(
        "A file of the state directory cannot be written; the plugin serves on and retries.",
        level=Level.WARNING,
        remedy=_WRITE,
        fields={**_PATH, "error_kind": "errno name, or type of the exception", **ERROR},
    ),
    EventName.STATE_FILE_WRITE_RECOVERED: EventType(
        "A file of the state directory is written again.",
        fields={**_PATH, "failed_writes": "failed writes since the start"},
    ),
    EventName.HISTORY_UNUSABLE: EventType(
        "A segment of the history is damaged and renamed; the plugin begins another one.",
        level=Level.WARNING,
        remedy="none; the renamed file can be deleted",
        fields={**_PATH, "renamed_to": "new name of the file"},
    ),
    EventName.HISTORY_RECORDS_DROPPED: EventType(
        "The history lacks some records, because it could not be written, or not fast enough.",
        level=Level.WARNING,
        remedy="check the disk and the permissions of the state file's directory",
        fields={"dropped_records": "records that are missing since the last record of this event"},
    ),
    EventName.METRICS_ENDPOINT_STARTED: EventType("The metrics endpoint serves.", fields=_ADDRESS),
    EventName.METRICS_ENDPOINT_RETRYING: EventType(
        "The address of the metrics endpoint is not available, or the process is at its limit of "
        "threads; the plugin retries each minute, or every 5 s.",
        level=Level.WARNING,
        remedy="choose another metricsAddress, or raise the limit of threads; see `cause`",
        fields={**_ADDRESS, **CAUSE},
    ),
    EventName.METRICS_ENDPOINT_FAILED: EventType(
        "A bug: the metrics endpoint failed.",
        level=Level.ERROR,
        remedy="report the traceback",
        fields={**_ADDRESS, **EXCEPTION},
    ),
    EventName.METRICS_TEXTFILE_STARTED: EventType(
        "The metrics are written to a text file, for the first time or again.", fields=_PATH
    ),
    EventName.METRICS_TEXTFILE_RETRYING: EventType(
        "The text file of the metrics cannot be written; the plugin retries every 15 s.",
        level=Level.WARNING,
        remedy="check the directory of metricsTextfile, the disk and the permissions",
        fields={**_PATH, **CAUSE},
    ),
    EventName.METRICS_TEXTFILE_FAILED: EventType(
        "A bug: the text file of the metrics could not be made; the plugin retries every 15 s.",
        level=Level.ERROR,
        remedy="report the traceback",
        fields={**_PATH, **EXCEPTION},
    ),
}
