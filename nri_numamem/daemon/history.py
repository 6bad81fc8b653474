"""Chooses the records for the history, which has limited space.

The history has what happened to Guaranteed containers and to Burstable ones with a memory limit,
and when the plugin could decide. What a Synchronize repeats, and what the kubelet retries, would
soon be all of it. So a container that is adopted again is left out, and a refusal that repeats the
last one is kept after growing intervals, with the number of those in between.
"""

from collections.abc import Callable

from nri_numamem.daemon.refusals import Refusals
from nri_numamem.engine.engine import Engine
from nri_numamem.engine.records.containers import Adopted, NotManaged
from nri_numamem.engine.records.record import Record
from nri_numamem.memorymanager import QosClass
from nri_numamem.nri.poller import Clock

# Older reasons than this are those of an earlier adoption.
_NEW_S = 5.0


class HistoryFilter:
    """Chooses records; `append` takes the Unix time and a record that was chosen."""

    def __init__(
        self,
        append: Callable[[float, Record], None],
        clock: Clock,
        get_engine: Callable[[], Engine | None],
        refusals: Refusals,
    ) -> None:
        self._append = append
        self._clock = clock
        self._get_engine = get_engine
        self._refusals = refusals

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
        return self._refusals.for_history(record)

    def _is_known(self, record: Adopted) -> bool:
        """Return whether the container was recorded before, perhaps by an earlier process."""
        engine = self._get_engine()
        container_id = record.names.container_id
        reason = None if engine is None else engine.state.reasons.pinned.get(container_id)
        return reason is not None and self._clock.wall_s() - reason.since_s > _NEW_S


def _may_be_managed(record: NotManaged) -> bool:
    """Return whether an unmanaged container is Guaranteed, or has a memory limit as Guaranteed."""
    has_limit = record.memory_limit_bytes or record.pod_memory_limit_bytes
    return record.qos_class == QosClass.GUARANTEED or bool(has_limit)
