"""What is counted, and that the counting follows the words of the engine's records."""

import ast
from pathlib import Path

import pytest

import nri_numamem
from nri_numamem.engine.plan import Record, RecordValue
from nri_numamem.memorymanager.refusal import TOPOLOGY, UNEXPECTED
from nri_numamem.observe.meter import BUCKETS_S, CONFIGURED, COUNTED, OUTSIDE, Durations, Meter


def test_what_is_counted_is_what_the_plugin_says() -> None:
    """A word that is changed where the record is made would never be counted again."""
    said = {
        node.value
        for room in ("engine", "nri", "cli")
        for path in Path(nri_numamem.__file__).parent.joinpath(room).glob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    assert said >= {*COUNTED, CONFIGURED, *OUTSIDE, "taken_outside", "reason", "container"}


def test_events_are_counted() -> None:
    meter = Meter()
    for event in ("admitted", "left alone", "admitted", "stopped"):
        meter.count(Record(event))
    assert meter.events == {**dict.fromkeys(COUNTED, 0), "admitted": 2, "left alone": 1}


@pytest.mark.parametrize(
    ("event", "reason", "container", "expected"),
    [
        ("rejected", TOPOLOGY, "c", (1, 0)),
        ("runs unpinned, nothing fits", UNEXPECTED, "c", (0, 1)),
        ("left alone, nothing fits", UNEXPECTED, "c", (0, 1)),
        # Its first container is refused for it as well.
        ("pod rejected", TOPOLOGY, None, (0, 0)),
    ],
)
def test_reasons_are_those_of_containers(
    event: str, reason: str, container: str | None, expected: tuple[int, int]
) -> None:
    fields: dict[str, RecordValue] = {"pod": "p", "reason": reason}
    if container is not None:
        fields["container"] = container
    meter = Meter()
    meter.count(Record(event, fields=fields))
    assert (meter.reasons[TOPOLOGY], meter.reasons[UNEXPECTED]) == expected
    assert meter.events[event] == 1


def test_an_unknown_reason_counts_too() -> None:
    meter = Meter()
    meter.count(Record("rejected", fields={"container": "c", "reason": "Other"}))
    assert meter.reasons == {TOPOLOGY: 0, UNEXPECTED: 0, "Other": 1}


def test_pods_are_released_or_swept() -> None:
    meter = Meter()
    meter.count(Record("pod released", fields={"pod": "a"}))
    meter.count(Record("pod released", fields={"pod": "b", "noticed_by": "its cgroup is gone"}))
    assert meter.swept_pods == 1
    assert meter.events["pod released"] == 2


def test_the_last_word_of_the_runtime_is_kept() -> None:
    meter = Meter()
    for number in (1, 2):
        meter.count(Record(CONFIGURED, fields={"runtime": f"r{number}"}))
        meter.count(Record("synchronized", fields={"pods": number}))
    assert meter.runtime == {"runtime": "r2"}
    assert meter.synchronized == {"pods": 2}
    assert meter.events["synchronized"] == 2


def test_what_others_take_is_kept_until_they_no_longer_do() -> None:
    meter = Meter()
    taken: dict[str, RecordValue] = {"0": {"hugepages-2Mi": 4096}}
    meter.count(Record(OUTSIDE[0], fields={"taken_outside": taken}))
    assert meter.outside == taken
    meter.count(Record(OUTSIDE[1]))
    assert meter.outside is None


def test_connections_are_counted() -> None:
    meter = Meter()
    meter.disconnected()  # one that was refused
    assert (meter.registrations, meter.is_registered) == (0, False)
    meter.registered()
    assert (meter.registrations, meter.is_registered) == (1, True)
    meter.disconnected()
    meter.registered()
    assert (meter.registrations, meter.is_registered) == (2, True)


def test_a_duration_is_in_the_first_bucket_that_is_enough() -> None:
    durations = Durations()
    for duration_s in (0.0, 50e-6, 51e-6, 0.03, 2.0, 2.1, 600.0):
        durations.add(duration_s)
    found = dict(zip((*BUCKETS_S, None), durations.counts, strict=True))
    assert {bound: count for bound, count in found.items() if count} == {
        50e-6: 2,
        100e-6: 1,
        0.05: 1,
        2.0: 1,
        None: 2,
    }
    assert durations.sum_s == pytest.approx(604.130101)


def test_calls_are_timed_whatever_comes_of_them() -> None:
    meter = Meter()

    def half(context: str, number: int) -> str:
        return f"{context} {10 / number:g}"

    timed = meter.timed("Half", half)
    assert timed("a", 2) == "a 5"
    with pytest.raises(ZeroDivisionError):
        timed("a", 0)
    again = meter.timed("Half", half)  # the next connection
    assert again("b", 5) == "b 2"
    assert sum(meter.durations["Half"].counts) == 3
    assert meter.durations["Half"].sum_s >= 0
