"""Decisions within their time limit and the commits after their replies, in a virtual world."""

import time
from pathlib import Path

import pytest

from nri_numamem.daemon import requests as requests_module
from nri_numamem.daemon.pod_reaper import PodReaper
from nri_numamem.daemon.refusals import Refusals
from nri_numamem.daemon.requests import COMMIT_LIMIT_S, Requests
from nri_numamem.daemon.signals import Deadline
from nri_numamem.engine.admission import records
from nri_numamem.engine.core.context import Context
from nri_numamem.engine.core.decision import Decision, Transition
from nri_numamem.engine.core.events import (
    Container,
    CreateContainer,
    Event,
    PodSandbox,
    RunPodSandbox,
)
from nri_numamem.engine.core.plan import Adjustment, Plan, Update
from nri_numamem.engine.core.policy import Policy
from nri_numamem.engine.engine import Engine
from nri_numamem.engine.records.common import ContainerNames
from nri_numamem.engine.records.connection import Created, RequestTimedOut
from nri_numamem.engine.records.plain import fields_of
from nri_numamem.engine.records.record import Record
from nri_numamem.nri.plugin_service import Overrun
from nri_numamem.nri.request_ids import RequestIds
from nri_numamem.numa import Machine, NumaNode
from tests.virtual.system import Machinery
from tests.virtual.world import World

POD = PodSandbox("s1", "u1", "default", "db", "/kubepods/pod1")
CONTAINER = Container("c1", "s1", "main", 1 << 20)


class Handled:
    """The handler of requests with an engine of two nodes of 1 GiB."""

    def __init__(self, root: Path, time_limit: Deadline | None = None) -> None:
        nodes = tuple(NumaNode(node, 1 << 30) for node in range(2))
        self.observed: list[Event] = []
        self.machinery = Machinery(World())
        self.emitted: list[Record] = []
        system = self.machinery.system()
        self.reaper = PodReaper(root)
        self.handler = Requests(
            time_limit or system.new_time_limit(),
            system.clock,
            self.reaper,
            Refusals(system.clock),
            self.emitted.append,
            observe=self.observed.append,
            configure=lambda _configuration: None,
        )
        self.handler.engine = Engine(Context.of(Machine(nodes), Policy()))
        self.handler.connected(RequestIds())

    @property
    def engine(self) -> Engine:
        assert self.handler.engine is not None
        return self.handler.engine

    @property
    def pods(self) -> list[str]:
        return list(self.engine.state.accounting.assignments)


@pytest.fixture
def requests(tmp_path: Path) -> Handled:
    (tmp_path / "cgroup.controllers").touch()
    return Handled(tmp_path)


def test_a_decision_is_committed_after_the_reply(requests: Handled) -> None:
    plan = requests.handler.decide(CreateContainer(POD, CONTAINER))
    assert plan.adjustment is not None
    assert (requests.pods, requests.emitted, requests.observed) == ([], [], [])
    requests.handler.commit()
    requests.handler.commit()
    assert requests.pods == ["u1"]
    assert [(record.event, record.level) for record in requests.emitted] == [("admitted", "info")]
    assert requests.observed == [CreateContainer(POD, CONTAINER)]
    assert requests.handler.failure is None


def test_without_an_engine_every_plan_is_empty(requests: Handled) -> None:
    requests.handler.engine = None
    assert requests.handler.decide(CreateContainer(POD, CONTAINER)) == Plan()
    assert requests.handler.limit(1, lambda: b"reply") == b"reply"
    requests.handler.commit()


def test_a_late_request_has_not_happened(requests: Handled) -> None:
    def late() -> bytes:
        assert requests.handler.decide(CreateContainer(POD, CONTAINER)).adjustment is not None
        raise Overrun

    with pytest.raises(Overrun):
        requests.handler.limit(1, late)
    requests.handler.commit()
    assert (requests.pods, requests.emitted) == ([], [])
    assert requests.observed == [CreateContainer(POD, CONTAINER)]  # the runtime has sent it


