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
from nri_numamem.engine.engine import Engine
from nri_numamem.engine.features.memory_policies.records import MemoryPolicyRejected
from nri_numamem.engine.records.common import ContainerNames, names_of
from nri_numamem.engine.records.containers import Adopted, NotManaged, Unplaced
from nri_numamem.engine.records.pods import PodRejected
from nri_numamem.engine.records.record import Record
from nri_numamem.engine.records.running import ContainerEnded, ResizeRejected
from nri_numamem.memorymanager import QosClass
from nri_numamem.nri.poller import Clock

_Repeated = Unplaced | ResizeRejected | PodRejected | NotManaged | MemoryPolicyRejected
_REPEATED = (Unplaced, ResizeRejected, PodRejected, NotManaged, MemoryPolicyRejected)

# The kubelet's first retries come after 10 to 15 s.
FIRST_INTERVAL_S = 10.0

# Older reasons than this are those of an earlier adoption.
_NEW_S = 5.0

_Key = tuple[str, str]


@dataclass(frozen=True, slots=True)
class _Kept:
    """What the history has of a container's last refusals."""

    event: str
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
        if not record.is_kept:
            return
        chosen = self._chosen(record)
        if chosen is not None:
            self._append(self._clock.wall_s(), chosen)

    def _chosen(self, record: Record) -> Record | None:
        if isinstance(record, NotManaged) and not _may_be_managed(record):
            return None
        if isinstance(record, Adopted) and self._is_known(record):
            return None
        names = names_of(record)
        container = names.container if isinstance(names, ContainerNames) else ""
        key = ("" if names is None else names.pod_uid, container)
        if isinstance(record, _REPEATED):
            return self._unless_repeated(key, record)
        if key in self._kept and not isinstance(record, ContainerEnded):
            del self._kept[key]
        return record

    def _is_known(self, record: Adopted) -> bool:
        """Return whether the container was recorded before, perhaps by an earlier process."""
        engine = self._get_engine()
        container_id = record.names.container_id
        reason = None if engine is None else engine.state.reasons.pinned.get(container_id)
        return reason is not None and self._clock.wall_s() - reason.since_s > _NEW_S

    def _unless_repeated(self, key: _Key, record: _Repeated) -> Record | None:
        now_s = self._clock.monotonic_s()
        match record:
            case ResizeRejected():
                text = str(record.request_bytes)
            case NotManaged() | MemoryPolicyRejected():
                text = record.cause
            case _:
                text = record.message
        known = self._kept.get(key)
        if known is None or (known.event, known.text) != (record.event, text):
            self._keep(key, _Kept(record.event, text, now_s, FIRST_INTERVAL_S))
            return record
        if now_s - known.kept_at_s < known.interval_s:
            self._kept[key] = replace(known, repeat_count=known.repeat_count + 1)
            return None
        interval_s = min(2 * known.interval_s, LAST_INTERVAL_S)
        self._keep(key, replace(known, kept_at_s=now_s, interval_s=interval_s, repeat_count=0))
        return replace(record, repeat_count=known.repeat_count)

    def _keep(self, key: _Key, kept: _Kept) -> None:
        put_newest(self._kept, key, kept, REFUSALS_LIMIT)


def _may_be_managed(record: NotManaged) -> bool:
    """Return whether an unmanaged container is Guaranteed, or has a memory limit as Guaranteed."""
    has_limit = record.memory_limit_bytes or record.pod_memory_limit_bytes
    return record.qos_class == QosClass.GUARANTEED or bool(has_limit)
