"""The commit after a reply, and the consequences of a bug in it."""

import pytest

from nri_numamem.daemon.after_reply import AfterReply, Commit
from nri_numamem.engine.core.context import Context
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
from nri_numamem.engine.records.plain import fields_of
from nri_numamem.engine.records.record import Record
from nri_numamem.nri.plugin_service import Overrun
from nri_numamem.nri.request_ids import RequestIds
from nri_numamem.numa import Machine, NumaNode
from tests.engine.records.examples import example

POD = PodSandbox("s1", "u1", "ns", "pod", "/kubepods/podu1")
RUN = RunPodSandbox(POD)


class Commits:
    """An engine, and what is done after its replies; `plan` replaces the engine's plans."""

    def __init__(self) -> None:
        self.engine = Engine(Context.of(Machine((NumaNode(0, 1 << 30),)), Policy()))
        self.emitted: list[Record] = []
        self.after_reply = AfterReply(self.emitted.append)

    def emit_records(self) -> list[tuple[str, str]]:
        self.after_reply.emit_records()
        return [(record.event, record.level) for record in self.emitted]


def unlimited(commit: Commit) -> tuple[Record, ...]:
    return commit(0)


@pytest.fixture
def made() -> Commits:
    return Commits()


def break_commit(made: Commits, monkeypatch: pytest.MonkeyPatch, plan: Plan) -> None:
    def decide(_event: Event) -> Plan:
        return plan

    def commit(_wall_s: int) -> tuple[Record, ...]:
        raise RuntimeError("what a bug")

    monkeypatch.setattr(made.engine, "decide", decide)
    monkeypatch.setattr(made.engine, "commit", commit)


def test_records_are_emitted_after_the_commit(made: Commits) -> None:
    event = CreateContainer(POD, Container("c", "s1", "main", 1 << 20))
    assert made.after_reply.decide(made.engine, event).adjustment == Adjustment("0")
    made.after_reply.commit(made.engine, unlimited)
    assert made.emitted == []
    assert made.emit_records() == [("admitted", "info")]
    assert made.emit_records() == [("admitted", "info")]
    assert made.after_reply.failure is None


def test_records_have_the_id_of_their_request(made: Commits) -> None:
    request_ids = RequestIds(3)
    made.after_reply.connected(request_ids)
    request_ids.number += 1
    made.after_reply.add(example("pod_released"))
    made.after_reply.decide(
        made.engine, CreateContainer(POD, Container("c", "s1", "main", 1 << 20))
    )
    request_ids.number += 1  # the commit comes after the beginning of the next request
    made.after_reply.commit(made.engine, unlimited)
    made.after_reply.emit_records()
    assert [(record.event, record.request_id) for record in made.emitted] == [
        ("pod_released", "3-1"),
        ("admitted", "3-1"),
    ]


def test_a_discarded_decision_is_not_committed(made: Commits) -> None:
    made.after_reply.decide(made.engine, RUN)
    made.after_reply.discard(made.engine)
    made.after_reply.discard(None)
    made.after_reply.commit(made.engine, unlimited)
    assert made.engine.state.pods == {}


def test_a_failed_commit_after_an_empty_reply_is_only_logged(
    made: Commits, monkeypatch: pytest.MonkeyPatch
) -> None:
    break_commit(made, monkeypatch, Plan())
    made.after_reply.decide(made.engine, RUN)
    made.after_reply.commit(made.engine, unlimited)
    assert made.after_reply.failure is None
    assert made.emit_records() == [("internal_error", "error")]
    assert "RuntimeError: what a bug" in str(fields_of(made.emitted[0])["exception"])


@pytest.mark.parametrize("plan", [Plan(Adjustment("0")), Plan(updates=(Update("x", "0"),))])
def test_a_failed_commit_after_a_reply_with_contents_ends_the_connection(
    made: Commits, monkeypatch: pytest.MonkeyPatch, plan: Plan
) -> None:
    break_commit(made, monkeypatch, plan)
    made.after_reply.decide(made.engine, RUN)
    made.after_reply.commit(made.engine, unlimited)
    assert made.emit_records() == [("internal_error_after_reply", "error")]
    assert "RuntimeError: what a bug" in str(fields_of(made.emitted[0])["exception"])
    assert made.after_reply.failure == "the accounting lacks the contents of a reply"
    made.after_reply.connected(RequestIds())
    assert made.after_reply.failure is None


def test_without_an_engine_there_is_nothing_to_commit(made: Commits) -> None:
    made.after_reply.commit(None, unlimited)
    assert made.after_reply.failure is None
    assert made.emit_records() == []


def test_a_commit_that_takes_too_long_ends_the_connection(made: Commits) -> None:
    def limited(_commit: Commit) -> tuple[Record, ...]:
        raise Overrun

    made.after_reply.decide(made.engine, RUN)
    made.after_reply.commit(made.engine, limited)
    assert made.emit_records() == [("commit_timed_out", "error")]
    assert "Overrun" in str(fields_of(made.emitted[0])["exception"])
    assert made.after_reply.failure == "the state after a reply took too long"
