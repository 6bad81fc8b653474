"""Decides requests within their time limits, and commits the decisions after the replies.

``after_reply`` explains why a decision is committed after its reply. A request whose time limit is
over has not happened, except that pods whose cgroups are gone stay released.
"""

from collections.abc import Callable, Iterable

from nri_numamem.daemon.after_reply import AfterReply, Commit
from nri_numamem.daemon.cgroup_scan import CgroupScan
from nri_numamem.daemon.pod_reaper import PodReaper
from nri_numamem.daemon.system import TimeLimit
from nri_numamem.engine.core.events import Event
from nri_numamem.engine.core.plan import Plan
from nri_numamem.engine.engine import Engine
from nri_numamem.engine.records.record import Record
from nri_numamem.nri.plugin_service import Overrun
from nri_numamem.nri.poller import Clock
from nri_numamem.nri.request_ids import RequestIds

# The time on a processor for the state after a reply. It takes less than a millisecond, but half a
# second after a Synchronize of 20,000 containers. A plugin that is stopped meanwhile has lost
# nothing. The observer acts later.
COMMIT_LIMIT_S = 2.0


class RequestHandler:
    """Serves the requests of one connection after the other. `emit` logs a record."""

    def __init__(
        self,
        get_engine: Callable[[], Engine | None],
        time_limit: TimeLimit,
        clock: Clock,
        pod_reaper: PodReaper,
        cgroup_scan: CgroupScan,
        emit: Callable[[Record], None],
    ) -> None:
        self._get_engine = get_engine
        self._time_limit = time_limit
        self._clock = clock
        self._pod_reaper = pod_reaper
        self._cgroup_scan = cgroup_scan
        self._emit = emit
        self._after_reply = AfterReply(emit)

    @property
    def failure(self) -> str | None:
        """Why nothing can be decided any more on this connection, or None."""
        return self._after_reply.failure

    def connected(self, request_ids: RequestIds) -> None:
        """Begin a new connection, whose requests have these ids."""
        self._cgroup_scan.disconnected()
        self._after_reply.connected(request_ids)

    def decide(self, event: Event) -> Plan:
        """Return the plan for the reply; an empty one without an engine.

        Before a container is refused, pods whose cgroups are gone are released.
        """
        engine = self._get_engine()
        if engine is None or self._after_reply.failure is not None:
            return Plan()
        plan = self._after_reply.decide(engine, event)
        self._cgroup_scan.observe(event, self._clock.monotonic_s())
        if plan.refusal is None:
            return plan
        gone = self._pod_reaper.find_gone(engine.state.pods)
        if gone:
            self._after_reply.discard(engine)
            self._after_reply.add(*self._pod_reaper.release(engine, gone))
            plan = self._after_reply.decide(engine, event)
        return plan

    def limit(self, limit_s: float, call: Callable[[], bytes]) -> bytes:
        """Return what `call` returns; Overrun after `limit_s`, as if it had never been called."""
        engine = self._get_engine()
        # The request before this one of the same read, outside of this one's time limit.
        self._after_reply.commit(engine, self._limit_commit)
        try:
            return self._time_limit.run(limit_s, call)
        except Overrun:
            self._after_reply.discard(engine)
            raise

    def emit(self, records: Iterable[Record]) -> None:
        """Log records of requests; let the state keep which containers got an empty reply."""
        engine = self._get_engine()
        for record in records:
            if engine is not None:
                engine.note_unpinned(record, int(self._clock.wall_s()))
            self._emit(record)

    def commit(self) -> None:
        """Commit the last decision and log the records; to be called after the replies."""
        self._after_reply.commit(self._get_engine(), self._limit_commit)
        self._after_reply.emit_records()

    def _limit_commit(self, commit: Commit) -> tuple[Record, ...]:
        wall_s = int(self._clock.wall_s())
        return self._time_limit.run_on_processor(COMMIT_LIMIT_S, lambda: commit(wall_s))
