"""Commits decisions after their replies were sent, and emits the records.

The caller commits after each batch of replies, and before each further request of the same batch,
outside of that request's time limit. If a commit fails because of a bug, the event has not
happened. That is harmless if the reply was empty. Otherwise a container uses memory that the
accounting lacks, so the connection ends, and the next Synchronize rebuilds the state. A commit has
a limit of processor time, because the next request waits for it; a commit that exceeds the limit
ends the connection as well, since its event may have released memory.
"""

import traceback
from collections.abc import Callable, Iterable
from dataclasses import replace

from nri_numamem.daemon.refusal_ids import RefusalIds, with_id
from nri_numamem.engine.core.events import Event
from nri_numamem.engine.core.plan import Plan
from nri_numamem.engine.engine import Engine
from nri_numamem.engine.records.connection import (
    CommitTimedOut,
    InternalError,
    InternalErrorAfterReply,
)
from nri_numamem.engine.records.containers import Rejected
from nri_numamem.engine.records.record import Record
from nri_numamem.engine.records.running import ResizeRejected
from nri_numamem.nri.plugin_service import Overrun
from nri_numamem.nri.request_ids import RequestIds

Commit = Callable[[int], tuple[Record, ...]]
"""Engine.commit: (Unix time) -> records."""

CommitLimiter = Callable[[Commit], tuple[Record, ...]]
"""Calls its argument; raises Overrun when that takes too long."""


class AfterReply:
    """The decisions of one connection between reply and commit. `emit` logs a record."""

    def __init__(self, emit: Callable[[Record], None]) -> None:
        self.failure: str | None = None
        """Why nothing may be decided any more: a commit failed after a reply with contents."""
        self._plan: Plan | None = None
        """The plan of the uncommitted decision."""
        self._request_ids = RequestIds()
        self._request_id = ""
        """The request of the uncommitted decision."""
        self._refusal_ids = RefusalIds()
        self._refusal_id = ""
        """The id in the refusal of the uncommitted decision."""
        self._records: list[Record] = []
        """Records of committed events, to be logged after the replies."""
        self._emit = emit

    def connected(self, request_ids: RequestIds) -> None:
        """Begin a new connection, whose requests have these ids."""
        self.failure = None
        self._request_ids = request_ids

    def decide(self, engine: Engine, event: Event) -> Plan:
        """Return the plan of an event that `commit` or `discard` follows."""
        plan = engine.decide(event)
        self._request_id = self._request_ids.current
        rejection = engine.rejection
        if plan.refusal is None or rejection is None:
            self._refusal_id = ""
            self._refusal_ids.admitted(event)
        else:
            self._refusal_id = self._refusal_ids.id_of(event, rejection.reason, self._request_id)
            plan = replace(plan, refusal=with_id(plan.refusal, self._refusal_id))
        self._plan = plan
        return plan

    def commit(self, engine: Engine | None, limited: CommitLimiter) -> None:
        """Commit the last decision, if there is one; never raises an Exception."""
        plan, self._plan = self._plan, None
        if engine is None or plan is None:
            return
        try:
            records = limited(engine.commit)
            if self._refusal_id not in ("", self._request_id):
                records = tuple(_with_refusal_id(record, self._refusal_id) for record in records)
            self._add(records, self._request_id)
        except Overrun as overrun:
            self.failure = "the state after a reply took too long"
            text = "".join(traceback.format_exception(overrun)).rstrip()
            self._add([CommitTimedOut(exception=text)], self._request_id)
        except Exception as error:  # noqa: BLE001 - check() ends the connection where necessary
            text = "".join(traceback.format_exception(error)).rstrip()
            record: Record = InternalError(exception=text)
            if not plan.is_noop:
                self.failure = "the accounting lacks the contents of a reply"
                record = InternalErrorAfterReply(exception=text)
            self._add([record], self._request_id)

    def discard(self, engine: Engine | None) -> None:
        """Drop the last decision, because its reply is not sent."""
        self._plan = None
        if engine is not None:
            engine.discard()

    def add(self, *records: Record) -> None:
        """Log these records of the current request as well after the replies."""
        self._add(records, self._request_ids.current)

    def _add(self, records: Iterable[Record], request_id: str) -> None:
        self._records += [replace(record, request_id=request_id) for record in records]

    def emit_records(self) -> None:
        """Log the records since the last call."""
        records, self._records = self._records, []
        for record in records:
            self._emit(record)


def _with_refusal_id(record: Record, refusal_id: str) -> Record:
    if not isinstance(record, Rejected | ResizeRejected):
        return record
    return replace(record, refusal_id=refusal_id)
