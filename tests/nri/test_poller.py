"""The clock and the poller of a real process."""

import socket
from collections.abc import Iterator

import pytest

from nri_numamem.nri.poller import HostClock, SelectorPoller

Pair = tuple[socket.socket, socket.socket]


@pytest.fixture
def pair() -> Iterator[Pair]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield ours, theirs


@pytest.fixture
def poller() -> Iterator[SelectorPoller]:
    made = SelectorPoller()
    yield made
    made.close()


def test_a_wait_ends_after_its_time(poller: SelectorPoller, pair: Pair) -> None:
    clock = HostClock()
    poller.watch(pair[0])
    began_s = clock.monotonic_s()
    assert poller.wait(0.02) == []
    assert clock.monotonic_s() - began_s >= 0.02
    assert poller.wait(-1) == []


def test_sources_are_reported_when_they_can_be_read(poller: SelectorPoller, pair: Pair) -> None:
    ours, theirs = pair
    poller.watch(ours)
    theirs.send(b"x")
    ((source, is_readable, is_writable),) = poller.wait(1)
    assert source is ours
    assert (is_readable, is_writable) == (True, False)


def test_a_source_is_writable_only_if_that_is_wanted(poller: SelectorPoller, pair: Pair) -> None:
    ours, _ = pair
    poller.watch(ours, is_write_pending=True)
    ((_, is_readable, is_writable),) = poller.wait(1)
    assert (is_readable, is_writable) == (False, True)
    poller.watch(ours)
    assert poller.wait(0) == []


def test_the_clock_sleeps_and_knows_the_date() -> None:
    clock = HostClock()
    began_s, date_s = clock.monotonic_s(), clock.wall_s()
    clock.sleep(0.01)
    assert clock.monotonic_s() - began_s >= 0.01
    assert clock.wall_s() > date_s > 1.7e9
