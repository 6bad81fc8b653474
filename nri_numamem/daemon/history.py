"""Chooses the records for the history, which has limited space.

The history has what happened to Guaranteed containers and to Burstable ones with a memory limit,
and when the plugin could decide. What a Synchronize repeats, and what the kubelet retries, would
soon be all of it. So a container that is adopted again is left out, and a refusal that repeats the
last one is kept after growing intervals, with the number of those in between.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

from nri_numamem.daemon.newest import put_newest
from nri_numamem.daemon.repeated_refusals import LAST_INTERVAL_S, REFUSALS_LIMIT
from nri_numamem.engine.core.plan import Record, RecordValue
from nri_numamem.engine.engine import Engine
from nri_numamem.engine.records.events import EventName
from nri_numamem.engine.records.table.burstable import EVENTS as BURSTABLE_EVENTS
from nri_numamem.engine.records.table.containers import EVENTS as CONTAINER_EVENTS
from nri_numamem.engine.records.table.cpu_following import EVENTS as CPU_EVENTS
from nri_numamem.engine.records.table.memory_policies import EVENTS as POLICY_EVENTS
from nri_numamem.engine.records.table.network_hints import EVENTS as NETWORK_EVENTS
from nri_numamem.engine.records.table.pods import EVENTS as POD_EVENTS
from nri_numamem.engine.records.table.residency import CONTAINER_EVENTS as RESIDENCY_EVENTS
from nri_numamem.nri.poller import Clock

_PROCESS_EVENTS = (
    EventName.MACHINE,
    EventName.CONFIGURED,
    EventName.SYNCHRONIZED,
    EventName.SYNCHRONIZE_TIMED_OUT,
    EventName.REQUEST_TIMED_OUT,
    EventName.INTERNAL_ERROR,
    EventName.INTERNAL_ERROR_AFTER_REPLY,
    EventName.COMMIT_TIMED_OUT,
    EventName.DISCONNECTED,
    EventName.CONNECTION_CLOSED_BY_PLUGIN,
    EventName.CONFIGURATION_FAILED_INACTIVE,
    EventName.RESTARTING_AFTER_CRASH,
    EventName.RESTARTING_AFTER_DISCONNECT,
    EventName.STOPPED,
)
"""When the plugin can decide, and when it cannot."""

EVENTS = frozenset(
    {
        *CONTAINER_EVENTS,
        *POD_EVENTS,
        *CPU_EVENTS,
        *POLICY_EVENTS,
        *BURSTABLE_EVENTS,
        *NETWORK_EVENTS,
        *RESIDENCY_EVENTS,
        *_PROCESS_EVENTS,
    }
)

_REPEATED = (
    EventName.REJECTED,
    EventName.UNPINNED_NO_CAPACITY,
    EventName.RUNNING_UNPINNED_NO_CAPACITY,
    EventName.RESIZE_REJECTED,
    EventName.POD_REJECTED,
    EventName.NOT_MANAGED,
    EventName.MEMORY_POLICY_REJECTED,
)

# The kubelet's first retries come after 10 to 15 s.
FIRST_INTERVAL_S = 10.0

# Older reasons than this are those of an earlier adoption.
_NEW_S = 5.0

_Key = tuple[str, str]


@dataclass(frozen=True, slots=True)
class _Kept:
    """What the history has of a container's last refusals."""

    event: EventName
    text: str
    kept_at_s: float
    interval_s: float
    repeat_count: int = 0
    """Refusals since the last one that was kept."""


class HistoryFilter:
    """Chooses records; `append` takes the Unix time and a record that was chosen."""

    def __init__(
        self,
        append: Callable[[float, Record], None],
        clock: Clock,
        get_engine: Callable[[], Engine | None],
    ) -> None:
        self._append = append
        self._clock = clock
        self._get_engine = get_engine
        self._kept: dict[_Key, _Kept] = {}
        """Pod uid and container name -> the last refusal; the one that was kept last comes last."""

    def add(self, record: Record) -> None:
        """Append a record, if the history is to have it."""
        if record.event not in EVENTS:
            return
        chosen = self._chosen(record)
        if chosen is not None:
            self._append(self._clock.wall_s(), chosen)

    def _chosen(self, record: Record) -> Record | None:
        if record.event is EventName.NOT_MANAGED and not _may_be_managed(record):
            return None
        if record.event is EventName.ADOPTED and self._is_known(record):
            return None
        key = (str(record.fields.get("pod_uid", "")), str(record.fields.get("container", "")))
        if record.event in _REPEATED:
            return self._unless_repeated(key, record)
        if key in self._kept and record.event is not EventName.CONTAINER_ENDED:
            del self._kept[key]
        return record

    def _is_known(self, record: Record) -> bool:
        """Return whether the container was recorded before, perhaps by an earlier process."""
        engine = self._get_engine()
        container_id = str(record.fields.get("container_id"))
        reason = None if engine is None else engine.state.reasons.pinned.get(container_id)
        return reason is not None and self._clock.wall_s() - reason.since_s > _NEW_S

    def _unless_repeated(self, key: _Key, record: Record) -> Record | None:
        now_s = self._clock.monotonic_s()
        text = str(record.fields.get("message") or record.fields.get("cause") or "")
        if record.event is EventName.RESIZE_REJECTED:
            text = str(record.fields.get("request_bytes"))
        known = self._kept.get(key)
        if known is None or (known.event, known.text) != (record.event, text):
            self._keep(key, _Kept(record.event, text, now_s, FIRST_INTERVAL_S))
            return record
        if now_s - known.kept_at_s < known.interval_s:
            self._kept[key] = replace(known, repeat_count=known.repeat_count + 1)
            return None
        interval_s = min(2 * known.interval_s, LAST_INTERVAL_S)
        self._keep(key, replace(known, kept_at_s=now_s, interval_s=interval_s, repeat_count=0))
        fields: dict[str, RecordValue] = {**record.fields, "repeat_count": known.repeat_count}
        return replace(record, fields=fields)

    def _keep(self, key: _Key, kept: _Kept) -> None:
        put_newest(self._kept, key, kept, REFUSALS_LIMIT)


def _may_be_managed(record: Record) -> bool:
    """Return whether an unmanaged container is Guaranteed, or has a memory limit as Guaranteed."""
    fields = record.fields
    has_limit = fields.get("memory_limit_bytes") or fields.get("pod_memory_limit_bytes")
    return fields.get("qos_class") == "Guaranteed" or bool(has_limit)
