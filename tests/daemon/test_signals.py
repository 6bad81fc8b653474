"""Signals as bytes on a socket, and the timer that ends a computation, in this process."""

import gc
import os
import select
import signal
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial

import pytest

from nri_numamem.daemon.signals import DUMP_STATE, RELOAD, STOPPING, TOGGLE_DEBUG, Deadline, Signals
from nri_numamem.nri.plugin_service import Overrun

# pytest-timeout's default uses the very signal that is tested here.
pytestmark = pytest.mark.timeout(60, method="thread")


def test_signals_arrive_at_the_source_and_the_handlers_are_restored() -> None:
    numbers = (*STOPPING, DUMP_STATE, RELOAD, TOGGLE_DEBUG)
    before = [signal.getsignal(number) for number in numbers]
    with Signals() as signals:
        assert signals.take() == set()
        for number in numbers:
            signal.raise_signal(number)
        assert signals.take() == set(numbers)
        assert signals.take() == set()
    assert [signal.getsignal(number) for number in numbers] == before


def test_another_thread_wakes_the_loop_up() -> None:
    with Signals() as signals:
        signals.wake_up()
        assert select.select([signals.wake], [], [], 60)[0]
        assert signals.take() == set()
        assert not select.select([signals.wake], [], [], 0)[0]
        for _ in range(100_000):  # more than the buffer takes
            signals.wake_up()
    signals.wake_up()


@pytest.fixture(autouse=True)
def _no_collector() -> Iterator[None]:
    """Keep the collector off, as while serving: an Overrun in one of its callbacks is lost."""
    gc.disable()
    yield
    gc.enable()


def test_a_result_in_time_is_returned() -> None:
    with Deadline() as deadline:
        assert deadline.run(60, lambda: b"reply") == b"reply"
    assert signal.getitimer(signal.ITIMER_REAL) == (0, 0)


def test_a_computation_that_takes_too_long_is_ended() -> None:
    with Deadline() as deadline:
        with pytest.raises(Overrun):
            deadline.run(0.02, lambda: time.sleep(60))
        assert deadline.run(60, lambda: 1) == 1


def test_the_timer_is_disarmed_after_each_computation() -> None:
    with Deadline() as deadline:
        assert deadline.run(60, lambda: signal.getitimer(signal.ITIMER_REAL)[0]) > 50
        assert signal.getitimer(signal.ITIMER_REAL) == (0, 0)
        with pytest.raises(Overrun):
            deadline.run(0.01, lambda: time.sleep(60))
        assert signal.getitimer(signal.ITIMER_REAL) == (0, 0)


def test_a_shorter_time_ends_before_the_alarm_that_is_set() -> None:
    with Deadline() as deadline:
        assert deadline.run(60, lambda: 1) == 1
        with pytest.raises(Overrun):
            deadline.run(0.02, lambda: time.sleep(60))


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


def test_an_overrun_that_is_suppressed_is_raised_again() -> None:
    def stubborn() -> None:
        for _ in range(2):
            try:
                time.sleep(60)
            except Overrun:
                continue
        time.sleep(60)

    with Deadline() as deadline, pytest.raises(Overrun):
        deadline.run(0.02, stubborn)


# If a signal handler raises within coverage's own code, coverage's lock stays locked.
@pytest.mark.no_cover
def test_a_signal_at_every_step_of_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """The overrun is raised once, and nothing after it: outside it would end the process."""
    # Shorter pauses leave a busy processor no time between two signals.
    monkeypatch.setattr("nri_numamem.daemon.signals._AGAIN_S", 5e-5)

    def spin() -> None:
        while True:
            pass

    with Deadline() as deadline:
        for _ in range(500):
            with pytest.raises(Overrun):
                deadline.run(1e-4, spin)


def test_a_limit_on_the_processor_does_not_count_a_wait() -> None:
    with Deadline() as deadline:
        assert deadline.run_on_processor(0.05, lambda: time.sleep(0.3)) is None
        with pytest.raises(Overrun):
            deadline.run(0.05, lambda: time.sleep(60))


def test_a_limit_on_the_processor_ends_a_computation() -> None:
    def spin() -> None:
        while True:
            pass

    begin_s = time.thread_time()
    with Deadline() as deadline, pytest.raises(Overrun):
        deadline.run_on_processor(0.1, spin)
    assert time.thread_time() - begin_s >= 0.1
    assert signal.getitimer(signal.ITIMER_REAL) == (0, 0)


def test_other_errors_pass() -> None:
    def broken() -> None:
        raise ValueError("a bug")

    with Deadline() as deadline:
        with pytest.raises(ValueError, match="a bug"):
            deadline.run(60, broken)
        assert signal.getitimer(signal.ITIMER_REAL) == (0, 0)


def test_a_late_signal_has_no_effect() -> None:
    with Deadline():
        signal.raise_signal(signal.SIGALRM)


def test_the_previous_handler_is_restored() -> None:
    before: Callable[..., object] | int | None = signal.getsignal(signal.SIGALRM)
    with Deadline():
        assert signal.getsignal(signal.SIGALRM) != before
    assert signal.getsignal(signal.SIGALRM) == before
