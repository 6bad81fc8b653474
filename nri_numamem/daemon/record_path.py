"""The path of a record: counted, then kept by the history, then logged.

Each of the three decides for itself which records repeat an earlier one.

The history has limited space. It has what happened to Guaranteed containers and to Burstable ones
with a memory limit, and when the plugin could decide. A container that is adopted again is left
out, and a refusal that repeats the last one is kept after growing intervals, with the number of
those in between.

Users of a cluster write annotations, and a container may be created again every few seconds. So of
the warnings about the annotations of a pod the first one of each kind is logged as a warning, and
the others at level debug.
"""

from collections.abc import Callable
from dataclasses import replace

from nri_numamem.daemon.refusals import Refusals, put_newest
from nri_numamem.engine.engine import Engine
from nri_numamem.engine.features.burstable_pods.records import BurstableNotPinned
from nri_numamem.engine.features.memory_policies.records import (
    MemoryPolicyIgnored,
    MemoryPolicyRejected,
)
from nri_numamem.engine.features.network_hints.records import NetworkHintsIncomplete
from nri_numamem.engine.features.placement_strategy.records import PlacementStrategyIgnored
from nri_numamem.engine.records.common import names_of
from nri_numamem.engine.records.containers import Adopted, NotManaged
from nri_numamem.engine.records.record import Record
from nri_numamem.memorymanager import QosClass
from nri_numamem.nri.poller import Clock
from nri_numamem.observe.log.loggers import Logger
from nri_numamem.observe.metrics.counters import Meter

# A reason for nodes that is older than this is from an earlier adoption.
_NEW_S = 5.0

ONCE_PER_POD = (
    BurstableNotPinned,
    MemoryPolicyIgnored,
    MemoryPolicyRejected,
    NetworkHintsIncomplete,
    PlacementStrategyIgnored,
)
"""Each has the level debug as its alternate level."""

# More than the pods of a large host, with each of the events.
WARNINGS_LIMIT = 4096


class RecordPath:
    """Takes the records of all parts of the daemon.

    `append` takes the Unix time and a record for the history.
    """

    def __init__(
        self,
        log: Logger,
        clock: Clock,
        get_engine: Callable[[], Engine | None],
        append: Callable[[float, Record], None],
    ) -> None:
        self.meter = Meter(clock.wall_s)
        self.refusals = Refusals(clock)
        self.history = HistoryFilter(append, clock, get_engine, self.refusals)
        self._log = log
        self._pod_warnings = PodWarnings()

    def emit(self, record: Record) -> None:
        """Count a record; keep and log it unless it repeats an earlier one."""
        self.meter.count(record)
        self.history.add(record)
        found = self.refusals.for_log(record)
        if found is not None:
            found = self._pod_warnings.filtered(found)
            request = {"request_id": found.request_id} if found.request_id else {}
            getattr(self._log, found.level)(found.event, **request, record=found)


class HistoryFilter:
    """Chooses records for the history."""

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
        is_wanted = record.is_kept and not (
            (isinstance(record, NotManaged) and not _may_be_managed(record))
            or (isinstance(record, Adopted) and self._is_known(record))
        )
        chosen = self._refusals.for_history(record) if is_wanted else None
        if chosen is not None:
            self._append(self._clock.wall_s(), chosen)

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


class PodWarnings:
    """Knows which pods had which warning."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], None] = {}
        """Event and pod uid; the newest comes last."""

    def filtered(self, record: Record) -> Record:
        """Return the record, with its alternate level if its pod had the same warning before.

        The record of a container without room is never repeated: it has the nodes' free memory.
        """
        if not isinstance(record, ONCE_PER_POD) or record.alternate:
            return record
        names = names_of(record)
        if names is None or (isinstance(record, BurstableNotPinned) and record.message):
            return record
        key = (record.event, names.pod_uid)
        is_repeated = key in self._known
        put_newest(self._known, key, None, WARNINGS_LIMIT)
        return replace(record, alternate=True) if is_repeated else record
