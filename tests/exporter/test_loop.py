"""The loop on a virtual clock, with an API server and a host in memory."""

import itertools
from collections.abc import Callable

import pytest

from nri_numamem.apiserver.access import AccessError
from nri_numamem.apiserver.client import Answer, Request, RequestError
from nri_numamem.engine.records.plain import fields_of
from nri_numamem.engine.records.record import Record
from nri_numamem.export.conditions import HOLD_S, Input, Problem
from nri_numamem.export.podevents import PodEvent
from nri_numamem.export.requests import APPLY
from nri_numamem.exporter.loop import LOOK_S, READ_S, REQUEST_S, Exporter, Reading
from nri_numamem.exporter.mailbox import Done, Registered, Stop

NODE = Answer(200, {"metadata": {"uid": "u"}})
WRITTEN = Answer(200, {"kind": "NodeResourceTopology"})


def document(value: int) -> dict[str, object]:
    return {"kind": "NodeResourceTopology", "metadata": {"name": "w"}, "zones": [value]}


class World:
    """Everything around the loop. Time passes only while the loop waits."""

    def __init__(self, *, has_claims: bool = False) -> None:
        self.now_s = 0.0
        self.end_s = 0.0
        self.reading = Reading(document(1))
        self.stamps = 0
        self.reads = 0
        self.stamp_value = 0
        self.request_s = 0.0
        """How long a request takes."""
        self.answer: Answer | Exception | None = None
        """To every request; None for success."""
        self.sent: list[tuple[float, Request]] = []
        self.aborted = 0
        self.records: list[Record] = []
        self.reports: list[str] = []
        self.alive_s: list[float] = []
        self._waiting: list[tuple[float, Done | Registered]] = []
        self.exporter = Exporter(
            "w",
            self,
            self,
            self,
            self,
            self.records.append,
            lambda: self.now_s,
            lambda: self.now_s,
            lambda: 0.0,
            has_claims=has_claims,
        )

    def run(self, seconds: float) -> None:
        self.end_s = self.now_s + seconds
        self.exporter.run()

    # The host.

    def stamp(self) -> int:
        self.stamps += 1
        return self.stamp_value

    def read(self) -> Reading:
        self.reads += 1
        return self.reading

    def change(self, value: int) -> None:
        self.reading = Reading(document(value))
        self.stamp_value += 1

    # The API server.

    def send(self, request: Request) -> Answer:
        self.sent.append((self.now_s, request))
        if isinstance(self.answer, Exception):
            raise self.answer
        if self.answer is not None:
            return self.answer
        return NODE if request.method == "GET" else WRITTEN

    def abort(self) -> None:
        self.aborted += 1

    def methods(self) -> list[str]:
        found = [request.method for _time_s, request in self.sent]
        self.sent.clear()
        return found

    # What the loop waits for.

    def start(self, number: int, call: Callable[[], Answer]) -> None:
        result: Answer | Exception
        try:
            result = call()
        except Exception as error:  # noqa: BLE001 - as a thread does
            result = error
        self.post(self.request_s, Done(number, result))

    def post(self, after_s: float, message: Done | Registered) -> None:
        self._waiting.append((self.now_s + after_s, message))
        self._waiting.sort(key=lambda message: message[0])

    def wait(self, timeout_s: float) -> Stop | Done | Registered | None:
        assert 0.0 <= timeout_s <= LOOK_S
        until_s = self.now_s + timeout_s
        if self._waiting and self._waiting[0][0] <= min(until_s, self.end_s):
            self.now_s, message = self._waiting.pop(0)
            return message
        if self.end_s <= until_s:
            self.now_s = self.end_s
            return Stop()
        self.now_s = until_s
        return None

    # systemd.

    def ready(self, status: str) -> None:
        self.reports.append(f"ready: {status}")

    def status(self, status: str) -> None:
        self.reports.append(status)

    def alive(self, now_s: float) -> None:
        self.alive_s.append(now_s)


def test_the_first_write() -> None:
    world = World()
    world.run(0.5)
    assert [(request.method, request.path) for _time_s, request in world.sent] == [
        ("GET", "/api/v1/nodes/w"),
        (
            "PATCH",
            "/apis/topology.node.k8s.io/v1alpha2/noderesourcetopologies/w?fieldManager=nri-numamem",
        ),
    ]
    assert world.sent[1][1].content_type == "application/apply-patch+yaml"
    assert [record.event for record in world.records] == ["topology_written"]
    assert world.reports == ["ready: wrote w"]


def test_it_looks_each_second_and_reads_after_a_change() -> None:
    world = World()
    world.run(5.5)
    assert (world.stamps, world.reads) == (6, 1)
    world.methods()
    world.change(2)
    world.run(1.0)
    assert world.reads == 2
    assert world.methods() == ["PATCH"]


def test_it_reads_what_shows_no_change() -> None:
    world = World()
    world.run(READ_S - 1)
    assert world.reads == 1
    world.methods()
    world.reading = Reading(document(2))
    world.run(1.5)
    assert world.reads == 2
    assert world.methods() == ["PATCH"]


