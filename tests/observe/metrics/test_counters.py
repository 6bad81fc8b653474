"""What is counted."""

import subprocess
import sys

import pytest

from nri_numamem.engine.core.context import Context
from nri_numamem.engine.core.policy import Policy
from nri_numamem.engine.engine import Committed, Engine
from nri_numamem.engine.records.connection import RuntimeNames, Synchronized
from nri_numamem.memorymanager.rejection import TOPOLOGY, UNEXPECTED
from nri_numamem.numa import Machine, NumaNode
from nri_numamem.observe.metrics.counters import (
    BUCKETS_S,
    SILENT_S,
    Durations,
    Meter,
    Sources,
    health,
)
from tests.engine.records.examples import example


def test_events_are_counted() -> None:
    meter = Meter()
    for event in ("admitted", "not_managed", "admitted"):
        meter.count(example(event))
    assert meter.events == {"admitted": 2, "not_managed": 1}
    assert meter.events["rejected"] == 0


@pytest.mark.parametrize(
    ("event", "reason", "container", "expected"),
    [
        ("rejected", TOPOLOGY, "c", (1, 0)),
        ("running_unpinned_no_capacity", UNEXPECTED, "c", (0, 1)),
        ("unpinned_no_capacity", UNEXPECTED, "c", (0, 1)),
        # Its first container is refused for it as well.
        ("pod_rejected", TOPOLOGY, None, (0, 0)),
    ],
)
def test_reasons_are_those_of_containers(
    event: str, reason: str, container: str | None, expected: tuple[int, int]
) -> None:
    fields: dict[str, object] = {"pod": "p", "reason": reason}
    if container is not None:
        fields["container"] = container
    meter = Meter()
    meter.count(example(event, fields))
    assert (meter.reasons[TOPOLOGY], meter.reasons[UNEXPECTED]) == expected
    assert meter.events[event] == 1


def test_an_unknown_reason_counts_too() -> None:
    meter = Meter()
    meter.count(example("rejected", {"container": "c", "reason": "Other"}))
    assert meter.reasons == {TOPOLOGY: 0, UNEXPECTED: 0, "Other": 1}


def test_pods_are_released_by_report_or_by_cgroup() -> None:
    meter = Meter()
    meter.count(example("pod_released", {"pod": "a"}))
    meter.count(example("pod_released", {"pod": "b", "detected_by": "cgroup_removed"}))
    assert meter.cgroup_released_pods == 1
    assert meter.events["pod_released"] == 2


def test_the_last_configuration_is_kept() -> None:
    meter = Meter()
    for number in (1, 2):
        meter.count(example("configured", {"runtime": f"r{number}"}))
        meter.count(example("synchronized", {"pod_count": number}))
    assert meter.runtime == RuntimeNames(runtime="r2", runtime_version="", nri_version="")
    assert isinstance(meter.synchronized, Synchronized)
    assert meter.synchronized.pod_count == 2
    assert meter.events["synchronized"] == 2


def test_non_pod_hugepages_are_kept_until_they_are_cleared() -> None:
    meter = Meter()
    taken = {"0": {"hugepages-2Mi": 4096}}
    meter.count(example("non_pod_hugepages_found", {"non_pod_bytes": taken}))
    assert meter.non_pod_hugepages == taken
    meter.count(example("non_pod_hugepages_cleared"))
    assert meter.non_pod_hugepages is None


def test_connections_are_counted() -> None:
    meter = Meter()
    meter.disconnected()  # one that was refused
    assert (meter.registrations, meter.is_registered) == (0, False)
    meter.registered()
    assert (meter.registrations, meter.is_registered) == (1, True)
    meter.disconnected()
    meter.registered()
    assert (meter.registrations, meter.is_registered) == (2, True)


def test_a_duration_counts_in_the_first_bucket_that_includes_it() -> None:
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


def test_calls_that_fail_are_timed_too() -> None:
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


def test_they_need_no_library() -> None:
    script = (
        "import sys, nri_numamem.observe.metrics.counters as s; s.Sources; "
        "print([n for n in sys.modules if n.startswith(('prom', 'http'))])"
    )
    found = subprocess.run((sys.executable, "-c", script), capture_output=True, check=True)
    assert found.stdout.strip() == b"[]"


CONTEXT = Context.of(Machine((NumaNode(0, 1 << 30),)), Policy())
COMMITTED = Engine(CONTEXT).committed


def sources(meter: Meter, committed: Committed | None = COMMITTED, standby: str = "") -> Sources:
    return Sources(
        meter, lambda: committed, lambda: 0, lambda: None, dict, lambda: 100.0, lambda: standby
    )


def test_a_plugin_that_serves_has_no_problem() -> None:
    meter = Meter()
    meter.registered()
    assert health(sources(meter))[0]
    assert health(sources(meter)) == (True, "ok")
    meter.ticked_at_s = 100.0 - SILENT_S
    assert health(sources(meter))[0]


def test_a_plugin_without_a_connection() -> None:
    meter = Meter()
    expected = "the plugin is not registered with the runtime"
    assert health(sources(meter)) == (False, expected)
    meter.registered()
    meter.ticked_at_s = 0.0
    meter.disconnected()
    assert health(sources(meter)) == (False, expected)
    meter.registered()  # the loop of this connection has not run its timer yet
    assert health(sources(meter))[0]


def test_a_loop_that_is_silent() -> None:
    meter = Meter()
    meter.registered()
    meter.ticked_at_s = 87.0
    assert health(sources(meter)) == (False, "the event loop has been busy or stuck for 13 s")


def test_a_configuration_that_cannot_be_used() -> None:
    meter = Meter()
    meter.registered()
    assert health(sources(meter, None)) == (False, "the configuration cannot be used; see the log")


def test_a_standby_needs_neither_a_connection_nor_an_engine() -> None:
    meter = Meter()
    waiting = sources(meter, None, "pid 7 serves")
    assert health(waiting)[0]
    assert health(waiting) == (True, "standby: pid 7 serves")
    meter.ticked_at_s = 87.0
    assert health(waiting) == (False, "the event loop has been busy or stuck for 13 s")
