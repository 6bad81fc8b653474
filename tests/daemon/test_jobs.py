"""Periodic jobs on a virtual clock."""

from collections.abc import Iterable

import pytest

from nri_numamem.daemon.jobs import Jobs, PeriodicJob
from nri_numamem.engine.plan import Record
from nri_numamem.engine.records.events import EventName
from tests.virtual.world import VirtualClock, World


@pytest.fixture
def world() -> World:
    return World()


def test_a_periodic_job_runs_at_its_interval() -> None:
    runs: list[float] = []

    def call(now_s: float) -> Iterable[Record]:
        runs.append(now_s)
        return [Record(EventName.STOPPED)]

    job = PeriodicJob("counter", call, 5.0)
    for now_s in range(100, 112):
        if job.due(now_s):
            assert [record.event for record in job.run(now_s)] == ["stopped"]
    assert runs == [100, 105, 110]


def test_jobs_run_in_order_and_their_records_are_emitted(world: World) -> None:
    order: list[str] = []
    emitted: list[Record] = []

    def job(name: str) -> PeriodicJob:
        def call(_now_s: float) -> Iterable[Record]:
            order.append(name)
            return [Record(EventName.STOPPED)]

        return PeriodicJob(name, call, 1.0)

    jobs = Jobs([job("first"), job("last")], VirtualClock(world), emitted.append)
    jobs.add(job("between"))
    jobs.run_due()
    jobs.run_due()
    assert order == ["first", "between", "last"]
    assert len(emitted) == 3


def test_a_failing_job_is_logged_once_and_stops_no_other(world: World) -> None:
    emitted: list[Record] = []
    ran: list[float] = []
    is_broken = True

    def fail(_now_s: float) -> Iterable[Record]:
        if is_broken:
            raise RuntimeError("what a bug")
        return ()

    def other(now_s: float) -> Iterable[Record]:
        ran.append(now_s)
        return ()

    jobs = Jobs(
        [PeriodicJob("broken", fail), PeriodicJob("other", other)],
        VirtualClock(world),
        emitted.append,
    )
    jobs.run_due()
    jobs.run_due()
    assert [(record.event, record.fields["job"]) for record in emitted] == [
        ("job_failed", "broken")
    ]
    assert "what a bug" in str(emitted[0].fields["exception"])
    assert len(ran) == 2
    is_broken = False
    jobs.run_due()
    is_broken = True
    jobs.run_due()
    assert len(emitted) == 2
    assert len(ran) == 4