def test_a_request_that_takes_long_does_not_stop_the_looks() -> None:
    world = World()
    world.run(0.5)
    world.request_s = REQUEST_S - 1
    world.change(2)
    world.run(5.0)
    assert world.methods() == ["GET", "PATCH", "PATCH"]
    world.change(3)
    world.run(3.0)
    assert world.methods() == []
    assert world.stamps > 8
    assert world.aborted == 0
    world.run(2.0)
    assert world.methods() == ["PATCH"]


def test_a_request_that_takes_too_long_is_abandoned() -> None:
    world = World()
    world.request_s = 3 * REQUEST_S
    world.run(REQUEST_S + 0.5)
    assert world.aborted == 1
    (record,) = world.records
    assert fields_of(record)["failure"] == "unreachable"
    assert fields_of(record)["cause"] == "no answer within 10 s"
    assert world.reports == ["ready: not written: no answer within 10 s"]
    world.request_s = 0.0
    world.run(3 * REQUEST_S)  # in which the abandoned one ends
    assert world.methods() == ["GET", "GET", "PATCH"]
    assert [record.event for record in world.records[1:]] == ["topology_written"]
    assert world.reports[1:] == ["wrote w"]


@pytest.mark.parametrize(
    ("error", "failure"),
    [(AccessError("/t: gone"), "credentials"), (RequestError("refused"), "unreachable")],
)
def test_no_answer(error: Exception, failure: str) -> None:
    world = World()
    world.answer = error
    world.run(100.0)
    (record,) = world.records
    assert (fields_of(record)["failure"], fields_of(record)["cause"]) == (failure, str(error))
    assert 6 <= len(world.sent) <= 9
    assert world.reports == [f"ready: not written: {error}"]


def test_a_bug_ends_the_process() -> None:
    world = World()
    world.answer = KeyError("x")
    with pytest.raises(KeyError):
        world.run(1.0)


def test_without_an_object_it_waits_and_is_ready() -> None:
    world = World()
    world.reading = Reading(None, (Problem(Input.PLUGIN, "a"), Problem(Input.OBJECT, "no state")))
    world.run(HOLD_S + 1)
    assert world.sent == []
    assert world.reports == ["ready: no object: no state"]
    missing = [fields_of(record)["input"] for record in world.records]
    assert missing == ["plugin", "object"]
    world.change(1)
    world.run(1.0)
    assert world.methods() == ["GET", "PATCH"]
    assert world.reports[-1] == "wrote w"


def test_it_reports_that_it_is_alive_while_it_waits() -> None:
    world = World()
    world.request_s = REQUEST_S - 1
    world.run(60.0)
    gaps = [after - before for before, after in itertools.pairwise(world.alive_s)]
    assert max(gaps) <= LOOK_S


def pod_event(key: str) -> PodEvent:
    return PodEvent("ns", "p", "uid", key, "NUMAMemoryRejected", "no", "2026-01-31T12:00:00Z", 0.0)


def test_events_of_pods_are_written_after_the_object() -> None:
    world = World()
    world.reading = Reading(document(1), events=(pod_event("a"), pod_event("b")))
    world.run(LOOK_S / 2)
    assert [request.path.split("?")[0] for _, request in world.sent] == [
        "/api/v1/nodes/w",
        "/apis/topology.node.k8s.io/v1alpha2/noderesourcetopologies/w",
        f"/api/v1/namespaces/ns/events/{pod_event('a').name}",
        f"/api/v1/namespaces/ns/events/{pod_event('b').name}",
    ]
    assert {r.content_type for _, r in world.sent if r.method == "PATCH"} == {APPLY}


def test_events_of_pods_need_no_object() -> None:
    world = World()
    problem = Problem(Input.OBJECT, "no plugin")
    world.reading = Reading(None, (problem,), (pod_event("a"),))
    world.run(LOOK_S / 2)
    assert world.methods() == ["PATCH"]


def test_the_status_names_why_there_is_no_object() -> None:
    world = World()
    problems = (Problem(Input.OBJECT, "no plugin"), Problem(Input.HISTORY, "no Events of pods"))
    world.reading = Reading(None, problems)
    world.run(LOOK_S / 2)
    assert world.reports == ["ready: no object: no plugin"]


def test_an_event_that_is_not_written_does_not_stop_the_object() -> None:
    world = World()
    world.run(LOOK_S / 2)
    world.methods()
    world.reading = Reading(document(1), events=(pod_event("a"),))
    world.stamp_value += 1
    world.answer = Answer(403, {"message": "no"})
    world.run(LOOK_S)
    assert [record.event for record in world.records] == ["topology_written", "pod_events_failed"]
    world.answer, world.sent = None, []
    world.reading = Reading(document(2))
    world.stamp_value += 1
    world.run(3 * LOOK_S)
    assert [request.path.split("/")[1] for _, request in world.sent] == ["apis", "api"]
    assert world.records[-1].event == "pod_events_written"


def test_an_event_that_takes_too_long_is_abandoned() -> None:
    world = World()
    world.run(LOOK_S / 2)
    world.methods()
    world.reading = Reading(document(1), events=(pod_event("a"),))
    world.stamp_value += 1
    world.request_s = 2 * REQUEST_S
    world.run(LOOK_S + REQUEST_S + LOOK_S)
    assert world.aborted == 1
    assert world.records[-1].event == "pod_events_failed"
