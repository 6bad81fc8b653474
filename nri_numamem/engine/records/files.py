"""Records of the plugin's log, settings, state file, history and metrics."""

from dataclasses import dataclass
from typing import Annotated

from nri_numamem.engine.records.common import Cause, Error, PathOfFile, Remedy, Traceback
from nri_numamem.engine.records.record import AlternateLevel, Flat, Level, Record, event

Address = Annotated[str, "host and port, or the path of a Unix socket"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Renamed(Flat):
    """What became of a file that cannot be used."""

    renamed_to: Annotated[str, "new name of the file"] = ""
    rename_error: Annotated[str, "why the file was not renamed"] = ""


@event("log_records_dropped", Level.WARNING, remedy="check the disk of `logFile`, or the journal")
class LogRecordsDropped(Record):
    """Log records were lost, because the log could not be written, or not fast enough."""

    dropped_records: Annotated[int, "lost records since the last one of this event"]


@event("log_reopened")
class LogReopened(Record):
    """SIGHUP: the log file, if there is one, was closed and opened again."""


@event("log_level_changed")
class LogLevelChanged(Record):
    """SIGUSR2: the log level was switched to debug, or back."""

    log_level: Annotated[str, "level in use from now on, until SIGHUP or SIGUSR2"]


@event(
    "configuration_reloaded",
    alternate=AlternateLevel(Level.WARNING, "some settings need a restart"),
    remedy="restart the plugin, or the runtime that launched it, to apply `needs_restart`",
)
class ConfigurationReloaded(Record):
    """SIGHUP: the configuration was read again."""

    applied: Annotated[tuple[str, ...], "settings that changed, and are in effect"]
    needs_restart: Annotated[
        tuple[str, ...], "settings that changed in the file, and take effect at a restart"
    ]


@event(
    "configuration_reload_failed",
    Level.ERROR,
    remedy="correct the configuration and send SIGHUP again",
)
class ConfigurationReloadFailed(Record):
    """SIGHUP: the configuration cannot be read or used; the former settings stay in effect."""

    error: Error


@event("protobuf_vulnerable", Level.WARNING, remedy="see `remedy`")
class ProtobufVulnerable(Record):
    """The installed protobuf, which parses the runtime's messages, has a known vulnerability."""

    protobuf_version: Annotated[str, "installed version"]
    implementation: Annotated[str, "`python` or `compiled`"]
    vulnerability: Annotated[str, "number of the vulnerability (CVE)"]
    remedy: Remedy


@event("state_restored")
class StateRestored(Record):
    """The state file of an earlier process was read."""

    containers: Annotated[int, "containers in the file"]
    ended_pods: Annotated[int, "ended pods whose NUMA nodes are known"]


@event("state_file_unreadable", Level.WARNING, remedy="check the permissions")
class StateFileUnreadable(Record):
    """The state file cannot be read; the plugin starts without it."""

    path: PathOfFile
    error: Error


@event(
    "state_file_other_version",
    Level.WARNING,
    remedy="none; to return to that version, stop the plugin and rename the file back",
)
class StateFileOtherVersion(Record):
    """The state file was written by another version of the plugin and renamed; the plugin starts
    without it.
    """

    path: PathOfFile
    error: Error
    renamed: Renamed
    file_version: Annotated[int, "version of the file's format"]


@event("state_file_unusable", Level.WARNING, remedy="none; the renamed file can be deleted")
class StateFileUnusable(Record):
    """The state file is damaged and renamed; the plugin starts without it."""

    path: PathOfFile
    error: Error
    renamed: Renamed


@event(
    "state_file_write_failed",
    Level.WARNING,
    remedy="check the disk and the permissions; the plugin retries every 30 s",
)
class StateFileWriteFailed(Record):
    """A file of the state directory cannot be written; the plugin serves on and retries."""

    path: PathOfFile
    error_kind: Annotated[str, "errno name, or type of the exception"]
    error: Error


@event("state_file_write_recovered")
class StateFileWriteRecovered(Record):
    """A file of the state directory is written again."""

    path: PathOfFile
    failed_writes: Annotated[int, "failed writes since the start"]


@event("history_unusable", Level.WARNING, remedy="none; the renamed file can be deleted")
class HistoryUnusable(Record):
    """A segment of the history has no valid header and is renamed; another one begins."""

    path: PathOfFile
    renamed_to: Annotated[str, "new name of the file"]


@event(
    "history_records_dropped",
    Level.WARNING,
    remedy="check the disk and the permissions of the state file's directory",
)
class HistoryRecordsDropped(Record):
    """The history lacks some records, because it could not be written, or not fast enough."""

    dropped_records: Annotated[int, "records that are missing since the last record of this event"]


@event("metrics_endpoint_started")
class MetricsEndpointStarted(Record):
    """The metrics endpoint serves."""

    address: Address


@event(
    "metrics_endpoint_retrying",
    Level.WARNING,
    remedy="choose another metricsAddress, or raise the limit of threads; see `cause`",
)
class MetricsEndpointRetrying(Record):
    """The address of the metrics endpoint is not available, or the process is at its limit of
    threads; the plugin retries each minute, or every 5 s.
    """

    address: Address
    cause: Cause


@event("metrics_endpoint_failed", Level.ERROR, remedy="report the traceback")
class MetricsEndpointFailed(Record):
    """A bug: the metrics endpoint failed."""

    address: Address
    exception: Traceback


@event("metrics_textfile_started")
class MetricsTextfileStarted(Record):
    """The metrics are written to a text file, for the first time or again."""

    path: PathOfFile


@event(
    "metrics_textfile_retrying",
    Level.WARNING,
    remedy="check the directory of metricsTextfile, the disk and the permissions",
)
class MetricsTextfileRetrying(Record):
    """The text file of the metrics cannot be written; the plugin retries every 15 s."""

    path: PathOfFile
    cause: Cause


@event("metrics_textfile_failed", Level.ERROR, remedy="report the traceback")
class MetricsTextfileFailed(Record):
    """A bug: the text file of the metrics could not be made; the plugin retries every 15 s."""

    path: PathOfFile
    exception: Traceback


@event(
    "claim_files_unreadable",
    Level.ERROR,
    remedy="correct the directory; until then claims are neither prepared nor released",
)
class ClaimFilesUnreadable(Record):
    """The directory of resource claims cannot be used."""

    path: PathOfFile
    error: Error


@event(
    "claim_intent_unusable",
    Level.ERROR,
    remedy="restart the agent, which writes these files; its version must be the plugin's",
)
class ClaimIntentUnusable(Record):
    """A file of the agent, which describes a resource claim to be prepared, cannot be used."""

    cause: Cause


@event(
    "earmark_files_unusable",
    Level.WARNING,
    remedy="remove or correct the file; nri-numamem earmark writes such files",
)
class EarmarkFilesUnusable(Record):
    """Files of earmarks cannot be read or written; the earmarks that there are stay."""

    cause: Cause


@event(
    "claim_unanswered",
    Level.ERROR,
    remedy="correct the directory; the agent tries the claim again",
)
class ClaimUnanswered(Record):
    """The CDI specification of a resource claim, or the answer to the agent, cannot be written.

    The claim stays charged, and its pod waits.
    """

    path: PathOfFile
    error: Error
