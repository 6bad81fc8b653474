"""Periodic jobs on a virtual clock, and the collector of reference cycles, kept for ticks."""

import gc
import weakref
from collections.abc import Iterable, Iterator

import pytest

from nri_numamem.daemon import jobs
from nri_numamem.daemon.jobs import PAUSE_S, GcControl, Jobs, LimitedJob, PeriodicJob
from nri_numamem.daemon.signals import Deadline
from nri_numamem.engine.core.context import Context
from nri_numamem.engine.core.events import PodSandbox, RunPodSandbox
from nri_numamem.engine.core.policy import Policy
from nri_numamem.engine.engine import Engine
from nri_numamem.engine.records.plain import fields_of
from nri_numamem.engine.records.record import Record
from nri_numamem.numa import Machine, NumaNode
from tests.engine.records.examples import example
from tests.virtual.world import VirtualClock, World


@pytest.fixture
def world() -> World:
    return World()


def test_a_periodic_job_runs_at_its_interval() -> None:
    runs: list[float] = []

    def call(now_s: float) -> Iterable[Record]:
        runs.append(now_s)
        return [example("stopped")]

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
            return [example("stopped")]

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
    assert [(record.event, fields_of(record)["job"]) for record in emitted] == [
        ("job_failed", "broken")
    ]
    assert "what a bug" in str(fields_of(emitted[0])["exception"])
    assert len(ran) == 2
    is_broken = False
    jobs.run_due()
    is_broken = True
    jobs.run_due()
    assert len(emitted) == 2
    assert len(ran) == 4


class Endless:
    """A job that decides an event, and then never ends."""

    name = "endless"

    def __init__(self) -> None:
        self.runs_at_s: list[float] = []
        self.is_endless = True

    def due(self, _engine: Engine, _now_s: float) -> bool:
        return True

    def run(self, engine: Engine, now_s: float) -> Iterable[Record]:
        self.runs_at_s.append(now_s)
        if self.is_endless:
            engine.decide(RunPodSandbox(PodSandbox("s", "u", "ns", "db", "/kubepods/podu")))
            while True:
                pass
        yield example("stopped")


@pytest.mark.timeout(60, method="thread")  # pytest-timeout's default uses the deadline's signal
def test_a_job_that_takes_too_long_is_ended_and_pauses(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nri_numamem.daemon.jobs.JOB_LIMIT_S", 0.05)
    engine = Engine(Context.of(Machine((NumaNode(0, 1 << 30),)), Policy()))
    endless, emitted, begin_s = Endless(), list[Record](), world.now_s
    with Deadline() as deadline:
        job = LimitedJob(endless, deadline, lambda: engine)
        jobs = Jobs([job], VirtualClock(world), emitted.append)
        jobs.run_due()
        jobs.run_due()
        assert endless.runs_at_s == [begin_s]
        (record,) = emitted
        assert (record.event, fields_of(record)["job"]) == ("job_failed", "endless")
        assert "more than 0.05 s of processor time" in str(fields_of(record)["exception"])
        engine.apply(RunPodSandbox(PodSandbox("s", "u", "ns", "db", "/kubepods/podu")))
        endless.is_endless = False
        world.now_s += PAUSE_S
        jobs.run_due()
    assert [record.event for record in emitted[1:]] == ["stopped"]


def test_without_an_engine_its_jobs_wait() -> None:
    endless = Endless()
    job = LimitedJob(endless, Deadline(), lambda: None)
    assert not job.due(0.0)
    assert job.run(0.0) == ()
    assert endless.runs_at_s == []


class Node:
    """Refers to itself."""

    def __init__(self) -> None:
        self.itself = self


@pytest.fixture(autouse=True)
def enabled() -> Iterator[None]:
    gc.enable()
    yield
    gc.unfreeze()
    gc.enable()


def test_cycles_wait_for_a_tick_with_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "_MANY_OBJECTS", 5_000)
    gc.collect()
    with GcControl() as kept:
        lost = weakref.ref(Node())
        assert not kept.due(0.0)
        assert lost() is not None
        nodes = [Node() for _ in range(5_000)]
        assert lost() is not None
        assert kept.due(0.0)
        assert kept.run(0.0) == ()
        assert lost() is None
        del nodes


def test_the_collectors_settings_are_restored() -> None:
    with GcControl():
        assert not gc.isenabled()
        assert gc.get_freeze_count() > 0
    assert gc.isenabled()
    assert gc.get_freeze_count() == 0
    gc.disable()
    with GcControl():
        pass
    assert not gc.isenabled()
