"""Events of pods: the object, and when it is written."""

import json
from dataclasses import replace
from typing import Any

import pytest

from nri_numamem.engine.records.export import PodEventsFailed, PodEventsWritten
from nri_numamem.engine.records.record import Record
from nri_numamem.export.podevents import (
    COUNTED_LIMIT,
    KEPT_S,
    WAITING_LIMIT,
    ApplyEvent,
    EventWriter,
    PodEvent,
)
from nri_numamem.export.requests import FailureKind

EVENT = PodEvent(
    "shop", "web-1", "uid-1", "main/1-7", "NUMAMemoryRejected", "text", "2026-01-31T12:00:00Z", 0.0
)
NEVER = float("inf")


def at(time_s: float, event: PodEvent = EVENT, count: int = 1) -> PodEvent:
    return replace(event, time=f"2026-01-31T12:{time_s:02.0f}:00Z", time_s=time_s, count=count)


def other(key: int) -> PodEvent:
    return replace(EVENT, key=f"main/{key}")


class Writes:
    """A writer whose time the test sets."""

    def __init__(self) -> None:
        self.writer = EventWriter("worker-1")
        self.now_s = 0.0
        self.wall_s = 0.0
        self.records: list[Record] = []

    def offer(self, *events: PodEvent) -> None:
        self.writer.offer(events)

    def step(self) -> Any:  # noqa: ANN401 - JSON
        """Return the object of the next request; None if none is due."""
        step = self.writer.next_step(self.now_s, self.wall_s)
        return None if step is None else json.loads(step.body)

    def answer(self, status: int, message: str = "", after_s: float = 0.0) -> None:
        document = {"message": message} if message else {"kind": "Event"}
        self.records += self.writer.answered(self.now_s, status, document, after_s)

    def failures(self) -> list[str]:
        found = [each.failure for each in self.records if isinstance(each, PodEventsFailed)]
        self.records.clear()
        return found


@pytest.fixture(name="writes")
def _writes() -> Writes:
    return Writes()


def test_the_object(writes: Writes) -> None:
    writes.offer(EVENT)
    step = writes.writer.next_step(0.0, 0.0)
    assert isinstance(step, ApplyEvent)
    assert step.path == (
        f"/api/v1/namespaces/shop/events/{EVENT.name}?fieldManager=nri-numamem&force=true"
    )
    assert json.loads(step.body) == {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": EVENT.name, "namespace": "shop"},
        "involvedObject": {
            "apiVersion": "v1",
            "kind": "Pod",
            "namespace": "shop",
            "name": "web-1",
            "uid": "uid-1",
        },
        "type": "Warning",
        "reason": "NUMAMemoryRejected",
        "message": "text",
        "firstTimestamp": "2026-01-31T12:00:00Z",
        "lastTimestamp": "2026-01-31T12:00:00Z",
        "count": 1,
        "source": {"component": "nri-numamem", "host": "worker-1"},
        "reportingComponent": "nri-numamem",
        "reportingInstance": "worker-1",
    }


def test_names_are_those_of_the_decision() -> None:
    assert EVENT.name == at(5).name == "web-1.a08def20"
    assert len({EVENT.name, other(1).name, replace(EVENT, pod_uid="uid-2").name}) == 3
    long = replace(EVENT, pod="a" * 219 + "." + "b" * 33)
    assert long.name.startswith("a" * 219 + ".")
    assert ".." not in long.name
    assert len(replace(EVENT, pod="a" * 253).name) <= 253


def test_long_messages_are_cut_between_characters() -> None:
    text = "ü" * 600
    shown = json.loads(replace(EVENT, message="x" + text).body("w"))["message"]
    assert shown == "x" + "ü" * 511
    assert len(shown.encode()) <= 1024


def test_nothing_waits(writes: Writes) -> None:
    assert writes.step() is None
    assert writes.writer.wait_s(0.0) == NEVER
    writes.offer()
    assert writes.writer.wait_s(0.0) == NEVER


def test_one_request_at_a_time(writes: Writes) -> None:
    writes.offer(other(1), other(2))
    assert writes.writer.wait_s(0.0) == 0.0
    assert writes.step()["metadata"]["name"] == other(1).name
    assert writes.writer.wait_s(0.0) == NEVER
    assert writes.step() is None
    writes.answer(201)
    assert writes.step()["metadata"]["name"] == other(2).name
    writes.answer(200)
    assert writes.step() is None
    assert writes.records == []


