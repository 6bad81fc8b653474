"""When the object is written, on a virtual clock."""

import itertools
import json
from collections.abc import Iterable
from typing import Any

import pytest

from nri_numamem.engine.records.plain import fields_of
from nri_numamem.engine.records.record import Level, Record
from nri_numamem.export.failures import PAUSE_MAX_S, PAUSE_MIN_S
from nri_numamem.export.requests import FailureKind
from nri_numamem.export.writer import (
    REFRESH_JITTER_S,
    REFRESH_S,
    WRITE_S,
    Apply,
    ReadNode,
    Writer,
)

INF = float("inf")
NODE = {"metadata": {"uid": "u-1"}}
KIND = {"kind": "NodeResourceTopology"}


def document(value: int) -> dict[str, object]:
    return {"kind": "NodeResourceTopology", "metadata": {"name": "w"}, "zones": [value]}


class World:
    """A writer, a clock, and an API server that answers at once."""

    def __init__(self, random: float = 0.0) -> None:
        self.now_s = 100.0
        self.random = random
        self.writer = Writer("w", lambda: self.random)
        self.uid = "u-1"
        self.exists = False
        self.failing: tuple[int, str] | None = None
        self.written: list[tuple[float, Any]] = []
        """Time and body of all writes, also of those that failed."""
        self.nodes_read = 0
        self.records: list[Record] = []

    def offer(self, value: int | None) -> None:
        self.writer.offer(None if value is None else document(value))

    def take(self, records: Iterable[Record]) -> None:
        self.records += records

    def events(self) -> list[str]:
        found = [record.event for record in self.records]
        self.records.clear()
        return found

    def run(self, seconds: float = 0.0) -> None:
        """Let time pass, and do every step when it is due."""
        end_s = self.now_s + seconds
        while True:
            step = self.writer.next_step(self.now_s)
            if step is not None:
                self.answer(step)
                continue
            wait_s = self.writer.wait_s(self.now_s)
            if self.now_s + wait_s > end_s:
                self.now_s = end_s
                return
            assert wait_s > 0
            self.now_s += wait_s

    def answer(self, step: ReadNode | Apply) -> None:
        if isinstance(step, ReadNode):
            self.nodes_read += 1
            answer = {"metadata": {"uid": self.uid}}
            self.take(self.writer.answered(self.now_s, 200, answer))
            return
        self.written.append((self.now_s, json.loads(step.body)))
        if self.failing is not None:
            status, text = self.failing
            self.take(self.writer.answered(self.now_s, status, {"message": text}))
            return
        self.take(self.writer.answered(self.now_s, 200 if self.exists else 201, KIND))
        self.exists = True

    def times(self) -> list[float]:
        found = [time_s for time_s, _body in self.written]
        self.written.clear()
        return found


@pytest.fixture(name="world")
def _world() -> World:
    world = World()
    world.offer(1)
    world.run()
    return world


def test_without_an_object_nothing_is_written() -> None:
    writer = Writer("w", lambda: 0.0)
    assert writer.wait_s(0.0) == INF
    assert writer.next_step(0.0) is None
    writer.offer(None)
    assert writer.next_step(0.0) is None
    assert not writer.was_written


def test_the_first_write_is_at_once_and_has_the_node_as_owner(world: World) -> None:
    ((time_s, body),) = world.written
    assert time_s == 100.0
    assert body["metadata"]["ownerReferences"][0]["uid"] == "u-1"
    assert body["zones"] == [1]
    (record,) = world.records
    assert record.event == "topology_written"
    assert record.level is Level.INFO
    assert fields_of(record) == {
        "node_name": "w",
        "size_bytes": len(json.dumps(document(1))),
        "created": True,
    }
    assert world.writer.was_written
    assert world.writer.problem == ""


def test_one_step_at_a_time() -> None:
    writer = Writer("w", lambda: 0.0)
    writer.offer(document(1))
    assert writer.wait_s(0.0) == 0.0
    assert writer.next_step(0.0) == ReadNode()
    assert writer.wait_s(0.0) == INF
    assert writer.next_step(1e9) is None
    assert list(writer.answered(0.0, 200, NODE)) == []
    assert isinstance(writer.next_step(0.0), Apply)


