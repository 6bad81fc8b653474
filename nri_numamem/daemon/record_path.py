"""The path of a record: counted, then kept by the history, then logged.

Each of the three decides for itself which records repeat an earlier one.
"""

from collections.abc import Callable

from nri_numamem.daemon.history import HistoryFilter
from nri_numamem.daemon.pod_warnings import PodWarnings
from nri_numamem.daemon.refusals import Refusals
from nri_numamem.engine.engine import Engine
from nri_numamem.engine.records.record import Record
from nri_numamem.nri.poller import Clock
from nri_numamem.observe.log.loggers import Logger
from nri_numamem.observe.metrics.counters import Meter


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