def test_the_request_before_is_committed_outside_of_the_time_limit(requests: Handled) -> None:
    def decide() -> bytes:
        requests.handler.decide(CreateContainer(POD, CONTAINER))
        return b""

    requests.handler.limit(1, decide)
    assert requests.pods == []

    def late() -> bytes:
        raise Overrun

    with pytest.raises(Overrun):
        requests.handler.limit(1, late)
    assert requests.pods == ["u1"]


@pytest.mark.timeout(60, method="thread")  # pytest-timeout's default uses the deadline's signal
def test_time_in_which_the_plugin_is_stopped_does_not_count_for_a_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(requests_module, "COMMIT_LIMIT_S", 0.2)
    deadline = Deadline()
    requests = Handled(tmp_path, deadline)
    commit = Engine.commit

    def stopped(engine: Engine, wall_s: int) -> tuple[Record, ...]:
        time.sleep(0.5)
        return commit(engine, wall_s)

    monkeypatch.setattr(Engine, "commit", stopped)
    with deadline:
        requests.handler.decide(CreateContainer(POD, CONTAINER))
        requests.handler.commit()
    assert [record.event for record in requests.emitted] == ["admitted"]
    assert requests.handler.failure is None


@pytest.mark.parametrize("after_calls", [0, 3])
def test_a_commit_has_a_time_limit_of_its_own(requests: Handled, after_calls: int) -> None:
    world, interruption = requests.machinery.world, requests.machinery.interruption
    requests.handler.decide(CreateContainer(POD, CONTAINER))
    begin_s = world.now_s
    interruption.error, interruption.after_calls = Overrun, after_calls
    interruption.is_after_reply = True
    requests.handler.commit()
    assert world.now_s == begin_s + COMMIT_LIMIT_S
    assert [record.event for record in requests.emitted] == ["commit_timed_out"]
    assert requests.pods == []
    assert requests.handler.failure is not None
    assert requests.handler.decide(CreateContainer(POD, CONTAINER)) == Plan()


def test_pods_whose_cgroup_is_gone_are_released_before_a_refusal(
    requests: Handled, tmp_path: Path
) -> None:
    directory = tmp_path / "kubepods/podgone"
    directory.mkdir(parents=True)
    old = PodSandbox("s1", "gone", "default", "old", "/kubepods/podgone")
    new = PodSandbox("s2", "comes", "default", "new", "/kubepods/podcomes")
    limit_bytes = 3 << 29  # of 2 GiB
    second = CreateContainer(new, Container("c2", "s2", "c", limit_bytes))
    for event in (
        RunPodSandbox(old),
        CreateContainer(old, Container("c1", "s1", "c", limit_bytes)),
    ):
        assert requests.handler.decide(event).refusal is None
        requests.handler.commit()
    assert list(requests.reaper.run(requests.engine, 0.0)) == []
    assert requests.handler.decide(second).refusal is not None
    requests.handler.commit()
    directory.rmdir()

    def late() -> bytes:
        assert requests.handler.decide(second).refusal is None
        raise Overrun

    with pytest.raises(Overrun):
        requests.handler.limit(60, late)
    assert requests.pods == []  # the release stays
    requests.emitted.clear()
    assert requests.handler.decide(second).refusal is None
    requests.handler.commit()
    assert [record.event for record in requests.emitted] == ["pod_released", "admitted"]
    assert fields_of(requests.emitted[0])["detected_by"] == "cgroup_removed"
    assert requests.pods == ["comes"]


def test_accounting_that_lacks_a_container_decides_nothing_more(
    requests: Handled, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_about: object) -> Record:
        raise RuntimeError("what a bug")

    plans: list[Plan] = []

    def decide(name: str) -> bytes:
        container = Container(name, "s1", name, 1 << 20)
        plans.append(requests.handler.decide(CreateContainer(POD, container)))
        return b""

    monkeypatch.setattr(records, "placed_as", fail)
    requests.handler.limit(60, lambda: decide("first"))
    requests.handler.limit(60, lambda: decide("second"))  # of the same read
    assert [plan.adjustment is None for plan in plans] == [False, True]
    assert requests.pods == []
    assert requests.handler.failure == "the accounting lacks the contents of a reply"
    requests.handler.connected(RequestIds(2))
    assert requests.handler.failure is None