def test_retries_count_in_one_event(writes: Writes) -> None:
    writes.offer(at(0))
    writes.step()
    writes.answer(201)
    writes.offer(at(1), at(3, count=4))
    shown = writes.step()
    assert (shown["count"], shown["firstTimestamp"], shown["lastTimestamp"]) == (
        6,
        at(0).time,
        at(3).time,
    )
    writes.answer(200)
    assert writes.step() is None


def test_a_retry_during_a_request_is_written_after_it(writes: Writes) -> None:
    writes.offer(at(0))
    assert writes.step()["count"] == 1
    writes.offer(at(1))
    writes.answer(201)
    assert writes.step()["count"] == 2


@pytest.mark.parametrize(
    ("status", "message"), [(404, ""), (403, "namespace shop is being terminated")]
)
def test_a_namespace_that_ends_is_no_failure(writes: Writes, status: int, message: str) -> None:
    writes.offer(EVENT)
    writes.step()
    writes.answer(status, message)
    assert writes.step() is None
    assert writes.records == []


@pytest.mark.parametrize(
    ("status", "failure"),
    [(401, "unauthorized"), (403, "forbidden"), (429, "server_error"), (503, "server_error")],
)
def test_after_a_failure_it_is_tried_again(writes: Writes, status: int, failure: str) -> None:
    writes.offer(EVENT)
    pauses = []
    for _ in range(8):
        assert writes.step() is not None
        writes.answer(status)
        pauses.append(writes.writer.wait_s(writes.now_s))
        writes.now_s += pauses[-1]
    assert pauses == [1, 2, 4, 8, 16, 32, 60, 60]
    assert writes.failures() == [failure]
    assert writes.step() is not None
    writes.answer(200)
    assert writes.records == [PodEventsWritten(dropped=0)]
    writes.offer(other(2))
    writes.step()
    writes.answer(status)
    assert writes.writer.wait_s(writes.now_s) == 1


def test_a_missing_permission_is_named(writes: Writes) -> None:
    writes.offer(EVENT)
    writes.step()
    writes.answer(403)
    (record,) = writes.records
    assert isinstance(record, PodEventsFailed)
    assert record.remedy == "grant this user patch and create of events, or add --no-pod-events"
    assert record.http_status == 403


def test_the_server_sets_the_pause(writes: Writes) -> None:
    writes.offer(EVENT)
    writes.step()
    writes.answer(429, after_s=7.0)
    assert writes.writer.wait_s(0.0) == 7.0


@pytest.mark.parametrize("status", [409, 422])
def test_a_rejected_event_is_dropped(writes: Writes, status: int) -> None:
    writes.offer(other(1), other(2))
    writes.step()
    writes.answer(status, "no")
    assert len(writes.failures()) == 1
    writes.now_s = 1.0
    assert writes.step()["metadata"]["name"] == other(2).name
    writes.answer(200)
    assert writes.records == [PodEventsWritten(dropped=1)]
    assert writes.step() is None


def test_no_answer(writes: Writes) -> None:
    writes.offer(EVENT)
    writes.step()
    writes.records += writes.writer.unanswered(0.0, FailureKind.UNREACHABLE, "refused")
    writes.records += writes.writer.unanswered(0.0, FailureKind.UNREACHABLE, "refused")
    assert writes.failures() == ["unreachable"]
    assert writes.writer.wait_s(0.0) == 2.0
    writes.records += writes.writer.unanswered(0.0, FailureKind.CREDENTIALS, "no token")
    assert writes.failures() == ["credentials"]


def test_old_events_are_dropped(writes: Writes) -> None:
    writes.offer(at(0, other(1)), at(10, other(2)))
    writes.wall_s = KEPT_S + 5
    assert writes.step()["metadata"]["name"] == other(2).name


def test_only_so_many_wait(writes: Writes) -> None:
    writes.offer(*(other(n) for n in range(WAITING_LIMIT + 10)))
    names = []
    while (found := writes.step()) is not None:
        names.append(found["metadata"]["name"])
        writes.answer(200)
    assert names == [other(n).name for n in range(10, WAITING_LIMIT + 10)]


def test_an_event_that_is_dropped_while_it_is_sent(writes: Writes) -> None:
    writes.offer(EVENT)
    writes.step()
    writes.offer(*(other(n) for n in range(WAITING_LIMIT)))
    writes.answer(200)
    assert writes.step()["metadata"]["name"] == other(0).name


def test_only_so_many_are_counted(writes: Writes) -> None:
    writes.offer(EVENT)
    writes.step()
    writes.answer(200)
    for n in range(COUNTED_LIMIT):
        writes.offer(other(n))
        writes.step()
        writes.answer(200)
    writes.offer(EVENT)
    assert writes.step()["count"] == 1
