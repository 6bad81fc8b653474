"""Ids of refusals, and which of them are shown."""

from dataclasses import dataclass
from itertools import pairwise

import pytest

from nri_numamem.daemon.refusals import (
    LAST_INTERVAL_S,
    LIMIT,
    LOG_INTERVAL_S,
    Refusals,
    put_newest,
    with_id,
    with_refusal_id,
)
from nri_numamem.engine.core.events import Container, CreateContainer, PodSandbox, UpdateContainer
from nri_numamem.engine.core.events import StopPodSandbox as Stop
from nri_numamem.engine.core.plan import RecordValue
from nri_numamem.engine.records.plain import fields_of
from nri_numamem.engine.records.record import Record
from tests.engine.records.examples import example

POD = PodSandbox("s", "u", "ns", "p", "/kubepods/podu")
OTHER = PodSandbox("t", "v", "ns", "p", "/kubepods/podv")


@dataclass
class Clock:
    now_s: float = 0.0

    def monotonic_s(self) -> float:
        return self.now_s

    def wall_s(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds


def create(attempt: int = 0, pod: PodSandbox = POD, name: str = "app") -> CreateContainer:
    return CreateContainer(pod, Container(f"c{attempt}", pod.sandbox_id, name))


def test_retries_have_the_id_of_the_first_refusal() -> None:
    ids = Refusals(Clock())
    assert ids.id_of(create(0), "A", "1-1") == "1-1"
    assert ids.id_of(create(1), "A", "1-2") == "1-1"
    assert ids.id_of(create(2), "B", "1-3") == "1-3"
    assert ids.id_of(create(3), "A", "2-1") == "1-1"
    assert ids.id_of(create(0, OTHER), "A", "2-2") == "2-2"
    assert ids.id_of(create(0, POD, "b"), "A", "2-3") == "2-3"
    assert ids.id_of(UpdateContainer(POD, create().container, 1), "A", "2-4") == "2-4"
    assert ids.id_of(Stop(POD), "A", "2-5") == "2-5"


def test_a_refusal_after_a_success_is_a_first_one() -> None:
    ids = Refusals(Clock())
    ids.admitted(create())
    ids.id_of(create(0), "A", "1-1")
    ids.id_of(create(0, OTHER), "A", "1-2")
    ids.admitted(Stop(POD))
    ids.admitted(create(1))
    assert ids.id_of(create(2), "A", "1-9") == "1-9"
    assert ids.id_of(create(2, OTHER), "A", "1-9") == "1-2"


def test_the_ids_are_bounded() -> None:
    ids = Refusals(Clock())
    for number in range(LIMIT + 1):
        ids.id_of(create(0, POD, f"c{number}"), "A", f"1-{number}")
    assert len(ids._ids) == LIMIT
    assert ids.id_of(create(0, POD, "c0"), "A", "2-1") == "2-1"
    assert ids.id_of(create(0, POD, f"c{LIMIT}"), "A", "2-1") == f"1-{LIMIT}"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("numamem: container a of pod b refused, R: x: y", "refused, R [1-2]: x: y"),
        ("numamem: odd", "numamem: odd [1-2]"),
    ],
)
def test_where_the_id_is(text: str, expected: str) -> None:
    found = with_id(text, "1-2")
    assert found.startswith("numamem: ")
    assert found.endswith(expected)
    assert found.replace(" [1-2]", "", 1) == text
    assert with_id(text, "") == text


def shown(refusals: Refusals, record: Record, now_s: float) -> Record | None:
    clock = refusals._log._clock
    assert isinstance(clock, Clock)
    clock.now_s = now_s
    return refusals.for_log(record)


def refusal(container: str = "c", memory: int = 5) -> Record:
    fields: dict[str, RecordValue] = {
        "pod_uid": "u",
        "container": container,
        "request_bytes": {"memory": memory},
    }
    return example("resize_rejected", fields)


def times_logged(refusals: Refusals, period_s: float, end_s: float) -> dict[float, object]:
    """Return time -> repeat_count of the records of a refusal that comes every `period_s`."""
    logged: dict[float, object] = {}
    for step in range(int(end_s / period_s)):
        record = shown(refusals, refusal(), step * period_s)
        if record is not None:
            logged[step * period_s] = fields_of(record).get("repeat_count")
    return logged


def test_the_intervals_grow_and_repeats_are_counted() -> None:
    found = times_logged(Refusals(Clock()), 1.0, 500.0)
    assert found == {0.0: None, 60.0: 59, 180.0: 119, 420.0: 239}


def test_the_interval_has_a_limit() -> None:
    times = list(times_logged(Refusals(Clock()), 20.0, 40 * LAST_INTERVAL_S))
    gaps = [after - before for before, after in pairwise(times)]
    assert gaps[0] == LOG_INTERVAL_S
    assert gaps == sorted(gaps)
    assert gaps[-1] == LAST_INTERVAL_S


def test_another_amount_or_container_is_another_refusal() -> None:
    refusals = Refusals(Clock())
    for record in (refusal(), refusal(memory=6), refusal("d"), refusal(memory=5)):
        assert shown(refusals, record, 0.0) == record
        assert shown(refusals, record, 1.0) is None


def test_a_resize_that_succeeds_ends_a_row_of_refusals() -> None:
    refusals = Refusals(Clock())
    done = example("resized", {"pod_uid": "u", "container": "c"})
    assert shown(refusals, done, 0.0) is done
    assert shown(refusals, refusal(), 0.0) is not None
    assert shown(refusals, refusal(), 1.0) is None
    assert shown(refusals, done, 2.0) is done
    assert shown(refusals, refusal(), 3.0) == refusal()


def test_other_records_pass() -> None:
    refusals = Refusals(Clock())
    record = example("admitted", {"pod_uid": "u", "container": "c"})
    assert [shown(refusals, record, 0.0) for _ in range(3)] == [record] * 3


def test_the_number_of_containers_is_limited() -> None:
    refusals = Refusals(Clock())
    for number in range(LIMIT + 1):
        assert shown(refusals, refusal(str(number)), 0.0) is not None
    assert shown(refusals, refusal("1"), 1.0) is None
    assert shown(refusals, refusal("0"), 1.0) is not None


def test_records_of_refusals_have_the_id_of_the_first_one() -> None:
    fields: dict[str, RecordValue] = {"container": "c"}
    for event in ("rejected", "resize_rejected"):
        record = example(event, fields)
        found = with_refusal_id(record, "1-2")
        assert fields_of(found) == {**fields_of(record), "refusal_id": "1-2"}
    other = example("admitted", fields)
    assert with_refusal_id(other, "1-2") is other


def test_the_oldest_entries_are_dropped() -> None:
    entries: dict[str, int] = {}
    for number, key in enumerate("abcad"):
        put_newest(entries, key, number, 3)
    assert list(entries.items()) == [("c", 2), ("a", 3), ("d", 4)]
    put_newest(entries, "e", 5, 1)
    assert entries == {"e": 5}