def test_retries_of_a_refused_container_have_the_same_text(tmp_path: Path) -> None:
    (tmp_path / "cgroup.controllers").touch()
    requests, ids = Handled(tmp_path), RequestIds()
    requests.handler.connected(ids)
    texts = []
    for attempt in range(3):
        ids.number += 1
        large = Container(f"c{attempt}", "s1", "main", 5 << 30)
        texts.append(requests.handler.decide(CreateContainer(POD, large)).refusal)
        requests.handler.commit()
    assert texts[0] is not None
    assert texts[0].startswith("numamem: container main of pod default/db refused, ")
    assert " [1-1]: requested memory 5Gi; " in texts[0]
    assert texts == [texts[0]] * 3
    records = [record for record in requests.emitted if record.event == "rejected"]
    assert [record.request_id for record in records] == ["1-1", "1-2", "1-3"]
    assert [fields_of(record).get("refusal_id") for record in records] == [None, "1-1", "1-1"]
    ids.number += 1
    assert requests.handler.decide(CreateContainer(POD, CONTAINER)).refusal is None


def test_a_creation_with_an_empty_reply_is_kept_as_the_reason(requests: Handled) -> None:
    names = ContainerNames(
        pod="db", namespace="default", container="main", pod_uid="u1", container_id="c1"
    )
    created = Created(names=names, sandbox_id="s1", qos_class="Guaranteed")
    record = RequestTimedOut(
        method="CreateContainerRequest", limit_ms=1200, exception="", created=created
    )
    requests.handler.emit([record])
    reason = requests.engine.state.reasons.unpinned["c1"]
    assert reason.since_s == int(requests.machinery.system().clock.wall_s())
    requests.handler.engine = None
    requests.handler.emit([record])
    assert requests.emitted == [record, record]


def test_records_have_the_id_of_their_request(requests: Handled) -> None:
    ids = RequestIds(3)
    requests.handler.connected(ids)
    ids.number += 1
    requests.handler.decide(CreateContainer(POD, CONTAINER))
    ids.number += 1  # the commit comes after the beginning of the next request
    requests.handler.commit()
    assert [(record.event, record.request_id) for record in requests.emitted] == [
        ("admitted", "3-1")
    ]


def test_a_configure_that_is_too_late_leaves_the_engine_of_before(requests: Handled) -> None:
    engine = requests.engine

    def late() -> bytes:
        requests.handler.engine = None
        raise Overrun

    with pytest.raises(Overrun):
        requests.handler.limit(60, late)
    assert requests.engine is engine
    requests.handler.engine = None
    with pytest.raises(Overrun):
        requests.handler.limit(60, late)
    assert requests.handler.engine is None


def decide_what_fails(requests: Handled, monkeypatch: pytest.MonkeyPatch, plan: Plan) -> None:
    """Decide with this plan; a bug is in what follows."""

    def fail() -> Transition:
        raise RuntimeError("what a bug")

    def decide(engine: Engine, event: Event) -> Plan:
        engine._decision, engine._event = Decision(plan, fail), event
        return plan

    monkeypatch.setattr(Engine, "decide", decide)
    requests.handler.decide(RunPodSandbox(POD))
    requests.handler.commit()


def test_a_failed_commit_after_an_empty_reply_is_only_logged(
    requests: Handled, monkeypatch: pytest.MonkeyPatch
) -> None:
    decide_what_fails(requests, monkeypatch, Plan())
    assert requests.handler.failure is None
    (record,) = requests.emitted
    assert (record.event, record.level) == ("internal_error", "error")
    assert "RuntimeError: what a bug" in str(fields_of(record)["exception"])
    assert requests.engine.uncommitted is None


@pytest.mark.parametrize("plan", [Plan(Adjustment("0")), Plan(updates=(Update("x", "0"),))])
def test_a_failed_commit_after_a_reply_with_contents_ends_the_connection(
    requests: Handled, monkeypatch: pytest.MonkeyPatch, plan: Plan
) -> None:
    decide_what_fails(requests, monkeypatch, plan)
    (record,) = requests.emitted
    assert (record.event, record.level) == ("internal_error_after_reply", "error")
    assert "RuntimeError: what a bug" in str(fields_of(record)["exception"])
    assert requests.handler.failure == "the accounting lacks the contents of a reply"
