"""The files in memory that plugin and supervisor share."""

import os
from collections.abc import Iterator

import pytest

from nri_numamem.daemon.supervisor_status import (
    CRASHED,
    LAUNCHED,
    START_CAUSES,
    Heartbeat,
    SupervisorStatus,
)


@pytest.fixture
def status() -> Iterator[SupervisorStatus]:
    found = SupervisorStatus()
    yield found
    found.close()


def test_the_status_is_shared(status: SupervisorStatus) -> None:
    stands = [status.should_restart]
    status.running("long text")
    status.beat(5)
    status.running("text: ä")
    stands.append(status.should_restart)
    assert status.configuration() == "text: ä"
    assert status.beats == 5
    status.over()
    stands.append(status.should_restart)
    assert stands == [False, True, False]


def test_starts_are_counted_by_cause(status: SupervisorStatus) -> None:
    assert status.starts == dict.fromkeys(START_CAUSES, 0)
    status.running("text")
    for cause in (LAUNCHED, *(CRASHED,) * 300):
        status.count_start(cause)
    assert status.starts == {**dict.fromkeys(START_CAUSES, 0), LAUNCHED: 1, CRASHED: 300}
    assert (status.configuration(), status.beats) == ("text", 0)


def test_a_plugin_that_was_disconnected_is_started_again(status: SupervisorStatus) -> None:
    status.disconnected()
    stands = [status.should_restart]  # it was never configured
    status.running("")
    assert not status.take_disconnected()
    status.disconnected()
    stands.append(status.should_restart)
    assert [status.take_disconnected() for _ in range(2)] == [True, False]
    stands.append(status.should_restart)
    assert stands == [False, True, True]


def test_the_end_of_a_traceback_is_kept(status: SupervisorStatus) -> None:
    os.write(status.crash_descriptor, b"x" * 10_000 + b"end")
    assert status.take_crash().endswith("xend")
    assert status.take_crash() == ""
    os.write(status.crash_descriptor, b"again")
    assert status.take_crash() == "again"


def test_heartbeats_are_numbers(status: SupervisorStatus) -> None:
    assert status.beats == 0
    status.beat(1 << 40)
    assert status.beats == 1 << 40


def test_it_beats_only_inside_the_context() -> None:
    status = SupervisorStatus()
    ticks: list[float] = []
    heartbeat = Heartbeat(status, ticks.append)
    seen = [status.beats]
    with heartbeat:
        seen.append(status.beats)
        assert heartbeat.run(5.0) == ()
        seen.append(status.beats)
    seen.append(status.beats)
    with heartbeat:  # the next connection
        seen.append(status.beats)
    status.close()
    assert seen == [0, 1, 2, 0, 3]
    assert ticks == [5.0]


def test_without_another_process_it_does_nothing() -> None:
    with Heartbeat(None, print) as heartbeat:
        heartbeat.beat()
