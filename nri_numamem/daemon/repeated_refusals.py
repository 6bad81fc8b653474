"""Limits the records of a resize that is refused again and again.

The kubelet repeats a refused resize about every second, as long as the pod's specification has it.
The first refusal is logged. Refusals of the same amount for the same container are logged again
after growing intervals, with the number of those in between. The metrics count all of them.
"""

from dataclasses import dataclass, replace

from nri_numamem.daemon.newest import put_newest
from nri_numamem.engine.records.record import Amounts, Record
from nri_numamem.engine.records.running import Resized, ResizeRejected

FIRST_INTERVAL_S = 60.0
LAST_INTERVAL_S = 3600.0

# More than the containers of a large host whose resizes are refused at one time.
REFUSALS_LIMIT = 1024


@dataclass(frozen=True, slots=True)
class _Refusal:
    request: Amounts
    logged_at_s: float
    interval_s: float
    repeat_count: int = 0
    """Refusals since the last record."""


class RepeatedRefusals:
    """Decides which refusals are logged."""

    def __init__(self) -> None:
        self._refusals: dict[str, _Refusal] = {}
        """Container id -> its last refusal; the one that was logged last comes last."""

    def filtered(self, record: Record, now_s: float) -> Record | None:
        """Return the record to be logged, or None; `now_s` is monotonic."""
        if isinstance(record, Resized):
            self._refusals.pop(record.names.container_id, None)
        if not isinstance(record, ResizeRejected):
            return record
        container_id, request = record.names.container_id, record.request_bytes
        known = self._refusals.get(container_id)
        if known is None or known.request != request:
            self._remember(container_id, _Refusal(request, now_s, FIRST_INTERVAL_S))
            return record
        if now_s - known.logged_at_s < known.interval_s:
            repeated = replace(known, repeat_count=known.repeat_count + 1)
            self._refusals[container_id] = repeated
            return None
        interval_s = min(2 * known.interval_s, LAST_INTERVAL_S)
        self._remember(container_id, _Refusal(request, now_s, interval_s))
        return replace(record, repeat_count=known.repeat_count)

    def _remember(self, container_id: str, refusal: _Refusal) -> None:
        put_newest(self._refusals, container_id, refusal, REFUSALS_LIMIT)
