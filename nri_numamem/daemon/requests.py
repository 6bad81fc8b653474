"""Decides requests within their time limits, and commits the decisions after the replies.

The runtime holds locks while it waits for a reply, and a reply needs neither the next state nor
records. So a decision is committed after its reply was sent: after each batch of replies, and
before each further request of the same batch, outside of that request's time limit.

A request that exceeds its time limit has not happened, except that pods without a cgroup stay
released. If a commit fails because of a bug, the event has not happened. That is harmless if the
reply was empty. Otherwise a container uses memory that the accounting lacks, so the connection
ends, and the next Synchronize rebuilds the state. A commit has a limit of processor time, because
the next request waits for it; a commit that exceeds the limit ends the connection as well, since
its event may have released memory.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace

from nri_numamem.daemon.pod_reaper import PodReaper
from nri_numamem.daemon.refusals import Refusals, with_id, with_refusal_id
from nri_numamem.daemon.signals import Deadline
from nri_numamem.engine.core.decision import NO_PLAN
from nri_numamem.engine.core.events import Event
from nri_numamem.engine.core.plan import Plan
from nri_numamem.engine.engine import Engine
from nri_numamem.engine.records.connection import (
    CommitTimedOut,
    Created,
    InternalError,
    InternalErrorAfterReply,
    RequestTimedOut,
)
from nri_numamem.engine.records.record import Record
from nri_numamem.nri.configuration import Configuration
from nri_numamem.nri.plugin_service import Overrun
from nri_numamem.nri.poller import Clock
from nri_numamem.nri.request_ids import RequestIds
from nri_numamem.observe.files import traceback_of

# The time on a processor for the state after a reply. It takes less than a millisecond, but half a
# second after a Synchronize of 20,000 containers. A plugin that is stopped meanwhile has lost
# nothing. The observer acts later.
COMMIT_LIMIT_S = 2.0


class Requests:
    """Serves the requests of one connection after the other; owns the uncommitted decision.

    The engine holds that decision, and this class decides when it is committed or discarded.
    """

    def __init__(
        self,
        time_limit: Deadline,
        clock: Clock,
        pod_reaper: PodReaper,
        refusals: Refusals,
        emit: Callable[[Record], None],
        *,
        observe: Callable[[Event], None],
        configure: Callable[[Configuration], None],
    ) -> None:
        """`emit` logs a record. `observe` takes each decided event after its reply.

        `configure` applies the runtime's configuration; see nri.plugin_service.Handler.
        """
        self.engine: Engine | None = None
        """None before a launched plugin has its configuration."""
        self.failure: str | None = None
        """Why nothing may be decided any more: a commit failed after a reply with contents."""
        self.configure = configure
        self._time_limit = time_limit
        self._clock = clock
        self._pod_reaper = pod_reaper
        self._refusals = refusals
        self._emit = emit
        self._observe = observe
        self._request_ids = RequestIds()
        self._number: int | None = None
        """Number of the request with an uncommitted decision; None without one."""
        self._refusal_id = ""
        """The id in the refusal of that decision; "" if it refuses nothing."""
        self._records: list[Record] = []
        """Records of committed events, to be logged after the replies."""

    def connected(self, request_ids: RequestIds) -> None:
        """Begin a new connection with these ids of requests."""
        self.failure = None
        self._request_ids = request_ids

    def limit(self, limit_s: float, call: Callable[[], bytes]) -> bytes:
        """Return what `call` returns; Overrun after `limit_s`, as if it had never been called."""
        if self._number is not None:  # the request before this one of the same read
            self._commit()
        engine = self.engine
        try:
            return self._time_limit.run(limit_s, call)
        except Overrun:
            self.engine = engine
            self._discard()
            raise

    def decide(self, event: Event) -> Plan:
        """Return the plan for the reply; an empty one without an engine."""
        engine = self.engine
        if engine is None or self.failure is not None:
            return NO_PLAN
        plan = engine.decide(event)
        self._number, self._refusal_id = self._request_ids.number, ""
        return plan if plan.refusal is None else self._refused(engine, event, plan)

    def _refused(self, engine: Engine, event: Event, plan: Plan) -> Plan:
        """Release pods without a cgroup, and decide again; add an id to a refusal."""
        gone = self._pod_reaper.find_gone(engine.state.pods)
        if gone:
            self._number = None
            engine.discard()
            self._add(self._pod_reaper.release(engine, gone), self._request_ids.current)
            plan = engine.decide(event)
            self._number = self._request_ids.number
        rejection = engine.rejection
        if plan.refusal is None or rejection is None:
            return plan
        request_id = self._request_ids.current
        self._refusal_id = self._refusals.id_of(event, rejection.reason, request_id)
        return replace(plan, refusal=with_id(plan.refusal, self._refusal_id))

    def emit(self, records: Iterable[Record]) -> None:
        """Log records of requests; let the state keep which containers got an empty reply."""
        for record in records:
            if isinstance(record, RequestTimedOut | InternalError):
                self._note_failed(record.event, record.created)
            self._emit(record)

    def _note_failed(self, name: str, created: Created | None) -> None:
        if self.engine is not None and created is not None:
            self.engine.note_failed(name, created, int(self._clock.wall_s()))

    def commit(self) -> None:
        """Commit the last decision and log the records; to be called after the replies."""
        self._commit()
        records, self._records = self._records, []
        for record in records:
            self._emit(record)

    def _commit(self) -> None:
        """Commit the last decision, if there is one; never raises an Exception."""
        number, self._number = self._number, None
        engine = self.engine
        if number is None or engine is None or (uncommitted := engine.uncommitted) is None:
            return
        event, plan = uncommitted
        request_id = self._request_ids.of(number)
        wall_s = int(self._clock.wall_s())
        try:
            self._observe(event)
            if not self._refusal_id:
                self._refusals.admitted(event)
            records = self._time_limit.run_on_processor(
                COMMIT_LIMIT_S, lambda: engine.commit(wall_s)
            )
            if self._refusal_id not in ("", request_id):
                records = tuple(with_refusal_id(record, self._refusal_id) for record in records)
            self._add(records, request_id)
        except Overrun as overrun:
            engine.discard()
            self.failure = "the state after a reply took too long"
            self._add([CommitTimedOut(exception=traceback_of(overrun))], request_id)
        except Exception as error:  # noqa: BLE001 - `failure` ends the connection where necessary
            engine.discard()
            record: Record = InternalError(exception=traceback_of(error))
            if not plan.is_noop:
                self.failure = "the accounting lacks the contents of a reply"
                record = InternalErrorAfterReply(exception=traceback_of(error))
            self._add([record], request_id)

    def _discard(self) -> None:
        """Drop the last decision, because its reply is not sent; the runtime has sent its event."""
        self._number = None
        if self.engine is not None:
            uncommitted = self.engine.uncommitted
            self.engine.discard()
            if uncommitted is not None:
                self._observe(uncommitted[0])

    def _add(self, records: Iterable[Record], request_id: str) -> None:
        self._records += [replace(record, request_id=request_id) for record in records]
