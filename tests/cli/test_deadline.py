"""The timer that ends a computation, in this process."""

import gc
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial

import pytest

from nri_numamem.cli.deadline import Deadline
from nri_numamem.nri.methods import Overrun

# pytest-timeout's default uses the very signal that is tested here.
pytestmark = pytest.mark.timeout(60, method="thread")


@pytest.fixture(autouse=True)
def _no_collector() -> Iterator[None]:
    """Keep the collector off, as while serving: an Overrun in one of its callbacks is lost."""
    gc.disable()
    yield
    gc.enable()


def wait_for_the_alarm() -> None:
    """Return once the timer that was left has gone off, and its signal has been handled."""
    while signal.getitimer(signal.ITIMER_REAL) != (0, 0):
        time.sleep(0.001)


def test_what_is_in_time_is_returned() -> None:
    with Deadline() as deadline:
        assert deadline.run(60, lambda: b"reply") == b"reply"
    assert signal.getitimer(signal.ITIMER_REAL) == (0, 0)


def test_what_takes_too_long_is_ended() -> None:
    with Deadline() as deadline:
        with pytest.raises(Overrun):
            deadline.run(0.02, lambda: time.sleep(60))
        assert deadline.run(60, lambda: 1) == 1


def test_the_timer_is_armed_once_for_many_computations(monkeypatch: pytest.MonkeyPatch) -> None:
    armed: list[float] = []
    arm = signal.setitimer

    def setitimer(which: int, left_s: float) -> object:
        armed.append(left_s)
        return arm(which, left_s)

    with Deadline() as deadline:
        monkeypatch.setattr(signal, "setitimer", setitimer)
        assert [deadline.run(60 + more, lambda: 1) for more in range(3)] == [1] * 3
        assert armed == [60]
        assert deadline.run(50, lambda: 1) == 1
        assert armed == [60, 50]  # nothing else would end this one in time


def test_a_timer_that_is_left_disturbs_nobody() -> None:
    with Deadline() as deadline:
        assert deadline.run(0.01, lambda: 1) == 1
        wait_for_the_alarm()
        with pytest.raises(Overrun):
            deadline.run(0.01, lambda: time.sleep(60))
        wait_for_the_alarm()


def test_a_shorter_time_ends_before_the_alarm_that_is_set() -> None:
    with Deadline() as deadline:
        assert deadline.run(60, lambda: 1) == 1
        with pytest.raises(Overrun):
            deadline.run(0.02, lambda: time.sleep(60))


def test_an_alarm_of_the_one_before_is_too_early() -> None:
    with Deadline() as deadline:
        assert deadline.run(0.02, lambda: 1) == 1
        began_s = time.monotonic()
        with pytest.raises(Overrun):
            deadline.run(0.1, lambda: time.sleep(60))
        assert time.monotonic() - began_s >= 0.1


def test_signals_at_any_moment_change_nothing() -> None:
    """Not what is in time, nor that the rest is ended; and they raise nothing in between."""
    stop = threading.Event()

    def storm() -> None:
        while not stop.is_set():
            os.kill(os.getpid(), signal.SIGALRM)

    sender = threading.Thread(target=storm)
    with Deadline() as deadline:
        sender.start()
        try:
            for number in range(2000):
                assert deadline.run(60, partial(int, number)) == number
            with pytest.raises(Overrun):
                deadline.run(0.02, lambda: time.sleep(60))
        finally:
            stop.set()
            sender.join()


def test_a_time_that_is_over_is_no_error_of_the_timer() -> None:
    with Deadline() as deadline, pytest.raises(Overrun):
        deadline.run(-0.5, lambda: time.sleep(60))


def test_an_overrun_that_is_swallowed_comes_again() -> None:
    def stubborn() -> None:
        for _ in range(2):
            try:
                time.sleep(60)
            except Overrun:
                continue
        time.sleep(60)

    with Deadline() as deadline, pytest.raises(Overrun):
        deadline.run(0.02, stubborn)


def test_a_signal_at_every_step_of_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """The overrun is raised once, and nothing after it: outside it would end the process."""
    monkeypatch.setattr("nri_numamem.cli.deadline._AGAIN_S", 1e-5)

    def spin() -> None:
        while True:
            pass

    with Deadline() as deadline:
        for _ in range(500):
            with pytest.raises(Overrun):
                deadline.run(1e-4, spin)
        wait_for_the_alarm()


def test_other_errors_pass() -> None:
    def broken() -> None:
        raise ValueError("a bug")

    with Deadline() as deadline:
        with pytest.raises(ValueError, match="a bug"):
            deadline.run(0.01, broken)
        wait_for_the_alarm()


def test_a_signal_that_comes_late_disturbs_nobody() -> None:
    with Deadline():
        signal.raise_signal(signal.SIGALRM)


def test_the_signal_is_given_back() -> None:
    before: Callable[..., object] | int | None = signal.getsignal(signal.SIGALRM)
    with Deadline():
        assert signal.getsignal(signal.SIGALRM) != before
    assert signal.getsignal(signal.SIGALRM) == before