def test_a_change_is_written_at_once_but_once_a_second(world: World) -> None:
    world.times()
    world.run(50.0)
    world.offer(2)
    world.run()
    assert world.times() == [150.0]
    world.now_s = 150.4
    for value in range(3, 9):
        world.offer(value)
        world.run()
    assert world.times() == []
    world.run(WRITE_S)
    assert [(time_s, body["zones"]) for time_s, body in world.written] == [(151.0, [8])]
    assert world.nodes_read == 1


def test_the_record_of_a_change_is_for_debugging(world: World) -> None:
    world.records.clear()
    world.offer(2)
    world.run(WRITE_S)
    assert [record.level for record in world.records] == [Level.DEBUG]


def test_no_change_is_not_written(world: World) -> None:
    world.times()
    world.offer(1)
    world.run(100.0)
    assert world.times() == []
    world.offer(2)
    world.offer(1)
    world.run(100.0)
    assert world.times() == []


def test_a_change_during_a_write_is_written_next() -> None:
    world = World()
    world.offer(1)
    assert world.writer.next_step(100.0) == ReadNode()
    assert list(world.writer.answered(100.0, 200, NODE)) == []
    step = world.writer.next_step(100.0)
    world.offer(2)
    assert step is not None
    world.answer(step)
    world.run(10.0)
    assert [body["zones"] for _time_s, body in world.written] == [[1], [2]]


def test_it_is_written_every_five_minutes_with_the_present_node(world: World) -> None:
    world.times()
    world.uid = "u-2"
    world.run(2 * REFRESH_S)
    assert [time_s for time_s, _body in world.written] == [100.0 + REFRESH_S, 100.0 + 2 * REFRESH_S]
    assert world.nodes_read == 3
    assert world.written[0][1]["metadata"]["ownerReferences"][0]["uid"] == "u-2"


def test_hosts_do_not_refresh_together() -> None:
    world = World(random=0.5)
    world.offer(1)
    world.run(REFRESH_S)
    assert world.times() == [100.0, 100.0 + REFRESH_S - 0.5 * REFRESH_JITTER_S]


def test_an_object_that_was_deleted_with_its_node_gets_the_new_one(world: World) -> None:
    world.events()
    world.uid, world.exists = "u-2", False
    world.offer(2)
    world.run(5.0)
    uids = [body["metadata"]["ownerReferences"][0]["uid"] for _time_s, body in world.written]
    assert uids == ["u-1", "u-1", "u-2"]
    assert [record.level for record in world.records] == [Level.INFO, Level.DEBUG]


def test_an_object_that_goes_is_not_written_again(world: World) -> None:
    world.times()
    world.offer(None)
    world.run(10 * REFRESH_S)
    assert world.times() == []
    world.offer(1)
    world.run()
    assert len(world.times()) == 1


def test_pauses_double_up_to_a_minute(world: World) -> None:
    world.times()
    world.events()
    world.failing = (500, "etcd is gone")
    world.offer(2)
    world.run(1000.0)
    times = world.times()
    pauses = [after - before for before, after in itertools.pairwise(times)]
    assert pauses[:8] == [PAUSE_MIN_S, 2.0, 4.0, 8.0, 16.0, 32.0, PAUSE_MAX_S, PAUSE_MAX_S]
    assert set(pauses[8:]) == {PAUSE_MAX_S}
    assert world.events() == ["topology_write_failed"]
    assert world.writer.problem == "etcd is gone"
    world.failing = None
    world.run(PAUSE_MAX_S)
    (record,) = world.records
    assert record.event == "topology_written"
    assert record.level is Level.INFO
    assert fields_of(record)["failed_attempts"] == len(times)
    assert world.writer.problem == ""
    world.records.clear()
    world.failing = (500, "etcd is gone")
    world.run(10.0)
    world.times()
    world.offer(3)
    world.run(PAUSE_MIN_S)
    first, second = world.times()
    assert second - first == PAUSE_MIN_S
    assert world.events() == ["topology_write_failed"]


def test_pauses_have_jitter() -> None:
    world = World(random=0.5)
    world.failing = (500, "")
    world.offer(1)
    world.run(2 * PAUSE_MIN_S)
    first, second = world.times()
    assert second - first == pytest.approx(1.1 * PAUSE_MIN_S)


def test_a_missing_permission_can_end_soon(world: World) -> None:
    # An API server that has just started has not read the roles yet.
    world.times()
    world.failing = (403, "patch is forbidden")
    world.offer(2)
    world.run(10.0)
    first, second, *_ = world.times()
    assert second - first == PAUSE_MIN_S
    world.failing = None
    world.run(PAUSE_MAX_S)
    assert world.records[-1].event == "topology_written"


@pytest.mark.parametrize("status", [400, 404, 409, 422])
def test_what_an_administrator_corrects_is_tried_each_minute(world: World, status: int) -> None:
    world.times()
    world.events()
    world.failing = (status, 'conflict with "nfd" using v1: .zones')
    world.offer(2)
    world.run(1.0)
    world.offer(3)
    world.run(600.0)
    times = world.times()
    assert {after - before for before, after in itertools.pairwise(times)} == {PAUSE_MAX_S}
    (record,) = world.records
    assert record.event == "topology_write_failed"
    assert record.level is Level.WARNING
    assert fields_of(record)["http_status"] == status
    assert fields_of(record).get("field_managers") == (["nfd"] if status == 409 else None)


def test_each_kind_of_failure_is_recorded(world: World) -> None:
    world.events()
    world.offer(2)
    for status, text in (
        (409, 'with "a"'),
        (409, 'conflict with "b"'),
        (409, 'conflict with "b"!'),
    ):
        world.failing = (status, text)
        world.run(2 * PAUSE_MAX_S)
    world.failing = (503, "x")
    world.run(2 * PAUSE_MAX_S)
    causes = [fields_of(record)["cause"] for record in world.records]
    assert causes == ['with "a"', 'conflict with "b"', "x"]


def test_a_server_that_is_busy_says_when(world: World) -> None:
    world.run(10.0)
    world.offer(2)
    assert isinstance(world.writer.next_step(110.0), Apply)
    list(world.writer.answered(110.0, 429, {}, 7.0))
    assert world.writer.wait_s(110.0) == 7.0
    assert isinstance(world.writer.next_step(117.0), Apply)
    list(world.writer.answered(117.0, 429, {}, 1e9))
    assert world.writer.wait_s(117.0) == PAUSE_MAX_S


def test_a_node_that_does_not_exist() -> None:
    writer = Writer("w", lambda: 0.0)
    writer.offer(document(1))
    assert writer.next_step(0.0) == ReadNode()
    (record,) = writer.answered(0.0, 404, {"message": 'nodes "w" not found'})
    assert fields_of(record)["failure"] == "no_node"
    assert writer.next_step(0.0) is None
    assert writer.next_step(PAUSE_MIN_S) == ReadNode()


def test_no_answer(world: World) -> None:
    world.events()
    world.run(10.0)
    world.offer(2)
    assert isinstance(world.writer.next_step(110.0), Apply)
    records = list(world.writer.unanswered(110.0, FailureKind.UNREACHABLE, "refused"))
    assert [fields_of(record) for record in records] == [
        {
            "node_name": "w",
            "failure": "unreachable",
            "cause": "refused",
            "remedy": "check that the API server runs, and that its address is correct",
        }
    ]
    # The request may have been executed, so that the former content is written again too.
    world.offer(1)
    world.times()
    world.run(PAUSE_MIN_S)
    assert [body["zones"] for _time_s, body in world.written] == [[1]]


def test_a_failure_for_months_does_not_overflow() -> None:
    writer = Writer("w", lambda: 0.0)
    writer.offer(document(1))
    now_s = 0.0
    for _ in range(3000):
        now_s += writer.wait_s(now_s)
        assert writer.next_step(now_s) is not None
        list(writer.unanswered(now_s, FailureKind.UNREACHABLE, ""))
    assert writer.wait_s(now_s) == PAUSE_MAX_S
